//! The API server that all others here rely on.

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::Api;
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use kube::config::Kubeconfig;
use testkit::apiserver::{Cluster, client, lease_rule};

fn lease(name: &str) -> Lease {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let spec = LeaseSpec { holder_identity: Some("web-0".to_owned()), ..LeaseSpec::default() };
    Lease { metadata, spec: Some(spec) }
}

#[tokio::test]
async fn it_keeps_its_data_when_it_is_killed_and_ends_when_its_input_closes() {
    let mut cluster = Cluster::start_own().await;
    let leases = cluster.leases();
    let made = leases.create(&PostParams::default(), &lease("kept")).await.expect("a Lease");
    let server = cluster.server().expect("its own");
    server.kill();
    assert!(leases.get("kept").await.is_err(), "nobody is there to answer");
    server.start_again();
    let found = leases.get("kept").await.expect("it is still there");
    assert_eq!(
        (found.metadata.uid, found.metadata.resource_version),
        (made.metadata.uid, made.metadata.resource_version)
    );
    println!("{} with {} MiB", server.version(), server.resident_kib() / 1024);
    assert_eq!(server.close(), Some(0));
}

#[tokio::test]
async fn a_service_account_may_do_what_its_role_says_and_nothing_else() {
    let cluster = Cluster::start().await;
    let path = cluster.account("reader", vec![lease_rule(&["get"], &["mine"])]).await;
    cluster.leases().create(&PostParams::default(), &lease("mine")).await.expect("a Lease");
    let limited = client(Kubeconfig::read_from(path).expect("a kubeconfig")).await;
    let leases: Api<Lease> = Api::namespaced(limited, cluster.namespace());
    assert_eq!(leases.get("mine").await.expect("it may").spec, lease("mine").spec);
    for denied in [leases.get("other").await.map(drop), leases.delete("mine", &DeleteParams::default()).await.map(drop)]
    {
        let said = denied.expect_err("it may not").to_string();
        let who = format!("system:serviceaccount:{}:reader", cluster.namespace());
        assert!(said.contains(&who) && said.contains("leases"), "{said}");
    }
}
