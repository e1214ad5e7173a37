//! What Dapr's HTTP clients ask for before they start, whichever of its APIs they want.

use std::fmt;
use std::future::ready;
use std::sync::Arc;

use hyper::StatusCode;
use serde_json::{Value, json};

use crate::http::{Ask, DaprFault, Response, Routes, json, no_content};

/// What they are told.
pub struct DaprSidecar {
    identity: Arc<str>,
    lock_stores: Vec<String>,
    is_stopping: Box<dyn Fn() -> bool + Send + Sync>,
}

impl fmt::Debug for DaprSidecar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DaprSidecar").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// The calls that come before all others, of a replica that answers for these lock stores.
pub fn dapr_routes(
    identity: Arc<str>,
    lock_stores: Vec<String>,
    is_stopping: impl Fn() -> bool + Send + Sync + 'static,
) -> Routes<DaprSidecar> {
    type Here = Arc<DaprSidecar>;
    let told = |here: Here, code| ready(DaprFault::told(health(&here, code)));
    Routes::new(DaprSidecar { identity, lock_stores, is_stopping: Box::new(is_stopping) })
        .get("/v1.0/metadata", |here: Here, _: Ask| ready(Ok(metadata(&here))))
        .get("/v1.0/healthz", move |here: Here, _: Ask| told(here, "ERR_HEALTH_NOT_READY"))
        .get("/v1.0/healthz/outbound", move |here: Here, _: Ask| told(here, "ERR_OUTBOUND_HEALTH_NOT_READY"))
}

/// What the Node client asks for until it is answered, before anything else.
fn metadata(sidecar: &DaprSidecar) -> Response {
    let component = |name: &String| json!({ "name": name, "type": "lock.baton", "version": "v1" });
    let components: Vec<Value> = sidecar.lock_stores.iter().map(component).collect();
    let identity: &str = &sidecar.identity;
    let metadata = json!({ "id": identity, "runtimeVersion": env!("CARGO_PKG_VERSION"), "components": components });
    json(StatusCode::OK, &metadata)
}

/// What the other clients ask for.
fn health(sidecar: &DaprSidecar, code: &'static str) -> Result<Response, DaprFault> {
    if (sidecar.is_stopping)() {
        return Err(DaprFault::internal(code, "this replica is ending"));
    }
    Ok(no_content())
}
