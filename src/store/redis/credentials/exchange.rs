//! One request to a metadata service, to STS or to Entra ID, and its answer, which is small.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request};
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::Url;

use crate::http::client::{self, USER_AGENT};
use crate::http::tls::{secure, system_roots};

/// A larger answer is none of theirs.
const BYTES_MAX: usize = 256 << 10;
/// A metadata service is on this machine, or not there at all.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// How much of a refusal is told.
const WHY_CHARS_MAX: usize = 300;

/// A request.
pub struct ExchangeRequest<'a> {
    pub method: Method,
    pub url: &'a str,
    pub headers: &'a [(&'a str, &'a str)],
    /// The fields of a form, if it sends one.
    pub form: &'a [(&'a str, &'a str)],
}

impl<'a> ExchangeRequest<'a> {
    pub fn get(url: &'a str, headers: &'a [(&'a str, &'a str)]) -> Self {
        Self { method: Method::GET, url, headers, form: &[] }
    }

    /// Sends it, and reads what is answered.
    ///
    /// # Errors
    /// Who did not answer as hoped, and why. Nothing that was sent is in it.
    pub async fn send(&self) -> Result<String, String> {
        let url = Url::parse(self.url).map_err(|error| format!("an address that is none ({error})"))?;
        let host = url.host_str().unwrap_or_default().to_owned();
        let port = url.port_or_known_default().unwrap_or(80);
        let at = format!("{host}:{port}");
        let told = |why: &dyn std::fmt::Display| format!("{at}: {why}");
        let stream = client::connect(&host, port, CONNECT_MAX).await.map_err(|error| told(&error))?;
        let request = self.request(&url, &at).map_err(|error| told(&error))?;
        let answer = if url.scheme() == "https" {
            let stream = secure(stream, &host, system_roots).await.map_err(|error| told(&error))?;
            client::send(stream, request).await
        } else {
            client::send(stream, request).await
        };
        let (head, body) = answer.map_err(|error| told(&error))?.into_parts();
        let body = Limited::new(body, BYTES_MAX).collect().await.map_err(|error| told(&error))?;
        let text = String::from_utf8(body.to_bytes().to_vec()).map_err(|_| told(&"answered what is no text"))?;
        if head.status.is_success() { Ok(text) } else { Err(told(&self.refusal(head.status.as_u16(), &text))) }
    }

    /// The same, for what is answered in JSON.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub async fn json<T: DeserializeOwned>(&self) -> Result<T, String> {
        let text = self.send().await?;
        // serde's own words may repeat a part of the answer.
        serde_json::from_str(&text)
            .map_err(|_| format!("{}: answered JSON that is not a credential's", self.url_shown()))
    }

    fn request(&self, url: &Url, at: &str) -> hyper::http::Result<Request<Full<Bytes>>> {
        let target = url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()));
        let mut request = Request::builder().method(&self.method).uri(target).header(HOST, at);
        request = request.header(hyper::header::USER_AGENT, USER_AGENT);
        for (name, value) in self.headers {
            request = request.header(*name, *value);
        }
        if self.form.is_empty() {
            return request.body(Full::default());
        }
        let form = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(self.form).finish();
        request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(Full::from(form))
    }

    fn url_shown(&self) -> String {
        Url::parse(self.url).ok().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default()
    }

    /// What it says of its reasons, without anything that it was told.
    fn refusal(&self, status: u16, text: &str) -> String {
        let sent = self.headers.iter().chain(self.form).map(|(_, value)| *value).filter(|value| value.len() >= 16);
        let why = sent.fold(reason(text), |why, sent| why.replace(sent, "***"));
        let why: String = why.chars().take(WHY_CHARS_MAX).flat_map(char::escape_debug).collect();
        if why.is_empty() { format!("status {status}") } else { format!("status {status}: {why}") }
    }
}

/// Entra ID says it in JSON, STS in XML, and metadata services in whatever they like.
fn reason(text: &str) -> String {
    if let Ok(Value::Object(answer)) = serde_json::from_str::<Value>(text) {
        let words = ["error_description", "message", "error", "Message"];
        return words.iter().find_map(|word| answer.get(*word)?.as_str()).unwrap_or_default().to_owned();
    }
    match (tag(text, "Code"), tag(text, "Message")) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (code, message) => code.or(message).unwrap_or_default().to_owned(),
    }
}

/// What stands in the first element of this name. STS's answers have neither attributes nor entities there.
pub fn tag<'t>(xml: &'t str, name: &str) -> Option<&'t str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    Some(rest.split_once(&format!("</{name}>"))?.0.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_without_what_was_sent() {
        let form = [("WebIdentityToken", "a-token-that-is-secret")];
        let ask = ExchangeRequest { method: Method::POST, url: "https://sts", headers: &[], form: &form };
        let sts = "<ErrorResponse><Error><Code>InvalidIdentityToken</Code><Message>bad a-token-that-is-secret\
                   </Message></Error></ErrorResponse>";
        assert_eq!(ask.refusal(400, sts), "status 400: InvalidIdentityToken: bad ***");
        let entra = r#"{"error": "invalid_client", "error_description": "AADSTS700016: unknown\r\nTrace"}"#;
        assert_eq!(ask.refusal(401, entra), r"status 401: AADSTS700016: unknown\r\nTrace");
        assert_eq!(ask.refusal(404, "<html>a page</html>"), "status 404");
        assert!(ask.refusal(500, &format!("<Code>{}</Code>", "x".repeat(2_000))).len() < 400);
    }
}
