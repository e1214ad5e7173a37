//! `GET /status`: the roles for those who only look. It promises nothing, so no handover waits for who looked.

use hyper::StatusCode;
use serde::Serialize;
use warp::reply::Response;

use super::Context;
use super::leader::json;
use crate::role::{RoleHandle, Status};

#[derive(Serialize)]
struct Shape {
    version: &'static str,
    roles: Vec<Status>,
}

/// 200
pub(super) fn status(context: &Context) -> Response {
    let roles = context.roles.all().iter().map(RoleHandle::status).collect();
    json(StatusCode::OK, &Shape { version: env!("CARGO_PKG_VERSION"), roles })
}
