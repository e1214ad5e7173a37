//! The Role of docs/kubernetes.md: no less is enough. That it is enough is shown by every other test here, whose
//! replicas have no more.

use std::collections::BTreeSet;

use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::DeleteParams;
use testkit::apiserver::Cluster;
use testkit::sidecars::replica::{ROLE, Replica};
use testkit::wait::until;

use crate::group::{LEASE_NAME, documented_rules, settings};

fn without(verb: &str) -> Vec<PolicyRule> {
    let mut rules = documented_rules();
    rules.iter_mut().for_each(|rule| rule.verbs.retain(|other| other != verb));
    // A rule without verbs is none.
    rules.retain(|rule| !rule.verbs.is_empty());
    rules
}

#[tokio::test]
async fn a_replica_says_which_verb_of_the_documented_role_it_lacks() {
    let cluster = Cluster::start().await;
    let verbs: BTreeSet<String> = documented_rules().into_iter().flat_map(|rule| rule.verbs).collect();
    assert_eq!(verbs, ["create", "get", "update", "watch"].map(str::to_owned).into());
    for verb in &verbs {
        let kubeconfig = cluster.account(&format!("no-{verb}"), without(verb)).await;
        let mut replica = Replica::start(0, settings(0, cluster.namespace(), &kubeconfig));
        // As the server says it, and with what would help.
        let account = format!("system:serviceaccount:{}:no-{verb}", cluster.namespace());
        let words = [&format!("it forbids to {verb} leases"), &account, &format!("verbs: [{verb}]")];
        let mut reason = String::new();
        until(&format!("it says that it may not {verb}"), || {
            let answer = replica.ask(&format!("GET /leader/{ROLE}"), "");
            let told: serde_json::Value = serde_json::from_str(&answer.body).expect("JSON");
            reason = told["reason"].as_str().unwrap_or_default().to_owned();
            words.iter().all(|word| reason.contains(word.as_str()))
        });
        println!("without {verb}: {reason}");
        replica.kill();
        // Whether there is one depends on the verb.
        let _ = cluster.leases().delete(LEASE_NAME, &DeleteParams::default()).await;
    }
}
