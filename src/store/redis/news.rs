//! The messages that the scripts publish: `v1 <kind> <token> <count> <audience> <session> <identity>`, the identity
//! being the rest of the line, spaces and all.

use std::sync::Arc;

use crate::protocol::{Announcement, AnnouncementKind, Holder, Token};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::SessionId;

    #[test]
    fn an_identity_is_the_rest_of_the_line() {
        let message = "v1 heartbeat 1763680000123456 17 3 000000000000000000000000000000ff web 0 – é";
        let said = parse(message).unwrap();
        assert_eq!((said.kind, said.token.get()), (AnnouncementKind::Heartbeat, 1_763_680_000_123_456));
        assert_eq!((said.count, said.audience), (17, 3));
        assert_eq!(said.holder, Holder { session: SessionId::from_u128(255), identity: Arc::from("web 0 – é") });
    }

    #[test]
    fn what_is_not_ours_is_not_heard() {
        for message in
            ["", "v1", "v2 grant 1 2 3 ff x", "v1 party 1 2 3 ff x", "v1 grant one 2 3 ff x", "v1 grant 1 2 3 ff"]
        {
            assert_eq!(parse(message), None, "{message:?}");
        }
    }
}
