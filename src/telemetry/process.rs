//! The `process_*` series that Prometheus clients share, from Linux's /proc. A figure that cannot be read is left out.

use prometheus::Gauge;
use prometheus::core::Collector;
use prometheus::proto::{MetricFamily, MetricType};
use rustix::process::{Resource, getrlimit};

/// The families, read now. `started_at_s`: when the process began, in seconds since the Unix epoch.
pub(super) fn families(started_at_s: f64) -> Vec<MetricFamily> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bytes = |field| status_kib(&status, field).map(|kib| kib * 1024.0);
    let figures = [
        ("process_cpu_seconds_total", "CPU time used by this process, in seconds.", cpu_s(), MetricType::COUNTER),
        ("process_max_fds", "File descriptors that may be open.", fds_max(), MetricType::GAUGE),
        ("process_open_fds", "File descriptors that are open.", fds_open(), MetricType::GAUGE),
        ("process_resident_memory_bytes", "Memory in use, in bytes.", bytes("VmRSS:"), MetricType::GAUGE),
        (
            "process_start_time_seconds",
            "When this process started, since the epoch.",
            Some(started_at_s),
            MetricType::GAUGE,
        ),
        ("process_threads", "Threads of this process.", status_kib(&status, "Threads:"), MetricType::GAUGE),
        ("process_virtual_memory_bytes", "Address space in use, in bytes.", bytes("VmSize:"), MetricType::GAUGE),
    ];
    figures.into_iter().filter_map(|(name, help, value, kind)| family(name, help, value?, kind)).collect()
}

fn family(name: &str, help: &str, value: f64, kind: MetricType) -> Option<MetricFamily> {
    let gauge = Gauge::new(name, help).ok()?;
    gauge.set(value);
    let mut family = gauge.collect().pop()?;
    if kind == MetricType::COUNTER {
        family.set_field_type(kind);
        for metric in family.mut_metric() {
            let mut counter = prometheus::proto::Counter::default();
            counter.set_value(value);
            metric.set_counter(counter);
        }
    }
    Some(family)
}

fn status_kib(status: &str, field: &str) -> Option<f64> {
    status.lines().find_map(|line| line.strip_prefix(field))?.split_whitespace().next()?.parse().ok()
}

/// User and system time of all threads: fields 14 and 15 of /proc/self/stat, in ticks.
fn cpu_s() -> Option<f64> {
    /// Fixed by the kernel's interface on every architecture that Baton runs on.
    const TICKS_PER_S: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the program's name in parentheses, and may hold anything.
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    let (user, system): (f64, f64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) / TICKS_PER_S)
}

fn fds_open() -> Option<f64> {
    // The directory is itself open while it is counted.
    let count = std::fs::read_dir("/proc/self/fd").ok()?.count().checked_sub(1)?;
    u32::try_from(count).ok().map(f64::from)
}

fn fds_max() -> Option<f64> {
    getrlimit(Resource::Nofile).current.map(|limit| limit as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_threads_and_files() {
        let families = families(1.5);
        assert_eq!(families.len(), 7, "{families:?}");
        for family in families {
            let metric = &family.get_metric()[0];
            let value = metric.get_gauge().get_value().max(metric.get_counter().get_value());
            // A process this young may have used less than one tick of CPU time.
            assert!(value > 0.0 || family.name() == "process_cpu_seconds_total", "{family:?}");
        }
    }
}
