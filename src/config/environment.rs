//! What surrounds the file: environment variables, the host's name, and whether this is the machine it is meant for.

use std::fmt;

/// Whether a secret or certificate that the file names may be absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbsentFiles {
    /// It is needed here and now: `run`.
    Refuse,
    /// The file is checked on another machine than the one it is for: `check-config`. Absence is a warning; a file
    /// that is there and empty or unreadable is refused all the same.
    Warn,
}

type Lookup = dyn Fn(&str) -> Option<String> + Send + Sync;

/// The surroundings, handed in, so that tests need not change those of their process.
pub struct Environment {
    lookup: Box<Lookup>,
    hostname: Option<String>,
    absent_files: AbsentFiles,
}

/// Shows no variable: any of them may be a secret.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment")
            .field("hostname", &self.hostname)
            .field("absent_files", &self.absent_files)
            .finish_non_exhaustive()
    }
}

impl Environment {
    /// The real one. A variable that is not UTF-8 counts as not set.
    pub fn process() -> Self {
        Self::new(|name| std::env::var(name).ok(), hostname())
    }

    /// One in which `lookup` answers for variables.
    pub fn new(lookup: impl Fn(&str) -> Option<String> + Send + Sync + 'static, hostname: Option<String>) -> Self {
        Self { lookup: Box::new(lookup), hostname, absent_files: AbsentFiles::Refuse }
    }

    /// The same, with another word on files that are not there.
    #[must_use]
    pub fn absent_files(self, absent_files: AbsentFiles) -> Self {
        Self { absent_files, ..self }
    }

    pub(super) fn variable(&self, name: &str) -> Option<String> {
        (self.lookup)(name)
    }

    pub(super) fn hostname(&self) -> Option<&str> {
        self.hostname.as_deref()
    }

    pub(super) fn tolerates_absent_files(&self) -> bool {
        self.absent_files == AbsentFiles::Warn
    }

    /// Replaces `${NAME}` and `${NAME:-default}` by what they stand for, and `$$` by `$`. Any other `$` stands for
    /// itself.
    ///
    /// # Errors
    /// What is wrong, without any variable's value.
    pub(super) fn expand(&self, text: &str) -> Result<Expanded, String> {
        let mut expanded = Expanded { text: String::with_capacity(text.len()), from_environment: false };
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            expanded.text.push_str(&rest[..at]);
            let after = &rest[at + 1..];
            if let Some(after) = after.strip_prefix('$') {
                expanded.text.push('$');
                rest = after;
            } else if let Some(reference) = after.strip_prefix('{') {
                let Some(end) = reference.find('}') else {
                    return Err("`${` has no closing `}`; write `${NAME}`, or `$$` for a `$` itself".to_owned());
                };
                expanded.text.push_str(&self.resolve(&reference[..end])?);
                expanded.from_environment = true;
                rest = &reference[end + 1..];
            } else {
                expanded.text.push('$');
                rest = after;
            }
        }
        expanded.text.push_str(rest);
        Ok(expanded)
    }

    /// What stands between the braces.
    fn resolve(&self, reference: &str) -> Result<String, String> {
        let (name, default) = match reference.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (reference, None),
        };
        let valid = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            && name.bytes().next().is_some_and(|b| !b.is_ascii_digit());
        if !valid {
            return Err(
                "`${…}` does not hold the name of a variable; write `${NAME}` or `${NAME:-default}` with a name \
                        of letters, digits and `_`, or `$${` for a literal `${`"
                    .to_owned(),
            );
        }
        if default.is_some_and(|default| default.contains("${")) {
            return Err(format!("the default of `${{{name}:-…}}` holds another `${{`; references cannot be nested"));
        }
        match (self.variable(name), default) {
            // As in a shell, `:-` also stands in for a variable that is set to nothing.
            (Some(value), Some(default)) if value.is_empty() => Ok(default.to_owned()),
            (Some(value), _) => Ok(value),
            (None, Some(default)) => Ok(default.to_owned()),
            (None, None) => Err(format!(
                "the environment variable {name} is not set; set it, or give a default as `${{{name}:-default}}`"
            )),
        }
    }
}

/// A text after expansion.
pub(super) struct Expanded {
    pub(super) text: String,
    /// Whether a part of it came from a `${…}`.
    pub(super) from_environment: bool,
}

/// The kernel's name for this host, which in a pod is the pod's name.
fn hostname() -> Option<String> {
    ["/proc/sys/kernel/hostname", "/etc/hostname"]
        .iter()
        .filter_map(|file| std::fs::read_to_string(file).ok())
        .map(|text| text.trim().to_owned())
        .find(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(text: &str) -> Result<(String, bool), String> {
        let environment = Environment::new(
            |name| match name {
                "HOST" => Some("redis".to_owned()),
                "PASSWORD" => Some("s3cret: ${HOST} $$ {".to_owned()),
                "EMPTY" => Some(String::new()),
                _ => None,
            },
            None,
        );
        environment.expand(text).map(|expanded| (expanded.text, expanded.from_environment))
    }

    #[test]
    fn references_become_what_they_stand_for() {
        for (text, expected) in [
            ("redis://${HOST}:6379", "redis://redis:6379"),
            ("${HOST}${HOST}", "redisredis"),
            ("${NOWHERE:-a}", "a"),
            ("${EMPTY:-a}", "a"),
            ("${EMPTY}", ""),
            ("${NOWHERE:-}", ""),
            ("${NOWHERE:-redis://a:-b}", "redis://a:-b"),
            // A value is taken as it is, so it can bring in neither YAML nor further references.
            ("${PASSWORD}", "s3cret: ${HOST} $$ {"),
        ] {
            assert_eq!(expand(text), Ok((expected.to_owned(), true)), "{text}");
        }
    }

    #[test]
    fn other_dollars_stand_for_themselves() {
        for (text, expected) in
            [("a$b", "a$b"), ("$", "$"), ("$(POD_NAME)", "$(POD_NAME)"), ("$${HOST}", "${HOST}"), ("$$$$", "$$")]
        {
            assert_eq!(expand(text), Ok((expected.to_owned(), false)), "{text}");
        }
    }

    #[test]
    fn references_that_lead_nowhere_are_named() {
        for (text, fragment) in [
            ("${NOWHERE}", "NOWHERE is not set"),
            ("${HOST", "no closing"),
            ("${}", "name of a variable"),
            ("${1A}", "name of a variable"),
            ("${A B}", "name of a variable"),
            ("${NOWHERE:-${HOST}}", "nested"),
        ] {
            let error = expand(text).unwrap_err();
            assert!(error.contains(fragment), "{text}: {error}");
        }
    }

    #[test]
    fn its_debug_shows_no_variable() {
        let environment = Environment::new(|_| Some("s3cret".to_owned()), Some("web-0".to_owned()));
        assert!(!format!("{environment:?}").contains("s3cret"));
    }
}
