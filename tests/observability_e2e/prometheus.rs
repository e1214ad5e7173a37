//! Debian's Prometheus, which scrapes every second.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use testkit::sidecars::replica::Replica;

use crate::server::Server;

/// What a target is called: as pods of one app are in Kubernetes, where a restarted container keeps its address.
pub const APP: &str = "shop";
/// The namespace of the targets.
pub const NAMESPACE: &str = "prod";

/// A series with its labels and values, each at its time in seconds since the epoch.
#[derive(Clone, Debug)]
pub struct Series {
    pub labels: BTreeMap<String, String>,
    pub values: Vec<(f64, f64)>,
}

impl Series {
    /// A label, empty if it is not there.
    pub fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }

    /// Its latest value.
    pub fn last(&self) -> f64 {
        self.values.last().expect("a series has values").1
    }
}

/// Now, in seconds since the epoch.
pub fn now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_secs_f64()
}

/// See the module.
pub struct Prometheus(Server);

impl Prometheus {
    /// Starts one that evaluates `rules` every second and tells `alertmanager`, if there is one.
    pub fn start(rules: &str, alertmanager: Option<&Server>) -> Self {
        let alertmanagers: Vec<Value> =
            alertmanager.iter().map(|server| json!({"static_configs": [{"targets": [server.address]}]})).collect();
        // JSON is YAML.
        let config = json!({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": ["alerts.yaml"],
            "alerting": {"alertmanagers": alertmanagers},
            "scrape_configs": [{"job_name": APP, "file_sd_configs": [{"files": ["targets.json"]}]}],
        });
        let files =
            [("prometheus.yml", config.to_string()), ("alerts.yaml", rules.to_owned()), ("targets.json", "[]".into())];
        let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
        Self(Server::start("prometheus", &files, |address| {
            vec![
                "--config.file=prometheus.yml".to_owned(),
                "--storage.tsdb.path=data".to_owned(),
                format!("--web.listen-address={address}"),
                "--log.level=warn".to_owned(),
            ]
        }))
    }

    /// These are the targets from now on. It looks every five seconds at most.
    pub fn targets(&self, replicas: &[Replica]) {
        let target = |replica: &Replica| {
            let pod = &replica.settings.identity;
            // Its own instance label, for a restarted sidecar has another port here.
            let labels = json!({"namespace": NAMESPACE, "pod": pod, "instance": format!("{pod}:4041")});
            json!({"targets": [replica.telemetry()], "labels": labels})
        };
        let targets: Vec<Value> = replicas.iter().map(target).collect();
        self.0.write("targets.json", &json!(targets).to_string());
    }

    fn ask(&self, target: &str) -> Vec<Series> {
        let (status, body) = self.0.get(target).expect("Prometheus answers");
        assert_eq!(status, 200, "{target}: {body}");
        let answer: Value = serde_json::from_str(&body).expect("JSON");
        let results = answer["data"]["result"].as_array().expect("a vector or a matrix");
        let point = |pair: &Value| (pair[0].as_f64().unwrap(), pair[1].as_str().unwrap().parse().unwrap());
        let series = |result: &Value| Series {
            labels: serde_json::from_value(result["metric"].clone()).unwrap(),
            values: match result["values"].as_array() {
                Some(values) => values.iter().map(point).collect(),
                None => vec![point(&result["value"])],
            },
        };
        results.iter().map(series).collect()
    }

    /// The value of an expression now.
    pub fn query(&self, expr: &str) -> Vec<Series> {
        self.ask(&format!("/api/v1/query?query={}", escaped(expr)))
    }

    /// Its values between two moments, every half second.
    pub fn range(&self, expr: &str, from_s: f64, to_s: f64) -> Vec<Series> {
        self.ask(&format!("/api/v1/query_range?query={}&start={from_s}&end={to_s}&step=0.5", escaped(expr)))
    }

    /// The one value of an expression; 0 when there is none.
    pub fn number(&self, expr: &str) -> f64 {
        let series = self.query(expr);
        assert!(series.len() <= 1, "{expr}: {series:?}");
        series.first().map_or(0.0, Series::last)
    }
}

fn escaped(text: &str) -> String {
    text.bytes()
        .map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
