//! Single values: what a text, a duration, a number or a word may be.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use super::Checker;
use crate::base::duration;
use crate::config::position::Path;
use crate::config::raw::Scalar;

/// The longest part of a value that a message shows.
const SHOWN_MAX: usize = 60;
/// Secret and certificate files are small; a larger file is not what was meant.
const SECRET_BYTES_MAX: u64 = 1 << 20;

impl Checker<'_> {
    /// A value for a message: never one from the environment, never one that could be a URL with a password.
    pub(super) fn shown(&self, value: &Scalar, path: &Path) -> String {
        if let Some(source) = self.sources.get(path) {
            return format!("`{}` (from the environment)", shortened(source));
        }
        match value {
            Scalar::Bool(value) => format!("`{value}`"),
            Scalar::Number(text) => format!("`{}`", shortened(text)),
            Scalar::Text(text) if text.contains("://") => "the value".to_owned(),
            Scalar::Text(text) => format!("`{}`", shortened(text)),
        }
    }

    /// A text that is not empty. Numbers are refused, for YAML may have changed them (`007`, `1e3`).
    pub(super) fn text<'s>(&mut self, value: Option<&'s Scalar>, path: &Path) -> Option<&'s str> {
        match value? {
            Scalar::Text(text) if text.trim().is_empty() => {
                let from = if self.sources.contains_key(path) { " (after the environment was filled in)" } else { "" };
                self.problem(path, format!("is empty{from}; give it a value, or remove the key"));
                None
            }
            Scalar::Text(text) => Some(text),
            Scalar::Number(_) => {
                self.problem(path, "is a number where a text belongs; put it in quotes".to_owned());
                None
            }
            Scalar::Bool(_) => {
                self.problem(path, "is true or false where a text belongs; put it in quotes".to_owned());
                None
            }
        }
    }

    /// A duration with its unit.
    pub(super) fn duration(&mut self, value: Option<&Scalar>, path: &Path) -> Option<Duration> {
        let value = value?;
        let parsed = match value {
            Scalar::Text(text) => duration::parse(text),
            Scalar::Number(text) => duration::parse(text).and(Err(duration::DurationError::NoUnit)),
            Scalar::Bool(_) => Err(duration::DurationError::Malformed),
        };
        parsed.map_err(|error| self.problem(path, format!("{} {error}", self.shown(value, path)))).ok()
    }

    /// A duration that is not zero.
    pub(super) fn positive_duration(&mut self, value: Option<&Scalar>, path: &Path) -> Option<Duration> {
        let duration = self.duration(value, path)?;
        if duration.is_zero() {
            self.problem(path, "is zero; it must be longer".to_owned());
            return None;
        }
        Some(duration)
    }

    /// A whole number in a range. A text is taken if it comes from the environment, where everything is a text.
    pub(super) fn count(&mut self, value: Option<&Scalar>, path: &Path, range: RangeInclusive<u32>) -> Option<u32> {
        let value = value?;
        let (text, counts) = match value {
            Scalar::Number(text) => (text.as_str(), true),
            Scalar::Text(text) => (text.as_str(), self.sources.contains_key(path)),
            Scalar::Bool(_) => ("", false),
        };
        let number = if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None };
        match number.filter(|number| range.contains(number)) {
            Some(count) if counts => return Some(count),
            _ => {}
        }
        let quotes = if number.is_some() && !counts { ", without quotes" } else { "" };
        let (shown, from, to) = (self.shown(value, path), range.start(), range.end());
        self.problem(path, format!("{shown} is not right here; write a whole number from {from} to {to}{quotes}"));
        None
    }

    /// True or false. A text is taken if it comes from the environment.
    pub(super) fn flag(&mut self, value: Option<&Scalar>, path: &Path) -> Option<bool> {
        let value = value?;
        match value {
            Scalar::Bool(flag) => return Some(*flag),
            Scalar::Text(text) if self.sources.contains_key(path) => {
                if let Ok(flag) = text.parse() {
                    return Some(flag);
                }
            }
            Scalar::Text(_) | Scalar::Number(_) => {}
        }
        self.problem(path, format!("{} is neither true nor false; write one of them", self.shown(value, path)));
        None
    }

    /// One of a few words.
    pub(super) fn word<T: Copy>(&mut self, value: Option<&Scalar>, path: &Path, words: &[(&str, T)]) -> Option<T> {
        let value = value?;
        if let Scalar::Text(text) = value
            && let Some((_, meaning)) = words.iter().find(|(word, _)| word == text)
        {
            return Some(*meaning);
        }
        let known = words.iter().map(|(word, _)| format!("`{word}`")).collect::<Vec<_>>().join(", ");
        self.problem(path, format!("{} is not known here; write one of {known}", self.shown(value, path)));
        None
    }

    /// The path of a file with a secret or a certificate, whose content must pass `judge`.
    pub(super) fn file(
        &mut self,
        value: Option<&Scalar>,
        path: &Path,
        judge: impl FnOnce(&str) -> Result<(), &'static str>,
    ) -> Option<PathBuf> {
        let file = PathBuf::from(self.text(value, path)?);
        self.files.push(file.clone());
        let shown = file.display();
        match read_small(&file) {
            Ok(content) => {
                // As it will be read later: without the line break that editors and `echo` add.
                if let Err(why) = judge(content.trim_end_matches(['\r', '\n'])) {
                    self.problem(path, format!("{shown} {why}"));
                    return None;
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && self.environment.tolerates_absent_files() => {
                self.warning(path, format!("{shown} is not on this machine, so it was not checked"));
            }
            Err(error) => {
                self.problem(path, format!("{shown} cannot be read: {error}; it must exist and be readable"));
                return None;
            }
        }
        Some(file)
    }
}

/// Judges a secret: there must be one.
pub(super) fn not_empty(content: &str) -> Result<(), &'static str> {
    if content.is_empty() { Err("is empty; it must hold the secret") } else { Ok(()) }
}

fn read_small(file: &std::path::Path) -> std::io::Result<String> {
    use std::io::{Error, ErrorKind, Read};
    // A named pipe would be waited for, and a device never ends.
    if !std::fs::metadata(file)?.is_file() {
        return Err(Error::new(ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut content = String::new();
    std::fs::File::open(file)?.take(SECRET_BYTES_MAX + 1).read_to_string(&mut content)?;
    if content.len() as u64 > SECRET_BYTES_MAX {
        return Err(Error::new(ErrorKind::InvalidData, "larger than 1 MiB"));
    }
    Ok(content)
}

fn shortened(text: &str) -> String {
    let shown: String = text.chars().take(SHOWN_MAX).flat_map(char::escape_debug).collect();
    if text.chars().count() > SHOWN_MAX { format!("{shown}…") } else { shown }
}
