//! Secrets of the configuration.

use std::fmt;
use std::io::{Error, ErrorKind, Read};
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};

/// A larger file holds no secret.
const BYTES_MAX: u64 = 1 << 20;

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
            Self::File(path) => match read_small(path) {
                Ok(text) => Ok(SecretString::from(text.trim_end_matches(['\r', '\n']).to_owned())),
                Err(error) => Err(Error::new(error.kind(), format!("{}: {error}", path.display()))),
            },
        }
    }
}

/// The text of a secret's file, whatever it has become since the configuration was checked.
///
/// # Errors
/// That it cannot be read, is no regular file, or has more than [`BYTES_MAX`].
pub(super) fn read_small(file: &Path) -> std::io::Result<String> {
    // A named pipe would be waited for, and a device never ends.
    if !std::fs::metadata(file)?.is_file() {
        return Err(Error::new(ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut content = String::new();
    std::fs::File::open(file)?.take(BYTES_MAX + 1).read_to_string(&mut content)?;
    if content.len() as u64 > BYTES_MAX {
        return Err(Error::new(ErrorKind::InvalidData, "larger than 1 MiB"));
    }
    Ok(content)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_become_of_the_file_since_the_check_is_neither_waited_for_nor_read_without_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        let read = || Secret::File(path.clone()).read().map(|secret| secret.expose_secret().to_owned());
        std::fs::write(&path, "correct-horse\r\n").unwrap();
        assert_eq!(read().unwrap(), "correct-horse");
        std::fs::write(&path, "x".repeat((1 << 20) + 1)).unwrap();
        let error = read().unwrap_err().to_string();
        assert!(error.contains("larger than 1 MiB") && error.contains("secret"), "{error}");
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert!(read().unwrap_err().to_string().contains("not a regular file"));
    }
}
