//! One event type owns its log line and its counter.
//!
//! Every line carries the same field names: `role`, `token`, `state` (what the role is from now on), `reason`, and
//! durations in `…_ms`. They are stable, and `docs/operations.md` lists them: alerts on logs may rely on them. Whatever
//! changes a role's state, there is one line with the new state in it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tracing::{debug, error, info, trace, warn};

use super::Telemetry;
use super::labels::ReloadOutcome;
use super::roles::RoleCount;
use crate::base::clock::wall_time;
use crate::config::{LiveChanges, StoreUse};
use crate::protocol::{CampaignOutcome, Event, ReleaseReason, RenewalOutcome, RoleName, State, Token};

/// What happens to the process rather than to one of its roles. The texts hold no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SystemEvent {
    /// A store answers, for the first time or again.
    StoreUp { of: StoreUse },
    /// A store does not answer, or refuses; why, in words.
    StoreDown { of: StoreUse, reason: String },
    /// The store answers, but refuses this role: a key that is not ours, no memory left; why, in words.
    RoleRefused { role: RoleName, reason: String },
    /// The store answers, but does not tell who takes part in this role, so that its shards are not spread, or it goes
    /// to anyone; why, in words.
    SpreadRefused { role: RoleName, reason: String },
    /// A changed configuration was taken over.
    ConfigReloaded(ConfigReload),
    /// A changed configuration has problems; the old one stays.
    ConfigRefused { problems: Vec<String> },
    /// The HTTP listener's token file cannot be used: nobody is let in until it can.
    TokenUnavailable { reason: String },
}

/// What a reload has brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigReload {
    /// What was applied while running.
    pub changes: LiveChanges,
    /// The files that the configuration names and that have another content.
    pub rotated: Vec<PathBuf>,
}

/// What happened to a role, for those who listen: [`Telemetry::listen`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleEvent {
    pub role: RoleName,
    /// What happened. Never a single attempt ([`Event::Campaigned`], [`Event::Renewed`]).
    pub event: Event,
    /// When, by this machine's time of day.
    pub at: Timestamp,
}

impl Telemetry {
    /// Logs and counts what happened to a role, which had been in its state for `lasted`. Returns the state that the
    /// line says it is in from now on, if it says so.
    pub fn record(&self, role: &RoleName, event: &Event, lasted: Duration) -> Option<State> {
        self.count(role, event);
        self.traces.role(role, event);
        self.tell(role, event);
        log(role, event, lasted);
        state_after(event)
    }

    /// Logs a new state that no event told. `lasted`: how long the role had been in the one before.
    pub fn record_state(&self, role: &RoleName, state: State, reason: Option<&str>, lasted: Duration) {
        let (state_word, reason, duration_ms) = (state.as_str(), reason.unwrap_or(""), ms(lasted));
        match state {
            State::Unhealthy | State::Unreachable | State::Guarded => {
                warn!(%role, state = state_word, reason, duration_ms, "this replica cannot lead");
            }
            State::Standby | State::Campaigning | State::Leading | State::Draining => {
                info!(%role, state = state_word, reason, duration_ms, "the role has another state");
            }
        }
    }

    /// Logs that renewals of a term fail: so many so far, the last one for this reason.
    pub fn renewals_fail(&self, role: &RoleName, token: Token, reason: &str, failures: u64) {
        let outcome = RenewalOutcome::Error.as_str();
        warn!(%role, %token, outcome, reason, failures, "renewals have no usable answer");
    }

    /// Logs that they fail no longer, after so many: they are answered again, or the term is over.
    pub fn renewals_fail_no_longer(&self, role: &RoleName, token: Token, failures: u64, is_over: bool) {
        let what = if is_over { "the term whose renewals failed is over" } else { "renewals are answered again" };
        info!(%role, %token, failures, "{what}");
    }

    fn tell(&self, role: &RoleName, event: &Event) {
        let is_attempt = matches!(event, Event::Campaigned { .. } | Event::Renewed { .. });
        if !is_attempt && self.listeners.receiver_count() > 0 {
            // The last listener may have gone meanwhile.
            let _ =
                self.listeners.send(Arc::new(RoleEvent { role: role.clone(), event: event.clone(), at: wall_time() }));
        }
    }

    fn count(&self, role: &RoleName, event: &Event) {
        let count = |what| self.metrics.count(role, what);
        match event {
            Event::Campaigned { outcome } => count(RoleCount::Campaign(*outcome)),
            Event::Contended { token, .. } => {
                count(RoleCount::Contention);
                count(RoleCount::Term(*token));
            }
            Event::Elected { token } | Event::Following { token, .. } => count(RoleCount::Term(*token)),
            Event::Renewed { outcome, took, .. } => count(RoleCount::Renewal(*outcome, *took)),
            Event::Lost { reason, .. } => count(RoleCount::LostLease(*reason)),
            Event::Released { reason, .. } => count(RoleCount::Release(*reason)),
            Event::Departed { .. } => count(RoleCount::Release(ReleaseReason::Departed)),
            Event::DepartureRefuted { .. } => count(RoleCount::DepartureRefuted),
            Event::Guarded { cause, .. } => count(RoleCount::StoreGuard(*cause)),
            Event::IdentityClash { .. } => count(RoleCount::IdentityClash),
            Event::StoreClockStepped { .. } => count(RoleCount::StoreClockStep),
            // A drain is counted by the release or the loss that ends it; an abandoned lease is neither.
            Event::Draining { .. } | Event::Abandoned { .. } => {}
        }
    }

    /// Logs and counts what happened to the process.
    pub fn record_system(&self, event: &SystemEvent) {
        match event {
            SystemEvent::StoreUp { of } => {
                self.metrics.own_store_up(*of, true);
                info!("{} answers", store_name(*of));
            }
            SystemEvent::StoreDown { of, reason } => {
                self.metrics.own_store_up(*of, false);
                warn!(%reason, "{} does not answer", store_name(*of));
            }
            SystemEvent::RoleRefused { role, reason } => {
                warn!(%role, %reason, "the store cannot be used for this role")
            }
            SystemEvent::SpreadRefused { role, reason } => {
                warn!(
                    %role,
                    %reason,
                    "the replicas of this role do not find each other: it goes to anyone, and its shards are not spread"
                );
            }
            SystemEvent::ConfigReloaded(reload) => {
                self.metrics.config_reloaded(ReloadOutcome::Ok);
                log_reload(reload);
            }
            SystemEvent::ConfigRefused { problems } => {
                self.metrics.config_reloaded(ReloadOutcome::Refused);
                let reason = problems.join("; ");
                warn!(problems = problems.len(), %reason, "the changed configuration is refused, the old one stays");
            }
            SystemEvent::TokenUnavailable { reason } => {
                warn!(%reason, "the bearer token cannot be read; no request is let in until it can");
            }
        }
    }
}

fn log_reload(ConfigReload { changes, rotated }: &ConfigReload) {
    if !rotated.is_empty() {
        let files = rotated.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(",");
        info!(files, "files that the configuration names have changed; they are read when they are next needed");
    }
    if *changes != LiveChanges::default() {
        info!(
            added = %names(&changes.roles.added),
            removed = %names(&changes.roles.removed),
            changed = %names(&changes.roles.changed),
            jobs_added = %names(&changes.jobs.added),
            jobs_removed = %names(&changes.jobs.removed),
            jobs_changed = %names(&changes.jobs.changed),
            default_role_changed = changes.default_role,
            max_concurrent_runs_changed = changes.max_concurrent_runs,
            "the changed configuration is in force"
        );
    } else if rotated.is_empty() {
        info!("the configuration file has changed, and nothing in it that is applied while running");
    }
}

pub(super) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn store_name(of: StoreUse) -> &'static str {
    match of {
        StoreUse::Leases => "the store",
        StoreUse::Locks => "the store of locks",
        StoreUse::Jobs => "the store of jobs",
    }
}

fn names<N: ToString>(names: &[N]) -> String {
    names.iter().map(N::to_string).collect::<Vec<_>>().join(",")
}

/// One line for each event. What a replica tries again and again has none at the usual level, unless it fails.
fn log(role: &RoleName, event: &Event, lasted: Duration) {
    let (state, duration_ms) = (state_after(event).map_or("", State::as_str), ms(lasted));
    match event {
        Event::Campaigned { outcome: CampaignOutcome::Error } => {
            debug!(%role, outcome = "error", "a campaign had no usable answer");
        }
        Event::Campaigned { outcome } => debug!(%role, outcome = outcome.as_str(), "campaigned"),
        Event::Renewed { outcome, took, token, failure } => {
            log_renewal(role, *outcome, *took, *token, failure.as_deref());
        }
        Event::Elected { token } => info!(%role, %token, state, duration_ms, "this replica leads"),
        Event::Lost { token, reason, held_for } => {
            let (reason, duration_ms) = (reason.as_str(), ms(*held_for));
            warn!(%role, %token, state, reason, duration_ms, "the lease is lost");
        }
        Event::Draining { token, reason, remaining } => {
            let (reason, remaining_ms) = (reason.as_str(), ms(*remaining));
            info!(
                %role, %token, state, reason, duration_ms, remaining_ms,
                "handing over, once the promises given have run out"
            );
        }
        Event::Released { token, reason, held_for } => {
            let (reason, duration_ms) = (reason.as_str(), ms(*held_for));
            info!(%role, %token, state, reason, duration_ms, "the lease is given back");
        }
        Event::Abandoned { token, remaining } => {
            let (reason, remaining_ms) = ("abandoned", ms(*remaining));
            warn!(%role, %token, state, reason, duration_ms, remaining_ms, "the lease is left to run out");
        }
        Event::Contended { winner, token } => debug!(%role, %token, holder = %winner, "another was faster"),
        Event::Departed { holder, token } => {
            let reason = ReleaseReason::Departed.as_str();
            info!(%role, %token, %holder, reason, "the leader's process has ended; its lease is given back");
        }
        Event::DepartureRefuted { holder, session } => {
            error!(%role, %holder, %session, "a process that its node calls ended goes on renewing: look at that node");
        }
        Event::Following { holder, token } => {
            info!(%role, %token, %holder, state, reason = "held", duration_ms, "another replica leads");
        }
        Event::Guarded { cause, remaining, is_first: true } => {
            let (reason, remaining_ms) = (cause.as_str(), ms(*remaining));
            info!(
                %role, state, reason, duration_ms, remaining_ms,
                "the store knows of no term of this role: it is watched for a lease before the first"
            );
        }
        Event::Guarded { cause, remaining, is_first: false } => {
            let (reason, remaining_ms) = (cause.as_str(), ms(*remaining));
            warn!(
                %role, state, reason, duration_ms, remaining_ms,
                "the store may have forgotten a lease; nobody new may lead yet"
            );
        }
        Event::IdentityClash { session } => {
            warn!(%role, %session, "another process campaigns under this replica's identity; give each its own");
        }
        Event::StoreClockStepped { by_ms } => warn!(%role, by_ms, "the store's clock moved against this replica's"),
    }
}

fn log_renewal(role: &RoleName, outcome: RenewalOutcome, took: Duration, token: Token, failure: Option<&str>) {
    let (outcome_word, duration_ms) = (outcome.as_str(), ms(took));
    match outcome {
        RenewalOutcome::Ok => trace!(%role, %token, outcome = outcome_word, duration_ms, "renewed"),
        RenewalOutcome::Reasserted => {
            let outcome = outcome_word;
            warn!(%role, %token, outcome, duration_ms, "the store had lost the lease; it is put back");
        }
        RenewalOutcome::Lost => {
            debug!(%role, %token, outcome = outcome_word, duration_ms, "the renewal found the term over");
        }
        // There may be many: see `Telemetry::renewals_fail`.
        RenewalOutcome::Error => {
            let reason = failure.unwrap_or_default();
            debug!(%role, %token, outcome = outcome_word, reason, duration_ms, "a renewal had no usable answer");
        }
    }
}

/// What a role is from an event on; none when that does not change.
fn state_after(event: &Event) -> Option<State> {
    match event {
        Event::Elected { .. } => Some(State::Leading),
        Event::Lost { .. } | Event::Released { .. } | Event::Abandoned { .. } | Event::Following { .. } => {
            Some(State::Standby)
        }
        Event::Draining { .. } => Some(State::Draining),
        Event::Guarded { .. } => Some(State::Guarded),
        Event::Campaigned { .. }
        | Event::Contended { .. }
        | Event::Departed { .. }
        | Event::DepartureRefuted { .. }
        | Event::Renewed { .. }
        | Event::IdentityClash { .. }
        | Event::StoreClockStepped { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::config::{Environment, LogConfig, LogFormat, LogLevel};
    use crate::protocol::{GuardCause, LossReason, SessionId};
    use crate::telemetry::Metrics;
    use crate::telemetry::logging::caught::logged;

    fn line(level: LogLevel, event: &Event) -> Option<Value> {
        let telemetry = Telemetry::new(Arc::new(Metrics::new(Timestamp::UNIX_EPOCH)));
        let role = RoleName::new("scheduler").unwrap();
        let lasted = Duration::from_millis(2_500);
        let text = logged(LogConfig { level, format: LogFormat::Json }, || {
            telemetry.record(&role, event, lasted);
        });
        assert!(text.lines().count() <= 1, "one event, one line: {text}");
        text.lines().next().map(|line| serde_json::from_str(line).unwrap())
    }

    #[test]
    fn every_event_has_one_line_with_the_fields_that_alerts_rely_on() {
        let (token, took) = (Token::new(7).unwrap(), Duration::from_millis(1_500));
        let reason = ReleaseReason::Resigned;
        let lost = Event::Lost { token, reason: LossReason::Expired, held_for: took };
        let first = Event::Guarded { cause: GuardCause::Empty, remaining: took, is_first: true };
        let guarded = Event::Guarded { cause: GuardCause::Vanished, remaining: took, is_first: false };
        type Fields = &'static [(&'static str, &'static str)];
        let rows: [(Event, &str, Fields); 12] = [
            (Event::Elected { token }, "INFO", &[("token", "7"), ("state", "leading"), ("duration_ms", "2500")]),
            (lost, "WARN", &[("state", "standby"), ("reason", "expired"), ("duration_ms", "1500")]),
            (
                Event::Draining { token, reason, remaining: took },
                "INFO",
                &[("state", "draining"), ("reason", "resigned"), ("duration_ms", "2500")],
            ),
            (
                Event::Released { token, reason, held_for: took },
                "INFO",
                &[("reason", "resigned"), ("duration_ms", "1500")],
            ),
            (Event::Abandoned { token, remaining: took }, "WARN", &[("token", "7"), ("remaining_ms", "1500")]),
            (first, "INFO", &[("state", "guarded"), ("reason", "empty"), ("duration_ms", "2500")]),
            (guarded, "WARN", &[("state", "guarded"), ("reason", "vanished"), ("duration_ms", "2500")]),
            (Event::Departed { holder: "web-2".into(), token }, "INFO", &[("holder", "web-2"), ("reason", "departed")]),
            (
                Event::DepartureRefuted { holder: "web-2".into(), session: SessionId::from_u128(1) },
                "ERROR",
                &[("holder", "web-2")],
            ),
            (Event::Following { holder: "web-2".into(), token }, "INFO", &[("holder", "web-2"), ("token", "7")]),
            (Event::IdentityClash { session: SessionId::from_u128(1) }, "WARN", &[]),
            (Event::StoreClockStepped { by_ms: -5 }, "WARN", &[("by_ms", "-5")]),
        ];
        for (event, level, fields) in rows {
            let line = line(LogLevel::Info, &event).unwrap();
            assert_eq!((&line["level"], &line["role"]), (&level.into(), &"scheduler".into()), "{line}");
            for (name, value) in fields {
                let given = line[*name].as_str().map_or_else(|| line[*name].to_string(), str::to_owned);
                assert_eq!(given, *value, "{name} of {line}");
            }
        }
    }

    #[test]
    fn a_state_that_no_event_told_has_a_line_of_its_own() {
        let telemetry = Telemetry::new(Arc::new(Metrics::new(Timestamp::UNIX_EPOCH)));
        let role = RoleName::new("scheduler").unwrap();
        for (state, level) in [(State::Campaigning, "INFO"), (State::Unreachable, "WARN"), (State::Unhealthy, "WARN")] {
            let text = logged(LogConfig { level: LogLevel::Info, format: LogFormat::Json }, || {
                telemetry.record_state(&role, state, Some("because"), Duration::from_millis(5));
            });
            let line: Value = serde_json::from_str(&text).unwrap();
            assert_eq!((&line["level"], &line["state"]), (&level.into(), &state.as_str().into()));
            assert_eq!((&line["reason"], &line["duration_ms"]), (&"because".into(), &5.into()));
        }
    }

    #[test]
    fn what_goes_well_all_the_time_is_not_logged_at_the_usual_level() {
        let (token, took) = (Token::new(7).unwrap(), Duration::from_millis(2));
        let renewed = Event::Renewed { outcome: RenewalOutcome::Ok, took, token, failure: None };
        let held = Event::Campaigned { outcome: CampaignOutcome::Held };
        assert_eq!((line(LogLevel::Info, &renewed), line(LogLevel::Info, &held)), (None, None));
        assert!(line(LogLevel::Trace, &renewed).is_some() && line(LogLevel::Debug, &held).is_some());
    }

    #[test]
    fn a_single_renewal_that_fails_is_for_debugging_and_that_they_fail_is_a_warning() {
        let (role, token) = (RoleName::new("scheduler").unwrap(), Token::new(7).unwrap());
        let (outcome, took) = (RenewalOutcome::Error, Duration::from_millis(2));
        let failed = Event::Renewed { outcome, took, token, failure: Some("NOAUTH".to_owned()) };
        assert_eq!(line(LogLevel::Info, &failed), None);
        assert_eq!(line(LogLevel::Debug, &failed).unwrap()["reason"], "NOAUTH");
        let telemetry = Telemetry::new(Arc::new(Metrics::new(Timestamp::UNIX_EPOCH)));
        let text = logged(LogConfig { level: LogLevel::Info, format: LogFormat::Json }, || {
            telemetry.renewals_fail(&role, token, "NOAUTH", 1);
            telemetry.renewals_fail_no_longer(&role, token, 34, false);
        });
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let told = |index: usize| (&lines[index]["level"], &lines[index]["failures"], &lines[index]["token"]);
        assert_eq!(told(0), (&"WARN".into(), &1.into(), &"7".into()));
        assert_eq!((&lines[0]["outcome"], &lines[0]["reason"]), (&"error".into(), &"NOAUTH".into()));
        assert_eq!(told(1), (&"INFO".into(), &34.into(), &"7".into()));
    }

    #[test]
    fn a_reload_tells_what_it_changed_of_roles_of_jobs_and_of_the_default() {
        let config = |roles: &str, more: &str| {
            let text = format!("identity: a\nstore: {{memory: }}\nroles: [{roles}, {{name: b}}]\n{more}\n");
            crate::config::check_text(&text, "t.yaml", &Environment::new(|_| None, None)).unwrap().config
        };
        let job = "jobs: [{name: j, role: b, schedule: '@daily', run: {exec: {command: [x]}}}]";
        let base = config("{name: a}", "");
        for (new, field, value) in [
            (config("{name: a, leaseDuration: 30s}", ""), "changed", "\"a\""),
            (config("{name: c}, {name: a}", ""), "added", "\"c\""),
            (config("{name: a}", job), "jobs_added", "\"j\""),
            (config("{name: a}", "defaultRole: b"), "default_role_changed", "true"),
        ] {
            let telemetry = Telemetry::new(Arc::new(Metrics::new(Timestamp::UNIX_EPOCH)));
            let text = logged(LogConfig { level: LogLevel::Info, format: LogFormat::Json }, || {
                let reload = ConfigReload { changes: base.live_changes(&new), rotated: Vec::new() };
                telemetry.record_system(&SystemEvent::ConfigReloaded(reload));
            });
            let line: Value = serde_json::from_str(&text).unwrap();
            for other in ["added", "removed", "changed", "jobs_added", "jobs_removed", "jobs_changed"] {
                let expected = if other == field { value } else { "\"\"" };
                assert_eq!(line[other].to_string(), expected, "{other} in {line}");
            }
            assert_eq!(line["default_role_changed"], field == "default_role_changed", "{line}");
        }
    }

    #[test]
    fn a_reload_that_changes_nothing_while_running_does_not_say_that_it_did() {
        let told = |rotated: &[&str]| {
            let telemetry = Telemetry::new(Arc::new(Metrics::new(Timestamp::UNIX_EPOCH)));
            let rotated = rotated.iter().map(PathBuf::from).collect();
            let reload = ConfigReload { rotated, ..ConfigReload::default() };
            let text = logged(LogConfig { level: LogLevel::Info, format: LogFormat::Json }, || {
                telemetry.record_system(&SystemEvent::ConfigReloaded(reload));
            });
            let line: Value = serde_json::from_str(&text).unwrap();
            (line["message"].as_str().unwrap().to_owned(), line["files"].as_str().map(str::to_owned))
        };
        let (rotated, files) = told(&["/etc/baton/password", "/etc/baton/token"]);
        assert!(rotated.contains("that the configuration names have changed"), "{rotated}");
        assert_eq!(files.as_deref(), Some("/etc/baton/password,/etc/baton/token"));
        let (nothing, files) = told(&[]);
        assert!(nothing.contains("nothing in it that is applied while running") && files.is_none(), "{nothing}");
    }
}
