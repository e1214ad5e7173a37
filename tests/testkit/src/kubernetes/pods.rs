//! Pods and Events: merge patches, and JSON patches of tests and removals.

use serde_json::{Value, json};

use super::{Reply, World, key, status, whole};

/// Patches a pod.
pub(super) fn patch(world: &mut World, name: &str, patch: &Value) -> Reply {
    let Some(mut pod) = world.objects.get(&key("pods", name)).cloned() else {
        return whole(404, &status(404, "NotFound", "pods", name, &format!("pods \"{name}\" not found")));
    };
    let before = pod.clone();
    match patch {
        Value::Array(steps) => {
            if let Err(why) = steps.iter().try_for_each(|step| take(&mut pod, step)) {
                return whole(422, &status(422, "Invalid", "pods", name, &why));
            }
        }
        merge => {
            for precondition in ["uid", "resourceVersion"] {
                let wanted = &merge["metadata"][precondition];
                if !wanted.is_null() && *wanted != pod["metadata"][precondition] {
                    return whole(409, &status(409, "Conflict", "pods", name, "the object has been modified"));
                }
            }
            merge_into(&mut pod, merge);
        }
    }
    // What changes nothing makes no version.
    if pod != before {
        pod = world.put(key("pods", name), pod);
    }
    whole(200, &pod)
}

/// Makes an Event, unless there is one of its name.
pub(super) fn tell(world: &mut World, event: Value) -> Reply {
    let name = event["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    if world.told.iter().any(|told| told["metadata"]["name"] == name.as_str()) {
        return whole(409, &status(409, "AlreadyExists", "events", &name, "already exists"));
    }
    world.told.push(event.clone());
    whole(201, &event)
}

/// RFC 7386.
fn merge_into(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        match (target.as_object_mut(), value) {
            (Some(object), Value::Null) => drop(object.remove(key)),
            (Some(object), value) => merge_into(object.entry(key.clone()).or_insert(Value::Null), value),
            (None, _) => {}
        }
    }
}

/// One step of RFC 6902: `test` or `remove`.
fn take(target: &mut Value, step: &Value) -> Result<(), String> {
    let path = step["path"].as_str().unwrap_or_default();
    let missing = || format!("the path {path} is not there");
    match step["op"].as_str() {
        Some("test") if target.pointer(path).ok_or_else(missing)? == &step["value"] => Ok(()),
        Some("test") => Err(format!("testing the path {path} failed")),
        Some("remove") => {
            let (parent, key) = path.rsplit_once('/').ok_or_else(missing)?;
            let parent = target.pointer_mut(parent).and_then(Value::as_object_mut).ok_or_else(missing)?;
            parent.remove(&key.replace("~1", "/").replace("~0", "~")).map(drop).ok_or_else(missing)
        }
        other => Err(format!("{other:?} is no step that is known")),
    }
}
