//! Images: their names, which one a language starts from, and what is known of one that is there.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use bollard::Docker;
use bollard::query_parameters::{CreateImageOptionsBuilder, ListImagesOptionsBuilder};
use codebox_core::{Language, NameError};
use futures_util::StreamExt as _;

use crate::error::{ContainerError, one_line};

/// The name of an image with everything said that engines would guess: the registry, the whole path, the tag.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageName(String);

const RULE: &str = "use NAME:TAG, REGISTRY/NAME:TAG or NAME@sha256:DIGEST";

impl ImageName {
    /// The full name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ImageName {
    type Err = NameError;

    /// Reads a name as docker does: without a registry it is Docker Hub's, and without a tag `latest`.
    ///
    /// No engine's own search for short names is ever asked: it would depend on the machine which image that is.
    fn from_str(text: &str) -> Result<Self, NameError> {
        let fault = || NameError::new("image", text, RULE);
        let (name, digest) = match text.split_once('@') {
            Some((name, digest)) => (name, Some(digest)),
            None => (text, None),
        };
        let is_hex =
            |digest: &str| digest.len() == 64 && digest.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if digest.is_some_and(|digest| !digest.strip_prefix("sha256:").is_some_and(is_hex)) {
            return Err(fault());
        }
        let (registry, rest) = match name.split_once('/') {
            Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (first, rest.to_owned()),
            Some(_) => ("docker.io", name.to_owned()),
            None => ("docker.io", format!("library/{name}")),
        };
        let (path, tag) = match rest.rsplit_once(':') {
            Some((path, tag)) => (path.to_owned(), Some(tag.to_owned())),
            None => (rest, None),
        };
        let is_word = |part: &str| {
            let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
            let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-');
            ends(part.chars().next()) && ends(part.chars().last()) && part.chars().all(inner)
        };
        let is_tag = |tag: &str| {
            let first = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let inner = |c: char| first(c) || matches!(c, '.' | '-');
            tag.len() <= 128 && tag.chars().next().is_some_and(first) && tag.chars().all(inner)
        };
        let is_host = |host: &str| {
            let (host, port) = host.split_once(':').unwrap_or((host, "0"));
            host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-')) && port.parse::<u16>().is_ok()
        };
        let good =
            text.len() <= 512 && is_host(registry) && path.split('/').all(is_word) && tag.as_deref().is_none_or(is_tag);
        if !good {
            return Err(fault());
        }
        let tag = match (tag, digest) {
            (_, Some(digest)) => format!("@{digest}"),
            (Some(tag), None) => format!(":{tag}"),
            (None, None) => ":latest".to_owned(),
        };
        Ok(Self(format!("{registry}/{path}{tag}")))
    }
}

/// Which image a language's programs start from; the one place that names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageTable(BTreeMap<Language, ImageName>);

const DEFAULTS: [(Language, &str); 3] = [
    (Language::Python, "docker.io/library/python:3.13-slim"),
    (Language::JavaScript, "docker.io/library/node:22-slim"),
    // What a command line gets whose image nobody names.
    (Language::Command, "docker.io/library/debian:stable-slim"),
];

impl Default for ImageTable {
    fn default() -> Self {
        Self(DEFAULTS.into_iter().filter_map(|(language, name)| Some((language, name.parse().ok()?))).collect())
    }
}

impl ImageTable {
    /// The table with some of its images changed.
    #[must_use]
    pub fn with(mut self, changes: impl IntoIterator<Item = (Language, ImageName)>) -> Self {
        self.0.extend(changes);
        self
    }

    /// The image of a language's programs.
    #[must_use]
    pub fn of(&self, language: &Language) -> Option<&ImageName> {
        self.0.get(language.run_as())
    }

    /// The languages that have one.
    #[must_use]
    pub fn languages(&self) -> Vec<Language> {
        let own = self.0.keys().cloned();
        own.chain(self.0.contains_key(&Language::JavaScript).then_some(Language::TypeScript)).collect()
    }
}

/// An image of an engine's store, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalImage {
    /// Its names.
    pub names: Vec<String>,
    /// Its number, with `sha256:` before it.
    pub id: String,
    /// Bytes on disk.
    pub size: u64,
}

/// What a container needs to know of its image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImageFacts {
    pub name: ImageName,
    /// What it is run by: the name could mean another image a moment later.
    pub id: String,
    /// Places that it wants to be writable.
    pub volumes: Vec<String>,
}

/// Looks an image up in the engine's store.
pub(crate) async fn look_up(client: &Docker, name: &ImageName) -> Result<ImageFacts, ContainerError> {
    let found = match client.inspect_image(name.as_str()).await {
        Ok(found) => found,
        Err(bollard::errors::Error::DockerResponseServerError { status_code: 404, .. }) => {
            return Err(ContainerError::NoImage(name.to_string()));
        }
        Err(error) => return Err(ContainerError::call("look the image up")(error)),
    };
    let bad = |why: &str| ContainerError::BadImage { name: name.to_string(), why: why.to_owned() };
    if found.os.as_deref().is_some_and(|os| os != "linux") {
        return Err(bad("it is not for Linux"));
    }
    let ours = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    if found.architecture.as_deref().is_some_and(|theirs| theirs != ours) {
        return Err(bad(&format!("it is not for {ours}")));
    }
    let volumes = found.config.and_then(|config| config.volumes).unwrap_or_default();
    let id = found.id.ok_or_else(|| bad("the engine does not number it"))?;
    let id = if id.contains(':') { id } else { format!("sha256:{id}") };
    Ok(ImageFacts { name: name.clone(), id, volumes: volumes.into_iter().collect() })
}

/// Fetches an image from its registry, telling how far it came: bytes done and, where known, of how many.
pub(crate) async fn pull(
    client: &Docker,
    name: &ImageName,
    mut told: impl FnMut(u64, Option<u64>),
) -> Result<(), ContainerError> {
    let options = CreateImageOptionsBuilder::default().from_image(name.as_str()).build();
    let mut steps = Box::pin(client.create_image(Some(options), None, None));
    let mut layers: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    while let Some(step) = steps.next().await {
        let step = step.map_err(|error| not_pulled(name, ContainerError::call("fetch the image")(error)))?;
        if let Some(error) = step.error_detail.and_then(|detail| detail.message) {
            let said = ContainerError::Refused { doing: "fetch the image", said: one_line(&error) };
            return Err(not_pulled(name, said));
        }
        if let (Some(layer), Some(progress)) = (step.id, step.progress_detail) {
            let done = progress.current.unwrap_or(0).max(0).unsigned_abs();
            let whole = progress.total.unwrap_or(0).max(0).unsigned_abs();
            if whole > 0 {
                layers.insert(layer, (done.min(whole), whole));
                let (done, whole) = layers.values().fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
                told(done, Some(whole));
            }
        }
    }
    Ok(())
}

fn not_pulled(name: &ImageName, error: ContainerError) -> ContainerError {
    match error {
        ContainerError::Refused { said, .. } => {
            ContainerError::BadImage { name: name.to_string(), why: format!("it cannot be fetched: {said}") }
        }
        other => other,
    }
}

/// Every image that has a name.
pub(crate) async fn list(client: &Docker) -> Result<Vec<LocalImage>, ContainerError> {
    let options = ListImagesOptionsBuilder::default().build();
    let found = client.list_images(Some(options)).await.map_err(ContainerError::call("list images"))?;
    let local = |image: bollard::models::ImageSummary| {
        let names: Vec<String> = image.repo_tags.into_iter().filter(|name| !name.contains("<none>")).collect();
        (!names.is_empty()).then(|| LocalImage { names, id: image.id, size: image.size.max(0).unsigned_abs() })
    };
    let mut images: Vec<LocalImage> = found.into_iter().filter_map(local).collect();
    images.sort_by(|a, b| a.names.cmp(&b.names));
    Ok(images)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_completed_as_docker_does() {
        for (text, full) in [
            ("node:22-slim", "docker.io/library/node:22-slim"),
            ("debian", "docker.io/library/debian:latest"),
            ("me/tool:1", "docker.io/me/tool:1"),
            ("localhost/codebox-test:1", "localhost/codebox-test:1"),
            ("localhost:5000/a/b", "localhost:5000/a/b:latest"),
            ("quay.io/x/y:z", "quay.io/x/y:z"),
        ] {
            assert_eq!(text.parse::<ImageName>().map(|name| name.to_string()), Ok(full.to_owned()));
        }
        let digest = "0".repeat(64);
        let pinned: ImageName = format!("node:22@sha256:{digest}").parse().expect("a name with a digest");
        assert_eq!(pinned.as_str(), format!("docker.io/library/node@sha256:{digest}"));
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let long = "a".repeat(600);
        for text in [
            "",
            "A",
            "a b",
            "-x",
            "../x",
            "a//b",
            "a:",
            "a:b:c",
            "a@sha256:0",
            "a@md5:x",
            "/a",
            "a/",
            "x;y",
            "a\n",
            "--privileged",
            "http://x/y",
            long.as_str(),
        ] {
            assert!(text.parse::<ImageName>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn every_default_is_a_name() {
        assert_eq!(ImageTable::default().languages().len(), DEFAULTS.len() + 1);
    }
}
