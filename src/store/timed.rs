//! Times requests to a store, where they are awaited.

use crate::base::clock::SharedClock;
use crate::protocol::RoleName;
use crate::store::StoreError;
use crate::telemetry::{CommandOutcome, StoreCommand, Telemetry};

/// Awaits a request and counts it in `baton_store_command_duration_seconds`, by `clock`. `role`: whose it is, so that a
/// command of an election gets its span.
pub async fn timed<T>(
    telemetry: &Telemetry,
    clock: &SharedClock,
    command: StoreCommand,
    role: Option<&RoleName>,
    request: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let sent_at = clock.now();
    let result = request.await;
    let outcome = match &result {
        Ok(_) => CommandOutcome::Ok,
        Err(StoreError::Unknown { .. }) => CommandOutcome::Unknown,
        Err(StoreError::Unreachable { .. }) => CommandOutcome::Unreachable,
        Err(StoreError::Refused { .. } | StoreError::Denied { .. }) => CommandOutcome::Refused,
        Err(StoreError::Garbage { .. }) => CommandOutcome::Garbage,
    };
    let took = clock.now().since(sent_at);
    telemetry.metrics().store_command(command, outcome, took);
    if let Some(role) = role {
        telemetry.traces().command(command, role, outcome, took);
    }
    result
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::base::clock::Clock;
    use crate::protocol::Mono;
    use crate::telemetry::Metrics;

    /// Goes on by three seconds at every look.
    #[derive(Debug, Default)]
    struct Steps(AtomicU64);

    impl Clock for Steps {
        fn now(&self) -> Mono {
            Mono::from_nanos(self.0.fetch_add(3_000_000_000, Ordering::Relaxed))
        }
    }

    #[tokio::test]
    async fn every_answer_is_passed_on_and_counted_under_its_outcome_with_its_time() {
        let text = || "why".to_owned();
        let outcomes = [
            (None, "ok"),
            (Some(StoreError::Unknown { after: Duration::ZERO }), "unknown"),
            (Some(StoreError::Unreachable { reason: text() }), "unreachable"),
            (Some(StoreError::Refused { reason: text() }), "refused"),
            (Some(StoreError::Garbage { key: text(), why: text() }), "garbage"),
        ];
        let clock: SharedClock = Arc::new(Steps::default());
        for (error, word) in outcomes {
            let telemetry = Telemetry::new(Arc::new(Metrics::new(jiff::Timestamp::UNIX_EPOCH)));
            let answer = error.map_or(Ok(7), Err);
            let request = std::future::ready(answer.clone());
            assert_eq!(timed(&telemetry, &clock, StoreCommand::Purge, None, request).await, answer);
            let exposed = telemetry.metrics().render(Default::default(), true).unwrap();
            let changed = |family: &str| {
                let lines = exposed.lines().filter(|line| line.starts_with(family) && !line.ends_with(" 0"));
                lines.map(str::to_owned).collect::<Vec<_>>()
            };
            for (what, value) in [("count", 1), ("sum", 3)] {
                let family = format!("baton_store_command_duration_seconds_{what}");
                let series = format!("{family}{{command=\"purge\",outcome=\"{word}\"}} {value}");
                assert_eq!(changed(&family), [series]);
            }
        }
    }
}
