//! The injector: what its objects are, and what its patch says. What the patch does is tried on an API server, by
//! `tests/kubernetes_e2e/injector.rs`.

use serde_json::{Value, json};
use testkit::helm::{Charts, ask, done, object};

#[test]
fn the_objects_are_named_and_select_as_the_label_says() {
    let charts = Charts::copy();
    for (given, name) in [(json!({}), "demo"), (json!({"inject": "shop"}), "shop")] {
        let mut values = given;
        values["baton"] = json!({"podMonitor": {"enabled": true}});
        let rendered = done(&[charts.render("baton-injector", &values)]).remove(0);
        let objects = rendered["objects"].as_array().unwrap();
        let label = json!({"baton.dev/inject": name});
        let policy = object(objects, "MutatingAdmissionPolicy", &format!("{name}.shop"));
        let binding = object(objects, "MutatingAdmissionPolicyBinding", &format!("{name}.shop"));
        assert_eq!(binding["spec"]["policyName"], policy["metadata"]["name"]);
        assert_eq!(binding["spec"]["matchResources"]["objectSelector"]["matchLabels"], label);
        let namespace = &binding["spec"]["matchResources"]["namespaceSelector"]["matchLabels"];
        assert_eq!(*namespace, json!({"kubernetes.io/metadata.name": "shop"}));
        assert_eq!(object(objects, "ConfigMap", name)["metadata"]["name"], name);
        assert_eq!(object(objects, "PodMonitor", name)["spec"]["selector"]["matchLabels"], label);
        let notes = rendered["notes"].as_str().unwrap();
        assert!(notes.contains(&format!("  baton.dev/inject: {name}\n")), "{notes}");
        assert!(notes.contains("terminationGracePeriodSeconds should be 36 or more"), "{notes}");
    }
}

/// Whatever stands in a value comes out of the expression as it went in: JSON's strings are CEL's.
#[test]
fn every_value_of_the_patch_is_of_the_type_dyn_and_quoted() {
    let values = json!({"baton": {"env": [{"name": "A", "value": "'\"\\n<&> ${x} {{ y }}"}]}});
    let rendered = done(&[Charts::copy().render("baton-injector", &values)]).remove(0);
    let policy = object(rendered["objects"].as_array().unwrap(), "MutatingAdmissionPolicy", "demo.shop");
    let patch = policy["spec"]["mutations"][0]["jsonPatch"]["expression"].as_str().unwrap();
    assert!(patch.contains(r#"{"name": dyn("A"), "value": dyn("'\"\\n\u003c\u0026\u003e ${x} {{ y }}")}"#), "{patch}");
    assert!(patch.contains(r#"path: "/metadata/annotations/checksum~1baton-config""#), "{patch}");
}

#[test]
fn what_it_cannot_do_is_refused() {
    let charts = Charts::copy();
    let render = |values: Value| charts.render("baton-injector", &values);
    let answers = ask(&[
        render(json!({"failurePolicy": "Perhaps"})),
        render(json!({"inject": "Not_a_name"})),
        render(json!({"baton": {"nativeSidecar": false}})),
        render(json!({"wrong": 1})),
    ]);
    for (answer, words) in answers.iter().zip(["failurePolicy", "inject", "baton.nativeSidecar is false", "wrong"]) {
        assert!(answer.as_ref().is_err_and(|why| why.contains(words)), "{words}: {answer:?}");
    }
}
