//! The status page: three files, embedded as they are. They hold nothing of this replica, so they need no token; what
//! the page shows, it asks for.

use std::future::ready;

use hyper::header::{
    CONTENT_SECURITY_POLICY, HeaderMap, HeaderName, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, StatusCode};

use crate::http::{Content, Response, Routes, answer, wants_page};

/// Only the page's own script and style, and only this listener to talk to; nothing inline, framed or posted. The image
/// is the empty icon, without which browsers ask for one.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";
/// The same for what is no page: nothing at all.
const NOTHING: &str = "default-src 'none'; frame-ancestors 'none'";

const PATH: &str = "/";
const SCRIPT_PATH: &str = "/page.js";
const STYLE_PATH: &str = "/page.css";

pub(super) fn routes() -> Routes<()> {
    Routes::new(())
        .page(PATH, |_, _| ready(Ok(File::Page.response())))
        .get(STYLE_PATH, |_, _| ready(Ok(File::Style.response())))
        .get(SCRIPT_PATH, |_, _| ready(Ok(File::Script.response())))
}

/// Whether a request is for one of them.
pub(super) fn is_asked_for(method: &Method, path: &str, headers: &HeaderMap) -> bool {
    *method == Method::GET && (path == PATH && wants_page(headers) || path == SCRIPT_PATH || path == STYLE_PATH)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum File {
    Page,
    Script,
    Style,
}

impl File {
    const fn parts(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Page => ("text/html; charset=utf-8", POLICY, include_str!("index.html")),
            Self::Script => ("text/javascript; charset=utf-8", NOTHING, include_str!("page.js")),
            Self::Style => ("text/css; charset=utf-8", NOTHING, include_str!("page.css")),
        }
    }

    /// 200. Not to be kept: a newer sidecar's page must not run an older one's script.
    fn response(self) -> Response {
        let (media_type, policy, text) = self.parts();
        let mut response = answer(StatusCode::OK, media_type, Content::Whole(text.into()));
        let headers = response.headers_mut();
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        for name in ["cross-origin-resource-policy", "cross-origin-opener-policy"] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static("same-origin"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small_and_has_nothing_inline_and_nothing_from_elsewhere() {
        let all = [File::Page, File::Script, File::Style].map(|file| file.parts().2);
        assert!(all.iter().map(|text| text.len()).sum::<usize>() < 40 * 1024);
        for text in all {
            for foreign in ["http:", "https:", "//cdn", "@import", "eval(", "innerHTML", "style=", "<style"] {
                assert!(!text.contains(foreign), "{foreign}");
            }
        }
        let page = all[0];
        assert_eq!((page.matches("<script").count(), page.matches("<link").count()), (1, 2), "the style and no icon");
        let handler = |word: &str| word.starts_with("on") && word.contains("=\"");
        assert_eq!(page.split_whitespace().find(|word| handler(word)), None, "no inline handlers");
    }
}
