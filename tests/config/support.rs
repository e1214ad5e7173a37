//! What the tests share.

use baton::config::{Config, ConfigError, Environment, Loaded, check_text};

/// The smallest good configuration, with a line for every test to replace.
pub const BASE: &str = "\
identity: web-0
store:
  redis:
    url: redis://redis:6379/0
roles:
  - name: scheduler
";

/// RoleContext with these variables and a hostname.
pub fn environment(variables: &[(&str, &str)]) -> Environment {
    let variables: Vec<(String, String)> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let lookup = move |wanted: &str| variables.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
    Environment::new(lookup, Some("host-0".to_owned()))
}

/// Checks a text with no variable set.
pub fn check(text: &str) -> Result<Loaded, ConfigError> {
    check_text(text, "config.yaml", &environment(&[]))
}

/// The configuration of a text that must be good.
pub fn good(text: &str) -> Config {
    good_with(text, &[])
}

/// The same with variables.
pub fn good_with(text: &str, variables: &[(&str, &str)]) -> Config {
    match check_text(text, "config.yaml", &environment(variables)) {
        Ok(loaded) => loaded.config,
        Err(error) => panic!("refused:\n{error}\nthe text:\n{text}"),
    }
}

/// The problems of a text that must be refused: line, path and message of each.
pub fn problems(text: &str, variables: &[(&str, &str)]) -> Vec<(usize, String, String)> {
    let Err(error) = check_text(text, "config.yaml", &environment(variables)) else { panic!("accepted:\n{text}") };
    let told = error.problems().iter();
    told.map(|problem| (problem.line.unwrap_or(0), problem.path.clone(), problem.message.clone())).collect()
}

/// The configuration samples that Baton ships: names and texts.
pub fn samples() -> Vec<(String, String)> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/config");
    let mut samples: Vec<(String, String)> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read_to_string(&path).unwrap()))
        .collect();
    samples.sort();
    assert!(samples.len() >= 8, "only {} samples in {directory}", samples.len());
    samples
}

/// Problems as line, path and a part of the message.
pub fn refused(text: &str, expected: &[(usize, &str, &str)]) {
    let told = problems(text, &[]);
    assert_eq!(told.len(), expected.len(), "{text}\nmakes {told:#?}");
    for ((line, path, message), (line_expected, path_expected, fragment)) in told.iter().zip(expected) {
        assert_eq!((line, path.as_str()), (line_expected, *path_expected), "{message}");
        assert!(message.contains(fragment), "{message:?} lacks {fragment:?}");
    }
}
