//! Programs as runs.

use super::super::{CancelReason, Ended, Order};
use super::stage::{Stage, failed, until};
use crate::config::{ExecRun, LogConfig, LogFormat, LogLevel, RunConfig};
use crate::telemetry::logging::caught::logged;

const DONE: Ended = Ended::Succeeded { note: None };

fn with(run: RunConfig, change: impl FnOnce(&mut ExecRun)) -> RunConfig {
    match run {
        RunConfig::Exec(mut exec) => {
            change(&mut exec);
            RunConfig::Exec(exec)
        }
        http @ RunConfig::Http(_) => http,
    }
}

#[tokio::test]
async fn a_program_knows_which_attempt_it_is_and_its_success_is_the_runs() {
    let stage = Stage::calm().await;
    let script = "echo \"$BATON_RUN_ID $BATON_JOB $BATON_SCHEDULED_TIME $BATON_ATTEMPT $BATON_TOKEN $BATON_ROLE $MINE\
                  \" >env; cat >stdin; echo >>stdin";
    let run = with(stage.script(script, 1_000), |exec| {
        exec.env = [("MINE", "yes"), ("BATON_TOKEN", "forged")].map(|(k, v)| (k.to_owned(), v.to_owned())).to_vec();
    });
    assert_eq!(stage.begin(run).ends().await, DONE);
    let wanted = "nightly-1763690400 nightly 2025-11-21T02:00:00Z 2 1763690400000007 scheduler yes";
    assert_eq!(stage.written("env").await, wanted);
    assert_eq!(stage.written("stdin").await, "", "there is nobody to type");
}

#[tokio::test]
async fn a_program_finds_what_its_run_was_given_and_nothing_of_another() {
    let stage = Stage::calm().await;
    let run = || with(stage.script("echo \"${BATON_DATA-none}\" >given", 1_000), |_| {});
    assert_eq!(stage.begin_given(run(), Some("{\"rows\": \"a b\"}")).ends().await, DONE);
    assert_eq!(stage.written("given").await, "{\"rows\": \"a b\"}");
    assert_eq!(stage.begin(run()).ends().await, DONE);
    assert_eq!(stage.written("given").await, "none");
}

#[tokio::test]
async fn a_bad_end_is_told_by_its_code_or_signal() {
    let stage = Stage::calm().await;
    for (script, note) in
        [("exit 3", "exit code 3"), ("kill -9 $$", "killed by signal 9 (KILL)"), ("kill -50 $$", "killed by signal 50")]
    {
        assert_eq!(stage.begin(stage.script(script, 1_000)).ends().await, failed(note));
    }
    let absent = with(stage.script("", 1_000), |exec| exec.command = vec!["/no/such/program".to_owned()]);
    let note = "/no/such/program cannot be started: No such file or directory (os error 2)";
    assert_eq!(stage.begin(absent).ends().await, failed(note));
    let nul = with(stage.script("", 1_000), |exec| exec.command.push("a\0b".to_owned()));
    assert!(
        matches!(stage.begin(nul).ends().await, Ended::Failed { note } if note.starts_with("sh cannot be started"))
    );
}

#[tokio::test]
async fn a_cancelled_program_gets_term_and_its_grace_and_then_kill() {
    let stage = Stage::calm().await;
    let tidy = "trap 'echo tidied >tidy; exit 0' TERM; echo $$ >pid; while [ -e pid ]; do sleep 0.01; done";
    let running = stage.begin(stage.script(tidy, 15_000));
    stage.process("pid").await;
    running.order(Order::Heartbeat);
    running.order(Order::Cancel(CancelReason::Replaced));
    assert_eq!(running.ends().await, Ended::Cancelled);
    assert_eq!(stage.written("tidy").await, "tidied", "it had the time");

    let deaf = "trap '' TERM; echo $$ >deaf; while [ -e deaf ]; do sleep 0.01; done";
    let running = stage.begin(stage.script(deaf, 300));
    let process = stage.process("deaf").await;
    running.order(Order::Cancel(CancelReason::Deadline));
    running.order(Order::Cancel(CancelReason::Deadline));
    assert_eq!(running.ends().await, Ended::Cancelled);
    assert!(!process.runs());
    assert!(stage.role.leads(), "nothing else happened");
}

#[tokio::test]
async fn what_a_program_leaves_running_in_its_group_ends_with_it() {
    let stage = Stage::calm().await;
    let script = "trap '' TERM HUP; (echo \"$(exec sh -c 'echo $PPID')\" >left; \
                  while [ -e left ]; do sleep 0.01; done) & while [ ! -s left ]; do sleep 0.01; done";
    assert_eq!(stage.begin(stage.script(script, 1_000)).ends().await, DONE);
    assert!(!stage.process("left").await.runs());
}

#[tokio::test]
async fn who_left_the_group_and_keeps_the_pipes_open_holds_nobody_up() {
    let stage = Stage::calm().await;
    let script = "setsid sh -c 'echo $$ >away; while [ -e away ]; do sleep 0.01; done' & \
                  while [ ! -s away ]; do sleep 0.01; done";
    assert_eq!(stage.begin(stage.script(script, 1_000)).ends().await, DONE);
    let away = stage.process("away").await;
    assert!(away.runs(), "it is out of reach, which the page on jobs says");
    std::fs::remove_file(stage.files.path().join("away")).unwrap();
    until("it is gone", || !away.runs()).await;
}

#[tokio::test]
async fn a_program_that_closes_its_output_goes_on() {
    let stage = Stage::calm().await;
    let script = "exec >&- 2>&-; echo shut >shut; while [ ! -e go ]; do sleep 0.01; done; exit 4";
    let running = stage.begin(stage.script(script, 1_000));
    stage.written("shut").await;
    assert!(running.goes_on());
    std::fs::write(stage.files.path().join("go"), "").unwrap();
    assert_eq!(running.ends().await, failed("exit code 4"));
}

#[tokio::test]
async fn a_dropped_attempt_leaves_no_process() {
    let stage = Stage::calm().await;
    let script = "trap '' TERM; echo $$ >pid; while [ -e pid ]; do sleep 0.01; done";
    let running = stage.begin(stage.script(script, 1_000));
    let process = stage.process("pid").await;
    running.drop_it().await;
    until("it is gone", || !process.runs()).await;
}

/// What is logged while a script runs, as JSON, and how it ended.
fn lines_of(script: &str, output_max: u64) -> (Vec<serde_json::Value>, Ended) {
    let config = LogConfig { level: LogLevel::Info, format: LogFormat::Json };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut end = None;
    let text = logged(config, || {
        end = Some(runtime.block_on(async {
            let stage = Stage::calm().await;
            let run = with(stage.script(script, 1_000), |exec| exec.output_max = output_max);
            stage.begin(run).ends().await
        }));
    });
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    (lines.filter(|line: &serde_json::Value| line["run"] == "nightly-1763690400").collect(), end.unwrap())
}

#[test]
fn output_is_logged_line_by_line_with_the_job_the_run_and_the_stream() {
    let (lines, end) = lines_of("printf 'one\\ntwo'; echo 'caf\\303 \\033[31mx' >&2; exit 1", 1_000);
    assert_eq!(end, failed("exit code 1"));
    let said = |stream: &str| -> Vec<&str> {
        let lines = lines.iter().filter(|line| line["stream"] == stream && line["job"] == "nightly");
        lines.map(|line| line["message"].as_str().unwrap()).collect()
    };
    assert_eq!(said("stdout"), ["one", "two"]);
    assert_eq!(said("stderr"), ["caf\u{fffd} \u{fffd}[31mx"]);
    assert_eq!(lines.len(), 3, "{lines:?}");
}

#[test]
fn a_flood_of_output_is_bounded_and_its_writer_never_waits_for_the_log() {
    const FLOOD: u64 = 100_000_000;
    let (lines, end) = lines_of(&format!("yes 'a line of output' | head -c {FLOOD}"), 10_000);
    assert_eq!(end, DONE, "it could write all of it");
    let (last, logged) = lines.split_last().unwrap();
    let bytes: u64 = logged.iter().map(|line| line["message"].as_str().unwrap().len() as u64 + 1).sum();
    assert!((9_980..=10_010).contains(&bytes), "{bytes}");
    let dropped = last["dropped_bytes"].as_u64().unwrap();
    // The cut line's ellipsis is ours, and its break is neither.
    assert!(dropped.abs_diff(FLOOD - bytes) < 5, "{dropped} dropped, {bytes} logged");
}
