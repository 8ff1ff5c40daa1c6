//! Container images in a configuration file.

use std::collections::BTreeMap;
use std::path::Path;

use codebox_core::{ImageName, ImagePattern, Language};
use serde::Deserialize;

use super::ConfigError;

/// Deserialized table, before its values are checked.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Table {
    python: Option<String>,
    javascript: Option<String>,
    command: Option<String>,
    allowed: Option<Vec<String>>,
}

/// Container images of languages, and the list of allowed images.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Images {
    /// Images of languages that do not use the built-in image.
    pub of: BTreeMap<Language, ImageName>,
    /// Images that may be used; `None` allows every image.
    pub allowed: Option<Vec<ImagePattern>>,
}

impl Table {
    pub(super) fn read(self, file: &Path) -> Result<Images, ConfigError> {
        let Self { python, javascript, command, allowed } = self;
        let languages = [
            (Language::Python, python, "images.python"),
            (Language::JavaScript, javascript, "images.javascript"),
            (Language::Command, command, "images.command"),
        ];
        let mut of = BTreeMap::new();
        for (language, name, key) in languages {
            if let Some(name) = name {
                let name = name.parse().map_err(|error: codebox_core::NameError| fault(file, key, &error))?;
                of.insert(language, name);
            }
        }
        let read = |text: String| text.parse::<ImagePattern>().map_err(|error| fault(file, "images.allowed", &error));
        let allowed = allowed.map(|texts| texts.into_iter().map(read).collect()).transpose()?;
        Ok(Images { of, allowed })
    }
}

fn fault(file: &Path, key: &str, error: &codebox_core::NameError) -> ConfigError {
    ConfigError::new(file, key, format!("invalid value {:?}", error.text), error.rule)
}

impl Images {
    /// Restricts these images by a project's. A project cannot choose an image, because the image's programs run on the
    /// user's machine.
    pub(super) fn narrowed(&self, project: &Self, file: &Path) -> Result<Self, ConfigError> {
        let fix = "leave it out, or put it into your own configuration";
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
