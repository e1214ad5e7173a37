//! Errors in Dapr's words, for the calls of its APIs: its clients branch on the code.

use hyper::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::answer::{self, Response};
use super::problem::Problem;

/// Why a call came to nothing.
#[derive(Debug, PartialEq, Eq)]
pub struct DaprFault {
    pub status: StatusCode,
    /// Dapr's.
    pub code: &'static str,
    /// For people.
    pub message: String,
}

impl DaprFault {
    /// 400
    pub fn bad(code: &'static str, message: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, code, message: message.into() }
    }

    /// 400: a body that is not what the call takes.
    pub fn malformed(message: impl Into<String>) -> Self {
        Self::bad("ERR_MALFORMED_REQUEST", message)
    }

    /// 500
    pub fn internal(code: &'static str, message: impl Into<String>) -> Self {
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, code, message: message.into() }
    }

    /// A body in JSON, which may be left out. Dapr ignores what it does not know.
    ///
    /// # Errors
    /// 400
    pub fn read<'a, T: Default + Deserialize<'a>>(body: &'a [u8]) -> Result<T, Self> {
        if body.trim_ascii().is_empty() {
            return Ok(T::default());
        }
        serde_json::from_slice(body)
            .map_err(|error| Self::malformed(format!("failed deserializing HTTP body: {error}")))
    }

    /// What a handler answers.
    ///
    /// # Errors
    /// None: Dapr's errors are answers of its own.
    pub fn told(answer: Result<Response, Self>) -> Result<Response, Problem> {
        Ok(answer.unwrap_or_else(Self::response))
    }

    fn response(self) -> Response {
        answer::json(self.status, &json!({ "errorCode": self.code, "message": self.message }))
    }
}
