//! What the store is told of an owner. The same owner may take its lock again, so two requests that are not the same
//! owner's must never look alike.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::acquire::Want;
use crate::protocol::LockId;

/// Stands between the app's word and ours. No owner that an app names has it: control characters are refused.
const MARK: char = '\u{1}';

/// What marks an owner that took a lock once; the lock's id follows.
const ONCE: &str = "once ";

/// The owner as the store knows it. Nobody (`None`) is never the same as anybody else, nor is one that takes a lock
/// once. One that takes several names at once is another than one that takes one of them: it gets the same names again,
/// and no fewer.
pub(super) fn stored(want: &Want, id: LockId) -> Arc<str> {
    match (want.owner.as_deref(), want.names.as_slice()) {
        (None, _) => format!("{MARK}{id}").into(),
        (Some(owner), _) if want.once => format!("{owner}{MARK}{ONCE}{id}").into(),
        (Some(owner), [_]) => owner.into(),
        (Some(owner), names) => {
            let mut hasher = DefaultHasher::new();
            names.hash(&mut hasher);
            format!("{owner}{MARK}{:016x}", hasher.finish()).into()
        }
    }
}

/// The id of a lock that this owner took once; none of any other.
pub(super) fn id_of_once(stored: &str, owner: &str) -> Option<LockId> {
    stored.strip_prefix(owner)?.strip_prefix(MARK)?.strip_prefix(ONCE)?.parse().ok()
}

/// The app's own word; none for nobody.
pub(super) fn shown(stored: &str) -> Option<&str> {
    stored.split(MARK).next().filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::protocol::LockName;

    fn want(owner: Option<&str>, names: &[&str], once: bool) -> Want {
        Want {
            names: names.iter().map(|name| LockName::new(*name).unwrap()).collect(),
            owner: owner.map(Into::into),
            once,
            wait: Duration::ZERO,
            lease: Duration::from_secs(30),
            at_least: Duration::ZERO,
            permits: 1,
            fair: false,
        }
    }

    #[test]
    fn only_the_same_owner_of_the_same_names_looks_the_same() {
        let (one, two) = (LockId::from_u128(1), LockId::from_u128(2));
        let (a, ab) = (want(Some("me"), &["a"], false), want(Some("me"), &["a", "b"], false));
        assert_eq!(stored(&a, one), stored(&a, two));
        assert_eq!(stored(&ab, one), stored(&ab, two));
        assert_ne!(stored(&a, one), stored(&ab, one));
        let nobody = want(None, &["a"], false);
        assert_ne!(stored(&nobody, one), stored(&nobody, two));
        assert_eq!(shown(&stored(&ab, one)), Some("me"));
        assert_eq!(shown(&stored(&nobody, one)), None);
    }

    #[test]
    fn who_takes_a_lock_once_is_found_by_its_name_and_nobody_else_is() {
        let (one, two) = (LockId::from_u128(1), LockId::from_u128(2));
        let once = want(Some("me"), &["a"], true);
        assert_ne!(stored(&once, one), stored(&once, two), "the same owner may not take it again");
        assert_eq!(id_of_once(&stored(&once, one), "me"), Some(one));
        assert_eq!(shown(&stored(&once, one)), Some("me"));
        for other in ["m", "mee", "", "you"] {
            assert_eq!(id_of_once(&stored(&once, one), other), None, "{other}");
        }
        for others in [want(Some("me"), &["a"], false), want(Some("me"), &["a", "b"], false), want(None, &["a"], false)]
        {
            assert_eq!(id_of_once(&stored(&others, one), "me"), None, "{others:?}");
            assert_eq!(id_of_once(&stored(&others, one), ""), None, "{others:?}");
        }
    }
}
