//! What the store is told of an owner. The same owner may take its lock again, so two requests that are not the same
//! owner's must never look alike.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use crate::protocol::{LockId, LockName};

/// Stands between the app's word and ours. No owner that an app names has it: control characters are refused.
const MARK: char = '\u{1}';

/// The owner as the store knows it. Nobody (`None`) is never the same as anybody else. One that takes several names at
/// once is another than one that takes one of them: it gets the same names again, and no fewer.
pub(super) fn stored(owner: Option<&str>, names: &[LockName], id: LockId) -> Arc<str> {
    match (owner, names) {
        (None, _) => format!("{MARK}{id}").into(),
        (Some(owner), [_]) => owner.into(),
        (Some(owner), _) => {
            let mut hasher = DefaultHasher::new();
            names.hash(&mut hasher);
            format!("{owner}{MARK}{:016x}", hasher.finish()).into()
        }
    }
}

/// The app's own word; none for nobody.
pub(super) fn shown(stored: &str) -> Option<&str> {
    stored.split(MARK).next().filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_owner_of_the_same_names_looks_the_same() {
        let name = |name: &str| LockName::new(name).unwrap();
        let (a, ab) = ([name("a")], [name("a"), name("b")]);
        let (one, two) = (LockId::from_u128(1), LockId::from_u128(2));
        assert_eq!(stored(Some("me"), &a, one), stored(Some("me"), &a, two));
        assert_eq!(stored(Some("me"), &ab, one), stored(Some("me"), &ab, two));
        assert_ne!(stored(Some("me"), &a, one), stored(Some("me"), &ab, one));
        assert_ne!(stored(None, &a, one), stored(None, &a, two));
        assert_eq!(shown(&stored(Some("me"), &ab, one)), Some("me"));
        assert_eq!(shown(&stored(None, &a, one)), None);
    }
}
