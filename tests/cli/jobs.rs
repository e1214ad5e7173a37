//! `baton jobs` beside a sidecar.

use testkit::ports::free_port;

use crate::bench::{Bench, PATIENCE, Running, ask, dev_port};

/// A sidecar over memory that leads, with a job that ends by nothing but a signal, and one of every day.
async fn sidecar() -> (Bench, Running, u16) {
    let port = dev_port();
    let bench = Bench::new().with("BATON_API", &format!("127.0.0.1:{port}"));
    let text = format!(
        "api: {{ listen: '127.0.0.1:{port}' }}\ntelemetry: {{ listen: '127.0.0.1:{}' }}\nstore: {{ memory: {{}} }}\n\
         roles: [{{ name: a }}]\njobs:\n  - {{ name: endless, schedule: '@yearly', run: {{ exec: {{ command: [sleep, \
         '600'], terminationGracePeriod: 100ms }} }} }}\n  - {{ name: daily, schedule: '@daily', run: {{ exec: {{ \
         command: ['true'] }} }} }}\n",
        port + 100
    );
    let running = bench.start(&["run", "--config", &bench.file("run.yaml", &text)]);
    running.says("this replica leads").await;
    (bench, running, port)
}

/// Asks until the table of runs has this word.
async fn until_runs(bench: &Bench, job: &str, word: &str) -> String {
    let begun = std::time::Instant::now();
    loop {
        let said = bench.baton(&["jobs", "runs", job]).await.ends_with(0).out;
        if said.contains(word) {
            return said;
        }
        assert!(begun.elapsed() < PATIENCE, "no {word} in {said}");
    }
}

#[tokio::test]
async fn a_run_is_asked_for_cancelled_and_retried() {
    let (bench, _running, _) = sidecar().await;
    let run = ["jobs", "run", "endless", "--idempotency-key", "k", "--data", r#"{"day":7}"#];
    let id = bench.baton(&run).await.ends_with(0).out.trim_end().to_owned();
    assert!(id.starts_with("endless-manual-"), "{id}");
    assert_eq!(bench.baton(&run).await.ends_with(0).out.trim_end(), id, "the same request again");
    let other = ["jobs", "run", "endless", "--idempotency-key", "k"];
    assert!(bench.baton(&other).await.ends_with(64).err.contains("Idempotency-Key"));
    let table = until_runs(&bench, "endless", "running").await;
    assert!(table.starts_with("RUN ") && table.contains(&id), "{table}");
    let order = |verb: &'static str| {
        let (bench, id) = (&bench, &id);
        async move { bench.baton(&["jobs", verb, "endless", id]).await }
    };
    order("retry").await.ends_with(1);
    assert_eq!(order("cancel").await.ends_with(0).out, format!("{id} is to end\n"));
    until_runs(&bench, "endless", "cancelled").await;
    assert_eq!(order("retry").await.ends_with(0).out, format!("{id} is to be tried again\n"));
    until_runs(&bench, "endless", "running").await;
    order("cancel").await.ends_with(0);
    until_runs(&bench, "endless", "cancelled").await;
    let json = bench.baton(&["jobs", "runs", "endless", "-o", "json"]).await.ends_with(0).json();
    assert_eq!((json["run"].as_str(), json["attempts"].as_array().map(Vec::len)), (Some(id.as_str()), Some(2)));
    let unknown = bench.baton(&["jobs", "cancel", "endless", "endless-manual-1"]).await.ends_with(64);
    assert!(unknown.err.starts_with("baton jobs: "), "{}", unknown.err);
}

#[tokio::test]
async fn jobs_are_listed_suspended_resumed_and_made_up_for() {
    let (bench, _running, _) = sidecar().await;
    let row = |out: &str| out.lines().find(|line| line.starts_with("daily")).unwrap_or_default().to_owned();
    for (words, wanted) in [(&["daily"][..], " suspended "), (&["--all"], "all suspended")] {
        let what = if words[0] == "--all" { "all jobs" } else { "daily" };
        let said = bench.baton(&[&["jobs", "suspend"], words].concat()).await.ends_with(0);
        assert_eq!(said.out, format!("{what}: suspended\n"));
        let list = bench.baton(&["jobs", "list"]).await.ends_with(0).out;
        assert!(row(&list).contains(wanted), "{list}");
        let said = bench.baton(&[&["jobs", "resume"], words].concat()).await.ends_with(0);
        assert_eq!(said.out, format!("{what}: resumed\n"));
        let list = bench.baton(&["jobs", "list"]).await.ends_with(0).out;
        assert!(!row(&list).contains("suspended"), "{list}");
    }
    let range = ["--from", "2025-01-01T00:00:00Z", "--to", "2025-01-03T12:00:00Z"];
    let said = bench.baton(&[&["jobs", "backfill", "daily"][..], &range].concat()).await.ends_with(0);
    assert_eq!(said.out, "daily: 3 slots from 2025-01-01T00:00:00Z to 2025-01-03T12:00:00Z\n");
    until_runs(&bench, "daily", "succeeded").await;
    let future = ["--from", "2999-01-01T00:00:00Z", "--to", "2999-01-02T00:00:00Z"];
    let said = bench.baton(&[&["jobs", "backfill", "daily"][..], &future].concat()).await;
    assert!([1, 64].contains(&said.code) && said.err.starts_with("baton jobs: "), "{said:?}");
}

#[tokio::test]
async fn a_job_is_made_replaced_listed_and_deleted() {
    let (bench, _running, port) = sidecar().await;
    let body = r#"{"in": "24h", "run": {"http": {"url": "http://127.0.0.1:1/"}}}"#;
    let file = bench.file("job.json", body);
    let said = bench.baton(&["jobs", "put", "remind", &file]).await.ends_with(0);
    assert_eq!(said.out, "remind: made; the leader of a runs it\n");
    let said = bench.baton(&["jobs", "put", "remind", &file]).await.ends_with(0);
    assert!(said.out.contains("in the place of"), "{}", said.out);
    let taken = bench.baton(&["jobs", "put", "remind", &file, "--no-overwrite"]).await.ends_with(1);
    assert!(taken.err.contains("another job"), "{}", taken.err);
    let ours = bench.baton(&["jobs", "put", "daily", &file]).await.ends_with(1);
    assert!(ours.err.contains("configuration file"), "{}", ours.err);
    let wrong = bench.file("wrong.json", r#"{"in": "5", "run": {"http": {"url": "x"}}}"#);
    let said = bench.baton(&["jobs", "put", "wrong", &wrong]).await.ends_with(64);
    assert!(said.err.contains("in: ") && said.err.contains("run.http.url: "), "{}", said.err);
    bench.baton(&["jobs", "put", "Wrong", &file]).await.ends_with(64);
    bench.baton(&["jobs", "put", "remind", "/no/such/file"]).await.ends_with(64);
    // More than a page.
    for number in 0..120 {
        ask(port, &format!("PUT /jobs/one-{number}"), body).await.expect("an answer");
    }
    let json = bench.baton(&["jobs", "list", "-o", "json"]).await.ends_with(0).json();
    assert_eq!(json.as_array().map(Vec::len), Some(2 + 1 + 120));
    let table = bench.baton(&["jobs", "list"]).await.ends_with(0).out;
    assert_eq!(table.lines().count(), 1 + 2 + 1 + 120, "{table}");
    assert_eq!(bench.baton(&["jobs", "delete", "remind"]).await.ends_with(0).out, "remind: deleted\n");
    assert!(bench.baton(&["jobs", "delete", "remind"]).await.ends_with(64).err.contains("remind"));
}

#[tokio::test]
async fn where_nothing_answers_jobs_ends_with_69_and_nonsense_with_64() {
    let bench = Bench::new();
    let address = format!("127.0.0.1:{}", free_port());
    for command in [&["list"][..], &["run", "a"], &["suspend", "--all"], &["delete", "a"]] {
        let said = bench.baton(&[&["jobs"], command, &["--api", &address]].concat()).await.ends_with(69);
        assert!(said.err.contains("no sidecar answers"), "{}", said.err);
    }
    for command in
        [&["suspend"][..], &["suspend", "a", "--all"], &["run", "a", "--idempotency-key", "a b"], &["cancel", "a"]]
    {
        bench.baton(&[&["jobs"], command].concat()).await.ends_with(64);
    }
}
