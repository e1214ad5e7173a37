//! `GET /status`: the roles for those who only look. It promises nothing, so no handover waits for who looked.

use std::sync::Arc;

use hyper::StatusCode;
use serde::Serialize;

use super::RoleCalls;
use crate::http::{Ask, Problem, Response, json};
use crate::role::{RoleHandle, Status};

#[derive(Serialize)]
struct Shape {
    version: &'static str,
    roles: Vec<Status>,
}

/// 200
pub(super) async fn status(context: Arc<RoleCalls>, _ask: Ask) -> Result<Response, Problem> {
    let roles = context.roles.all().iter().map(RoleHandle::status).collect();
    Ok(json(StatusCode::OK, &Shape { version: env!("CARGO_PKG_VERSION"), roles }))
}
