//! The spans, and the queue of OpenTelemetry's SDK in front of its exporter: it has a thread of its own, and drops what
//! does not fit, so that nobody here ever waits for a collector.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hyper::Uri;
use opentelemetry::trace::{Span, SpanBuilder, SpanKind, Status, Tracer, TracerProvider};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};

use super::post::Post;
use crate::base::clock::wall_time;
use crate::protocol::jobs::{Ending, RunId};
use crate::protocol::{Event, RoleName, Token};
use crate::telemetry::{CommandOutcome, StoreCommand};

/// Where the collector is; the first of them that is set counts.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
/// How it wants to be spoken to; `http/protobuf` when none is set, as the specification says.
const PROTOCOLS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
/// How long the end of the process may wait until the last spans are with the collector.
const FLUSH_MAX: Duration = Duration::from_secs(1);

/// Why no span is exported although an endpoint is set. The values of the variables are not told: a URL or a header may
/// hold a password.
#[derive(Debug, thiserror::Error)]
enum SetupError {
    #[error("{variable} is not a URL that begins with http://")]
    Endpoint { variable: &'static str },
    #[error("a variable OTEL_EXPORTER_OTLP_… asks for what this build does not have: a protocol, a compression")]
    Exporter,
}

/// Exports spans, if the environment names a collector. Cheap to clone; its functions return at once.
#[derive(Clone, Debug, Default)]
pub struct Traces(Option<Arc<Pipeline>>);

struct Pipeline {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    /// When the terms that go on began.
    terms: Mutex<HashMap<RoleName, SystemTime>>,
}

impl fmt::Debug for Pipeline {
    /// Nothing of the exporter, which knows the headers with the collector's password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline").field("terms", &self.terms).finish_non_exhaustive()
    }
}

impl Traces {
    /// Exports to the collector that the environment of this process names by OpenTelemetry's variables; nothing when
    /// it names none, or wrongly, which is logged. `identity`: which replica the spans are of.
    pub fn from_env(identity: &str) -> Self {
        let Some((variable, endpoint)) = ENDPOINTS.into_iter().find_map(set) else {
            return Self(None);
        };
        match Pipeline::open(variable, &endpoint, identity) {
            Ok(pipeline) => Self(Some(Arc::new(pipeline))),
            Err(error) => {
                tracing::warn!(%error, "no spans are exported");
                Self(None)
            }
        }
    }

    /// One command of an election that has just been answered, or not. Other commands have no span.
    pub fn command(&self, command: StoreCommand, role: &RoleName, outcome: CommandOutcome, took: Duration) {
        let elects = matches!(command, StoreCommand::Campaign | StoreCommand::Renew | StoreCommand::Release);
        if let Some(pipeline) = self.0.as_ref().filter(|_| elects) {
            let word = outcome.as_str();
            let attributes = vec![of_role(role), KeyValue::new("baton.outcome", word)];
            let failed = (outcome != CommandOutcome::Ok).then_some(word);
            let builder = SpanBuilder::from_name(command.as_str()).with_kind(SpanKind::Client);
            pipeline.export(builder, began(took), attributes, failed);
        }
    }

    /// What happened to a role: the end of a term makes its span.
    pub fn role(&self, role: &RoleName, event: &Event) {
        let Some(pipeline) = &self.0 else { return };
        match event {
            Event::Elected { .. } => drop(pipeline.terms().insert(role.clone(), now())),
            Event::Lost { token, reason, .. } => pipeline.end_term(role, *token, reason.as_str(), true),
            Event::Released { token, reason, .. } => pipeline.end_term(role, *token, reason.as_str(), false),
            Event::Abandoned { token, .. } => pipeline.end_term(role, *token, "abandoned", true),
            Event::Campaigned { .. }
            | Event::Contended { .. }
            | Event::Renewed { .. }
            | Event::Draining { .. }
            | Event::Departed { .. }
            | Event::DepartureRefuted { .. }
            | Event::Following { .. }
            | Event::Guarded { .. }
            | Event::IdentityClash { .. }
            | Event::StoreClockStepped { .. } => {}
        }
    }

    /// An attempt of a job that has just ended.
    pub fn attempt(&self, run: &RunId, attempt: u32, ending: Ending, took: Duration) {
        if let Some(pipeline) = &self.0 {
            let word = ending.as_str();
            let attributes = vec![
                KeyValue::new("baton.job", run.job.to_string()),
                KeyValue::new("baton.run_id", run.to_string()),
                KeyValue::new("baton.attempt", i64::from(attempt)),
                KeyValue::new("baton.outcome", word),
            ];
            let failed = (ending != Ending::Succeeded).then_some(word);
            pipeline.export(SpanBuilder::from_name("job"), began(took), attributes, failed);
        }
    }

    /// Ends the export: what is queued goes to the collector, which has a second for it. To be called once nothing is
    /// led any more; spans that come later are dropped.
    pub async fn flush(&self) {
        if let Some(pipeline) = self.0.clone() {
            // It blocks its thread, and this one may have other replicas to serve. A collector that is too slow, or
            // gone, has been told of already, and costs the last spans.
            let _ = tokio::task::spawn_blocking(move || pipeline.provider.shutdown_with_timeout(FLUSH_MAX)).await;
        }
    }
}

impl Pipeline {
    fn open(variable: &'static str, endpoint: &str, identity: &str) -> Result<Self, SetupError> {
        let is_http = |uri: Uri| uri.scheme_str() == Some("http") && uri.host().is_some();
        if !endpoint.parse().is_ok_and(is_http) {
            return Err(SetupError::Endpoint { variable });
        }
        let mut builder = SpanExporter::builder().with_http().with_http_client(Post::default());
        if PROTOCOLS.into_iter().find_map(set).is_none() {
            builder = builder.with_protocol(Protocol::HttpBinary);
        }
        // The error's text may quote the endpoint.
        let exporter = builder.build().map_err(|_| SetupError::Exporter)?;
        let resource = resource(identity);
        let provider = SdkTracerProvider::builder().with_resource(resource).with_batch_exporter(exporter).build();
        let tracer = provider.tracer("baton");
        Ok(Self { provider, tracer, terms: Mutex::default() })
    }

    fn terms(&self) -> MutexGuard<'_, HashMap<RoleName, SystemTime>> {
        self.terms.lock()
    }

    /// The span of the term that has ended, once: a lost lease may still be given back afterwards.
    fn end_term(&self, role: &RoleName, token: Token, reason: &'static str, failed: bool) {
        let begun = self.terms().remove(role);
        if let Some(begun) = begun {
            // Tokens are below 2^53.
            let token = i64::try_from(token.get()).unwrap_or(i64::MAX);
            let attributes =
                vec![of_role(role), KeyValue::new("baton.token", token), KeyValue::new("baton.reason", reason)];
            self.export(SpanBuilder::from_name("term"), begun, attributes, failed.then_some(reason));
        }
    }

    /// Queues a span that ends now. It has no parent: every span is a trace of its own.
    fn export(&self, builder: SpanBuilder, begun: SystemTime, attributes: Vec<KeyValue>, failed: Option<&'static str>) {
        let builder = builder.with_start_time(begun).with_attributes(attributes);
        let mut span = self.tracer.build_with_context(builder, &Context::new());
        if let Some(why) = failed {
            span.set_status(Status::error(why));
        }
        // The time of day may have been set back meanwhile.
        span.end_with_timestamp(now().max(begun));
    }
}

impl Drop for Pipeline {
    /// The SDK would wait for its collector here, for seconds. Whoever wants the last spans has called
    /// [`Traces::flush`]; this is for a process that ends at once.
    fn drop(&mut self) {
        // An error says that it has ended already, or did not within no time.
        let _ = self.provider.shutdown_with_timeout(Duration::ZERO);
    }
}

/// Who the spans are of. `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME` come first.
fn resource(identity: &str) -> Resource {
    let ours = [
        KeyValue::new("service.name", "baton"),
        KeyValue::new("service.instance.id", identity.to_owned()),
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
    ];
    let detected = Resource::builder().build();
    let is_set = |attribute: &KeyValue| {
        let value = detected.get(&attribute.key).map(|value| value.to_string());
        // What the SDK says of a service that nobody named.
        value.is_some_and(|value| !value.starts_with("unknown_service"))
    };
    let missing: Vec<KeyValue> = ours.into_iter().filter(|attribute| !is_set(attribute)).collect();
    Resource::builder().with_attributes(missing).build()
}

/// A variable of the environment that is not empty, and its value.
fn set(name: &'static str) -> Option<(&'static str, String)> {
    std::env::var(name).ok().filter(|value| !value.is_empty()).map(|value| (name, value))
}

fn of_role(role: &RoleName) -> KeyValue {
    KeyValue::new("baton.role", role.to_string())
}

/// The time of day. Nothing is decided by it.
fn now() -> SystemTime {
    wall_time().into()
}

/// When something began that took this long and ends now.
fn began(took: Duration) -> SystemTime {
    now().checked_sub(took).unwrap_or(SystemTime::UNIX_EPOCH)
}
