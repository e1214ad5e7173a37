//! The commands where leases are Lease objects of a Kubernetes API server.

use testkit::kubernetes::{FakeApi, Fault};

use crate::bench::Bench;

/// A bench on this API service, and a configuration for it.
fn bench(api: &FakeApi) -> (Bench, String) {
    let bench = Bench::new().with("KUBECONFIG", &api.kubeconfig().to_string_lossy());
    let file = bench.file("c.yaml", "store: { kubernetes: {} }\nroles: [{ name: a, leaseDuration: 1500ms }]\n");
    (bench, file)
}

#[tokio::test]
async fn audit_names_the_server_the_rights_and_what_is_in_each_lease() {
    let api = FakeApi::start();
    let (bench, file) = bench(&api);
    let said = bench.baton(&["audit", "--config", &file]).await.ends_with(0);
    let endpoint = format!("The API server at 127.0.0.1:{}", api.port());
    for part in [
        endpoint.as_str(),
        "ok       Kubernetes v1.33.4",
        "RBAC allows to get, create, update, watch, delete the Lease baton-a",
        "the Lease baton-a does not exist yet",
        "problems: 0, warnings: 0",
    ] {
        assert!(said.out.contains(part), "{part:?} in {}", said.out);
    }
    assert_eq!(api.count("create", "baton-a") + api.count("update", "baton-a"), 0, "it writes nothing");
    api.forbid(&["update", "watch"]);
    let said = bench.baton(&["audit", "--config", &file]).await.ends_with(1);
    for part in ["PROBLEM  RBAC forbids to update the Lease baton-a", "verbs: [update]", "warnings: 1"] {
        assert!(said.out.contains(part), "{part:?} in {}", said.out);
    }
    api.forbid(&[]);
    api.edit("baton-a", |lease| lease["metadata"]["annotations"] = serde_json::json!({"baton.dev/token": "7"}));
    let json = bench.baton(&["audit", "--config", &file, "-o", "json"]).await.ends_with(1).json();
    let findings = json["findings"].as_array().unwrap();
    assert!(findings.iter().any(|finding| finding["what"].as_str().unwrap().contains("is missing")), "{json}");
    api.reject_credentials(true);
    let said = bench.baton(&["audit", "--config", &file]).await.ends_with(69);
    assert!(said.err.contains("401") && !said.err.contains("correct-horse"), "{}", said.err);
}

#[tokio::test]
async fn exec_runs_under_a_lease_and_purge_deletes_what_nobody_runs() {
    let api = FakeApi::start();
    let (bench, _) = bench(&api);
    // Without a guard it leads at once, with a lease that outlives a machine that is busy.
    let file = bench.file("c.yaml", "store: { kubernetes: { guard: off } }\nroles: [{ name: a, leaseDuration: 1m }]\n");
    let command = "echo token $BATON_TOKEN; while [ -e alive ]; do sleep 0.02; done";
    let mut running = bench.start(&["exec", "--config", &file, "--role", "a", "--", "sh", "-c", command]);
    running.says("token ").await;
    let lease = api.lease("baton-a").expect("it leads");
    running.says(lease["metadata"]["annotations"]["baton.dev/token"].as_str().unwrap()).await;
    assert_eq!(lease["spec"]["holderIdentity"], "web-0");
    let other = bench.file("other.yaml", "store: { kubernetes: {} }\nroles: [{ name: b }]\n");
    let said = bench.baton(&["purge", "a", "--config", &other]).await.ends_with(1);
    assert!(said.err.contains("has a lease"), "{}", said.err);
    running.signal(rustix::process::Signal::TERM);
    assert_eq!(running.ends().await, 143);
    assert_eq!(api.lease("baton-a").expect("it stays")["spec"]["holderIdentity"], "", "released");
    assert_eq!(bench.baton(&["purge", "a", "--config", &other]).await.ends_with(0).out, "a: forgotten\n");
    assert!(bench.baton(&["purge", "a", "--config", &other]).await.ends_with(0).out.contains("nothing is known"));
    api.fail(&[], Fault::CutBefore);
    bench.baton(&["purge", "a", "--config", &other]).await.ends_with(69);
}

#[tokio::test]
async fn audit_and_purge_look_at_the_ledgers_of_jobs() {
    let api = FakeApi::start();
    let (bench, _) = bench(&api);
    let job = "jobs: [{ name: nightly, schedule: '@daily', run: { exec: { command: ['true'] } } }]\n";
    let file = bench.file("jobs.yaml", &format!("store: {{ kubernetes: {{}} }}\nroles: [{{ name: a }}]\n{job}"));
    let ledger = |name: &str, body: &str| {
        api.edit(name, |lease| {
            lease["metadata"]["annotations"] =
                serde_json::json!({"baton.dev/fence": "7", "baton.dev/revision": "8", "baton.dev/ledger": body});
        });
    };
    let audit = async |code, parts: &[&str]| {
        let said = bench.baton(&["audit", "--config", &file]).await.ends_with(code);
        for part in parts {
            assert!(said.out.contains(part), "{part:?} in {}", said.out);
        }
    };
    let rights = [
        "RBAC allows to get, create, update, delete the Lease baton-job.nightly",
        "RBAC allows to get, create, update, watch the Lease baton-jobs.wishes",
    ];
    audit(0, &[&rights[..], &["the Lease baton-job.nightly does not exist yet", "problems: 0, warnings: 0"]].concat())
        .await;
    ledger("baton-job.nightly", "{}");
    audit(0, &["ok       the Lease baton-job.nightly has a ledger of 2 bytes, of at most 204800"]).await;
    ledger("baton-job.nightly", &"x".repeat(160_000));
    audit(0, &["warning  the Lease baton-job.nightly has a ledger of 160000 bytes", "lower the job's history"]).await;
    api.edit("baton-job.nightly", |lease| lease["metadata"]["annotations"]["baton.dev/fence"] = "x".into());
    audit(1, &["PROBLEM  the Lease baton-job.nightly cannot be used: its annotation baton.dev/fence is"]).await;
    api.forbid(&["update"]);
    audit(1, &["RBAC forbids to update the Lease baton-job.nightly", "the job does not run", "verbs: [update]"]).await;
    api.forbid(&[]);

    let purge = async |job: &str| bench.baton(&["purge", "--job", job, "--config", &file]).await;
    assert!(purge("old").await.ends_with(0).out.contains("nothing is known"));
    ledger("baton-job.old", "{}");
    assert_eq!(purge("old").await.ends_with(0).out, "old: forgotten\n");
    assert!(api.lease("baton-job.old").is_none());
    api.edit("baton-job.old", |lease| lease["metadata"]["annotations"] = serde_json::json!({"team": "a"}));
    let said = purge("old").await.ends_with(1);
    assert!(
        said.err.contains("the Lease baton-job.old") && said.err.contains("something else made it"),
        "{}",
        said.err
    );
    assert!(api.lease("baton-job.old").is_some());
    assert!(purge("nightly").await.ends_with(64).err.contains("configures nightly"));
}

#[tokio::test]
async fn without_credentials_the_places_that_were_looked_at_are_named() {
    let bench = Bench::new().with("KUBECONFIG", "/nowhere/kubeconfig");
    let file = bench.file("c.yaml", "store: { kubernetes: {} }\nroles: [{ name: a }]\n");
    let said = bench.baton(&["audit", "--config", &file]).await.ends_with(69);
    for part in ["no credentials", "service account", "/nowhere/kubeconfig", "automountServiceAccountToken"] {
        assert!(said.err.contains(part), "{part:?} in {}", said.err);
    }
}
