//! Environment variables, parsed as uv parses them.

use std::str::FromStr;
use std::time::Duration;

use crate::error::SettingsError;

/// Environment variables of the caller.
pub(super) struct Variables<'a> {
    env: &'a dyn Fn(&str) -> Option<String>,
}

impl<'a> Variables<'a> {
    pub(super) fn new(env: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self { env }
    }

    /// Returns the value of a variable, unless it is unset or empty.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        (self.env)(name).filter(|value| !value.trim().is_empty())
    }

    pub(super) fn parsed<T: FromStr>(
        &self,
        name: &'static str,
        expected: &'static str,
    ) -> Result<Option<T>, SettingsError> {
        self.text(name).map(|value| parse(value.trim(), name, expected)).transpose()
    }

    /// Parses a list separated by white space.
    pub(super) fn list<T: FromStr>(&self, name: &'static str, expected: &'static str) -> Result<Vec<T>, SettingsError> {
        let value = self.text(name).unwrap_or_default();
        value.split_whitespace().map(|word| parse(word, name, expected)).collect()
    }

    /// Parses a list separated by commas, since folder names may contain spaces.
    pub(super) fn comma_list<T: FromStr>(
        &self,
        name: &'static str,
        expected: &'static str,
    ) -> Result<Vec<T>, SettingsError> {
        let value = self.text(name).unwrap_or_default();
        value
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
            .map(|word| parse(word, name, expected))
            .collect()
    }

    pub(super) fn flag(&self, name: &'static str) -> Result<Option<bool>, SettingsError> {
        let Some(value) = self.text(name) else {
            return Ok(None);
        };
        match value.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" | "t" | "true" | "on" | "1" => Ok(Some(true)),
            "n" | "no" | "f" | "false" | "off" | "0" => Ok(Some(false)),
            _ => Err(SettingsError::Variable { name, expected: "yes or no" }),
        }
    }

    pub(super) fn seconds(&self, name: &'static str) -> Result<Option<Duration>, SettingsError> {
        let seconds = self.parsed(name, "a number of seconds")?;
        Ok(seconds.map(Duration::from_secs))
    }
}

fn parse<T: FromStr>(word: &str, name: &'static str, expected: &'static str) -> Result<T, SettingsError> {
    word.parse().map_err(|_| SettingsError::Variable { name, expected })
}
