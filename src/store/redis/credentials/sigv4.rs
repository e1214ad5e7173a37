//! Signature Version 4 of AWS, as far as a presigned GET takes it. An own one: `aws-sigv4` wants a newer compiler than
//! this project, and others bring a second set of hash functions. AWS's published examples are its tests.

use jiff::Timestamp;
use ring::{digest, hmac};

/// The payload of a request without one.
pub const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// Who signs.
pub struct SigningKey<'a> {
    pub id: &'a str,
    pub secret: &'a str,
    /// Of keys that end.
    pub session_token: Option<&'a str>,
}

/// What is signed for, and when.
pub struct Scope<'a> {
    pub at: Timestamp,
    pub region: &'a str,
    pub service: &'a str,
}

impl Scope<'_> {
    fn date(&self) -> String {
        self.at.strftime("%Y%m%d").to_string()
    }

    fn time(&self) -> String {
        self.at.strftime("%Y%m%dT%H%M%SZ").to_string()
    }

    fn words(&self) -> String {
        format!("{}/{}/{}/aws4_request", self.date(), self.region, self.service)
    }
}

/// `host/path?query` with a signature that holds for so many seconds. `parameters`: those of the request itself.
pub fn presigned(
    key: &SigningKey<'_>,
    scope: &Scope<'_>,
    (host, path): (&str, &str),
    parameters: &[(&str, &str)],
    expires_s: u32,
    payload: &str,
) -> String {
    let (time, expires) = (scope.time(), expires_s.to_string());
    let credential = format!("{}/{}", key.id, scope.words());
    let own = [
        ("X-Amz-Algorithm", ALGORITHM),
        ("X-Amz-Credential", &credential),
        ("X-Amz-Date", &time),
        ("X-Amz-Expires", &expires),
        ("X-Amz-SignedHeaders", "host"),
    ];
    let token = key.session_token.map(|token| ("X-Amz-Security-Token", token));
    let mut query: Vec<String> = parameters
        .iter()
        .copied()
        .chain(own)
        .chain(token)
        .map(|(name, value)| format!("{}={}", encoded(name), encoded(value)))
        .collect();
    query.sort_unstable();
    let query = query.join("&");
    let request = format!("GET\n{path}\n{query}\nhost:{host}\n\nhost\n{payload}");
    format!("{host}{path}?{query}&X-Amz-Signature={}", signature(key.secret, scope, &request))
}

/// Of a request in its canonical form.
fn signature(secret: &str, scope: &Scope<'_>, request: &str) -> String {
    let hashed = hex(digest::digest(&digest::SHA256, request.as_bytes()).as_ref());
    let text = format!("{ALGORITHM}\n{}\n{}\n{hashed}", scope.time(), scope.words());
    hex(hmac_of(signing_key(secret, scope).as_ref(), &text).as_ref())
}

fn signing_key(secret: &str, scope: &Scope<'_>) -> hmac::Tag {
    let mut key = hmac_of(format!("AWS4{secret}").as_bytes(), &scope.date());
    for word in [scope.region, scope.service, "aws4_request"] {
        key = hmac_of(key.as_ref(), word);
    }
    key
}

fn hmac_of(key: &[u8], text: &str) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Everything but letters, digits and `-._~` as `%XX`.
fn encoded(text: &str) -> String {
    let each = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(each).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    /// docs.aws.amazon.com, "Create a signed AWS API request": the key of the example, and its signature.
    #[test]
    fn the_published_key_and_signature_are_ours() {
        let secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
        let scope = Scope { at: at("2015-08-30T12:36:00Z"), region: "us-east-1", service: "iam" };
        let key = hex(signing_key(secret, &scope).as_ref());
        assert_eq!(key, "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9");
        let headers = "content-type:application/x-www-form-urlencoded; charset=utf-8\nhost:iam.amazonaws.com\n\
                       x-amz-date:20150830T123600Z\n";
        let query = "Action=ListUsers&Version=2010-05-08";
        let request = format!("GET\n/\n{query}\n{headers}\ncontent-type;host;x-amz-date\n{EMPTY_SHA256}");
        let published = "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7";
        assert_eq!(signature(secret, &scope, &request), published);
    }

    /// docs.aws.amazon.com, "Authenticating Requests: Using Query Parameters": the whole URL.
    #[test]
    fn the_published_presigned_url_is_ours() {
        let key = SigningKey {
            id: "AKIAIOSFODNN7EXAMPLE",
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            session_token: None,
        };
        let scope = Scope { at: at("2013-05-24T00:00:00Z"), region: "us-east-1", service: "s3" };
        let to = ("examplebucket.s3.amazonaws.com", "/test.txt");
        assert_eq!(
            presigned(&key, &scope, to, &[], 86_400, "UNSIGNED-PAYLOAD"),
            "examplebucket.s3.amazonaws.com/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=\
             AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&\
             X-Amz-Expires=86400&X-Amz-SignedHeaders=host&X-Amz-Signature=\
             aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
        );
    }
}
