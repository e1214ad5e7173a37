//! Three masters with a replica each.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fastrand::Rng;
use testkit::block_on;
use testkit::cluster::Cluster;
use testkit::place::Place;
use testkit::redis::{Data, RedisServer};
use testkit::resp::Reply;
use testkit::sidecars::replica::LEASE_KEY;
use testkit::wait::{PATIENCE, SLACK, found_within};

use crate::fault::Fault;
use crate::one::slow_down;
use crate::stage::{Stage, agreed};

/// See the module.
pub struct ClusterStage {
    cluster: Cluster,
    /// The role's.
    slot: u16,
    hurt: Option<usize>,
    slow: Vec<JoinHandle<()>>,
}

impl ClusterStage {
    /// Starts it at six places.
    pub fn start(place: impl Fn(usize) -> Place) -> Self {
        let options = ["--enable-debug-command", "yes", "--appendonly", "yes"];
        let cluster = block_on(Cluster::start_at(place, &options));
        let slot = cluster.slot_of(LEASE_KEY);
        Self { cluster, slot, hurt: None, slow: Vec::new() }
    }
}

impl Stage for ClusterStage {
    fn store(&self) -> String {
        let url = self.cluster.url();
        format!("{{ redis: {{ url: \"{url}\", commandTimeout: 400ms, replication: {{ acks: 1, timeout: 200ms }} }} }}")
    }

    fn begin(&mut self, fault: Fault, dice: &mut Rng) -> Result<String, String> {
        let owners = self.cluster.owners(self.slot);
        let Some(&master) = owners.first() else { return Err("the slot has no master".to_owned()) };
        let node = &mut self.cluster.nodes[master];
        match fault {
            Fault::StorePause => node.pause(),
            Fault::StoreRestart => node.kill(),
            Fault::StoreLoss => node.stop(Data::Lost),
            Fault::Failover => {
                let Some(&heir) = owners.get(1) else { return Err("the master has no replica".to_owned()) };
                return agreed(&self.cluster.nodes[heir].command(&["CLUSTER", "FAILOVER"]));
            }
            Fault::Flush => drop(node.command(&["FLUSHALL"])),
            Fault::Delete => drop(node.command(&["DEL", LEASE_KEY])),
            Fault::Slow => return Ok(slow_down(node, dice, &mut self.slow)),
            other => unreachable!("a cluster has no {other:?}"),
        }
        self.hurt = Some(master);
        Ok(format!("node {master}"))
    }

    fn end(&mut self, fault: Fault) {
        match (fault, self.hurt.take()) {
            (Fault::StorePause, Some(node)) => self.cluster.nodes[node].resume(),
            (Fault::StoreRestart | Fault::StoreLoss, Some(node)) => self.cluster.nodes[node].start_again(),
            (Fault::Slow, _) => self.slow.drain(..).for_each(|thread| thread.join().expect("it does not panic")),
            _ => {}
        }
    }

    fn to_cut_off(&self, dice: &mut Rng) -> Vec<usize> {
        let owners = self.cluster.owners(self.slot);
        // With its replica nobody could take over: mostly without.
        let count = if dice.u8(0..4) == 0 { 2 } else { 1 };
        owners.into_iter().take(count).collect()
    }

    fn settle(&mut self) {
        block_on(self.cluster.settled());
        self.cluster.nodes.iter().for_each(publish);
    }
}

/// Waits until the node takes a message. A master that was to hand over, and whose heir was not elected, holds back
/// what others write and publish, for five seconds, Redis 6.2 for ten.
fn publish(node: &RedisServer) {
    let heard = node.connect().and_then(|mut connection| connection.command(&["PUBLISH", "settled", ""]));
    heard.expect("it holds nothing back for longer");
}

/// Seen on Redis 6.2 and a busy machine: all was said to be well, and nobody could lead for nine seconds.
#[test]
#[ignore = "takes ten seconds: make compat"]
fn a_master_whose_failover_came_to_nothing_is_waited_for() {
    let mut stage = ClusterStage::start(|_| Place::here());
    let owners = || <[usize; 2]>::try_from(stage.cluster.owners(stage.slot)).ok();
    let [master, heir] = found_within(PATIENCE, owners).expect("the replica is fit to take over");
    let voters = [0, 1, 2].into_iter().filter(|at| *at != master);
    let holds_back = |stage: &ClusterStage| {
        let clients = stage.cluster.nodes[master].command(&["INFO", "clients"]).text();
        !clients.contains("blocked_clients:0")
    };
    let mut connection = stage.cluster.nodes[master].connect().expect("it answers");
    let at_once = move || {
        let begun = Instant::now();
        connection.command(&["PUBLISH", "settled", ""]).is_ok() && begun.elapsed() < Duration::from_secs(1)
    };
    // Until one is held back, or the server is gone.
    std::thread::spawn(|| std::iter::repeat_with(at_once).all(|it| it));
    voters.clone().for_each(|at| stage.cluster.nodes[at].pause());
    let asked = stage.cluster.nodes[heir].command(&["CLUSTER", "FAILOVER"]);
    assert_eq!(asked, Reply::Text("OK".to_owned()));
    found_within(SLACK, || holds_back(&stage).then_some(())).expect("it is to hand over");
    stage.cluster.nodes[heir].kill();
    voters.for_each(|at| stage.cluster.nodes[at].resume());
    stage.cluster.nodes[heir].start_again();
    stage.settle();
    assert!(!holds_back(&stage));
}
