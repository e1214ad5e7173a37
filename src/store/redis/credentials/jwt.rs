//! What a token says of itself, where it is a JWT. Nobody checks its signature here: that is Redis's to do.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde_json::{Map, Value};

fn claims(token: &str) -> Option<Map<String, Value>> {
    let mut parts = token.split('.');
    let (_, payload, _, None) = (parts.next()?, parts.next()?, parts.next()?, parts.next()) else { return None };
    let bytes = URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// When it ends.
pub fn ends_at(token: &str) -> Option<Timestamp> {
    let exp = claims(token)?.get("exp")?.as_f64()?;
    #[expect(clippy::cast_possible_truncation, reason = "whole seconds, which are far fewer")]
    Timestamp::from_millisecond((exp * 1_000.0) as i64).ok()
}

/// Whose it is in the directory of Entra ID.
pub fn object_id(token: &str) -> Option<String> {
    claims(token)?.get("oid")?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jwt(payload: &str) -> String {
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(payload))
    }

    #[test]
    fn a_token_says_when_it_ends_and_whose_it_is() {
        // Of RFC 7519, 3.1.
        let published = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0\
                         dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        assert_eq!(ends_at(published), Timestamp::from_second(1_300_819_380).ok());
        assert_eq!(ends_at(&jwt(r#"{"exp": 1.5}"#)), Timestamp::from_millisecond(1_500).ok());
        assert_eq!(object_id(&jwt(r#"{"oid": "an id"}"#)).as_deref(), Some("an id"));
    }

    #[test]
    fn what_is_no_jwt_says_nothing() {
        for token in ["", "a password", "a.b", "a.b.c.d", "a.!.c", &jwt("[]"), &jwt(r#"{"exp": "soon"}"#)] {
            assert_eq!((ends_at(token), object_id(token)), (None, None), "{token}");
        }
    }
}
