//! Between a Lease object and what the protocol reads in it.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;

use crate::kube::MIRROR;
use crate::protocol::lease_object::{LeaseRecord, Mark};
use crate::protocol::{Attempt, Candidate, LEASE_DURATION_MAX, LEASE_DURATION_MIN, Token};

/// What every annotation of Baton begins with.
pub(super) const PREFIX: &str = "baton.dev/";
const SESSION: &str = "baton.dev/session";
const ATTEMPT: &str = "baton.dev/attempt";
const TOKEN: &str = "baton.dev/token";
const FLOOR: &str = "baton.dev/floor";
const COUNT: &str = "baton.dev/count";
const DURATION: &str = "baton.dev/lease-duration-ms";
const IDENTITY: &str = "baton.dev/identity";
const RELEASED: &str = "baton.dev/released";
const RENEWED: &str = "baton.dev/renew-time";

/// Reads an object.
///
/// # Errors
/// What is wrong with it, in words: an annotation that Baton did not write so.
pub(super) fn read(lease: &Lease) -> Result<LeaseRecord, String> {
    let none = LeaseSpec::default();
    let spec = lease.spec.as_ref().unwrap_or(&none);
    if let Some((field, value)) = [("strategy", &spec.strategy), ("preferredHolder", &spec.preferred_holder)]
        .into_iter()
        .find_map(|(field, value)| Some((field, value.as_deref().filter(|value| !value.is_empty())?)))
    {
        return Err(format!(
            "its spec.{field} is {value:?}: a controller of the API server chooses its holder (coordinated leader \
             election), and would take turns with Baton: switch that off for this Lease, or use another namePrefix"
        ));
    }
    let micros = |time: &Option<MicroTime>| time.as_ref().map(|time| time.0.as_microsecond());
    Ok(LeaseRecord {
        identity: Arc::from(spec.holder_identity.as_deref().unwrap_or_default()),
        // No time is none: the API server takes none that is not positive.
        lease_seconds: spec.lease_duration_seconds.and_then(|seconds| u32::try_from(seconds).ok()).filter(|s| *s > 0),
        transitions: spec.lease_transitions.and_then(|count| u32::try_from(count).ok()).unwrap_or(0),
        acquired_us: micros(&spec.acquire_time),
        renewed_us: micros(&spec.renew_time),
        mark: mark(lease)?,
    })
}

fn mark(lease: &Lease) -> Result<Option<Mark>, String> {
    let Some(annotations) = &lease.metadata.annotations else { return Ok(None) };
    if annotations.contains_key(MIRROR) {
        return Err(format!(
            "it is a mirror that another Baton keeps for people (annotation {MIRROR}), not a lease: use another \
             namePrefix, or delete it once nobody mirrors there"
        ));
    }
    if !annotations.keys().any(|key| key.starts_with(PREFIX)) {
        return Ok(None);
    }
    let text = |key: &str| annotations.get(key).ok_or_else(|| format!("its annotation {key} is missing"));
    let number = |key: &str| -> Result<u64, String> {
        let text = text(key)?;
        text.parse().map_err(|_| format!("its annotation {key} is {text:?}, not a number"))
    };
    let session = text(SESSION)?;
    let token = |key: &str| -> Result<Token, String> {
        let value = number(key)?;
        Token::new(value).ok_or_else(|| format!("its annotation {key} is {value}, not below 2^53"))
    };
    let lease_duration = Duration::from_millis(number(DURATION)?);
    if !(LEASE_DURATION_MIN..=LEASE_DURATION_MAX).contains(&lease_duration) {
        return Err(format!(
            "its annotation {DURATION} is {}, not between {LEASE_DURATION_MIN:?} and {LEASE_DURATION_MAX:?}",
            lease_duration.as_millis()
        ));
    }
    let renewed = text(RENEWED)?;
    let renewed: Timestamp =
        renewed.parse().map_err(|_| format!("its annotation {RENEWED} is {renewed:?}, not a time"))?;
    let released = match text(RELEASED)?.as_str() {
        "true" => true,
        "false" => false,
        other => return Err(format!("its annotation {RELEASED} is {other:?}, neither true nor false")),
    };
    Ok(Some(Mark {
        candidate: Candidate {
            session: session
                .parse()
                .map_err(|_| format!("its annotation {SESSION} is {session:?}, not 32 hexadecimal digits"))?,
            attempt: Attempt(number(ATTEMPT)?),
        },
        identity: Arc::from(text(IDENTITY)?.as_str()),
        token: token(TOKEN)?,
        floor: token(FLOOR)?,
        count: number(COUNT)?,
        lease_duration,
        released,
        renewed_us: renewed.as_microsecond(),
    }))
}

/// `object`, or a new one, with this record. Labels, owners and whatever else it has stay.
pub(super) fn write(object: Option<&Lease>, name: &str, record: &LeaseRecord) -> Lease {
    let mut lease = object.cloned().unwrap_or_else(|| Lease {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        ..Lease::default()
    });
    // The server keeps its own account of who wrote what.
    lease.metadata.managed_fields = None;
    let time = |us: i64| Timestamp::from_microsecond(us).unwrap_or(Timestamp::UNIX_EPOCH);
    let spec = lease.spec.get_or_insert_default();
    spec.holder_identity = Some(record.identity.to_string());
    spec.lease_duration_seconds = record.lease_seconds.map(|seconds| i32::try_from(seconds).unwrap_or(i32::MAX));
    spec.lease_transitions = Some(i32::try_from(record.transitions).unwrap_or(i32::MAX));
    spec.acquire_time = record.acquired_us.map(|us| MicroTime(time(us)));
    spec.renew_time = record.renewed_us.map(|us| MicroTime(time(us)));
    if let Some(mark) = &record.mark {
        let annotations = lease.metadata.annotations.get_or_insert_default();
        let entries = [
            (SESSION, mark.candidate.session.to_string()),
            (ATTEMPT, mark.candidate.attempt.0.to_string()),
            (TOKEN, mark.token.to_string()),
            (FLOOR, mark.floor.to_string()),
            (COUNT, mark.count.to_string()),
            (DURATION, mark.lease_duration.as_millis().to_string()),
            (IDENTITY, mark.identity.to_string()),
            (RELEASED, mark.released.to_string()),
            (RENEWED, time(mark.renewed_us).to_string()),
        ];
        annotations.extend(entries.map(|(key, value)| (key.to_owned(), value)));
    }
    lease
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::SessionId;
    use crate::protocol::lease_object::Tenure;

    fn record() -> LeaseRecord {
        let mark = Mark {
            candidate: Candidate { session: SessionId::from_u128(7), attempt: Attempt(3) },
            identity: Arc::from("web-0"),
            token: Token::new(1_700_000_000_000_001).unwrap(),
            floor: Token::NONE,
            count: 12,
            lease_duration: Duration::from_millis(1_500),
            released: false,
            renewed_us: 1_700_000_000_123_456,
        };
        LeaseRecord {
            identity: Arc::from("web-0"),
            lease_seconds: Some(2),
            transitions: 4,
            acquired_us: Some(1_700_000_000_000_000),
            renewed_us: Some(1_700_000_000_123_456),
            mark: Some(mark),
        }
    }

    /// As it travels: as JSON.
    fn travelled(lease: &Lease) -> Lease {
        serde_json::from_str(&serde_json::to_string(lease).unwrap()).unwrap()
    }

    #[test]
    fn what_is_written_is_read_again_to_the_microsecond() {
        let lease = travelled(&write(None, "baton-scheduler", &record()));
        assert_eq!(lease.metadata.name.as_deref(), Some("baton-scheduler"));
        let json = serde_json::to_value(&lease).unwrap();
        assert_eq!(json["spec"]["holderIdentity"], "web-0");
        assert_eq!(json["spec"]["leaseDurationSeconds"], 2);
        assert_eq!(json["spec"]["leaseTransitions"], 4);
        assert_eq!(json["spec"]["renewTime"], "2023-11-14T22:13:20.123456Z");
        assert_eq!(read(&lease), Ok(record()));
    }

    #[test]
    fn what_is_not_ours_on_an_object_stays() {
        let mut theirs = Lease::default();
        theirs.metadata.labels = Some([("team".to_owned(), "a".to_owned())].into());
        theirs.metadata.annotations = Some([("note".to_owned(), "b".to_owned())].into());
        theirs.metadata.resource_version = Some("17".to_owned());
        theirs.metadata.finalizers = Some(vec!["kept".to_owned()]);
        let lease = write(Some(&theirs), "ignored", &record());
        assert_eq!(lease.metadata.resource_version.as_deref(), Some("17"));
        assert_eq!(lease.metadata.labels, theirs.metadata.labels);
        assert!(lease.metadata.annotations.as_ref().unwrap().contains_key("note"));
        assert_eq!(lease.metadata.finalizers, theirs.metadata.finalizers);
    }

    #[test]
    fn a_lease_whose_holder_the_api_server_chooses_is_refused_by_name() {
        for (field, value) in [("strategy", "OldestEmulationVersion"), ("preferredHolder", "web-1")] {
            let mut lease = serde_json::to_value(write(None, "baton-scheduler", &record())).unwrap();
            lease["spec"][field] = value.into();
            let why = read(&serde_json::from_value(lease.clone()).unwrap()).unwrap_err();
            assert!(why.contains(field) && why.contains(value) && why.contains("coordinated"), "{why}");
            lease["spec"][field] = "".into();
            assert!(read(&serde_json::from_value(lease).unwrap()).is_ok());
        }
    }

    #[test]
    fn an_object_without_our_annotations_is_a_strangers() {
        let spec = LeaseSpec {
            holder_identity: Some("controller-7".to_owned()),
            lease_duration_seconds: Some(15),
            ..LeaseSpec::default()
        };
        let record = read(&Lease { spec: Some(spec), ..Lease::default() }).unwrap();
        assert_eq!(record.tenure(), Tenure::Foreign(Some(Duration::from_secs(15))));
        assert_eq!(read(&Lease::default()).unwrap().tenure(), Tenure::Vacant);
    }

    #[test]
    fn a_mirror_is_never_taken_for_a_lease() {
        let mut lease = write(None, "baton-scheduler", &record());
        lease.metadata.annotations.as_mut().unwrap().insert(MIRROR.to_owned(), "7".to_owned());
        assert!(read(&lease).unwrap_err().contains("a mirror"));
        lease.metadata.annotations = Some([(MIRROR.to_owned(), "7".to_owned())].into());
        assert!(read(&lease).unwrap_err().contains("a mirror"));
    }

    #[test]
    fn a_damaged_annotation_is_named() {
        for (key, value, word) in [
            (TOKEN, Some("many"), "not a number"),
            (TOKEN, Some("9007199254740992"), "not below 2^53"),
            (TOKEN, None, "missing"),
            (SESSION, Some("me"), "hexadecimal"),
            (RELEASED, Some("maybe"), "neither true nor false"),
            (RENEWED, Some("yesterday"), "not a time"),
            (DURATION, Some("-1"), "not a number"),
        ] {
            let mut lease = write(None, "baton-scheduler", &record());
            let annotations = lease.metadata.annotations.as_mut().unwrap();
            match value {
                Some(value) => annotations.insert(key.to_owned(), value.to_owned()),
                None => annotations.remove(key),
            };
            let why = read(&lease).unwrap_err();
            assert!(why.contains(key) && why.contains(word), "{why}");
        }
    }
}
