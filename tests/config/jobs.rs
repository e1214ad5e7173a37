//! `jobs:`: what they become, and what is refused.

use std::time::Duration;

use baton::config::{ExecRun, HttpRun, JobConfig, RunConfig, Secret};
use baton::protocol::jobs::{
    BackoffPolicy, CatchUp, Concurrency, HistoryLimits, JobPolicy, OnInterrupt, Timetable, Wall,
};
use secrecy::ExposeSecret;

use crate::support::{BASE, check, good, good_with, problems};

/// [`BASE`] with a job; its keys stand from line 8 on.
fn file(job: &str) -> String {
    format!("{BASE}jobs:\n  - {}\n", job.trim().replace('\n', "\n    "))
}

/// The store of [`BASE`], in two lines.
const REDIS: &str = "redis:\n    url: redis://redis:6379/0";
const HTTP: &str = "name: nightly\nschedule: 0 2 * * *\nrun: { http: { url: 'http://127.0.0.1:8080/n' } }";
const EXEC: &str = "name: sweep\nschedule: 0 2 * * *\nrun: { exec: { command: [sweep] } }";

fn job(text: &str) -> JobConfig {
    good(&file(text)).jobs()[0].clone()
}

fn http(text: &str) -> HttpRun {
    let RunConfig::Http(run) = job(text).run else { panic!("no http in {text}") };
    run
}

fn exec(text: &str) -> ExecRun {
    let RunConfig::Exec(run) = job(text).run else { panic!("no exec in {text}") };
    run
}

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn what_is_not_given_is_as_kubernetes_has_it() {
    let nightly = job(HTTP);
    assert_eq!((nightly.name.as_str(), nightly.role.as_str()), ("nightly", "scheduler"));
    assert_eq!(nightly.schedule.name(), "0 0 2 * * * UTC");
    let policy = JobPolicy {
        concurrency: Concurrency::Allow,
        starting_deadline: None,
        catch_up: CatchUp::Latest,
        suspend: false,
        backoff: BackoffPolicy { limit: 6, initial: s(10), max: s(360) },
        active_deadline: None,
        on_interrupt: OnInterrupt::Retry,
        history: HistoryLimits { succeeded: 3, failed: 1 },
    };
    assert_eq!(nightly.policy, policy);
    let run = http(HTTP);
    assert_eq!((run.method.as_str(), run.url.as_str()), ("POST", "http://127.0.0.1:8080/n"));
    assert!(run.headers.is_empty() && run.body.is_none());
    assert_eq!((run.timeout, run.success, run.heartbeat_timeout), (s(30), vec![200..=299], None));
    let run = exec(EXEC);
    assert_eq!((run.command, run.env, run.grace, run.output_max), (vec!["sweep".to_owned()], vec![], s(5), 65_536));
    assert!(good(BASE).jobs().is_empty() && good(&format!("{BASE}jobs: []\n")).jobs().is_empty());
    assert!(check(&file(HTTP)).unwrap().warnings.is_empty());
}

#[test]
fn what_is_given_is_taken() {
    let nightly = job("
name: nightly
role: scheduler
schedule: 30 2 * * 1-5
timeZone: Europe/Berlin
concurrencyPolicy: Replace
startingDeadlineSeconds: 300
catchUp: all
suspend: true
backoffLimit: 0
backoff: { initial: 1s, max: 1m }
activeDeadlineSeconds: 1800
onInterrupt: fail
successfulJobsHistoryLimit: 0
failedJobsHistoryLimit: 1000
run:
  http:
    method: PUT
    url: https://reports.example.com:8443/run?full=1
    headers: [{ name: X-Api-Key, value: one two }]
    body: '{\"run\":\"{{run}}\",\"job\":\"{{job}}\",\"at\":\"{{scheduledTime}}\",\"n\":{{attempt}},\"t\":{{token}}}'
    timeout: 2m
    successStatus: [200, 204-205, '404']
    heartbeatTimeout: 10m");
    let after = Wall::from_millis(1_767_225_600_000);
    assert_eq!(nightly.schedule.next_after(after), Some(Wall::from_millis(1_767_231_000_000)), "2026-01-01 01:30 UTC");
    let policy = JobPolicy {
        concurrency: Concurrency::Replace,
        starting_deadline: Some(s(300)),
        catch_up: CatchUp::All,
        suspend: true,
        backoff: BackoffPolicy { limit: 0, initial: s(1), max: s(60) },
        active_deadline: Some(s(1_800)),
        on_interrupt: OnInterrupt::Fail,
        history: HistoryLimits { succeeded: 0, failed: 1_000 },
    };
    assert_eq!(nightly.policy, policy);
    let RunConfig::Http(run) = nightly.run else { panic!("no http") };
    assert_eq!((run.method.as_str(), run.url.query()), ("PUT", Some("full=1")));
    assert_eq!((run.timeout, run.heartbeat_timeout), (s(120), Some(s(600))));
    assert_eq!(run.success, [200..=200, 204..=205, 404..=404]);
    assert!(run.body.unwrap().starts_with("{\"run\":\"{{run}}\""));
    let (name, Secret::Value(value)) = &run.headers[0] else { panic!("{:?}", run.headers) };
    assert_eq!((name.as_str(), value.expose_secret()), ("X-Api-Key", "one two"));

    let command = "command: [sh, -c, '', '7'], env: [{ name: A, value: '' }], terminationGracePeriod: 0s, maxOutput: 0";
    let run = exec(&EXEC.replace("command: [sweep]", command));
    assert_eq!(run.command, ["sh", "-c", "", "7"]);
    assert_eq!((run.env, run.grace, run.output_max), (vec![("A".to_owned(), String::new())], s(0), 0));
}

#[test]
fn a_jitter_moves_a_job_by_its_name_and_never_up_to_its_next_slot() {
    let schedule =
        |name: &str, more: &str| job(&HTTP.replace("name: nightly", &format!("name: {name}\n{more}"))).schedule;
    assert_eq!(schedule("nightly", "jitter: 30m").name(), "0 0 2 * * * UTC +752s");
    assert_eq!(schedule("nightly", "jitter: 30m"), schedule("nightly", "suspend: true\njitter: 30m"));
    assert_ne!(schedule("nightly", "jitter: 30m").name(), schedule("other", "jitter: 30m").name());
    for (expression, most, over) in
        [("@every 10s", "9s", "10s"), ("'*/5 * * * *'", "4m", "5m"), ("0 1,4 * * *", "2h", "3h")]
    {
        let with =
            |jitter: &str| HTTP.replace("0 2 * * *", &format!("'{}'\njitter: {jitter}", expression.trim_matches('\'')));
        assert!(check(&file(&with(most))).unwrap().warnings.is_empty());
        let told = problems(&file(&with(over)), &[]);
        assert!(told.len() == 1 && (told[0].0, told[0].1.as_str()) == (10, "jobs[0].jitter"), "{told:?}");
    }
}

#[test]
fn a_replica_may_be_bounded_in_what_it_runs_at_once() {
    let bounded = |count: &str| format!("{}maxConcurrentRuns: {count}\n", file(HTTP));
    assert_eq!((good(&file(HTTP)).max_concurrent_runs(), good(&bounded("3")).max_concurrent_runs()), (None, Some(3)));
    for bad in ["0", "10001", "many"] {
        let told = problems(&bounded(bad), &[]);
        assert!(
            told.len() == 1 && told[0].1 == "maxConcurrentRuns" && told[0].2.contains("from 1 to 10000"),
            "{told:?}"
        );
    }
}

#[test]
fn a_job_that_fans_out_is_one_job_for_each_shard_of_its_role() {
    let split = |text: &str| file(text).replace("- name: scheduler", "- { name: stock, shards: 3 }\n  - name: other");
    let fans = HTTP.replace("name: nightly", "name: nightly\nfanOut: true\njitter: 30m");
    for text in [fans.clone(), fans.replace("fanOut", "role: stock\nfanOut")] {
        let config = good(&split(&text));
        let parts: Vec<(&str, &str)> = config.jobs().iter().map(|job| (job.name.as_str(), job.role.as_str())).collect();
        assert_eq!(parts, [("nightly/0", "stock/0"), ("nightly/1", "stock/1"), ("nightly/2", "stock/2")]);
        let schedules: Vec<String> = config.jobs().iter().map(|job| job.schedule.name()).collect();
        assert!(schedules[0] != schedules[1] && schedules[1] != schedules[2], "each has its own place: {schedules:?}");
    }
    let told = |text: &str| {
        let told = problems(&split(text), &[]);
        assert_eq!(told.len(), 1, "{told:?}");
        (told[0].1.clone(), told[0].2.clone())
    };
    for role in ["other", "stock/1", "absent"] {
        let (path, message) = told(&fans.replace("fanOut", &format!("role: {role}\nfanOut")));
        assert_eq!(path, "jobs[0].role");
        assert!(message.contains("split over shards") && message.contains("there are `stock`"), "{message}");
    }
    let alone = problems(&file(&fans), &[]);
    assert!(alone.len() == 1 && alone[0].2.contains("there is none"), "{alone:?}");
    let shard = "url: 'http://127.0.0.1:8080/n', body: '{{shard}}'";
    let named = HTTP.replace("url: 'http://127.0.0.1:8080/n'", shard);
    let (path, message) = told(&named.replace("schedule:", "role: other\nschedule:"));
    assert!(path == "jobs[0].run" && message.contains("is not split over shards"), "{path}: {message}");
    assert_eq!(
        good(&split(&named.replace("schedule:", "role: stock/1\nschedule:"))).jobs()[0].name.as_str(),
        "nightly"
    );
}

#[test]
fn a_programs_grace_fits_its_roles_timing() {
    let grace = |role: &str| {
        let text = file(EXEC).replace("- name: scheduler", role);
        let RunConfig::Exec(run) = good(&text).jobs()[0].run.clone() else { panic!("{text}") };
        run.grace
    };
    assert_eq!(grace("- { name: a, leaseDuration: 3s }"), s(1), "the answer's validity, a third of the lease");
    assert_eq!(grace("- { name: a, leaseDuration: 3s, answerValidity: 2s }"), Duration::from_millis(1_400), "half");
    assert_eq!(grace("- { name: a, leaseDuration: 1m }"), s(5));
}

#[test]
fn secrets_come_from_files_and_the_environment_and_are_not_shown() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    std::fs::write(&path, "hunter2\n").unwrap();
    let text = "name: a\nschedule: '@daily'\nrun:\n  http:\n    url: 'http://a/?key=${KEY}'\n    body: '${KEY}'\n    \
                headers: [{ name: A, value: '${KEY}' }, { name: B, valueFile: FILE }]";
    let config = good_with(&file(&text.replace("FILE", path.to_str().unwrap())), &[("KEY", "hunter2")]);
    let RunConfig::Http(run) = &config.jobs()[0].run else { panic!("{config:?}") };
    for (_, secret) in &run.headers {
        assert_eq!(secret.read().unwrap().expose_secret(), "hunter2");
    }
    assert_eq!((run.url.query(), run.body.as_deref()), (Some("key=hunter2"), Some("hunter2")));
    let exec = EXEC.replace("[sweep]", "[sweep, '${KEY}'], env: [{ name: KEY, value: '${KEY}' }]");
    for shown in [format!("{config:?}"), format!("{:?}", good_with(&file(&exec), &[("KEY", "hunter2")]))] {
        assert!(!shown.contains("hunter2"), "{shown}");
    }
    for (from, to) in [
        ("0 2 * * *", "${KEY}"),
        ("name: nightly", "name: ${KEY}"),
        ("name: nightly", "name: nightly\ntimeZone: ${KEY}"),
        ("http://127.0.0.1:8080/n", "${KEY}"),
        ("http://127.0.0.1:8080/n", "http://a:${KEY}@b"),
        ("/n'", "/n', body: '{{${KEY}}}'"),
        ("/n'", "/n', headers: [{ name: A, value: '${KEY}ä' }]"),
        ("/n'", "/n', headers: [{ name: '${KEY} ', value: a }]"),
        ("/n'", "/n', successStatus: ['${KEY}']"),
        ("name: nightly", "name: nightly\nsuspend: ${KEY}"),
    ] {
        let told = problems(&file(&HTTP.replace(from, to)), &[("KEY", "Europe/hunter2")]);
        assert!(told.len() == 1 && !told[0].2.contains("hunter2"), "{to}: {told:?}");
    }
}

/// What to replace in a job, by what, and the expected problem: line, path within the job, part of the message.
type Case<'c> = (&'c str, &'c str, usize, &'c str, &'c str);

fn expect_each(base: &str, cases: &[Case<'_>]) {
    for (from, to, line, path, fragment) in cases {
        assert!(base.contains(from), "{from:?} is not in the base");
        let told = problems(&file(&base.replace(from, to)), &[]);
        assert_eq!(told.len(), 1, "{to:?} makes {told:#?}");
        let (at, told_path, message) = &told[0];
        assert_eq!((*at, told_path.as_str()), (*line, format!("jobs[0]{path}").as_str()), "{to:?}: {message}");
        assert!(message.contains(fragment), "{to:?}: {message:?} lacks {fragment:?}");
    }
}

#[test]
fn jobs_that_cannot_be_are_told() {
    let (name, schedule) = ("name: nightly", "0 2 * * *");
    expect_each(
        HTTP,
        &[
            (name, "successfulJobsHistoryLimit: 3", 8, ".name", "is missing; add it (Its name"),
            (name, "name: Nightly", 8, ".name", "`Nightly` is not a job's name; use a DNS label: 1 to 52"),
            (name, "name: a\nrole: other", 9, ".role", "`other` is not one of the roles; they are `scheduler`"),
            (name, "name: a\nrole: [a]", 9, ".role", "is a list; write a single value"),
            (schedule, "0 0 30 2 *", 9, ".schedule", "`0 0 30 2 *` never comes: no month that it names has such a day"),
            (schedule, "0 25 * * *", 9, ".schedule", "is wrong in field 2, the hour; write `*` or 0 to 23"),
            (schedule, "'61 0 2 * * *'", 9, ".schedule", "is wrong in field 1, the second"),
            (schedule, "hourly", 9, ".schedule", "has 1 fields; write five"),
            (schedule, "'@hourli'", 9, ".schedule", "`@hourli` is not known; the names are"),
            (schedule, "'@every 1.5s'", 9, ".schedule", "whole seconds; write `@every 1s` or longer"),
            (schedule, "TZ=Europe/Berlin 0 2 * * *", 9, ".schedule", "write the zone in `timeZone`"),
            (schedule, "7", 9, ".schedule", "put it in quotes"),
            (name, "name: a\ntimeZone: Europe/Berln", 9, ".timeZone", "did you mean Europe/Berlin?"),
            (
                name,
                "name: a\nconcurrencyPolicy: forbid",
                9,
                ".concurrencyPolicy",
                "one of `Allow`, `Forbid`, `Replace`",
            ),
            (name, "name: a\ncatchUp: some", 9, ".catchUp", "one of `none`, `latest`, `all`"),
            (name, "name: a\njitter: 30", 9, ".jitter", "has no unit"),
            (name, "name: a\njitter: 500ms", 9, ".jitter", "must be between 1s and 24h"),
            (name, "name: a\njitter: 24h", 9, ".jitter", "less than 86400s, the shortest time between two slots"),
            (name, "name: a\nonInterrupt: stop", 9, ".onInterrupt", "one of `retry`, `fail`"),
            (name, "name: a\nsuspend: 'yes'", 9, ".suspend", "`yes` is neither true nor false"),
            (name, "name: a\nstartingDeadlineSeconds: 0", 9, ".startingDeadlineSeconds", "from 1 to 31536000"),
            (name, "name: a\nstartingDeadlineSeconds: 5m", 9, ".startingDeadlineSeconds", "write a whole number"),
            (name, "name: a\nactiveDeadlineSeconds: 0", 9, ".activeDeadlineSeconds", "from 1 to 31536000"),
            (name, "name: a\nbackoffLimit: 101", 9, ".backoffLimit", "from 0 to 100"),
            (name, "name: a\nbackoff: { initial: 0s }", 9, ".backoff.initial", "is zero"),
            (name, "name: a\nbackoff: { initial: 25h }", 9, ".backoff.initial", "at most 24h"),
            (name, "name: a\nbackoff: { initial: 1m, max: 1s }", 9, ".backoff.max", "between initial, 60s, and 24h"),
            (name, "name: a\nsuccessfulJobsHistoryLimit: 1001", 9, ".successfulJobsHistoryLimit", "from 0 to 1000"),
            (name, "name: a\nfailedJobsHistoryLimit: -1", 9, ".failedJobsHistoryLimit", "from 0 to 1000"),
            (name, "name: a\nparallelism: 2", 9, ".parallelism", "unknown key"),
        ],
    );
    let two = file(HTTP).replace("    url", "    # url") + "  - name: nightly\n    schedule: '@daily'\n    run: {}\n";
    let two = two.replace("    # url", "    url");
    let told = problems(&two, &[]);
    let expected = [(11, "jobs[1].name", "the name of jobs[0] too"), (13, "jobs[1].run", "names nothing to run")];
    assert_eq!(told.len(), expected.len(), "{told:?}");
    for ((line, path, message), (line_expected, path_expected, fragment)) in told.iter().zip(expected) {
        assert_eq!((*line, path.as_str()), (line_expected, path_expected));
        assert!(message.contains(fragment), "{message}");
    }
}

#[test]
fn a_job_needs_its_role_named_when_there_are_several() {
    let several = file(HTTP).replace("- name: scheduler", "- name: a\n  - name: b");
    let told = problems(&several, &[]);
    assert!(told.len() == 1 && told[0].1 == "jobs[0].role", "{told:?}");
    assert!(told[0].2.contains("add one of `a`, `b`"), "{told:?}");
    assert_eq!(good(&several.replace("schedule:", "role: b\n    schedule:")).jobs()[0].role.as_str(), "b");
    // Of a role that is wrong itself one problem is enough.
    let told = problems(&file(HTTP).replace("- name: scheduler", "- name: Scheduler"), &[]);
    assert_eq!(told.len(), 1, "{told:?}");
}

#[test]
fn requests_that_cannot_be_are_told() {
    let end = "/n' }";
    let url = "'http://127.0.0.1:8080/n'";
    expect_each(
        HTTP,
        &[
            (url, "'127.0.0.1:8080/n'", 10, ".run.http.url", "is not a URL"),
            (url, "app/n", 10, ".run.http.url", "write it as http://127.0.0.1:8080/jobs/nightly"),
            (url, "ftp://app/n", 10, ".run.http.url", "is neither http: nor https:"),
            (url, "'http://u:p@app/n'", 10, ".run.http.url", "give them in a header"),
            (url, "'http://app/n#top'", 10, ".run.http.url", "holds a `#…`"),
            (url, "'http://'", 10, ".run.http.url", "is not a URL: empty host"),
            (url, "'http://bücher.example/n'", 10, ".run.http.url", "is not a URL: invalid international domain name"),
            (end, "/n', method: post }", 10, ".run.http.method", "`post` is not known here; write one of `GET`"),
            (end, "/n', method: GET, body: a }", 10, ".run.http.body", "a GET request has no body"),
            (end, "/n', timeout: 0s }", 10, ".run.http.timeout", "is zero"),
            (end, "/n', timeout: 25h }", 10, ".run.http.timeout", "at most 24h"),
            (
                end,
                "/n', successStatus: [200, 202], heartbeatTimeout: 1m }",
                10,
                ".run.http.successStatus",
                "names 202 as a success, and heartbeatTimeout says that it means accepted",
            ),
            (end, "/n', heartbeatTimeout: 60 }", 10, ".run.http.heartbeatTimeout", "has no unit"),
            (end, "/n', body: '{{runn}}' }", 10, ".run.http.body", "unknown placeholder `{{runn}}`; there are {{run}}"),
            (end, "/n', body: 'a {{ run }}' }", 10, ".run.http.body", "unknown placeholder `{{ run }}`"),
            (end, "/n', body: 'a {{run' }", 10, ".run.http.body", "a `{{` that begins no placeholder"),
            (end, "/n', body: '' }", 10, ".run.http.body", "is empty"),
            (end, "/n', successStatus: [] }", 10, ".run.http.successStatus", "nothing would be a success"),
            (end, "/n', successStatus: [20] }", 10, ".run.http.successStatus[0]", "`20` is no status"),
            (end, "/n', successStatus: [200, 299-200] }", 10, ".run.http.successStatus[1]", "two as `200-299`"),
            (end, "/n', successStatus: 200 }", 10, ".run.http.successStatus", "is a number; write a list"),
            (
                end,
                "/n', headers: [{ name: a b, value: c }] }",
                10,
                ".run.http.headers[0].name",
                "not the name of a header",
            ),
            (
                end,
                "/n', headers: [{ name: HOST, value: c }] }",
                10,
                ".run.http.headers[0].name",
                "`HOST` is a header that Baton",
            ),
            (end, "/n', headers: [{ name: Baton-X, value: c }] }", 10, ".run.http.headers[0].name", "sets itself"),
            (
                end,
                "/n', headers: [{ name: a }] }",
                10,
                ".run.http.headers[0]",
                "has no value; add `value`, or `valueFile`",
            ),
            (
                end,
                "/n', headers: [{ name: a, value: b }, { name: A, value: c }] }",
                10,
                ".run.http.headers[1].name",
                "keep one",
            ),
            (
                end,
                "/n', headers: [{ name: a, value: b, valueFile: c }] }",
                10,
                ".run.http.headers[0].valueFile",
                "beside value",
            ),
            (
                end,
                "/n', headers: [{ name: a, valueFile: /no/such }] }",
                10,
                ".run.http.headers[0].valueFile",
                "cannot be read",
            ),
            (
                end,
                "/n', headers: [{ name: a, value: \"b\\nc\" }] }",
                10,
                ".run.http.headers[0].value",
                "no header can carry",
            ),
            (end, "/n', headers: { a: b } }", 10, ".run.http.headers", "is a mapping; write a list"),
            ("} }", "}, exec: { command: [a] } }", 10, ".run", "has both http and exec"),
        ],
    );
}

/// The word of another pod would reach another sidecar.
#[test]
fn an_app_elsewhere_that_is_to_tell_how_a_run_ended_is_warned_of() {
    let warnings = |url: &str, more: &str| {
        let text = file(HTTP).replace("'http://127.0.0.1:8080/n'", &format!("'{url}'{more}"));
        check(&text).unwrap().warnings
    };
    let tells = ", heartbeatTimeout: 1m";
    for here in ["http://127.0.0.1:8080/n", "http://localhost/n", "http://[::1]/n", "http://127.1.2.3/n"] {
        assert!(warnings(here, tells).is_empty(), "{here}");
    }
    for elsewhere in ["http://shop/n", "http://shop.default.svc:8080/n", "https://10.1.2.3/n", "http://[2001:db8::1]/n"]
    {
        assert!(warnings(elsewhere, "").is_empty(), "{elsewhere}");
        let told = warnings(elsewhere, tells);
        assert!(told.len() == 1 && told[0].path == "jobs[0].run.http.url", "{elsewhere}: {told:?}");
        assert!(told[0].message.contains("another pod would tell its own"), "{told:?}");
    }
}

#[test]
fn programs_that_cannot_be_are_told() {
    let (command, end) = ("command: [sweep]", "[sweep] }");
    let (env, grace) = (".run.exec.env[0].name", ".run.exec.terminationGracePeriod");
    expect_each(
        EXEC,
        &[
            (command, "maxOutput: 7", 10, ".run.exec.command", "is missing; add it (The program"),
            (command, "command: []", 10, ".run.exec.command", "is empty; write the program"),
            (command, "command: ['']", 10, ".run.exec.command[0]", "is empty; write the program"),
            (command, "command: [sleep, 5]", 10, ".run.exec.command[1]", "is not a text; put it in quotes"),
            (command, "command: sweep", 10, ".run.exec.command", "is a text; write a list"),
            (command, "command: [\"a\\0b\"]", 10, ".run.exec.command[0]", "NUL"),
            (end, "[sweep], env: [{ name: A=B, value: a }] }", 10, env, "not the name of a variable"),
            (end, "[sweep], env: [{ name: BATON_ROLE, value: a }] }", 10, env, "sets itself"),
            (end, "[sweep], env: [{ name: A, value: 7 }] }", 10, ".run.exec.env[0].value", "put it in quotes"),
            (
                end,
                "[sweep], env: [{ name: A, value: a }, { name: A, value: b }] }",
                10,
                ".run.exec.env[1].name",
                "keep one",
            ),
            (end, "[sweep], maxOutput: 1Gi }", 10, ".run.exec.maxOutput", "from 0 to 16777216"),
            (end, "[sweep], terminationGracePeriod: 9s }", 10, grace, "less than 9s (leaseDuration - stepDownMargin"),
            (end, "[sweep], terminationGracePeriod: 6s }", 10, grace, "at most the role's answerValidity, 5s"),
        ],
    );
}

#[test]
fn stores_without_a_ledger_take_no_jobs() {
    let quorum = "quorum: { members: [{ url: 'redis://a' }, { url: 'redis://b' }, { url: 'redis://c' }] }";
    let told = problems(&file(HTTP).replace(REDIS, quorum), &[]);
    assert!(told.len() == 1 && told[0].1 == "jobs" && told[0].2.contains("independent masters"), "{told:?}");
    assert!(good(&format!("{BASE}jobs: []\n").replace(REDIS, quorum)).jobs().is_empty());
    for store in ["memory: {}", "kubernetes: {}"] {
        assert_eq!(good(&file(HTTP).replace(REDIS, store)).jobs().len(), 1, "{store}");
    }
}

#[test]
fn ledgers_in_lease_objects_are_not_written_all_the_time_and_have_room_for_some_history() {
    let leases = "kubernetes:\n    namespace: shop";
    let refused = |from: &str, to: &str| problems(&file(&HTTP.replace(from, to)).replace(REDIS, leases), &[]);
    let schedule = "0 2 * * *";
    for (to, fragment) in [
        ("'@every 5s'", "has slots 5s apart; with this store it must be 10s or more"),
        ("'*/5 * * * * *'", "has slots 5s apart"),
        ("'3,55 * * * * *'", "write `@every 10s` or longer, or name a Redis for them, jobsStore"),
    ] {
        let told = refused(schedule, to);
        assert!(told.len() == 1 && (told[0].0, told[0].1.as_str()) == (9, "jobs[0].schedule"), "{to}: {told:?}");
        assert!(told[0].2.contains(fragment), "{to}: {told:?}");
        assert!(good(&file(&HTTP.replace(schedule, to))).jobs().len() == 1, "Redis takes it");
    }
    for (key, over, most) in [("successfulJobsHistoryLimit", 101, 100), ("failedJobsHistoryLimit", 36, 35)] {
        let told = refused("name: nightly", &format!("name: nightly\n{key}: {over}"));
        assert!(told.len() == 1 && told[0].1 == format!("jobs[0].{key}"), "{told:?}");
        assert!(told[0].2.contains(&format!("at most {most}, because a Lease object has no room")), "{told:?}");
    }
    let most = "name: nightly\nsuccessfulJobsHistoryLimit: 100\nfailedJobsHistoryLimit: 35";
    let taken = |from: &str, to: &str| good(&file(&HTTP.replace(from, to)).replace(REDIS, leases)).jobs().len();
    assert_eq!(taken("name: nightly", most), 1);
    for to in ["'@every 10s'", "'*/10 * * * * *'", "'* * * * *'"] {
        assert_eq!(taken(schedule, to), 1, "{to}");
    }
}

#[test]
fn what_is_doubtful_about_a_job_is_told() {
    for (text, path, fragment) in [
        (HTTP.replace("run:", "startingDeadlineSeconds: 10\nrun:"), "startingDeadlineSeconds", "leaseDuration, 15s"),
        (HTTP.replace("0 2 * * *", "'@every 90s'\ntimeZone: Europe/Berlin"), "timeZone", "changes nothing"),
    ] {
        let warnings = check(&file(&text)).unwrap().warnings;
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert_eq!(warnings[0].path, format!("jobs[0].{path}"));
        assert!(warnings[0].message.contains(fragment), "{warnings:?}");
    }
}

#[test]
fn many_jobs_are_read_and_more_than_ten_thousand_are_not() {
    let job = |n: usize| format!("- {{name: j{n}, schedule: '0 2 * * *', run: *r}}\n");
    let jobs: String = (1..2_000).map(job).collect();
    let first = "- {name: j0, schedule: '@daily', run: &r {http: {url: 'http://a'}}}\n";
    assert_eq!(good(&format!("{BASE}jobs:\n{first}{jobs}")).jobs().len(), 2_000);
    let told = problems(&format!("{BASE}jobs: [{}{{}}]\n", "{},".repeat(10_000)), &[]);
    assert_eq!((told[0].0, told[0].1.as_str()), (7, "jobs"), "{:?}", told[0]);
    assert!(told[0].2.contains("are 10001; no more than 10000 are taken"), "{:?}", told[0]);
}
