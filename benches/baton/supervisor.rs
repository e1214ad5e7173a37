//! Whatever ends the benchmark, nothing that it has started outlives it: it runs in a process of its own, below one
//! that does nothing but wait for that.
//!
//! Both take in whose parent has ended (`PR_SET_CHILD_SUBREAPER`), so that every server, replica and peer is below the
//! process above when the benchmark has gone, killed or not. It ends them by their ids, which nobody else can have
//! meanwhile: it has not collected them. Should it be killed itself, the benchmark reads the end of its standard input,
//! and does the same. What they leave in the folder of temporary files goes as well.

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, wait};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

/// Set in the environment of the benchmark itself: where its temporary files are.
const SUPERVISED: &str = "BATON_BENCH_SUPERVISED";
/// Who is killed is gone long before.
const END_MAX: Duration = Duration::from_secs(10);

/// Runs the benchmark in a process below this one, and returns its exit code. None in that process itself, which has
/// to do the work.
pub fn supervise() -> Option<ExitCode> {
    set_child_subreaper(Some(getpid())).expect("Linux lets a process take in the children of its children");
    if let Some(files) = std::env::var_os(SUPERVISED) {
        std::thread::spawn(move || end_with_the_supervisor(Path::new(&files)));
        return None;
    }
    let files = TempDir::new().expect("a temporary directory");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("the operating system gives a runtime");
    let code = runtime.block_on(async {
        let mut command = Command::new(std::env::current_exe().expect("this program is a file"));
        command.args(std::env::args_os().skip(1)).env(SUPERVISED, files.path()).env("TMPDIR", files.path());
        let child = command.stdin(std::process::Stdio::piped()).spawn().expect("this program starts again");
        end_of(child).await
    });
    end_all_below();
    Some(ExitCode::from(code))
}

/// Waits for the benchmark, or for a signal that is meant for it.
async fn end_of(mut child: Child) -> u8 {
    // Held, for its end would be that of the benchmark.
    let _input = child.stdin.take();
    let listen = |kind| signal(kind).expect("the operating system tells of signals");
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt()), listen(SignalKind::terminate()));
    let mut hang_up = listen(SignalKind::hangup());
    let signalled = |kind: SignalKind| 128 + u8::try_from(kind.as_raw_value()).unwrap_or_default();
    tokio::select! {
        ended = child.wait() => {
            let code = ended.ok().and_then(|status| status.code());
            code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
        }
        _ = interrupt.recv() => signalled(SignalKind::interrupt()),
        _ = terminate.recv() => signalled(SignalKind::terminate()),
        _ = hang_up.recv() => signalled(SignalKind::hangup()),
    }
}

/// In the benchmark: its standard input ends with the process above it.
fn end_with_the_supervisor(files: &Path) {
    // An error is an end as well; nothing is ever written there.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    end_all_below();
    // What cannot be removed stays.
    let _ = std::fs::remove_dir_all(files);
    std::process::exit(1);
}

/// Kills every process below this one. Those whose parent ends that way come below this one, and are next.
fn end_all_below() {
    let begun = Instant::now();
    loop {
        let below = below(getpid());
        if below.is_empty() {
            return;
        }
        for pid in &below {
            // Fails only when it has ended already.
            let _ = kill_process(*pid, Signal::KILL);
        }
        if begun.elapsed() > END_MAX {
            eprintln!("these processes of the benchmark do not end: {below:?}");
            return;
        }
        // Collects one that was killed; there may be none yet.
        if !matches!(wait(WaitOptions::NOHANG), Ok(Some(_))) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The children of a process, those that have ended and were not collected included.
fn below(parent: Pid) -> Vec<Pid> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let child = |entry: std::fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse::<i32>().ok().and_then(Pid::from_raw)?;
        // One that has gone meanwhile has no file. The second field is a name in brackets, which may hold anything.
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let above = stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse::<i32>().ok()?;
        (above == parent.as_raw_nonzero().get()).then_some(pid)
    };
    processes.filter_map(child).collect()
}
