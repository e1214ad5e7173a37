//! A Redis Cluster: three masters, mostly with a replica each, every server ended by its own handle.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::place::Place;
use super::redis::RedisServer;
use super::resp::Reply;
use super::wait_until;

/// Joining and failing over takes seconds, and machines are busy.
const PATIENCE: Duration = Duration::from_secs(30);
const SLOTS: u16 = 16_384;

/// See the module.
pub struct Cluster {
    /// The first three began as masters of a third of the slots each, the others, if any, as their replicas.
    pub nodes: Vec<RedisServer>,
}

/// Gives a node these slots, which nobody has, one by one as before 7.0.
///
/// # Panics
/// When it does not take them.
pub fn add_slots(node: &RedisServer, slots: RangeInclusive<u16>) {
    let words: Vec<String> = slots.map(|slot| slot.to_string()).collect();
    let words: Vec<&str> = ["CLUSTER", "ADDSLOTS"].into_iter().chain(words.iter().map(String::as_str)).collect();
    assert_eq!(node.command(&words), Reply::Text("OK".to_owned()));
}

/// Whether a node knows who is at the other end of each connection that was made to it: Valkey takes no message from
/// anybody else, and learns it some seconds after they have met. Before 7.0 no node tells, nor needs to.
fn knows_its_callers(node: &RedisServer, others: usize) -> bool {
    let Reply::List(links) = node.command(&["CLUSTER", "LINKS"]) else { return true };
    let from = Reply::Text("from".to_owned());
    links.iter().filter(|link| matches!(link, Reply::List(words) if words.contains(&from))).count() >= others
}

impl Cluster {
    /// Starts one, with these options for every server, and waits until it serves every slot.
    pub async fn start(options: &[&str]) -> Self {
        Self::start_at(|_| Place::here(), options).await
    }

    /// The same at these places.
    pub async fn start_at(place: impl Fn(usize) -> Place, options: &[&str]) -> Self {
        Self::start_nodes(6, place, options).await
    }

    /// The same without replicas.
    pub async fn start_masters(options: &[&str]) -> Self {
        Self::start_nodes(3, |_| Place::here(), options).await
    }

    async fn start_nodes(count: usize, place: impl Fn(usize) -> Place, options: &[&str]) -> Self {
        let own = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"];
        let node = |at| {
            let place = place(at);
            let announced = place.ip().to_string();
            RedisServer::start_at(&place, &[], &[&own[..], &["--cluster-announce-ip", &announced], options].concat())
        };
        let nodes = (0..count).map(node).collect();
        let cluster = Self { nodes };
        cluster.join();
        wait_until(PATIENCE, "every node knows of every other", || {
            let lists: Vec<String> =
                cluster.nodes.iter().map(|node| node.command(&["CLUSTER", "NODES"]).text()).collect();
            let under_way = lists.iter().any(|list| list.contains("handshake"));
            let is_whole = !under_way && lists.iter().all(|list| list.lines().count() == count);
            // A server that takes longer than a second for a handshake, on a busy machine, is given up for good.
            if !is_whole && !under_way {
                cluster.meet();
            }
            is_whole
        })
        .await;
        for (replica, master) in cluster.nodes[3..].iter().zip(&cluster.nodes) {
            let id = master.command(&["CLUSTER", "MYID"]).text();
            assert_eq!(replica.command(&["CLUSTER", "REPLICATE", &id]), Reply::Text("OK".to_owned()));
        }
        cluster.settled().await;
        cluster
    }

    fn join(&self) {
        let share = SLOTS / 3 + 1;
        for (at, node) in (0_u16..).zip(&self.nodes) {
            let epoch = (at + 1).to_string();
            assert_eq!(node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]), Reply::Text("OK".to_owned()));
            if at < 3 {
                add_slots(node, at * share..=(at * share + share - 1).min(SLOTS - 1));
            }
        }
    }

    fn meet(&self) {
        let (first, others) = self.nodes.split_first().expect("there are some");
        for other in others {
            other.command(&["CLUSTER", "MEET", &first.host(), &first.port().to_string()]);
        }
    }

    /// Waits until every node takes the cluster for whole and has a connection to every other, without which messages
    /// are lost, and every replica follows its master.
    pub async fn settled(&self) {
        wait_until(PATIENCE, "the cluster is whole", || {
            self.nodes.iter().all(|node| {
                let info = node.command(&["CLUSTER", "INFO"]).text();
                let list = node.command(&["CLUSTER", "NODES"]).text();
                let replication = node.command(&["INFO", "replication"]).text();
                let follows = replication.contains("master_link_status:up");
                let has_replica = self.nodes.len() == 3 || replication.contains("state=online");
                let leads = replication.contains("role:master") && has_replica;
                info.contains("cluster_state:ok")
                    && knows_its_callers(node, self.nodes.len() - 1)
                    && list.matches("master").count() == 3
                    && !["fail", "handshake", "disconnected"].iter().any(|word| list.contains(word))
                    && (follows || leads)
            })
        })
        .await;
    }

    /// The URL of the cluster.
    pub fn url(&self) -> String {
        let [first, others @ ..] = &self.nodes[..] else { unreachable!("there are some") };
        let nodes: Vec<String> = others.iter().map(|other| format!("node={}:{}", other.host(), other.port())).collect();
        format!("redis-cluster://{}:{}?{}", first.host(), first.port(), nodes.join("&"))
    }

    /// The slot of a key.
    pub fn slot_of(&self, key: &str) -> u16 {
        u16::try_from(self.nodes[0].command(&["CLUSTER", "KEYSLOT", key]).number()).expect("a slot")
    }

    /// The master of a slot and its replicas, as places in `nodes`, as the node at `asked` knows it.
    pub fn owners_by(&self, asked: usize, slot: u16) -> Vec<usize> {
        let Reply::List(ranges) = self.nodes[asked].command(&["CLUSTER", "SLOTS"]) else { return Vec::new() };
        for range in ranges {
            let Reply::List(parts) = range else { continue };
            let bound = |at: usize| u16::try_from(parts[at].clone().number()).expect("a slot");
            if (bound(0)..=bound(1)).contains(&slot) {
                let ports = parts[2..].iter().map(|node| match node {
                    Reply::List(fields) => fields[1].clone().number(),
                    other => panic!("not a node: {other:?}"),
                });
                let place = |port: i64| self.nodes.iter().position(|node| i64::from(node.port()) == port);
                return ports.map(|port| place(port).expect("one of ours")).collect();
            }
        }
        Vec::new()
    }

    /// Who has a slot, as the first of these nodes that is running knows it.
    pub fn owners(&self, slot: u16) -> Vec<usize> {
        let running = (0..self.nodes.len()).find(|at| self.nodes[*at].is_running()).expect("some node runs");
        self.owners_by(running, slot)
    }

    /// Waits until every running node but `old` takes another than `old` for the master of the slot; which.
    pub async fn moved_from(&self, old: usize, slot: u16) -> usize {
        let others = || (0..self.nodes.len()).filter(|at| *at != old && self.nodes[*at].is_running());
        wait_until(PATIENCE, "another node is the master of the slot", || {
            others().all(|at| self.owners_by(at, slot).first().is_some_and(|owner| *owner != old))
        })
        .await;
        let asked = others().next().expect("some node runs");
        self.owners_by(asked, slot)[0]
    }

    fn id(&self, node: usize) -> String {
        self.nodes[node].command(&["CLUSTER", "MYID"]).text()
    }

    /// Begins to move a slot: both ends know of it.
    pub fn begin_migration(&self, slot: u16, from: usize, to: usize) {
        let slot = slot.to_string();
        let ok = Reply::Text("OK".to_owned());
        let importing = self.nodes[to].command(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &self.id(from)]);
        assert_eq!(importing, ok);
        let migrating = self.nodes[from].command(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &self.id(to)]);
        assert_eq!(migrating, ok);
    }

    /// Moves these keys, all in one step.
    pub fn migrate(&self, keys: &[&str], from: usize, to: usize) {
        let port = self.nodes[to].port().to_string();
        let host = self.nodes[to].host();
        let words = [&["MIGRATE", &host, &port, "", "0", "5000", "KEYS"][..], keys].concat();
        let moved = self.nodes[from].command(&words);
        assert!(matches!(&moved, Reply::Text(text) if text == "OK" || text == "NOKEY"), "{moved:?}");
    }

    /// Ends the move: the slot is the new node's. Told to every master, the new one first.
    pub fn end_migration(&self, slot: u16, to: usize) {
        let (slot, id) = (slot.to_string(), self.id(to));
        let masters = (0..self.nodes.len()).filter(|at| *at != to);
        for at in std::iter::once(to).chain(masters) {
            // Replicas refuse, and hear of it from their masters.
            self.nodes[at].command(&["CLUSTER", "SETSLOT", &slot, "NODE", &id]);
        }
    }
}
