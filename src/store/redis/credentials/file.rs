//! A credential in a file.

use std::path::Path;

use secrecy::ExposeSecret;

use super::{Credential, jwt};
use crate::config::Secret;

/// The file, and what it is to people.
pub struct TokenFile {
    secret: Secret,
    /// The key that names it.
    pub key: &'static str,
}

const PASSWORD_FILE: &str = "passwordFile";

impl TokenFile {
    /// `auth.file`
    pub fn token(path: &Path) -> Self {
        Self { secret: Secret::File(path.to_owned()), key: "auth.file" }
    }

    /// `passwordFile`, which only ends when somebody writes another.
    pub fn password(path: &Path) -> Self {
        Self { secret: Secret::File(path.to_owned()), key: PASSWORD_FILE }
    }

    pub fn is_password(&self) -> bool {
        self.key == PASSWORD_FILE
    }

    /// What it holds now.
    pub fn read(&self) -> Result<Credential, String> {
        let secret = self.secret.read().map_err(|error| format!("{} cannot be read: {error}", self.key))?;
        if self.is_password() {
            return Ok(Credential { user: None, secret, ends_at: None });
        }
        let token = secret.expose_secret().trim();
        if token.is_empty() {
            return Err(format!("{} is empty: it must hold a token", self.key));
        }
        Ok(Credential { user: None, ends_at: jwt::ends_at(token), secret: token.into() })
    }
}
