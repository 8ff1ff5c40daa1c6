//! Container images in a configuration file.

use std::collections::BTreeMap;
use std::path::Path;

use codebox_core::{ImageName, ImagePattern, Language, Languages, ResultKind};
use serde::Deserialize;
use thiserror::Error;

use super::ConfigError;

/// Deserialized table, before its values are checked.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Table {
    allowed: Option<Vec<String>>,
    /// Images by language.
    #[serde(flatten)]
    of: BTreeMap<String, String>,
}

/// Container images of languages, and the list of allowed images.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Images {
    /// Images of languages that do not use the built-in image.
    pub of: BTreeMap<Language, ImageName>,
    /// Images that may be used; `None` allows every image.
    pub allowed: Option<Vec<ImagePattern>>,
}

/// The configuration has an image for a language that codebox does not know.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the configuration sets images.{language}, but there is no such language")]
pub struct UnknownLanguage {
    language: Language,
}

impl UnknownLanguage {
    /// Returns the result kind.
    #[must_use]
    pub fn kind(&self) -> ResultKind {
        ResultKind::InvalidRequest
    }

    /// Returns the remedy.
    #[must_use]
    pub fn fix(&self) -> String {
        format!("correct the name, or add a runtime: codebox runtime add FILE --lang {}", self.language)
    }
}

impl Table {
    pub(super) fn read(self, file: &Path) -> Result<Images, ConfigError> {
        let Self { of: named, allowed } = self;
        let mut of = BTreeMap::new();
        for (language, name) in named {
            let key = format!("images.{language}");
            let language =
                language_of(&language).map_err(|(detail, fix)| ConfigError::new(file, &key, detail, &fix))?;
            let name = name.parse().map_err(|error: codebox_core::NameError| fault(file, &key, &error))?;
            of.insert(language, name);
        }
        let read = |text: String| text.parse::<ImagePattern>().map_err(|error| fault(file, "images.allowed", &error));
        let allowed = allowed.map(|texts| texts.into_iter().map(read).collect()).transpose()?;
        Ok(Images { of, allowed })
    }
}

/// Returns the language of a key. Added languages are not known here; [`Images::check`] compares them.
fn language_of(key: &str) -> Result<Language, (String, String)> {
    let language = match key {
        "command" => Language::Command,
        name => name.parse().map_err(|error: codebox_core::NameError| (error.to_string(), error.rule.to_owned()))?,
    };
    if language.as_str() != key {
        return Err((format!("{key} is another name of {language}"), format!("write images.{language}")));
    }
    let owner = language.runtime_language();
    if *owner != language {
        return Err((format!("{language} uses the image of {owner}"), format!("write images.{owner}")));
    }
    Ok(language)
}

fn fault(file: &Path, key: &str, error: &codebox_core::NameError) -> ConfigError {
    ConfigError::new(file, key, format!("invalid value {:?}", error.text), error.rule)
}

impl Images {
    /// Checks that every language with an image is known.
    ///
    /// # Errors
    /// Returns an error that names the unknown language.
    pub fn check(&self, languages: &Languages) -> Result<(), UnknownLanguage> {
        let known = |language: &Language| *language == Language::Command || languages.all().any(|one| one == *language);
        match self.of.keys().find(|language| !known(language)) {
            Some(language) => Err(UnknownLanguage { language: language.clone() }),
            None => Ok(()),
        }
    }

    /// Restricts these images by a project's. A project cannot choose an image, because the image's programs run on the
    /// user's machine.
    pub(super) fn narrowed(&self, project: &Self, file: &Path) -> Result<Self, ConfigError> {
        let fix = "remove it, or put it into your own configuration";
        if !project.of.is_empty() {
            return Err(ConfigError::new(file, "images", "a project cannot choose the images of languages", fix));
        }
        match (&self.allowed, &project.allowed) {
            (Some(_), Some(_)) => {
                let detail = "the user configuration already has a list, and a project cannot change it";
                Err(ConfigError::new(file, "images.allowed", detail, fix))
            }
            (ours, theirs) => Ok(Self { of: self.of.clone(), allowed: ours.clone().or_else(|| theirs.clone()) }),
        }
    }
}
