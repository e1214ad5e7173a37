//! A cluster's nodes: which are known, and which of them is the master of a slot.
//!
//! Baton finds its way through a cluster by itself, and a connection always leads to one node: the acknowledgements
//! that WAIT counts must be those of the very write (R6), and a redirection must never run a command elsewhere behind
//! our back. So a redirection is an error here, after which the map is read anew.

use parking_lot::{Mutex, MutexGuard};
use std::fmt;

use fred::types::Value;

use super::link::Link;
use super::settings::Settings;
use crate::store::StoreError;

/// Where one node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAddress {
    pub host: String,
    pub port: u16,
}

impl NodeAddress {
    /// The host without the brackets that a URL has around an IPv6 address.
    pub fn name(&self) -> &str {
        self.host.trim_matches(['[', ']'])
    }
}

impl fmt::Display for NodeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Which node a connection shall lead to. Without a cluster there is only one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// Any: they all know the map, and pass messages on.
    AnyNode,
    /// The master of this slot.
    MasterOf(u16),
}

/// The nodes to ask for the map, the last that answered first.
pub struct Nodes {
    seeds: Vec<NodeAddress>,
    known: Mutex<Vec<NodeAddress>>,
}

impl Nodes {
    pub fn new(seeds: Vec<NodeAddress>) -> Self {
        Self { known: Mutex::new(seeds.clone()), seeds }
    }

    /// Begins with another one of them, as chance has it: all sidecars have the same list, and whoever is first in it
    /// would have the connections of all that may lead to any node, and pass on every message to all of them.
    pub fn begin_at(&self, chance: u64) {
        let mut known = self.known();
        let nodes = known.len().max(1) as u64;
        known.rotate_left(usize::try_from(chance % nodes).unwrap_or(0));
    }

    fn known(&self) -> MutexGuard<'_, Vec<NodeAddress>> {
        self.known.lock()
    }

    /// The hosts of the URL, for a node that the map names: none for one that the URL names itself.
    pub fn hosts_besides(&self, node: &NodeAddress) -> Vec<&str> {
        let hosts = self.seeds.iter().map(NodeAddress::name);
        if hosts.clone().any(|host| host == node.name()) { Vec::new() } else { hosts.collect() }
    }

    /// Opens a connection to the node that is asked for, as far as another node knows which that is.
    pub async fn open(&self, settings: &Settings, target: Target) -> Result<Link, StoreError> {
        let (link, source, map) = self.read_map(settings).await?;
        let Target::MasterOf(slot) = target else { return Ok(link) };
        let Some(master) = map.master_of(slot) else {
            self.ask_last(&source.to_string());
            return Err(StoreError::Refused {
                reason: format!(
                    "no master of its cluster has the slot {slot}: see CLUSTER INFO, and CLUSTER ADDSLOTSRANGE or the \
                     failed master"
                ),
            });
        };
        if *master == source {
            return Ok(link);
        }
        let opened = Link::open_at(settings, Some(master)).await;
        if opened.is_err() {
            // Perhaps it does not know yet of a failover that others know of.
            self.ask_last(&source.to_string());
        }
        opened
    }

    /// The map of the first node that answers, which it is, and the connection to it.
    async fn read_map(&self, settings: &Settings) -> Result<(Link, NodeAddress, Map), StoreError> {
        let mut why = StoreError::Unreachable { reason: "no node of the cluster is known".to_owned() };
        let nodes = self.known().clone();
        for node in nodes {
            match read_map_of(settings, &node).await {
                Ok((link, map)) => {
                    self.learn(&node, &map);
                    return Ok((link, node, map));
                }
                Err(error) => {
                    self.ask_last(&node.to_string());
                    // A refusal says more than that another node is gone.
                    if !matches!(why, StoreError::Refused { .. }) {
                        why = error;
                    }
                }
            }
        }
        Err(why)
    }

    /// The node at this host and port is of less use than others.
    pub fn ask_last(&self, endpoint: &str) {
        let mut known = self.known();
        if let Some(at) = known.iter().position(|node| node.to_string() == endpoint) {
            let node = known.remove(at);
            known.push(node);
        }
    }

    /// Remembers the nodes of a map, and forgets those that are no more; the configured ones stay.
    fn learn(&self, source: &NodeAddress, map: &Map) {
        let mut known = vec![source.clone()];
        for node in map.0.iter().flat_map(|range| &range.nodes).chain(&self.seeds) {
            if !known.contains(node) {
                known.push(node.clone());
            }
        }
        *self.known() = known;
    }
}

async fn read_map_of(settings: &Settings, node: &NodeAddress) -> Result<(Link, Map), StoreError> {
    let link = Link::open_at(settings, Some(node)).await?;
    let reply = link.command("CLUSTER", vec!["SLOTS".into()], settings.command_timeout).await;
    let map = Map::parse(reply.map_err(|failure| failure.error)?, &node.host).ok_or_else(|| StoreError::Refused {
        reason: "it answered CLUSTER SLOTS with something else: is there a proxy in between?".to_owned(),
    })?;
    Ok((link, map))
}

/// Which slots are where.
#[derive(Debug, PartialEq, Eq)]
struct Map(Vec<Range>);

#[derive(Debug, PartialEq, Eq)]
struct Range {
    first: u64,
    last: u64,
    /// The master first.
    nodes: Vec<NodeAddress>,
}

impl Map {
    fn master_of(&self, slot: u16) -> Option<&NodeAddress> {
        let slot = u64::from(slot);
        self.0.iter().find(|range| (range.first..=range.last).contains(&slot))?.nodes.first()
    }

    /// Reads the answer to CLUSTER SLOTS, which `asked` gave: a node that does not know its own address, or that of
    /// others, leaves the host out, which means this one.
    fn parse(reply: Value, asked: &str) -> Option<Self> {
        let ranges = reply.into_array().into_iter().map(|range| {
            let mut parts = range.into_array().into_iter();
            let (first, last) = (parts.next()?.as_u64()?, parts.next()?.as_u64()?);
            let nodes = parts.map(|node| Self::parse_node(node, asked)).collect::<Option<Vec<NodeAddress>>>()?;
            Some(Range { first, last, nodes })
        });
        ranges.collect::<Option<Vec<Range>>>().map(Self)
    }

    fn parse_node(node: Value, asked: &str) -> Option<NodeAddress> {
        let mut parts = node.into_array().into_iter();
        let host = parts.next()?.as_string().filter(|host| !host.is_empty() && host != "?");
        let port = u16::try_from(parts.next()?.as_u64()?).ok()?;
        Some(NodeAddress { host: host.unwrap_or_else(|| asked.to_owned()), port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(items: Vec<Value>) -> Value {
        Value::Array(items)
    }

    fn node(host: Value, port: i64) -> Value {
        array(vec![host, port.into(), "id".into(), array(Vec::new())])
    }

    #[test]
    fn the_first_node_of_a_range_is_its_master() {
        let reply = array(vec![
            array(vec![0.into(), 99.into(), node("a".into(), 1), node("b".into(), 2)]),
            array(vec![100.into(), 16383.into(), node("c".into(), 3)]),
        ]);
        let map = Map::parse(reply, "asked").unwrap();
        let master = |slot| map.master_of(slot).map(|node| (node.host.as_str(), node.port));
        assert_eq!((master(0), master(99)), (Some(("a", 1)), Some(("a", 1))));
        assert_eq!((master(100), master(16383)), (Some(("c", 3)), Some(("c", 3))));
    }

    #[test]
    fn a_host_that_is_left_out_is_the_one_that_was_asked() {
        for host in [Value::Null, Value::from(""), Value::from("?")] {
            let map = Map::parse(array(vec![array(vec![0.into(), 1.into(), node(host, 7)])]), "asked").unwrap();
            assert_eq!(map.master_of(0), Some(&NodeAddress { host: "asked".to_owned(), port: 7 }));
            assert_eq!(map.master_of(2), None);
        }
    }

    #[test]
    fn what_is_no_map_is_not_read_as_one() {
        for reply in [Value::from("OK"), array(vec!["OK".into()]), array(vec![array(vec![0.into(), "x".into()])])] {
            assert_eq!(Map::parse(reply, "asked"), None);
        }
    }

    #[test]
    fn nodes_that_answered_are_asked_first_and_configured_ones_are_never_forgotten() {
        let at = |port| NodeAddress { host: "h".to_owned(), port };
        let nodes = Nodes::new(vec![at(1), at(2)]);
        nodes.ask_last("h:1");
        assert_eq!(*nodes.known(), [at(2), at(1)]);
        nodes.learn(&at(2), &Map(vec![Range { first: 0, last: 9, nodes: vec![at(3), at(2)] }]));
        assert_eq!(*nodes.known(), [at(2), at(3), at(1)]);
        nodes.learn(&at(3), &Map(Vec::new()));
        assert_eq!(*nodes.known(), [at(3), at(1), at(2)], "a node that left the cluster is no longer asked");
    }
}
