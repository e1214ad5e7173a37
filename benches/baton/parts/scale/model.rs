//! What each thing costs a Redis, and what follows for so many of them.
//!
//! A coefficient is a difference between two states, taken in several windows. None of them is fitted to the points
//! that the model is held against.

use std::ops::{Index, IndexMut};
use std::time::Duration;

use super::meter::Window;
use crate::stats::median;

/// The default lease, and how often it is renewed.
pub const LEASE: Duration = Duration::from_secs(15);
pub const PERIOD: Duration = Duration::from_secs(5);
/// A standby looks once in so many leases, whatever it hears (R8).
const QUIET_LEASES: f64 = 10.0;
/// How many sidecars an app has, where nothing else is said.
pub const APP: usize = 3;
/// How far a point may be off.
pub const OFF_MAX: f64 = 0.2;

/// What something costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    Rest,
    NodeRest,
    Connection,
    Renewal,
    Delivery,
    Forwarding,
    Look,
    Grant,
    LockCycle,
    Run,
    Return,
    EmptyMemory,
    NodeMemory,
    ConnectionMemory,
    RoleMemory,
    SubscriptionMemory,
    RenewalIn,
    RenewalOut,
    DeliveryOut,
    LookIn,
    LookOut,
}

/// All of them: what is said of each, with its unit.
pub const COSTS: [(Cost, &str, &str); 21] = [
    (Cost::Rest, "a Redis that nobody uses, and that knows the scripts: its thread, each second", "µs"),
    (Cost::NodeRest, "the same as a node of a Cluster of three", "µs"),
    (Cost::Connection, "a connection at rest, each second", "µs"),
    (Cost::Renewal, "a renewal", "µs"),
    (Cost::Delivery, "a heartbeat to one listener", "µs"),
    (Cost::Forwarding, "in a Cluster: a heartbeat to one other node, at both ends", "µs"),
    (Cost::Look, "a campaign while another leads", "µs"),
    (Cost::Grant, "a campaign that is granted", "µs"),
    (Cost::LockCycle, "a free lock, acquired and released", "µs"),
    (Cost::Run, "a run of a job: two writes of its ledger", "µs"),
    (Cost::Return, "a sidecar that was cut off and comes back", "µs"),
    (Cost::EmptyMemory, "such a Redis", "B"),
    (Cost::NodeMemory, "the same as a node of a Cluster of three", "B"),
    (Cost::ConnectionMemory, "a connection", "B"),
    (Cost::RoleMemory, "a role: its two keys, and what its leader's requests take", "B"),
    (Cost::SubscriptionMemory, "a subscription", "B"),
    (Cost::RenewalIn, "a renewal, to Redis", "B"),
    (Cost::RenewalOut, "a renewal, from Redis", "B"),
    (Cost::DeliveryOut, "a heartbeat to one listener, from Redis", "B"),
    (Cost::LookIn, "a campaign while another leads, to Redis", "B"),
    (Cost::LookOut, "a campaign while another leads, from Redis", "B"),
];

/// One value for each.
#[derive(Clone, Copy, Debug, Default)]
pub struct Costs([f64; COSTS.len()]);

impl Index<Cost> for Costs {
    type Output = f64;

    fn index(&self, cost: Cost) -> &f64 {
        &self.0[cost as usize]
    }
}

impl IndexMut<Cost> for Costs {
    fn index_mut(&mut self, cost: Cost) -> &mut f64 {
        &mut self.0[cost as usize]
    }
}

impl Costs {
    pub fn median(samples: &[Self]) -> Self {
        Self(std::array::from_fn(|at| median(&samples.iter().map(|sample| sample.0[at]).collect::<Vec<_>>())))
    }
}

/// The states that the coefficients are differences between, in one window each.
#[derive(Clone, Copy, Debug)]
pub struct States {
    /// Nobody.
    pub empty: Window,
    /// Connections of which nothing comes.
    pub connected: Window,
    /// Nobody, on the masters of a cluster together.
    pub empty_cluster: Window,
    /// As many roles as sidecars: each hears its own heartbeats.
    pub alone: Window,
    /// Fewer roles than sidecars: all those of an app hear its heartbeats.
    pub crowded: Window,
    /// As many roles as sidecars, on such masters.
    pub alone_cluster: Window,
    pub sidecars: StateSizes,
}

/// How many sidecars these states have, and how many roles.
#[derive(Clone, Copy, Debug)]
pub struct StateSizes {
    pub alone: f64,
    pub crowded: f64,
    pub crowded_roles: f64,
    pub nodes: f64,
}

/// The two unknowns of a·x + b·y = c for two such lines.
fn solve([a, b, c]: [f64; 3], [d, e, f]: [f64; 3]) -> (f64, f64) {
    let determinant = a * e - b * d;
    ((c * e - b * f) / determinant, (a * f - c * d) / determinant)
}

impl States {
    /// Whether every connection has stayed, and every role was renewed in time. `connections`: of each state, in the
    /// order of its fields.
    pub fn are_undisturbed(&self, connections: &[f64; 6]) -> bool {
        let Self { empty, connected, empty_cluster, alone, crowded, alone_cluster, sidecars } = self;
        let states = [empty, connected, empty_cluster, alone, crowded, alone_cluster];
        let all_stay = states.iter().zip(connections).all(|(state, all)| state.connections == *all);
        // One or the other may fall on either side of a window's ends.
        let due = |roles: f64, window: &Window| {
            (window.scripts * PERIOD.as_secs_f64() - roles).abs() <= (roles * 0.05).max(2.5)
        };
        all_stay && due(sidecars.alone, alone) && due(sidecars.crowded_roles, crowded)
    }

    /// What these states come to. What others have found stays as it is in `known`.
    pub fn costs(&self, known: &Costs) -> Costs {
        let Self { empty, connected, alone, crowded, empty_cluster, alone_cluster, sidecars } = self;
        let mut costs = *known;
        costs[Cost::Rest] = empty.cpu_us;
        costs[Cost::NodeRest] = empty_cluster.cpu_us / sidecars.nodes;
        costs[Cost::Connection] = (connected.cpu_us - empty.cpu_us) / connected.connections;
        // No standby of these states looks, as the counted scripts tell: they are younger than ten leases.
        let heard = sidecars.crowded / sidecars.crowded_roles;
        let lines = |of: &dyn Fn(&Window) -> f64| {
            solve([alone.scripts, alone.scripts, of(alone)], [crowded.scripts, crowded.scripts * heard, of(crowded)])
        };
        let beyond = |w: &Window| w.cpu_us - costs[Cost::Rest] - costs[Cost::Connection] * w.connections;
        let (renewal, delivery) = lines(&beyond);
        let (renewal_out, delivery_out) = lines(&|w| w.output_b);
        let rest = empty_cluster.cpu_us + costs[Cost::Connection] * alone_cluster.connections;
        let forwarded = alone_cluster.scripts * (sidecars.nodes - 1.0);
        costs[Cost::Forwarding] =
            (alone_cluster.cpu_us - rest - alone_cluster.scripts * (renewal + delivery)) / forwarded;
        (costs[Cost::Renewal], costs[Cost::Delivery]) = (renewal, delivery);
        (costs[Cost::RenewalOut], costs[Cost::DeliveryOut]) = (renewal_out, delivery_out);
        costs[Cost::RenewalIn] = alone.input_b / alone.scripts;
        costs[Cost::EmptyMemory] = empty.memory_b;
        costs[Cost::NodeMemory] = empty_cluster.memory_b / sidecars.nodes;
        costs[Cost::ConnectionMemory] = (connected.memory_b - empty.memory_b) / connected.connections;
        let beyond = |w: &Window| w.memory_b - empty.memory_b - costs[Cost::ConnectionMemory] * w.connections;
        (costs[Cost::RoleMemory], costs[Cost::SubscriptionMemory]) = solve(
            [sidecars.alone, sidecars.alone, beyond(alone)],
            [sidecars.crowded_roles, sidecars.crowded, beyond(crowded)],
        );
        costs
    }
}

/// So many sidecars, in apps of one role each.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub pods: f64,
    pub app: f64,
    /// 1 for a Redis without a cluster.
    pub nodes: f64,
    /// Campaigns of standbys each second; none in the first ten leases.
    pub looks: f64,
}

impl Load {
    pub fn at_rest(pods: f64, nodes: f64) -> Self {
        let app = APP as f64;
        Self { pods, app, nodes, looks: (pods - pods / app) / (QUIET_LEASES * LEASE.as_secs_f64()) }
    }

    pub fn roles(&self) -> f64 {
        self.pods / self.app
    }

    pub fn renewals(&self) -> f64 {
        self.roles() / PERIOD.as_secs_f64()
    }

    /// In a cluster: the one to any node, the one for its slot, and the one to listen.
    pub fn connections(&self) -> f64 {
        self.pods * if self.nodes > 1.0 { 3.0 } else { 2.0 }
    }

    /// What it comes to, of all nodes together.
    pub fn predicted(&self, costs: &Costs) -> Window {
        let (rest, empty) = match self.nodes > 1.0 {
            true => (Cost::NodeRest, Cost::NodeMemory),
            false => (Cost::Rest, Cost::EmptyMemory),
        };
        let (renewals, deliveries, connections) = (self.renewals(), self.renewals() * self.app, self.connections());
        Window {
            cpu_us: self.nodes * costs[rest]
                + connections * costs[Cost::Connection]
                + renewals * (costs[Cost::Renewal] + (self.nodes - 1.0) * costs[Cost::Forwarding])
                + deliveries * costs[Cost::Delivery]
                + self.looks * costs[Cost::Look],
            scripts: renewals + self.looks,
            input_b: renewals * costs[Cost::RenewalIn] + self.looks * costs[Cost::LookIn],
            output_b: renewals * costs[Cost::RenewalOut]
                + deliveries * costs[Cost::DeliveryOut]
                + self.looks * costs[Cost::LookOut],
            memory_b: self.nodes * costs[empty]
                + connections * costs[Cost::ConnectionMemory]
                + self.roles() * costs[Cost::RoleMemory]
                + self.pods * costs[Cost::SubscriptionMemory],
            rss_b: 0.0,
            connections,
        }
    }
}

/// What was measured at one size, and what the model says of it.
#[derive(Clone, Debug)]
pub struct Point {
    pub site: &'static str,
    pub load: Load,
    /// Of each window; all nodes together.
    pub measured: Vec<Window>,
    /// Connections of the node that has most.
    pub busiest: f64,
    /// Of the processes of the sidecars, in cores.
    pub driver_cores: f64,
}

/// What is compared: its name, what of it a window has, and how it is shown.
type Compared = (&'static str, fn(&Window) -> f64, fn(f64) -> String);
pub const COMPARED: [Compared; 5] = [
    ("connections", |w| w.connections, |v| format!("{v:.0}")),
    ("thread", |w| w.cpu_us, percent),
    ("memory", |w| w.memory_b, |v| format!("{:.1} MiB", v / 1_048_576.0)),
    ("to Redis", |w| w.input_b, |v| format!("{:.1} kB/s", v / 1e3)),
    ("from Redis", |w| w.output_b, |v| format!("{:.1} kB/s", v / 1e3)),
];

/// Microseconds a second as a share of a core.
pub fn percent(us: f64) -> String {
    let share = us / 1e4;
    if share >= 10.0 { format!("{share:.0} %") } else { format!("{share:.2} %") }
}

impl Point {
    /// For each that is compared: measured, predicted, and by how much the one is off the other.
    pub fn compared(&self, costs: &Costs) -> [(f64, f64, f64); COMPARED.len()] {
        let looks = |w: &Window| (w.scripts - self.load.renewals()).max(0.0);
        let looks = median(&self.measured.iter().map(looks).collect::<Vec<_>>());
        let predicted = Load { looks, ..self.load }.predicted(costs);
        COMPARED.map(|(_, of, _)| {
            let measured = median(&self.measured.iter().map(of).collect::<Vec<_>>());
            (measured, of(&predicted), of(&predicted) / measured - 1.0)
        })
    }

    /// Whether that is too far from what was measured.
    pub fn is_off(&self, ratio: f64) -> bool {
        (ratio - 1.0).abs() > OFF_MAX
    }

    /// How many of them are off by more than a model may be.
    pub fn off(&self, costs: &Costs) -> usize {
        self.compared(costs).iter().filter(|(.., off)| self.is_off(off + 1.0)).count()
    }
}
