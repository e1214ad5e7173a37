//! What the kernel tells of a process.

/// Processor time of all its threads, in seconds, as the scheduler counts it: /proc/PID/stat counts in hundredths of a
/// second, which is too coarse for what is little.
///
/// # Panics
/// When there is no such process.
pub fn cpu_s(pid: u32) -> f64 {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("the process runs").flatten();
    let of_one = |thread: std::fs::DirEntry| {
        // One that has just ended has none.
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    };
    threads.filter_map(of_one).sum::<f64>() / 1e9
}

/// How often the scheduler has taken the processor from its threads to give it to somebody else.
///
/// # Panics
/// When there is no such process.
pub fn preempted(pid: u32) -> f64 {
    const FIELD: &str = "nonvoluntary_ctxt_switches:";
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("the process runs").flatten();
    let of_one = |thread: std::fs::DirEntry| {
        let text = std::fs::read_to_string(thread.path().join("status")).ok()?;
        text.lines().find_map(|line| line.strip_prefix(FIELD))?.trim().parse::<f64>().ok()
    };
    threads.filter_map(of_one).sum()
}

/// A number of its /proc/PID/status.
///
/// # Panics
/// When there is no such process, or no such number.
pub fn status(pid: u32, field: &str) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or_else(|| panic!("no {field}: {text}"))
}
