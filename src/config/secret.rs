//! Secrets of the configuration.

use std::fmt;
use std::path::PathBuf;

use secrecy::{ExposeSecret, SecretString};

/// A secret and where it comes from. Its `Debug` shows the place, never the secret.
#[derive(Clone)]
pub enum Secret {
    /// Given by value: from the environment, or written into the file.
    Value(SecretString),
    /// In a file, read anew whenever it is needed, so that a rotated secret is used at the next connection.
    File(PathBuf),
}

impl Secret {
    /// The secret now, without the line break that editors and `echo` add.
    ///
    /// # Errors
    /// The file's path and why it cannot be read.
    pub fn read(&self) -> std::io::Result<SecretString> {
        match self {
            Self::Value(secret) => Ok(secret.clone()),
            Self::File(path) => match std::fs::read_to_string(path) {
                Ok(text) => Ok(SecretString::from(text.trim_end_matches(['\r', '\n']).to_owned())),
                Err(error) => Err(std::io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
            },
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(_) => f.write_str("Secret(given)"),
            Self::File(path) => write!(f, "Secret({})", path.display()),
        }
    }
}

/// Two secrets of the configuration are the same when they come from the same place with the same text; a reload asks.
impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Value(a), Self::Value(b)) => a.expose_secret() == b.expose_secret(),
            (Self::File(a), Self::File(b)) => a == b,
            _ => false,
        }
    }
}
