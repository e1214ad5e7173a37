//! docs/scale.md. Its figures come from the model; its sentences say what they mean to who runs a Redis.

use std::fmt::Write as _;

use super::meter::LOOKS;
use super::model::{APP, COMPARED, COSTS, Cost, Costs, LEASE, Load, OFF_MAX, PERIOD, Point, percent};
use super::{CROWDED_APP, Cut, Found};
use crate::stats::percentile;

pub const ONE: &str = "one Redis";
pub const CLUSTER: &str = "Cluster of three";

/// As Redis comes, less the 32 that it keeps for itself and some for people and probes.
const CLIENTS_DEFAULT: f64 = 10_000.0;
const CLIENTS_KEPT: f64 = 100.0;
/// A Redis that is busy for more than this at rest has too little left for elections and for coming back.
const THREAD_MAX_US: f64 = 5e5;
/// Of a node's network: a gigabit a second.
const NETWORK_MAX_B: f64 = 125e6;
const MEMORY_MAX_B: f64 = 1_073_741_824.0;
/// The header of a message between nodes, 2,256 bytes in Redis 7.0, and what it says.
const FORWARDED_B: f64 = 2_400.0;
/// What Kubernetes is made for, and how often each node writes a Lease of its own.
const KUBERNETES_NODES: f64 = 5_000.0;
const KUBERNETES_PODS: f64 = 150_000.0;
const NODE_LEASE_S: f64 = 10.0;
/// One in which each sidecar has so many roles.
const ROLES_EACH: [f64; 4] = [1.0, 10.0, 100.0, 1_000.0];
const SLOTS: f64 = 16_384.0;

const SIZES: [f64; 7] = [100.0, 1_000.0, 5_000.0, 10_000.0, 50_000.0, 100_000.0, 1_000_000.0];
const CLUSTERS: [f64; 3] = [3.0, 6.0, 12.0];

/// What of a node may run out first.
struct Limit {
    name: &'static str,
    max: f64,
    /// How much of it so many pods take of each node, spread evenly.
    taken: fn(&Load, &Costs) -> f64,
}

const LIMITS: [Limit; 5] = [
    Limit {
        name: "`maxclients` as Redis comes, 10,000",
        max: CLIENTS_DEFAULT - CLIENTS_KEPT,
        taken: |load, _| load.connections() / load.nodes,
    },
    Limit {
        name: "all come back at once: 5 s of its thread",
        max: 5e6,
        taken: |load, costs| load.connections() / 2.0 / load.nodes * costs[Cost::Return],
    },
    Limit {
        name: "at rest: half of its thread",
        max: THREAD_MAX_US,
        taken: |load, costs| load.predicted(costs).cpu_us / load.nodes,
    },
    Limit {
        name: "at rest: a network of 1 Gbit/s",
        max: NETWORK_MAX_B,
        taken: |load, costs| {
            let forwarded = load.renewals() * (load.nodes - 1.0) * FORWARDED_B;
            (load.predicted(costs).output_b + forwarded) / load.nodes
        },
    },
    Limit {
        name: "memory: 1 GiB",
        max: MEMORY_MAX_B,
        taken: |load, costs| load.predicted(costs).memory_b / load.nodes,
    },
];

impl Limit {
    /// How many pods that is for.
    fn pods(&self, nodes: f64, costs: &Costs) -> f64 {
        let fits = |pods: f64| (self.taken)(&Load::at_rest(pods, nodes), costs) <= self.max;
        let (mut least, mut most) = (0.0, 1e9);
        while most - least > 1.0 {
            let middle = f64::midpoint(least, most);
            if fits(middle) { least = middle } else { most = middle }
        }
        least
    }
}

/// As many as one Redis takes whose `maxclients` was raised.
fn most_of_one(costs: &Costs) -> f64 {
    LIMITS[1..].iter().map(|limit| limit.pods(1.0, costs)).fold(f64::MAX, f64::min)
}

/// Two figures, as people say them.
fn round(value: f64) -> f64 {
    if value <= 0.0 {
        return 0.0;
    }
    let step = 10_f64.powf(value.log10().floor() - 1.0);
    (value / step).floor() * step
}

/// With commas between thousands.
fn count(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// With as many digits as say something.
fn figure(value: f64) -> String {
    let digits = if value.abs() >= 100.0 { 0 } else { usize::from(value.abs() < 10.0) + 1 };
    if value.abs() >= 1_000.0 { count(value) } else { format!("{value:.digits$}") }
}

fn megabytes(bytes: f64) -> String {
    let megabytes = bytes / 1e6;
    if megabytes >= 10.0 { format!("{} MB", count(megabytes)) } else { format!("{megabytes:.1} MB") }
}

fn table(columns: &[&str], lines: &[Vec<String>]) -> String {
    let mut text = format!("| {} |\n|{}\n", columns.join(" | "), "---|".repeat(columns.len()));
    for line in lines {
        // Writing into a String does not fail.
        let _ = writeln!(text, "| {} |", line.join(" | "));
    }
    text
}

/// The whole page but for its last line.
pub fn text(found: &Found) -> String {
    let costs = Costs::median(&found.samples);
    [
        head(),
        what_to_do(&costs),
        limits(&costs, &found.cut),
        spread_over_a_cluster(&costs),
        api_server(),
        model(&found.samples, &costs),
        held(&found.points, &costs),
    ]
    .join("\n")
}

fn head() -> String {
    let (lease, period) = (LEASE.as_secs(), PERIOD.as_secs());
    format!(
        "# How far one Redis goes\n\n\
         `make bench PART=scale` writes this page, from what it measures. The figures belong to one machine, named at\n\
         the end; take them on yours where it matters. A *pod* is a sidecar with one role, in an app of {APP}, with\n\
         the default lease of {lease} s, renewed every {period} s. It has two connections: one for commands, one to\n\
         listen.\n"
    )
}

fn what_to_do(costs: &Costs) -> String {
    let (default, most) = (LIMITS[0].pods(1.0, costs), most_of_one(costs));
    let advice = |pods: f64| {
        let files = round(pods * 2.0 * 1.2) + 1_000.0;
        if pods <= default {
            "one Redis, as it comes".to_owned()
        } else if pods <= most {
            format!("one Redis with `maxclients {files:.0}`, and as many open files (`ulimit -n`)")
        } else {
            let several = (pods / round(most)).ceil();
            let each = round(pods / several * 2.0 * 1.2) + 1_000.0;
            format!("{several:.0} Redis, each for some of the apps, with `maxclients {each:.0}` each")
        }
    };
    let lines = SIZES.map(|pods| {
        let load = Load::at_rest(pods, 1.0);
        let predicted = load.predicted(costs);
        vec![
            count(pods),
            count(load.connections()),
            count(load.renewals()),
            percent(predicted.cpu_us),
            megabytes(predicted.memory_b),
            format!("{}/s", megabytes(predicted.output_b)),
            advice(pods),
        ]
    });
    let columns = ["pods", "connections", "renewals/s", "Redis's thread at rest", "memory", "from Redis", "what to do"];
    format!(
        "## How many pods, and what to do\n\n\
         {}\n\
         Apps do not know of each other, so several Redis need nothing but another `store.redis.url` in the\n\
         configuration of some apps. That is simpler than a Cluster, and each of them fails alone. What fits one\n\
         Redis is best left on one. The first {} connections were measured, what is beyond is the model's. With\n\
         another `renewPeriod` the renewals change in proportion; with replicas (`replication.acks`) each Redis has\n\
         those besides.\n",
        table(&columns, &lines),
        count(10_000.0),
    )
}

fn limits(costs: &Costs, cut: &[Cut]) -> String {
    let lines: Vec<Vec<String>> = LIMITS
        .iter()
        .map(|limit| {
            let pods = |nodes| count(round(limit.pods(nodes, costs)));
            [vec![limit.name.to_owned(), pods(1.0)], CLUSTERS.map(pods).to_vec()].concat()
        })
        .collect();
    let cut: String = cut.iter().map(tell_cut).collect();
    let second = |cost: Cost| count(round(THREAD_MAX_US / costs[cost]));
    let clients = round(LIMITS[1].pods(1.0, costs)) * 2.0;
    format!(
        "## Which limit comes first\n\n\
         So many pods are in the way of it:\n\n\
         {}\n\
         - **`maxclients` is first.** Who comes after it is refused (`max number of clients reached`), and does not\n  \
           take part. Raise `maxclients`, and the open files of Redis's process (`LimitNOFILE` of systemd,\n  \
           `ulimit -n`), without which it lowers `maxclients` by itself and says so in its log. A connection takes\n  \
           {} B and {} µs of its thread a second.\n\
         - **Then that all come back at once**, after a restart, a failover or a cut network: {} µs of the thread\n  \
           for each sidecar. A leader that is not back within its lease, less a renewal period, loses its role, so\n  \
           some {} connections are the most that one Redis should have.{cut}\n\
         - **Renewals** are {} µs each, and a heartbeat {} µs for each pod of the app: with N pods a role takes\n  \
           ({:.0} + {:.1} N) / `renewPeriod` of the thread.\n\
         - **Locks and jobs** come on top: half a thread is enough for {} free locks a second, acquired and\n  \
           released, or {} runs of jobs, or {} campaigns.\n\
         - **Output buffers** (`client-output-buffer-limit pubsub 32mb 8mb 60`) are no limit: a heartbeat is {} B,\n  \
           so a sidecar that has stopped reading is let go of after some {} heartbeats that it has missed, or\n  \
           sooner by its own timeouts.\n",
        table(&["limit", "one Redis", "Cluster of 3", "of 6", "of 12"], &lines),
        count(costs[Cost::ConnectionMemory]),
        figure(costs[Cost::Connection]),
        count(costs[Cost::Return]),
        count(clients),
        figure(costs[Cost::Renewal]),
        figure(costs[Cost::Delivery]),
        costs[Cost::Renewal],
        costs[Cost::Delivery],
        second(Cost::LockCycle),
        second(Cost::Run),
        second(Cost::Grant),
        count(costs[Cost::DeliveryOut]),
        count(round(8_388_608.0 / costs[Cost::DeliveryOut])),
    )
}

fn tell_cut(Cut { sidecars, back_s, terms, kept, .. }: &Cut) -> String {
    format!(
        " Measured: all connections of {} sidecars closed at once,\n  \
         all back after {back_s:.1} s (on the processors of one machine), {kept} of {terms} leaders went on under\n  \
         their tokens.",
        count(*sidecars as f64)
    )
}

fn spread_over_a_cluster(costs: &Costs) -> String {
    let lines: Vec<Vec<String>> = ROLES_EACH
        .iter()
        .map(|roles| {
            // Each role's name falls into one of the slots.
            let slots = SLOTS * (1.0 - (1.0 - 1.0 / SLOTS).powf(*roles));
            let connections = slots.round() + 2.0;
            let sidecars = |nodes: f64| count(round((CLIENTS_DEFAULT - CLIENTS_KEPT) * nodes / connections));
            [vec![count(*roles), count(connections)], CLUSTERS.map(sidecars).to_vec()].concat()
        })
        .collect();
    let three = Load::at_rest(10_000.0, 3.0);
    let forwarding = three.renewals() * 2.0 * costs[Cost::Forwarding] / three.predicted(costs).cpu_us;
    format!(
        "## How roles spread over a Cluster\n\n\
         Every role is in one slot, by its name, so roles spread evenly once there are many, and one role is never on\n\
         two masters. All locks are in one slot, and all jobs in another. A sidecar has a connection for each slot\n\
         with a role of its own, to that slot's master, one that tells where the slots are and one to listen; these\n\
         two begin at a node by the sidecar's own chance. So a Cluster costs a pod three connections instead of two,\n\
         and a sidecar with many roles many:\n\n\
         {}\n\
         Each heartbeat is passed on to every node, whoever listens where ([why](redis.md#cluster)), at {} µs and\n\
         some {} B a node: {:.0} % of what three masters do for 10,000 pods. More masters do not make that less, so a\n\
         Cluster of N carries less than N times what one Redis does. **Take a Cluster because you have one, or for\n\
         what else is in it; for Baton alone take several Redis.**\n",
        table(
            &["roles of a sidecar", "its connections", "sidecars by `maxclients` 10,000: 3 masters", "6", "12"],
            &lines
        ),
        figure(costs[Cost::Forwarding]),
        count(FORWARDED_B),
        forwarding * 100.0,
    )
}

fn api_server() -> String {
    let node_writes = KUBERNETES_NODES / NODE_LEASE_S;
    let lines: Vec<Vec<String>> = [100.0, 1_500.0, 7_500.0, KUBERNETES_PODS, 1_000_000.0]
        .iter()
        .map(|pods| {
            let load = Load::at_rest(*pods, 1.0);
            let share = load.renewals() / node_writes;
            let advice = match *pods {
                pods if pods > KUBERNETES_PODS => "several Kubernetes, or Redis",
                _ if share > 1.0 => "Redis",
                _ if share > 0.2 => "with an eye on etcd, or Redis",
                _ => "fine",
            };
            let figures = [*pods, load.roles(), load.renewals(), pods - load.roles()].map(count);
            [figures.to_vec(), vec![format!("{share:.2}"), advice.to_owned()]].concat()
        })
        .collect();
    let columns = ["pods", "Leases", "writes/s", "watches", "over the nodes' own writes", "what to do"];
    format!(
        "## And a Kubernetes API server\n\n\
         `store.kubernetes` needs no Redis. A leader writes its Lease once in a `renewPeriod`, each standby has a\n\
         watch open, and nothing else is asked at rest ([measured](kubernetes.md#the-load)). Kubernetes is made for\n\
         [{} nodes and {} pods](https://kubernetes.io/docs/setup/best-practices/cluster-large/), and each node\n\
         [writes a Lease of its own](https://kubernetes.io/docs/reference/node/node-status/#heartbeats) every\n\
         {NODE_LEASE_S:.0} s: {node_writes:.0} writes a second at most, which is what Baton's are held against here.\n\
         Each write goes to the disks of a majority of etcd:\n\n\
         {}",
        count(KUBERNETES_NODES),
        count(KUBERNETES_PODS),
        table(&columns, &lines),
    )
}

fn model(samples: &[Costs], costs: &Costs) -> String {
    let lines = COSTS.map(|(cost, name, unit)| {
        let all: Vec<f64> = samples.iter().map(|sample| sample[cost]).collect();
        let [least, most] = [percentile(&all, 0.0), percentile(&all, 1.0)].map(figure);
        vec![name.to_owned(), format!("{} {unit}", figure(costs[cost])), format!("{least} to {most}")]
    });
    format!(
        "## The model\n\n\
         Each coefficient is a difference between two states of a Redis, in {} windows of a renewal period: nobody;\n\
         connections alone; as many roles as sidecars; fewer roles with {CROWDED_APP} sidecars each; and the first\n\
         and the third on a Cluster. Times are those of its main thread, sockets included, over loopback, on cores\n\
         that are kept awake, or else what it takes to wake them would count as Redis's. So its thread takes\n\n    \
         rest + connection × connections + renewals/s × (renewal + listeners × delivery + other nodes × forwarding)\n\n\
         and what else is asked; memory and bytes are sums of the same kind. Memory is the mean of {LOOKS} looks in a\n\
         window: the buffers of a leader's connection come with its requests and go again. A standby looks by itself\n\
         once in ten leases.\n\n\
         {}",
        samples.len(),
        table(&["what", "median", "from, to"], &lines),
    )
}

fn held(points: &[Point], costs: &Costs) -> String {
    let columns: Vec<&str> = ["where", "sidecars"]
        .into_iter()
        .chain(COMPARED.map(|(name, ..)| name))
        .chain(["resident", "busiest node's connections"])
        .collect();
    let lines: Vec<Vec<String>> = points
        .iter()
        .map(|point| {
            let cells =
                COMPARED.iter().zip(point.compared(costs)).map(|((_, _, shown), (measured, predicted, off))| {
                    let off = format!("{:+.0} %", off * 100.0);
                    let off = if point.is_off(predicted / measured) { format!("**{off}**") } else { off };
                    format!("{}, {} ({off})", shown(measured), shown(predicted))
                });
            let mut line = vec![point.site.to_owned(), count(point.load.pods)];
            line.extend(cells);
            let resident = point.measured.iter().map(|window| window.rss_b).fold(0.0, f64::max);
            line.push(format!("{:.1} MiB", resident / 1_048_576.0));
            line.push(count(point.busiest));
            line
        })
        .collect();
    let off: usize = points.iter().map(|point| point.off(costs)).sum();
    let verdict = match off {
        0 => format!("Every figure is within {:.0} %.", OFF_MAX * 100.0),
        off => format!("**{off} of them are off by more than {:.0} %.**", OFF_MAX * 100.0),
    };
    format!(
        "## Held against what was measured\n\n\
         Measured, the model's, and by how much that is off; none of these went into the coefficients. {verdict}\n\
         Threads, memory and bytes are those of all nodes together.\n\n\
         {}",
        table(&columns, &lines),
    )
}
