//! What is asked of an API server that does not do its work, by Baton and by an elector built on client-go, each with
//! its usual timings and a lease of 15 s. The table of docs/kubernetes.md is of `BATON_OUTAGE_SECONDS=150`.

use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use testkit::kubernetes::{FakeApi, Fault, NAMESPACE, write_kubeconfig};
use testkit::place::{Network, Place};
use testkit::sidecars::replica::{Lease, ROLE, Replica, Settings};
use testkit::wait::{last_for, until};

use crate::elector::{Campaign, ClientGo, Elector};

const NAME: &str = "baton-scheduler";
const LEASE: Duration = Duration::from_secs(15);
const SECONDS_DEFAULT: u64 = 45;

/// What the API server does. Of a connection that is refused only who asks for it knows; all else is counted where it
/// arrives.
#[derive(Clone, Debug)]
enum Outage {
    None,
    Refuses,
    Fails(&'static [&'static str], Fault),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Standby,
    Leader,
}

/// Held until it is dropped: a participant of its own kind, alone.
enum Participant {
    Baton { _replica: Box<Replica> },
    ClientGo { _elector: Elector },
}

/// A participant, and the API server that it alone asks.
struct Side {
    _participant: Participant,
    _dir: TempDir,
    api: Option<FakeApi>,
    place: Place,
    before: usize,
}

impl Side {
    fn start(part: Part, is_baton: bool, place: Place) -> Self {
        let api = place.run(FakeApi::start);
        let now = jiff::fmt::strtime::format("%Y-%m-%dT%H:%M:%S%.6fZ", jiff::Timestamp::now()).expect("a time");
        let (holder, seconds) = if part == Part::Leader { ("", 1) } else { ("somebody", 86_400) };
        api.edit(NAME, |lease| {
            lease["spec"] = json!({"holderIdentity": holder, "leaseDurationSeconds": seconds, "acquireTime": now,
                                   "renewTime": now, "leaseTransitions": 1});
        });
        // It outlives the API server: client-go's program reads it again.
        let dir = TempDir::new().expect("a temporary directory");
        let kubeconfig = dir.path().join("kubeconfig");
        write_kubeconfig(&kubeconfig, api.port(), NAMESPACE);
        let participant = if is_baton {
            let store = "{ kubernetes: {} }".to_owned();
            let usual = Settings::on_store(0, store, place.clone(), Lease::LONG);
            let roles = format!("  - {{ name: {ROLE}, leaseDuration: {LEASE:?} }}\n");
            let settings = Settings { kubeconfig: Some(kubeconfig), roles, ..usual };
            Participant::Baton { _replica: Box::new(Replica::start(0, settings)) }
        } else {
            let campaign = Campaign {
                built_on: ClientGo::Current,
                kubeconfig,
                namespace: NAMESPACE.to_owned(),
                name: NAME.to_owned(),
                identity: "web-0".to_owned(),
                lease: LEASE,
                renew_deadline: Duration::from_secs(10),
                retry_period: Duration::from_secs(2),
            };
            Participant::ClientGo { _elector: place.run(|| Elector::start(&campaign)) }
        };
        until("it takes part", || match part {
            Part::Leader => api.lease(NAME).expect("it was made")["spec"]["holderIdentity"] == "web-0",
            Part::Standby => api.count("get", NAME) > 0 && (!is_baton || api.count("watch", NAME) > 0),
        });
        Self { _participant: participant, _dir: dir, api: Some(api), place, before: 0 }
    }

    fn begin(&mut self, outage: &Outage) {
        match outage {
            Outage::None => {}
            // Nobody listens at its port any more.
            Outage::Refuses => drop(self.api.take()),
            Outage::Fails(verbs, fault) => {
                let api = self.api.as_ref().expect("it is there until it refuses");
                api.fail(verbs, fault.clone());
                api.end_watches(false);
            }
        }
        self.before = self.count();
    }

    fn count(&self) -> usize {
        self.api.as_ref().map_or_else(|| self.place.run(connections_begun), |api| api.asked().len())
    }

    fn asked(&self) -> usize {
        self.count() - self.before
    }
}

/// How many connections were begun from this network, done or refused.
fn connections_begun() -> usize {
    let text = std::fs::read_to_string("/proc/thread-self/net/snmp").expect("Linux tells");
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (lines.next().expect("the names"), lines.next().expect("the values"));
    let mut pairs = names.split(' ').zip(values.split(' '));
    let (_, value) = pairs.find(|(name, _)| *name == "ActiveOpens").expect("it is counted");
    value.parse().expect("a number")
}

fn seconds() -> u64 {
    let text = std::env::var("BATON_OUTAGE_SECONDS").ok();
    text.map_or(SECONDS_DEFAULT, |text| text.parse().expect("BATON_OUTAGE_SECONDS: a whole number is wanted"))
}

/// The bounds leave room for chance: some requests more in each lease.
#[test]
fn no_more_is_asked_of_an_api_server_in_trouble_than_client_go_asks() {
    let outages = [
        ("none", Outage::None),
        ("refuses connections", Outage::Refuses),
        ("429", Outage::Fails(&[], Fault::Answer(429))),
        ("429, `Retry-After: 1`", Outage::Fails(&[], Fault::TooMany(1))),
        ("403", Outage::Fails(&[], Fault::Answer(403))),
        ("500", Outage::Fails(&[], Fault::Answer(500))),
        ("503", Outage::Fails(&[], Fault::Answer(503))),
        ("answers nothing", Outage::Fails(&[], Fault::Silent)),
        ("ends each watch at once", Outage::Fails(&["watch"], Fault::Empty)),
    ];
    let network = Network::start(4).expect("root, and network namespaces");
    let mut hosts = (0..4).map(|number| network.host(number));
    let mut rows = Vec::new();
    for (what, outage) in outages {
        for part in [Part::Standby, Part::Leader] {
            let mut side = |is_baton| {
                let own = matches!(outage, Outage::Refuses);
                let place = if own { hosts.next().expect("four refuse") } else { Place::here() };
                Side::start(part, is_baton, place)
            };
            rows.push((what, outage.clone(), part, [side(true), side(false)]));
        }
    }
    for (_, outage, _, sides) in &mut rows {
        sides.iter_mut().for_each(|side| side.begin(outage));
    }
    let seconds = seconds();
    last_for(Duration::from_secs(seconds));
    let leases = usize::try_from(seconds).expect("few") / 15;
    let mut over = Vec::new();
    for (what, _, part, [baton, client_go]) in &rows {
        let asked = [baton.asked(), client_go.asked()];
        let [ours, theirs] = asked.map(|asked| format!("{:.2} /s", asked as f64 / seconds as f64));
        println!("| {what} | {part:?} | {ours} | {theirs} |");
        if asked[0] > asked[1] + 2 * leases {
            over.push(format!("{what}, {part:?}: {ours} and {theirs}"));
        }
    }
    assert!(over.is_empty(), "{over:?}");
}
