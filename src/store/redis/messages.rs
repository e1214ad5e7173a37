//! The messages that the scripts publish: `v1 <kind> <token> <count> <audience> <session> <identity>`, the identity
//! being the rest of the line, spaces and all; for locks `v1 <id> <name>`, who waits, and `v1 unlocked <id> <name>`,
//! what an operator has ended, the name being the rest of the line; and for jobs `v1 <name>`.

use std::sync::Arc;

use crate::protocol::jobs::JobName;
use crate::protocol::{Announcement, AnnouncementKind, Holder, LockName, RenewRequest, SessionId, Token};
use crate::store::{JobNews, WakeNews};

/// The announcement in a message; none when it is not one of ours.
pub(super) fn parse(message: &str) -> Option<Announcement> {
    let mut words = message.splitn(7, ' ');
    if words.next()? != "v1" {
        return None;
    }
    let kind = AnnouncementKind::parse(words.next()?)?;
    let token = Token::new(words.next()?.parse().ok()?)?;
    let count = words.next()?.parse().ok()?;
    let audience = words.next()?.parse().ok()?;
    let session = words.next()?.parse().ok()?;
    let identity = Arc::from(words.next()?);
    Some(Announcement { kind, token, count, audience, holder: Holder { session, identity } })
}

/// The message of a renewal that counts on from what its sender knows.
pub(super) fn heartbeat(request: &RenewRequest) -> String {
    let RenewRequest { candidate, identity, token, count, audience, .. } = request;
    format!("v1 heartbeat {token} {} {audience} {} {identity}", count + 1, candidate.session)
}

/// Whose doing an announcement tells; none when it is not one of ours.
pub(super) fn session(message: &str) -> Option<SessionId> {
    message.split(' ').nth(5)?.parse().ok()
}

/// What a message about locks says; none when it is not one of ours.
pub(super) fn parse_wake(message: &str) -> Option<WakeNews> {
    let message = message.strip_prefix("v1 ")?;
    let unlocked = message.strip_prefix("unlocked ");
    let (id, name) = unlocked.unwrap_or(message).split_once(' ')?;
    let (id, name) = (id.parse().ok()?, LockName::new(name).ok()?);
    Some(if unlocked.is_some() { WakeNews::Unlocked { id, name } } else { WakeNews::Wake { id, name } })
}

/// The wish in a message; none when it is not one of ours.
pub(super) fn parse_wish(message: &str) -> Option<JobNews> {
    JobName::stored(message.strip_prefix("v1 ")?).map(JobNews::Changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_the_rest_of_the_line() {
        let message = "v1 heartbeat 1763680000123456 17 3 000000000000000000000000000000ff web 0 – é";
        let said = parse(message).unwrap();
        assert_eq!((said.kind, said.token.get()), (AnnouncementKind::Heartbeat, 1_763_680_000_123_456));
        assert_eq!((said.count, said.audience, session(message)), (17, 3, Some(SessionId::from_u128(255))));
        assert_eq!(said.holder, Holder { session: SessionId::from_u128(255), identity: Arc::from("web 0 – é") });
    }

    #[test]
    fn what_is_not_ours_is_not_heard() {
        for message in
            ["", "v1", "v2 grant 1 2 3 ff x", "v1 party 1 2 3 ff x", "v1 grant one 2 3 ff x", "v1 grant 1 2 3 ff"]
        {
            assert_eq!(parse(message), None, "{message:?}");
        }
        for message in ["", "v1", "v1 5", "v2 00000000000000000000000000000005 a", "v1 5 a", &format!("v1 {:032x} ", 5)]
        {
            assert_eq!(parse_wake(message), None, "{message:?}");
        }
        for message in ["", "v1", "v1 ", "v2 nightly", "v1 nightly report", "v1 Nightly"] {
            assert_eq!(parse_wish(message), None, "{message:?}");
        }
    }
}
