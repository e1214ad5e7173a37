//! Dapr's lock API (`v1.0-alpha1`), so that an app written for it works unchanged.
//!
//! A lock that was taken here has a lease of its own, is not renewed, and not even its owner may take it again. It is
//! given back by its owner's name, through any sidecar: the id that was written down beside the owner is looked up, and
//! the release goes by that id. So a lock that ended meanwhile and is another's is never freed.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::acquire::Want;
use super::super::owner;
use super::super::service::{LockService, Refusal};
use crate::http::{Ask, DaprFault, Response, Routes, decode_segment, json};
use crate::protocol::{LockName, OWNER_BYTES_MAX};

/// Dapr puts it between the parts of its keys, and therefore refuses it in a resource.
const SEPARATOR: &str = "||";

/// The body of both calls. Dapr ignores what it does not know, and takes the names of its protobuf fields, too.
#[derive(Debug, Default, Deserialize)]
struct Body {
    #[serde(rename = "resourceId", alias = "resource_id")]
    resource: Option<String>,
    #[serde(rename = "lockOwner", alias = "lock_owner")]
    owner: Option<String>,
    #[serde(rename = "expiryInSeconds", alias = "expiry_in_seconds")]
    expiry: Option<Value>,
}

impl Body {
    /// Whole seconds, as a number or as its text: protobuf's JSON takes both.
    fn expiry(&self, lease_max: Duration) -> Result<Duration, DaprFault> {
        let seconds = match &self.expiry {
            None => Some(0.0),
            Some(Value::Number(number)) => number.as_f64(),
            Some(Value::String(text)) => text.parse::<i32>().ok().map(f64::from),
            Some(_) => None,
        };
        let whole = seconds.filter(|seconds| seconds.fract() == 0.0);
        let whole = whole.ok_or_else(|| DaprFault::malformed("expiryInSeconds: a whole number is wanted"))?;
        if whole <= 0.0 {
            return Err(DaprFault::bad("ERR_EXPIRY_NOT_POSITIVE", "expiry in seconds is not positive"));
        }
        let lease = Duration::try_from_secs_f64(whole).unwrap_or(Duration::MAX);
        if lease > lease_max {
            let most = lease_max.as_secs_f64();
            return Err(DaprFault::malformed(format!("expiryInSeconds: at most {most} (locks.maxLease)")));
        }
        Ok(lease)
    }

    /// Resource and owner as locks know them, once the store is one of ours.
    fn lock(&self, store: &str, stores: &[String], failed: &'static str) -> Result<(LockName, Arc<str>), DaprFault> {
        let resource = self.resource.as_deref().unwrap_or_default();
        let owner = self.owner.as_deref().unwrap_or_default();
        if resource.is_empty() {
            return Err(DaprFault::bad("ERR_RESOURCE_ID_EMPTY", "lock resource id is empty"));
        }
        if owner.is_empty() {
            return Err(DaprFault::bad("ERR_OWNER_EMPTY", "lock owner is empty"));
        }
        let decoded = decode_segment(store).ok();
        let Some(store) = stores.iter().find(|known| Some(known.as_str()) == decoded.as_deref()) else {
            let shown: String = store.chars().take(100).collect();
            let message = format!("lock {shown} is not found");
            return Err(DaprFault { status: StatusCode::NOT_FOUND, code: "ERR_LOCK_NOT_FOUND", message });
        };
        if resource.contains(SEPARATOR) {
            return Err(DaprFault::internal(failed, format!("input key can't contain '{SEPARATOR}'")));
        }
        let name = LockName::new(format!("dapr/{store}/{}", plain(resource)));
        let name = name.map_err(|error| DaprFault::malformed(format!("resourceId: as dapr/{store}/…, {error}")))?;
        let owner = plain(owner);
        if owner.len() > OWNER_BYTES_MAX {
            let bytes = owner.len();
            return Err(DaprFault::malformed(format!("lockOwner has {bytes} bytes; use 1 to {OWNER_BYTES_MAX}")));
        }
        Ok((name, owner.into()))
    }
}

/// Dapr takes any text, locks take no control characters: those are percent-encoded, and so is the percent sign, so
/// that no two texts become one.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || c == '%' {
            let mut bytes = [0; 4];
            c.encode_utf8(&mut bytes).bytes().for_each(|byte| plain.push_str(&format!("%{byte:02X}")));
        } else {
            plain.push(c);
        }
    }
    plain
}

/// What every call may use.
#[derive(Debug)]
pub struct DaprLocks {
    service: Arc<LockService>,
    stores: Vec<String>,
}

/// Dapr's calls, answered by this service for lock stores of these names.
pub fn routes(service: Arc<LockService>, stores: Vec<String>) -> Routes<DaprLocks> {
    type Here = Arc<DaprLocks>;
    Routes::new(DaprLocks { service, stores })
        .post_json("/v1.0-alpha1/lock/{store}", |here: Here, ask: Ask| async move {
            DaprFault::told(lock(&here, &ask).await)
        })
        .post_json("/v1.0-alpha1/unlock/{store}", |here: Here, ask: Ask| async move {
            DaprFault::told(unlock(&here, &ask).await)
        })
}

async fn lock(context: &DaprLocks, ask: &Ask) -> Result<Response, DaprFault> {
    const FAILED: &str = "ERR_TRY_LOCK";
    let body: Body = DaprFault::read(&ask.body)?;
    let lease = body.expiry(context.service.settings().lease_max)?;
    let (name, owner) = body.lock(ask.segment("store"), &context.stores, FAILED)?;
    let want = Want {
        names: vec![name],
        owner: Some(owner),
        once: true,
        wait: Duration::ZERO,
        lease,
        at_least: Duration::ZERO,
        permits: 1,
        fair: false,
    };
    let success = match context.service.acquire(want).await {
        Ok(claim) => {
            claim.take();
            true
        }
        Err(Refusal::Held { .. } | Refusal::PermitsDiffer { .. }) => false,
        Err(refusal) => return Err(DaprFault::internal(FAILED, format!("failed to try acquiring lock: {refusal}"))),
    };
    Ok(json(StatusCode::OK, &json!({ "success": success })))
}

/// What is released is the id that was found beside the owner: a lock that is another's by then is left alone, however
/// late this comes. While the release is not answered, it is tried on in the background.
async fn unlock(context: &DaprLocks, ask: &Ask) -> Result<Response, DaprFault> {
    const FAILED: &str = "ERR_UNLOCK";
    const RELEASED: u8 = 0;
    const ABSENT: u8 = 1;
    const OTHERS: u8 = 2;
    let failed = |refusal| DaprFault::internal(FAILED, format!("failed to release lock: {refusal}"));
    let (name, owner) = DaprFault::read::<Body>(&ask.body)?.lock(ask.segment("store"), &context.stores, FAILED)?;
    let insight = context.service.inspect(name.clone()).await.map_err(failed)?;
    let found = insight.holders.iter().find_map(|holder| owner::id_of_once(&holder.owner, &owner));
    let status = match found {
        None if insight.holders.is_empty() => ABSENT,
        None => OTHERS,
        Some(id) => match context.service.release(name, id).await {
            Ok(_) => RELEASED,
            Err(Refusal::Lost) => ABSENT,
            Err(refusal) => return Err(failed(refusal)),
        },
    };
    Ok(json(StatusCode::OK, &json!({ "status": status })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expiry_is_a_positive_whole_number_up_to_the_longest_lease() {
        let hour = Duration::from_secs(3_600);
        let expiry = |body: &str| DaprFault::read::<Body>(body.as_bytes()).and_then(|body| body.expiry(hour));
        for good in [r#"{"expiryInSeconds":60}"#, r#"{"expiry_in_seconds":"60"}"#, r#"{"expiryInSeconds":6e1,"x":1}"#] {
            assert_eq!(expiry(good), Ok(Duration::from_secs(60)), "{good}");
        }
        for (bad, code) in [
            ("", "ERR_EXPIRY_NOT_POSITIVE"),
            ("{}", "ERR_EXPIRY_NOT_POSITIVE"),
            (r#"{"expiryInSeconds":-1}"#, "ERR_EXPIRY_NOT_POSITIVE"),
            (r#"{"expiryInSeconds":1.5}"#, "ERR_MALFORMED_REQUEST"),
            (r#"{"expiryInSeconds":"soon"}"#, "ERR_MALFORMED_REQUEST"),
            (r#"{"expiryInSeconds":true}"#, "ERR_MALFORMED_REQUEST"),
            (r#"{"expiryInSeconds":3601}"#, "ERR_MALFORMED_REQUEST"),
            (r#"{"expiryInSeconds":1e300}"#, "ERR_MALFORMED_REQUEST"),
            ("[", "ERR_MALFORMED_REQUEST"),
        ] {
            assert_eq!(expiry(bad).map_err(|fault| fault.code), Err(code), "{bad}");
        }
    }

    #[test]
    fn names_keep_stores_and_resources_apart_whatever_is_in_them() {
        let stores = ["a".to_owned(), "a.b".to_owned()];
        let lock = |store: &str, resource: &str, owner: &str| {
            let body = Body { resource: Some(resource.into()), owner: Some(owner.into()), expiry: None };
            body.lock(store, &stores, "ERR_UNLOCK")
        };
        let name = |store: &str, resource: &str| lock(store, resource, "me").unwrap().0.to_string();
        assert_eq!(name("a", "orders/42"), "dapr/a/orders/42");
        assert_eq!(name("a%2Eb", "x"), "dapr/a.b/x");
        assert_eq!(name("a", "50%\n"), "dapr/a/50%25%0A");
        assert_ne!(name("a", "50%\n"), name("a", "50%%0A"));
        assert_eq!(&*lock("a", "x", "tab\t%").unwrap().1, "tab%09%25");
        let long = "x".repeat(200);
        for (store, resource, owner, status, code) in [
            ("a", "", "me", 400, "ERR_RESOURCE_ID_EMPTY"),
            ("a", "x", "", 400, "ERR_OWNER_EMPTY"),
            ("b", "x", "me", 404, "ERR_LOCK_NOT_FOUND"),
            ("%ff", "x", "me", 404, "ERR_LOCK_NOT_FOUND"),
            ("a", "x||y", "me", 500, "ERR_UNLOCK"),
            ("a", &long, "me", 400, "ERR_MALFORMED_REQUEST"),
            ("a", "x", &format!("{long}y"), 400, "ERR_MALFORMED_REQUEST"),
        ] {
            let fault = lock(store, resource, owner).unwrap_err();
            assert_eq!((fault.status.as_u16(), fault.code), (status, code), "{store} {resource} {owner}");
        }
    }
}
