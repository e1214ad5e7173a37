//! `kubernetes:`: what is told to the API server, and what it needs.

use baton::config::{AbsentFiles, check_text};

use crate::support::{BASE, environment, good, good_with, problems};

/// What the downward API says of a pod.
const POD: [(&str, &str); 3] = [("POD_NAME", "web-0"), ("POD_NAMESPACE", "shop"), ("POD_UID", "1b3f-22")];

#[test]
fn what_kubernetes_is_told_needs_the_pod_and_says_how_it_is_set() {
    let text = BASE.replace("identity: web-0", "kubernetes: {leaseMirror: true}");
    let told = problems(&text, &[("POD_NAME", "WEB-0"), ("POD_UID", "")]);
    assert_eq!((told.len(), told[0].0, told[0].1.as_str()), (1, 1, "kubernetes"), "{told:?}");
    for words in [
        "POD_NAME (fieldRef metadata.name), which holds something else",
        "POD_NAMESPACE (fieldRef metadata.namespace), which is not set",
        "POD_UID (fieldRef metadata.uid), which is not set",
    ] {
        assert!(told[0].2.contains(words), "{words}: {told:?}");
    }
    good(&text.replace("true", "false"));
}

#[test]
fn a_label_that_kubernetes_would_not_take_is_told_with_what_is_too_much() {
    let with = |role: &str| {
        BASE.replace("- name: scheduler", role).replace("identity: web-0", "kubernetes: {podLabels: true}")
    };
    let (longest, longer) = ("r".repeat(58), "r".repeat(59));
    good_with(&with(&format!("- name: {longest}")), &POD);
    good_with(&with(&format!("- {{name: {}, shards: 11}}", "r".repeat(55))), &POD);
    for role in [format!("- name: {longer}"), format!("- {{name: {}, shards: 11}}", "r".repeat(56))] {
        let told = problems(&with(&role), &POD);
        assert_eq!((told.len(), told[0].1.as_str()), (1, "roles[0].name"), "{told:?}");
        assert!(told[0].2.contains("would have 64 characters") && told[0].2.contains("take 1 away"), "{told:?}");
    }
    good_with(&with(&format!("- name: {longer}")).replace("podLabels", "events"), &POD);
}

#[test]
fn a_mirror_that_would_meet_a_lease_or_cannot_be_named_is_told() {
    let redis = "  redis:\n    url: redis://redis:6379/0";
    let with = |store: &str| BASE.replace(redis, store).replace("identity: web-0", "kubernetes: {leaseMirror: true}");
    for store in ["  kubernetes: {}", "  kubernetes: {namespace: shop}", "  kubernetes: {namePrefix: other}"] {
        let told = problems(&with(store), &POD);
        assert_eq!((told.len(), told[0].1.as_str()), (1, "kubernetes.leaseMirror"), "{told:?}");
        assert!(told[0].2.contains("the Lease objects themselves show the holder"), "{told:?}");
    }
    good_with(&with("  kubernetes: {namespace: other}"), &POD);
    let told = problems(&with("  redis: {url: 'redis://redis', keyPrefix: 'shop:prod'}"), &POD);
    assert_eq!((told.len(), told[0].1.as_str()), (1, "kubernetes.leaseMirror"), "{told:?}");
    assert!(told[0].2.contains("`shop:prod`"), "{told:?}");
    good_with(&with("  redis: {url: 'redis://redis', keyPrefix: shop.prod}"), &POD);
}

#[test]
fn an_identity_that_does_not_tell_the_pod_is_doubtful_and_so_is_a_pod_that_is_not_known_yet() {
    let text = BASE.replace("store:", "kubernetes: {podLabels: true}\nstore:");
    let loaded = |variables, absent| {
        check_text(&text, "config.yaml", &environment(variables).absent_files(absent)).unwrap_or_else(|e| panic!("{e}"))
    };
    let told = loaded(&POD, AbsentFiles::Refuse);
    assert!(told.warnings.is_empty() && told.config.kubernetes().any(), "{:?}", told.warnings);
    assert_eq!(told.config.kubernetes().pod.as_ref().map(|pod| pod.uid.as_str()), Some("1b3f-22"));
    let other = [("POD_NAME", "web-1"), POD[1], POD[2]];
    let told = loaded(&other, AbsentFiles::Refuse).warnings;
    assert_eq!((told.len(), told[0].path.as_str()), (1, "identity"), "{told:?}");
    // On the machine of who writes the file there is no pod.
    let told = loaded(&[], AbsentFiles::Warn);
    assert_eq!((told.warnings.len(), told.warnings[0].path.as_str()), (1, "kubernetes"), "{:?}", told.warnings);
    assert_eq!(told.config.kubernetes().pod, None);
}

#[test]
fn a_faster_failover_needs_the_pods_name_as_identity_and_a_path_for_its_message() {
    let on = "kubernetes: {fastFailover: true}\nstore:";
    let config = good_with(&BASE.replace("store:", on), &POD);
    assert_eq!(config.kubernetes().fast_failover, Some("/dev/termination-log".into()));
    assert!(
        !config.kubernetes().any() && config.kubernetes().pod.is_some(),
        "nothing is written, and its pod is known"
    );
    let path = on.replace("true", "true, terminationMessagePath: /tmp/end");
    let config = good_with(&BASE.replace("store:", &path), &POD);
    assert_eq!(config.kubernetes().fast_failover, Some("/tmp/end".into()));
    let off = good_with(&BASE.replace("store:", &path.replace("true", "false")), &POD);
    assert_eq!(off.kubernetes().fast_failover, None);
    let told = problems(&BASE.replace("store:", &on.replace("true", "true, terminationMessagePath: end")), &POD);
    assert_eq!((told.len(), told[0].1.as_str()), (1, "kubernetes.terminationMessagePath"), "{told:?}");
    let other = [("POD_NAME", "web-1"), POD[1], POD[2]];
    let told = problems(&BASE.replace("store:", on), &other);
    assert_eq!((told.len(), told[0].1.as_str()), (1, "identity"), "{told:?}");
    assert!(told[0].2.contains("fastFailover") && told[0].2.contains("web-1"), "{told:?}");
    let told = problems(&BASE.replace("store:", on), &[("POD_NAME", "web-0")]);
    assert_eq!((told.len(), told[0].1.as_str()), (1, "kubernetes"), "{told:?}");
}
