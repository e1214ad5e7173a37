//! `docs/install.md`, done as it says.

use serde_json::{Value, json};
use testkit::helm::shop as made;
use testkit::helm::{Charts, done, object};
use testkit::root;

use crate::pods::{check_mounts, check_sidecar, pod};
use crate::stage::over;

#[test]
fn a_chart_of_helm_create_with_the_documented_lines_has_a_sidecar() {
    let charts = Charts::copy();
    let shop = made::make(&charts);
    let render =
        |values: &Value| json!({"do": "render", "chart": shop, "name": "shop", "namespace": "shop", "values": values});
    let own = made::own_values();
    let with_more = over(
        &own,
        &json!({
            "podAnnotations": {"a.example.com/b": "c"},
            "volumes": [{"name": "cache", "emptyDir": {}}],
            "volumeMounts": [{"name": "cache", "mountPath": "/cache"}],
            "baton": {"podMonitor": {"enabled": true}},
        }),
    );
    let lint = json!({"do": "lint", "chart": shop, "values": own});
    let answers = done(&[render(&own), render(&with_more), lint]);
    for answer in &answers[..2] {
        let objects = answer["objects"].as_array().unwrap();
        let deployment = object(objects, "Deployment", "shop");
        let pod = pod(deployment).unwrap();
        let complaints = [check_sidecar(pod, true, false, false), check_mounts(pod)].concat();
        assert!(complaints.is_empty(), "{complaints:?}");
        let config = object(objects, "ConfigMap", "shop-baton")["data"]["config.yaml"].as_str().unwrap();
        assert!(config.contains("redis://redis:6379/0") && config.contains("name: scheduler"), "{config}");
    }
    let objects = answers[1]["objects"].as_array().unwrap();
    let deployment = object(objects, "Deployment", "shop");
    let annotations = &pod(deployment).unwrap()["metadata"]["annotations"];
    assert!(annotations["a.example.com/b"] == "c" && annotations["checksum/baton-config"].is_string());
    // Baton's default selector is what `helm create` gives its pods.
    let selector = &object(objects, "PodMonitor", "shop-baton")["spec"]["selector"]["matchLabels"];
    assert_eq!(selector, &deployment["spec"]["selector"]["matchLabels"]);
    let findings = answers[2].as_array().unwrap().iter().filter(|finding| finding["error"] != "icon is recommended");
    assert_eq!(findings.count(), 0, "{}", answers[2]);
}

#[test]
fn what_else_the_page_shows_can_be_rendered() {
    let charts = Charts::copy();
    let shop = made::make(&charts);
    let page = std::fs::read_to_string(root().join("docs/install.md")).unwrap();
    let deployment = shop.join("templates/deployment.yaml");
    let text = std::fs::read_to_string(&deployment).unwrap();
    let lines = ["terminationGracePeriodSeconds: {{ include", "automountServiceAccountToken: false"].map(|start| {
        let line = page.lines().find(|line| line.trim_start().starts_with(start));
        line.unwrap_or_else(|| panic!("the page has no line {start}")).to_owned()
    });
    std::fs::write(
        &deployment,
        text.replace("      containers:\n", &format!("{}\n      containers:\n", lines.join("\n"))),
    )
    .unwrap();
    let values = over(
        &made::own_values(),
        &json!({"baton": {"redis": {"existingSecret": "redis-login", "passwordKey": "redis-password"}}}),
    );
    let render = json!({"do": "render", "chart": shop, "name": "shop", "namespace": "shop", "values": values});
    let blocks = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let block = blocks.into_iter().find(|block| block.contains("leaderService:")).unwrap();
    let leader = over(&made::own_values(), &serde_yaml::from_str(block).unwrap());
    let leader = json!({"do": "render", "chart": shop, "name": "shop", "namespace": "shop", "values": leader});
    // The demo without Redis, as `--set … =null --set-json …` gives it to Helm.
    let leases = json!({"baton": {"config": {"store": {"redis": null, "kubernetes": {}}}}});
    let answers = done(&[render, charts.render("baton-demo", &leases), leader]);
    let service = object(answers[2]["objects"].as_array().unwrap(), "Service", "leader");
    assert_eq!(service["spec"]["selector"]["baton.dev/role-scheduler"], "leader", "{service}");
    assert!(service["metadata"]["name"].as_str().unwrap().ends_with("-baton-leader"), "{service}");
    let objects = answers[0]["objects"].as_array().unwrap();
    let spec = &pod(object(objects, "Deployment", "shop")).unwrap()["spec"];
    assert_eq!(
        (&spec["terminationGracePeriodSeconds"], &spec["automountServiceAccountToken"]),
        (&json!(36), &json!(false))
    );
    let config = object(answers[1]["objects"].as_array().unwrap(), "ConfigMap", "baton")["data"]["config.yaml"]
        .as_str()
        .unwrap();
    assert!(config.contains("kubernetes: {}") && !config.contains("redis"), "{config}");
}
