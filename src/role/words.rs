//! How what is below is written: that floor knows nothing of serde, and shall not. Texts are written as they are,
//! without the detour over `Display`.

use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::protocol::{RoleName, State, Token};

pub(super) fn name<S: Serializer>(value: &RoleName, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(value.as_str())
}

pub(super) fn word<S: Serializer>(value: &State, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(value.as_str())
}

pub(super) fn text<S: Serializer>(value: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(value)
}

pub(super) fn text_if_any<S: Serializer>(value: &Option<Arc<str>>, serializer: S) -> Result<S::Ok, S::Error> {
    value.as_deref().serialize(serializer)
}

pub(super) fn number<S: Serializer>(value: &Option<Token>, serializer: S) -> Result<S::Ok, S::Error> {
    value.map(Token::get).serialize(serializer)
}

pub(super) fn all<T: Serialize, S: Serializer>(values: &[T], serializer: S) -> Result<S::Ok, S::Error> {
    values.serialize(serializer)
}
