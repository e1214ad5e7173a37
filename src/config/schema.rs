//! The JSON Schema of the configuration, and what a single value of each sort may look like.
//!
//! It is derived from the types that a file is read into, and kept as a file: the program then needs none of what
//! derives it, which is 170 KiB. A test compares the two, and writes the file (`make charts`).
//!
//! The schema is for editors and for charts, so it is stated of the file as written: where a value may come from the
//! environment, it also accepts a `${…}`. What a pattern cannot say (timings against each other, files, URLs) it leaves
//! to the check.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;

/// The JSON Schema (draft 2020-12) of the configuration file, indented.
pub fn schema() -> &'static str {
    include_str!("schema.json").trim_end()
}

/// The schema as a value.
pub(super) fn document() -> Value {
    // A test reads the same text.
    serde_json::from_str(schema()).unwrap_or_default()
}

/// What the file has to be.
#[cfg(test)]
pub(super) fn derived() -> Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12();
    let mut document = settings.into_generator().into_root_schema_for::<super::raw::RawConfig>().to_value();
    strip_null(&mut document);
    // `memory:` with nothing after it is the way one writes a store with nothing to set, `kubernetes:` one with nothing
    // that has to be set.
    for store in ["/$defs/Memory/type", "/$defs/Leases/type"] {
        if let Some(kind) = document.pointer_mut(store) {
            *kind = serde_json::json!(["object", "null"]);
        }
    }
    document
}

/// `Option` in Rust means that a key may be absent, not that it may be null: an empty value is mostly a mistake.
#[cfg(test)]
fn strip_null(schema: &mut Value) {
    if let Value::Object(object) = schema {
        for keyword in ["type", "enum", "anyOf"] {
            let Some(Value::Array(choices)) = object.get_mut(keyword) else { continue };
            choices.retain(|choice| {
                !choice.is_null() && *choice != "null" && choice.get("type").is_none_or(|kind| *kind != "null")
            });
            if choices.len() == 1 && keyword != "enum" {
                let only = choices.remove(0);
                object.remove(keyword);
                match only {
                    Value::Object(inner) => object.extend(inner),
                    kind => {
                        object.insert(keyword.to_owned(), kind);
                    }
                }
            }
        }
        object.values_mut().for_each(strip_null);
    } else if let Value::Array(items) = schema {
        items.iter_mut().for_each(strip_null);
    }
}

/// What a reference to the environment looks like anywhere in a value.
const REFERENCE: &str = r"\$\{.+\}";

/// A text of this form, or one with a reference in it.
fn text_like(pattern: &str) -> Schema {
    json_schema!({"type": "string", "pattern": format!("{pattern}|{REFERENCE}")})
}

/// One of these words, or a reference.
fn word_of(words: &[&str]) -> Schema {
    json_schema!({"anyOf": [{"enum": words}, {"type": "string", "pattern": REFERENCE}]})
}

/// Declares a sort of value: a type that only stands for its schema.
macro_rules! leaf {
    ($(#[$doc:meta])* $name:ident, $schema:expr) => {
        $(#[$doc])*
        pub(super) struct $name;

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    };
}

leaf!(
    /// Any text.
    Text,
    json_schema!({"type": "string", "minLength": 1})
);
leaf!(
    /// The path of a file.
    File,
    json_schema!({"type": "string", "minLength": 1})
);
leaf!(
    /// A duration.
    Span,
    text_like(r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$")
);
leaf!(
    /// An IP address and a port.
    Listen,
    text_like(r"^([0-9.]+|\[[0-9a-fA-F:.]+\]):[0-9]{1,5}$")
);
leaf!(
    /// The name of a role.
    Role,
    text_like("^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")
);
leaf!(
    /// What keys begin with.
    KeyPrefix,
    text_like("^[A-Za-z0-9_.:-]{1,64}$")
);
leaf!(
    /// The name of one of Dapr's lock stores.
    StoreName,
    text_like("^[A-Za-z0-9_.-]{1,63}$")
);
leaf!(
    /// Where Redis is.
    Url,
    text_like("^(redis|rediss|valkey|valkeys)(-sentinel|-cluster)?://.+$")
);
leaf!(
    /// The path of a request.
    HttpPath,
    text_like("^/")
);
leaf!(
    /// `strict` or `off`, which YAML 1.1 tools turn into false.
    GuardWord,
    json_schema!({"anyOf": [{"enum": ["strict", "off", false]}, {"type": "string", "pattern": REFERENCE}]})
);
leaf!(
    /// How many members must agree.
    RequiredWord,
    word_of(&["majority", "all"])
);
leaf!(
    /// How replicas acknowledge.
    AckWord,
    word_of(&["wait", "waitaof"])
);
leaf!(
    /// A log level.
    LevelWord,
    word_of(&["error", "warn", "info", "debug", "trace"])
);
leaf!(
    /// How a log line looks.
    FormatWord,
    word_of(&["json", "text"])
);
leaf!(
    /// Something that is so or not.
    Flag,
    json_schema!({"type": ["boolean", "string"], "pattern": format!("^{REFERENCE}$")})
);
leaf!(
    /// The name of a job.
    Job,
    text_like("^[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?$")
);
leaf!(
    /// What happens to a slot while a run is going on.
    ConcurrencyWord,
    word_of(&["Allow", "Forbid", "Replace"])
);
leaf!(
    /// What becomes of slots that passed.
    CatchUpWord,
    word_of(&["none", "latest", "all"])
);
leaf!(
    /// What an interrupted run is.
    InterruptWord,
    word_of(&["retry", "fail"])
);
leaf!(
    /// The method of a request.
    MethodWord,
    word_of(&["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"])
);
leaf!(
    /// Where a request goes.
    HttpUrl,
    text_like("^[hH][tT][tT][pP][sS]?://.+$")
);
leaf!(
    /// The name of a header.
    HeaderName,
    text_like("^[-A-Za-z0-9!#$%&'*+.^_`|~]+$")
);
leaf!(
    /// A status, or a range of them.
    Status,
    json_schema!({
        "type": ["integer", "string"],
        "minimum": 100,
        "maximum": 599,
        "pattern": format!("^[1-5][0-9]{{2}}-[1-5][0-9]{{2}}$|^{REFERENCE}$"),
    })
);
leaf!(
    /// Any text, an empty one too.
    Argument,
    json_schema!({"type": "string"})
);
leaf!(
    /// The name of a variable.
    VariableName,
    text_like("^[^=]+$")
);

/// A whole number from `MIN` to `MAX`, or a text from the environment that is one.
pub(super) struct Count<const MIN: u32, const MAX: u32>;

impl<const MIN: u32, const MAX: u32> JsonSchema for Count<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Count{MIN}To{MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let pattern = format!("^{REFERENCE}$");
        json_schema!({"type": ["integer", "string"], "minimum": MIN, "maximum": MAX, "pattern": pattern})
    }
}
