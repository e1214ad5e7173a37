//! Which handler a request is for. Parts of the process say what they answer by [`Routes`]; a listener mounts them on
//! its [`Router`], which knows none of them.

use std::future::Future;
use std::iter::Peekable;
use std::pin::Pin;
use std::str::Split;
use std::sync::Arc;

use hyper::Method;
use hyper::header::{ACCEPT, HeaderMap};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::activity::Client;
use super::answer::Response;
use super::problem::{Problem, ProblemKind};

/// A request, once its handler is found.
#[derive(Clone, Debug, Default)]
pub struct Ask {
    /// As [`Self::param`] tells them.
    params: Vec<(&'static str, String)>,
    /// As it was sent, percent-encoding included, without the question mark.
    pub query: String,
    /// As they were sent.
    pub headers: HeaderMap,
    /// Empty, or what was sent as `application/json`, within the listener's bounds. Only for a handler that
    /// [reads it](Routes::post_json).
    pub body: Vec<u8>,
    /// Who sent it.
    pub client: Client,
}

impl Ask {
    /// What stands in the path in a parameter's place, percent-encoding included; none when the template has none of
    /// this name.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// The same of a parameter that the template has.
    pub fn segment(&self, name: &str) -> &str {
        self.param(name).unwrap_or_default()
    }
}

/// What a handler does.
pub type Answering = Pin<Box<dyn Future<Output = Result<Response, Problem>> + Send>>;
type Handler = Arc<dyn Fn(Ask) -> Answering + Send + Sync>;

/// A handler: an `async fn` of its part's context and the request. What it returns is dropped when the client is gone.
pub trait Answers<C>: Send + Sync + 'static {
    fn answer(&self, context: Arc<C>, ask: Ask) -> Answering;
}

impl<C, H, F> Answers<C> for H
where
    H: Fn(Arc<C>, Ask) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Response, Problem>> + Send + 'static,
{
    fn answer(&self, context: Arc<C>, ask: Ask) -> Answering {
        Box::pin(self(context, ask))
    }
}

/// One method of one path.
struct Call {
    method: Method,
    reads_body: bool,
    is_page: bool,
    shares_path: bool,
    handler: Handler,
}

/// What one part of the process answers: methods, templates of paths, and handlers, which share a context.
///
/// A template is a path in which `{name}` stands for one segment, which may be empty, and `{role}` for the name of a
/// role or of a shard.
pub struct Routes<C> {
    context: Arc<C>,
    calls: Vec<(&'static str, Call)>,
}

impl<C: Send + Sync + 'static> Routes<C> {
    /// None yet.
    pub fn new(context: C) -> Self {
        Self { context: Arc::new(context), calls: Vec::new() }
    }

    #[must_use]
    pub fn get(self, template: &'static str, handler: impl Answers<C>) -> Self {
        self.at(&[Method::GET], template, handler)
    }

    /// `POST`, whose body nobody reads.
    #[must_use]
    pub fn post(self, template: &'static str, handler: impl Answers<C>) -> Self {
        self.at(&[Method::POST], template, handler)
    }

    /// `POST` with a body in JSON, or none.
    #[must_use]
    pub fn post_json(self, template: &'static str, handler: impl Answers<C>) -> Self {
        self.post(template, handler).mark(|call| call.reads_body = true)
    }

    /// `PUT` with a body in JSON, or none.
    #[must_use]
    pub fn put_json(self, template: &'static str, handler: impl Answers<C>) -> Self {
        self.at(&[Method::PUT], template, handler).mark(|call| call.reads_body = true)
    }

    /// `DELETE` with a body in JSON, or none.
    #[must_use]
    pub fn delete_json(self, template: &'static str, handler: impl Answers<C>) -> Self {
        self.delete(template, handler).mark(|call| call.reads_body = true)
    }

    #[must_use]
    pub fn delete(self, template: &'static str, handler: impl Answers<C>) -> Self {
        self.at(&[Method::DELETE], template, handler)
    }

    /// `GET` by those who want a page, as browsers say they do, before what others are answered at the same path.
    #[must_use]
    pub fn page(self, template: &'static str, handler: impl Answers<C>) -> Self {
        self.get(template, handler).mark(|call| call.is_page = true)
    }

    /// The last call's path may also be one of a later template's, which has other methods.
    #[must_use]
    pub fn sharing(self) -> Self {
        self.mark(|call| call.shares_path = true)
    }

    /// These methods, in the order in which `Allow` shall list them.
    #[must_use]
    pub fn at(mut self, methods: &[Method], template: &'static str, handler: impl Answers<C>) -> Self {
        let context = Arc::clone(&self.context);
        let handler: Handler = Arc::new(move |ask| handler.answer(Arc::clone(&context), ask));
        self.calls.extend(methods.iter().map(|method| {
            let (method, handler) = (method.clone(), Arc::clone(&handler));
            (template, Call { method, reads_body: false, is_page: false, shares_path: false, handler })
        }));
        self
    }

    /// Says more of the last call.
    fn mark(mut self, say: impl FnOnce(&mut Call)) -> Self {
        if let Some((_, call)) = self.calls.last_mut() {
            say(call);
        }
        self
    }

    /// The same, answered on another runtime than the listener's: where the part's tasks live, and connections that are
    /// opened for them.
    #[must_use]
    pub fn on(mut self, runtime: &Handle) -> Self {
        for (_, call) in &mut self.calls {
            let (runtime, handler) = (runtime.clone(), Arc::clone(&call.handler));
            call.handler = Arc::new(move |ask| Box::pin(elsewhere(runtime.clone(), handler(ask))));
        }
        self
    }
}

async fn elsewhere(runtime: Handle, answering: Answering) -> Result<Response, Problem> {
    // Dropped with this, the task is ended.
    let mut tasks = JoinSet::new();
    tasks.spawn_on(answering, &runtime);
    let ended = || Problem::new(ProblemKind::ShuttingDown, "this process is ending");
    // No task panics: that ends the process. But the runtime may have ended.
    tasks.join_next().await.and_then(Result::ok).unwrap_or_else(|| Err(ended()))
}

/// One segment of a template.
enum Segment {
    Literal(&'static str),
    Param(&'static str),
    Role,
}

/// All that is answered at the paths of one template.
struct Endpoint {
    template: &'static str,
    segments: Vec<Segment>,
    calls: Vec<Call>,
}

impl Endpoint {
    fn new(template: &'static str) -> Self {
        let segments = template.trim_start_matches('/').split('/').map(|segment| {
            match segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
                Some("role") => Segment::Role,
                Some(name) => Segment::Param(name),
                None => Segment::Literal(segment),
            }
        });
        Self { template, segments: segments.collect(), calls: Vec::new() }
    }

    /// What stands in this path in the parameters' places, when it is one of the template's.
    fn params(&self, path: &str) -> Option<Vec<(&'static str, String)>> {
        let mut given = path.strip_prefix('/')?.split('/').peekable();
        let mut params = Vec::new();
        for segment in &self.segments {
            match segment {
                Segment::Literal(text) => given.next_if(|given| given == text).map(drop)?,
                Segment::Param(name) => params.push((*name, given.next()?.to_owned())),
                Segment::Role => params.push(("role", role_name(&mut given)?)),
            }
        }
        given.next().is_none().then_some(params)
    }

    /// Whether other methods are for another template that a path fits.
    fn is_shared(&self) -> bool {
        self.calls.iter().all(|call| call.shares_path)
    }

    /// The methods, as `Allow` lists them.
    fn allow(&self) -> String {
        let mut methods: Vec<&str> = self.calls.iter().map(|call| call.method.as_str()).collect();
        methods.dedup();
        methods.join(", ")
    }
}

/// The name of a role, or that of a shard: of two segments, or of one whose slash is percent-encoded, as clients write
/// it that take the name for one segment (`/leader/scheduler%2F3`).
fn role_name(given: &mut Peekable<Split<'_, char>>) -> Option<String> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let role = given.next()?;
    let is_slash = |at: &usize| matches!(role.as_bytes()[*at + 2..], [b'F' | b'f', b'0'..=b'9', ..]);
    if let Some(at) = role.match_indices("%2").map(|(at, _)| at).find(is_slash) {
        let (role, number) = (&role[..at], &role[at + 3..]);
        return is_number(number).then(|| format!("{role}/{number}"));
    }
    Some(match given.next_if(|text| is_number(text)) {
        Some(number) => format!("{role}/{number}"),
        None => role.to_owned(),
    })
}

/// Tells who waits in a handler that its listener shuts down: who waits for a change then gets what there is.
#[derive(Clone, Debug)]
pub struct Stopping(watch::Receiver<bool>);

impl Stopping {
    /// Whether it does.
    pub fn has_begun(&self) -> bool {
        *self.0.borrow()
    }

    /// Completes when it does.
    pub async fn begins(&self) {
        // A lost sender means the same.
        let _ = self.0.clone().wait_for(|stop| *stop).await;
    }
}

/// All that a listener answers.
pub struct Router {
    /// In this order: the first one that fits is meant.
    endpoints: Vec<Endpoint>,
    /// What is said to who asks for something else.
    hint: &'static str,
    stop: watch::Sender<bool>,
}

impl Router {
    /// Nothing yet. `hint` tells those who ask for something else what there is.
    pub fn new(hint: &'static str) -> Self {
        Self { endpoints: Vec::new(), hint, stop: watch::Sender::new(false) }
    }

    /// Answers these, too. Of two templates that a path fits, the one that was mounted first is meant; if that
    /// [shares its path](Routes::sharing), the other is for methods that it has not.
    #[must_use]
    pub fn mount<C>(mut self, routes: Routes<C>) -> Self {
        for (template, call) in routes.calls {
            let known = self.endpoints.iter().position(|endpoint| endpoint.template == template);
            let at = known.unwrap_or(self.endpoints.len());
            if known.is_none() {
                self.endpoints.push(Endpoint::new(template));
            }
            let calls = &mut self.endpoints[at].calls;
            calls.insert(if call.is_page { 0 } else { calls.len() }, call);
        }
        self
    }

    /// Every template with its methods, as `Allow` lists them.
    pub fn list(&self) -> Vec<(&'static str, String)> {
        self.endpoints.iter().map(|endpoint| (endpoint.template, endpoint.allow())).collect()
    }

    /// For handlers that wait for something.
    pub fn stopping(&self) -> Stopping {
        Stopping(self.stop.subscribe())
    }

    /// The listener shuts down.
    pub(super) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// The handler of a request, and what its path says.
    ///
    /// # Errors
    /// [`ProblemKind::UnknownPath`], [`ProblemKind::MethodNotAllowed`]
    pub fn find(&self, method: &Method, path: &str, headers: &HeaderMap) -> Result<Found<'_>, Problem> {
        let is_meant = |call: &&Call| call.method == *method && (!call.is_page || wants_page(headers));
        let mut allow: Vec<&str> = Vec::new();
        let mut found = None;
        for endpoint in &self.endpoints {
            let Some(params) = endpoint.params(path) else { continue };
            found = endpoint.calls.iter().find(is_meant).map(|call| Found { call, params });
            for method in endpoint.calls.iter().map(|call| call.method.as_str()) {
                if !allow.contains(&method) {
                    allow.push(method);
                }
            }
            if found.is_some() || !endpoint.is_shared() {
                break;
            }
        }
        match found {
            Some(found) => Ok(found),
            None if allow.is_empty() => {
                let shown: String = path.chars().take(100).collect();
                let detail = format!("there is nothing at {shown:?}; {}", self.hint);
                Err(Problem::new(ProblemKind::UnknownPath, detail))
            }
            None => Err(Problem::method_not_allowed(&allow.join(", "))),
        }
    }
}

/// A request's handler.
pub struct Found<'a> {
    call: &'a Call,
    params: Vec<(&'static str, String)>,
}

impl Found<'_> {
    pub(super) fn reads_body(&self) -> bool {
        self.call.reads_body
    }

    pub fn answer(self, query: String, headers: HeaderMap, body: Vec<u8>, client: Client) -> Answering {
        (self.call.handler)(Ask { params: self.params, query, headers, body, client })
    }
}

/// Browsers name text/html; curl and HTTP libraries say */* or nothing.
pub fn wants_page(headers: &HeaderMap) -> bool {
    let accepts = headers.get_all(ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    accepts.flat_map(|value| value.split(',')).any(|range| {
        range.split(';').next().is_some_and(|media_type| media_type.trim().eq_ignore_ascii_case("text/html"))
    })
}

#[cfg(test)]
mod tests {
    use hyper::StatusCode;

    use super::*;
    use crate::http::{Content, answer};

    /// What answers: the handler's word, and what the path says.
    async fn told(router: &Router, line: &str, accept: &'static str) -> Result<String, Problem> {
        let (method, path) = line.split_once(' ').unwrap();
        let headers = HeaderMap::from_iter([(ACCEPT, accept.parse().unwrap())]);
        let found = router.find(&method.parse().unwrap(), path, &headers)?;
        let Content::Whole(text) =
            found.answer(String::new(), headers, Vec::new(), Client::default()).await?.into_body()
        else {
            unreachable!("no handler here streams");
        };
        Ok(String::from_utf8(text.to_vec()).unwrap())
    }

    fn says(
        word: &'static str,
    ) -> impl Fn(Arc<&'static str>, Ask) -> std::future::Ready<Result<Response, Problem>> + Send + Sync + 'static {
        move |context, ask| {
            let params: Vec<String> = ask.params.iter().map(|(name, value)| format!(" {name}={value}")).collect();
            let text = format!("{context}{word}{}", params.concat());
            std::future::ready(Ok(answer(StatusCode::OK, "text/plain", Content::Whole(text.into()))))
        }
    }

    fn router() -> Router {
        let first = Routes::new("1:")
            .page("/", says("page"))
            .get("/leader", says("leader"))
            .get("/leader/{role}", says("leader"))
            .post("/leader/{role}/resign", says("resign"))
            .at(&[Method::GET, Method::HEAD], "/leading", says("leading"));
        let second = Routes::new("2:")
            .get("/", says("root"))
            .post("/locks/all", says("all"))
            .sharing()
            .post("/locks/{name}", says("lock"))
            .get("/locks/{name}", says("look"))
            .get("/locks/{name}/hold", says("hold"))
            .put_json("/locks/{name}/{id}", says("extend"))
            .delete("/locks/{name}/{id}", says("release"));
        Router::new("look elsewhere").mount(first).mount(second)
    }

    #[tokio::test]
    async fn a_path_is_answered_by_the_first_template_that_it_fits() {
        let router = router();
        for (line, wanted) in [
            ("GET /", "2:root"),
            ("GET /leader", "1:leader"),
            ("GET /leader/", "1:leader role="),
            ("GET /leader/a", "1:leader role=a"),
            ("GET /leader/a/0", "1:leader role=a/0"),
            ("GET /leader/a%2F12", "1:leader role=a/12"),
            ("GET /leader/a%2f12", "1:leader role=a/12"),
            ("GET /leader/a%2Fb", "1:leader role=a%2Fb"),
            ("GET /leader/12/13", "1:leader role=12/13"),
            ("POST /leader/a/resign", "1:resign role=a"),
            ("POST /leader/a/12/resign", "1:resign role=a/12"),
            ("POST /leader/a%2F12/resign", "1:resign role=a/12"),
            ("HEAD /leading", "1:leading"),
            ("GET /locks/", "2:look name="),
            ("POST /locks/hold", "2:lock name=hold"),
            ("GET /locks/a%2Fb/hold", "2:hold name=a%2Fb"),
            ("DELETE /locks/a/1", "2:release name=a id=1"),
            ("POST /locks/all", "2:all"),
            ("GET /locks/all", "2:look name=all"),
        ] {
            assert_eq!(told(&router, line, "*/*").await.unwrap(), wanted, "{line}");
        }
        for accept in ["text/html", "application/xml, Text/HTML;q=0.9"] {
            assert_eq!(told(&router, "GET /", accept).await.unwrap(), "1:page", "{accept}");
        }
    }

    #[tokio::test]
    async fn everything_else_is_refused_with_what_there_is() {
        let router = router();
        for path in [
            "",
            "*",
            "leader",
            "//",
            "/leaders",
            "/Leader",
            "/leader%2Fa",
            "/leader/a/",
            "/leader/a/b",
            "/leader/a/b/c",
            "/leader/a//",
            "/leader/a/0/",
            "/leader/a/0/1",
            "/leader/a%2F0/1",
            "/leader/a%2F1x",
            "/leader/a/resign/",
            "/leader/a/0/resign/",
            "/leader/a/0/resign/0",
            "/leading/a",
            "/locks",
            "/locks/a/b/c",
            "/locks/a/hold/",
        ] {
            let problem = told(&router, &format!("GET {path}"), "*/*").await.unwrap_err();
            assert_eq!(problem.kind(), ProblemKind::UnknownPath, "{path}");
        }
        for (line, allow) in [
            ("POST /", "GET"),
            ("HEAD /leader", "GET"),
            ("BREW /leading", "GET, HEAD"),
            ("GET /leader/a/resign", "POST"),
            ("DELETE /locks/a", "POST, GET"),
            ("PUT /locks/a/hold", "GET"),
            ("GET /locks/a/1", "PUT, DELETE"),
            ("PUT /locks/all", "POST, GET"),
        ] {
            let problem = told(&router, line, "*/*").await.unwrap_err();
            assert_eq!(problem.kind(), ProblemKind::MethodNotAllowed, "{line}");
            assert_eq!(problem.into_response().headers()["allow"], allow, "{line}");
        }
    }
}
