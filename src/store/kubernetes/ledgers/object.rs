//! Between a Lease object and the ledger of a job in its annotations.

use bytes::Bytes;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::kube::MIRROR;
use crate::protocol::jobs::{JobName, LedgerCell, Revision, Stored};
use crate::protocol::{RoleName, Token};
use crate::store::StoreError;
use crate::store::kubernetes::lease_object::PREFIX;

/// The longest ledger: the API server takes 256 KiB of annotations on one object, and others may have some there.
pub(crate) const BODY_BYTES_MAX: usize = 200 << 10;

/// The label by which people find the ledgers, with the job's name.
const JOB: &str = "baton.dev/job";
const FENCE: &str = "baton.dev/fence";
const FENCE_ROLE: &str = "baton.dev/fence-role";
pub(super) const REVISION: &str = "baton.dev/revision";
const BODY: &str = "baton.dev/ledger";

/// The object of a job. A role's has no dot; a mirror of a shard has, and is told by its mark.
pub(crate) fn name(prefix: &str, job: &JobName) -> String {
    format!("{prefix}-job.{job}")
}

/// The ledger in an object, or that of a job that has no object.
pub(super) fn cell(seen: Option<&Lease>) -> Result<LedgerCell<Bytes>, StoreError> {
    seen.map_or_else(|| Ok(LedgerCell::default()), |lease| read(lease).map_err(|why| garbage(lease, why)))
}

/// This object holds what Baton did not write there.
pub(super) fn garbage(lease: &Lease, why: String) -> StoreError {
    StoreError::Garbage { key: format!("the Lease {}", lease.metadata.name.as_deref().unwrap_or_default()), why }
}

/// Whether an object may be ours, by its annotations.
///
/// # Errors
/// It is somebody else's, in words.
pub(super) fn check_mark(lease: &Lease) -> Result<(), String> {
    let has = |mark: &dyn Fn(&str) -> bool| {
        lease.metadata.annotations.iter().flatten().any(|(annotation, _)| mark(annotation))
    };
    if has(&|annotation| annotation == MIRROR) {
        return Err(format!("it is a mirror that another Baton keeps for people (annotation {MIRROR})"));
    }
    if !has(&|annotation| annotation.starts_with(PREFIX)) {
        return Err("it has no annotation of Baton, so something else made it".to_owned());
    }
    Ok(())
}

/// Reads an object.
///
/// # Errors
/// What is wrong with it, in words.
pub(crate) fn read(lease: &Lease) -> Result<LedgerCell<Bytes>, String> {
    check_mark(lease)?;
    let text = |key: &str| lease.metadata.annotations.as_ref().and_then(|all| all.get(key));
    let missing = |key: &str| format!("its annotation {key} is missing");
    let number = |key: &str| -> Result<u64, String> {
        let text = text(key).ok_or_else(|| missing(key))?;
        text.parse().map_err(|_| format!("its annotation {key} is {text:?}, not a number"))
    };
    let too_great = |key: &str, value: u64| format!("its annotation {key} is {value}, not below 2^53");
    let fence = number(FENCE)?;
    let fence = Token::new(fence).ok_or_else(|| too_great(FENCE, fence))?;
    // Earlier releases wrote none.
    let owner = text(FENCE_ROLE).map(|role| role.parse::<RoleName>());
    let owner = owner.transpose().map_err(|error| format!("its annotation {FENCE_ROLE}: {error}"))?;
    if text(REVISION).is_none() && text(BODY).is_none() {
        return Ok(LedgerCell::new(owner, fence, None));
    }
    let revision = number(REVISION)?;
    let revision = Revision::new(revision).ok_or_else(|| too_great(REVISION, revision))?;
    let body = Bytes::from(text(BODY).ok_or_else(|| missing(BODY))?.clone());
    Ok(LedgerCell::new(owner, fence, Some(Stored { revision, body })))
}

/// A ledger as an annotation can hold it.
pub(super) fn text(body: &Bytes) -> Result<&str, StoreError> {
    std::str::from_utf8(body).map_err(|_| StoreError::Refused {
        reason: "a ledger that is not text cannot be kept in a Lease object".to_owned(),
    })
}

/// `seen`, or a new object, with this ledger. Labels, owners and whatever else it has stay.
pub(super) fn write(
    seen: Option<&Lease>,
    name: &str,
    job: &JobName,
    cell: &LedgerCell<Bytes>,
) -> Result<Lease, StoreError> {
    let label = [(JOB.to_owned(), job.to_string())];
    let mut lease = seen.cloned().unwrap_or_else(|| Lease {
        metadata: ObjectMeta { labels: Some(label.into()), ..named(name) },
        spec: Some(LeaseSpec::default()),
    });
    // The server keeps its own account of who wrote what.
    lease.metadata.managed_fields = None;
    let annotations = lease.metadata.annotations.get_or_insert_default();
    annotations.insert(FENCE.to_owned(), cell.fence().to_string());
    if let Some(owner) = cell.owner() {
        annotations.insert(FENCE_ROLE.to_owned(), owner.to_string());
    }
    if let Some(stored) = cell.read() {
        if Revision::new(stored.revision.get()).is_none() {
            let reason = "the next revision would reach 2^53: this machine's clock is centuries ahead, or one was";
            return Err(StoreError::Refused { reason: reason.to_owned() });
        }
        annotations.insert(REVISION.to_owned(), stored.revision.get().to_string());
        annotations.insert(BODY.to_owned(), text(&stored.body)?.to_owned());
    }
    Ok(lease)
}

pub(super) fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> JobName {
        JobName::new("nightly").unwrap()
    }

    fn cell(body: Option<&'static str>) -> LedgerCell<Bytes> {
        let stored = body.map(|body| Stored { revision: Revision::new(1_700_000).unwrap(), body: body.into() });
        LedgerCell::new(Some("stock/3".parse().unwrap()), Token::new(7).unwrap(), stored)
    }

    /// As it travels: as JSON.
    fn travelled(lease: &Lease) -> Lease {
        serde_json::from_str(&serde_json::to_string(lease).unwrap()).unwrap()
    }

    fn written(seen: Option<&Lease>, body: Option<&'static str>) -> Lease {
        travelled(&write(seen, "baton-job.nightly", &job(), &cell(body)).unwrap())
    }

    #[test]
    fn what_is_written_is_read_again_and_found_by_its_label() {
        for body in [None, Some(""), Some("{\"v\":1,\n\"note\":\"é \\u0000 🦀\"}")] {
            let lease = written(None, body);
            assert_eq!(read(&lease), Ok(cell(body)));
            assert_eq!(lease.metadata.name.as_deref(), Some("baton-job.nightly"));
            assert_eq!(lease.metadata.labels, Some([("baton.dev/job".to_owned(), "nightly".to_owned())].into()));
        }
        assert_eq!(name("baton", &job()), "baton-job.nightly");
    }

    #[test]
    fn what_is_not_ours_on_an_object_stays() {
        let mut seen = written(None, None);
        seen.metadata.labels = Some([("team".to_owned(), "a".to_owned())].into());
        seen.metadata.resource_version = Some("17".to_owned());
        seen.metadata.annotations.as_mut().unwrap().insert("note".to_owned(), "b".to_owned());
        let lease = written(Some(&seen), Some("a"));
        assert_eq!(lease.metadata.labels, seen.metadata.labels);
        assert_eq!(lease.metadata.resource_version.as_deref(), Some("17"));
        assert!(lease.metadata.annotations.unwrap().contains_key("note"));
    }

    #[test]
    fn what_no_annotation_can_hold_and_a_revision_without_a_successor_are_refused() {
        let stored = |revision, body| {
            let mut cell = LedgerCell::default();
            // The reference goes on beyond what can be stored.
            cell.write(crate::protocol::jobs::WriteRequest { term: None, base: None, body }, revision);
            write(None, "baton-job.nightly", &job(), &cell).unwrap_err().to_string()
        };
        let told = stored(crate::protocol::StoreTime(1), Bytes::from_static(b"\xff"));
        assert!(told.contains("not text"), "{told}");
        let told = stored(crate::protocol::StoreTime(Token::LIMIT), Bytes::new());
        assert!(told.contains("2^53"), "{told}");
    }

    #[test]
    fn a_damaged_annotation_is_named_and_what_is_not_ours_is_told() {
        let limit = Token::LIMIT.to_string();
        for (key, value, word) in [
            (FENCE, Some("many"), "not a number"),
            (FENCE, Some("-1"), "not a number"),
            (FENCE, Some(limit.as_str()), "not below 2^53"),
            (FENCE, None, "missing"),
            (FENCE_ROLE, Some("Stock"), "not a role name"),
            (REVISION, Some("1e3"), "not a number"),
            (REVISION, Some(limit.as_str()), "not below 2^53"),
            (REVISION, None, "missing"),
            (BODY, None, "missing"),
        ] {
            let mut lease = written(None, Some("a"));
            let annotations = lease.metadata.annotations.as_mut().unwrap();
            match value {
                Some(value) => annotations.insert(key.to_owned(), value.to_owned()),
                None => annotations.remove(key),
            };
            let why = read(&lease).unwrap_err();
            assert!(why.contains(key) && why.contains(word), "{why}");
        }
        assert!(read(&Lease::default()).unwrap_err().contains("something else made it"));
        let mut mirror = written(None, Some("a"));
        mirror.metadata.annotations.as_mut().unwrap().insert(MIRROR.to_owned(), "7".to_owned());
        assert!(read(&mirror).unwrap_err().contains("a mirror"));
    }
}
