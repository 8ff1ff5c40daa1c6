//! Images: the names of the languages' images, and facts about local images.

use std::collections::BTreeMap;

use bollard::Docker;
use bollard::query_parameters::{CreateImageOptionsBuilder, ListImagesOptionsBuilder};
use codebox_core::{ImageName, Language, Languages, LocalImage};
use futures_util::StreamExt as _;
use tokio::time::timeout;

use crate::engine::CALL_TIMEOUT;
use crate::error::{ContainerError, one_line};

/// Images from which the programs of languages start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageTable {
    images: BTreeMap<Language, ImageName>,
    /// Languages with an interpreter whose image the configuration or the request has to name.
    unnamed: Vec<Language>,
    /// Images that are not allowed.
    forbidden: BTreeMap<Language, ImageName>,
}

/// Image for a command line if the user names no image.
const COMMAND_IMAGE: &str = "docker.io/library/debian:stable-slim";

impl Default for ImageTable {
    fn default() -> Self {
        Self::of_languages(&Languages::default())
    }
}

impl ImageTable {
    /// Returns the table of the images in the languages' descriptions.
    #[must_use]
    pub fn of_languages(languages: &Languages) -> Self {
        let own = |language: Language| {
            let image = language.spec().container.as_ref()?.image.as_ref()?.parse().ok()?;
            (language.runtime_language() == &language).then_some((language.clone(), image))
        };
        let command = COMMAND_IMAGE.parse().ok().map(|image| (Language::Command, image));
        let images = languages.all().filter_map(own).chain(command).collect();
        let is_unnamed = |language: &Language| {
            language.spec().container.as_ref().is_some_and(|interpreter| interpreter.image.is_none())
        };
        let unnamed = languages.all().filter(is_unnamed).collect();
        Self { images, unnamed, forbidden: BTreeMap::new() }
    }

    /// Returns the table with some of its images replaced.
    #[must_use]
    pub fn with(mut self, changes: impl IntoIterator<Item = (Language, ImageName)>) -> Self {
        self.images.extend(changes);
        self.unnamed.retain(|language| !self.images.contains_key(language));
        self
    }

    /// Returns the table with only the images that are allowed.
    #[must_use]
    pub fn allowing(mut self, allowed: impl Fn(&ImageName) -> bool) -> Self {
        let (images, forbidden) = self.images.into_iter().partition(|(_, name)| allowed(name));
        (self.images, self.forbidden) = (images, forbidden);
        self
    }

    /// Returns the image for a language's programs.
    #[must_use]
    pub fn of(&self, language: &Language) -> Option<&ImageName> {
        self.images.get(language.runtime_language())
    }

    /// Returns the languages that have an image, or for which a request may name one.
    #[must_use]
    pub fn languages(&self) -> Vec<Language> {
        with_sharers(&self.images).map(|(language, _)| language).chain(self.unnamed.iter().cloned()).collect()
    }

    /// Returns the languages whose only image is not allowed.
    #[must_use]
    pub fn forbidden(&self) -> BTreeMap<Language, ImageName> {
        with_sharers(&self.forbidden).map(|(language, name)| (language, name.clone())).collect()
    }
}

/// Returns the rows, and one for each language that shares the image of another, as TypeScript does with JavaScript.
fn with_sharers(rows: &BTreeMap<Language, ImageName>) -> impl Iterator<Item = (Language, &ImageName)> {
    let sharer = |language: Language| {
        let owner = language.runtime_language();
        let name = (*owner != language).then(|| rows.get(owner))??;
        Some((language, name))
    };
    let sharers = Language::built_in().into_iter().filter_map(sharer);
    rows.iter().map(|(language, name)| (language.clone(), name)).chain(sharers)
}

/// Facts about an image that a container needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImageFacts {
    pub name: ImageName,
    /// The id, by which the image is run, because the name may refer to another image a moment later.
    pub id: String,
    /// Guest paths that the image declares as volumes.
    pub volumes: Vec<String>,
    /// Search path for programs that the image sets.
    pub path: Option<String>,
}

/// Looks up an image in the engine's store.
pub(crate) async fn look_up(client: &Docker, name: &ImageName) -> Result<ImageFacts, ContainerError> {
    let found = match timeout(2 * CALL_TIMEOUT, client.inspect_image(name.as_str())).await {
        Ok(Ok(found)) => found,
        Err(late) => return Err(ContainerError::Lost { doing: "inspect the image", source: Box::new(late) }),
        Ok(Err(bollard::errors::Error::DockerResponseServerError { status_code: 404, .. })) => {
            return Err(ContainerError::NoImage(name.to_string()));
        }
        Ok(Err(error)) => return Err(ContainerError::call("inspect the image")(error)),
    };
    let bad = |why: &str| ContainerError::BadImage { name: name.to_string(), why: why.to_owned() };
    if found.os.as_deref().is_some_and(|os| os != "linux") {
        return Err(bad("not a Linux image"));
    }
    let ours = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    if found.architecture.as_deref().is_some_and(|theirs| theirs != ours) {
        return Err(bad(&format!("not built for {ours}")));
    }
    let (volumes, env) = found.config.map(|config| (config.volumes, config.env)).unwrap_or_default();
    let volumes = volumes.unwrap_or_default();
    let path = env.unwrap_or_default().iter().find_map(|variable| variable.strip_prefix("PATH=").map(str::to_owned));
    // Engines write volume paths into option strings.
    if let Some(odd) = volumes.iter().find(|place| !place.starts_with('/') || place.contains([':', ',', '"'])) {
        return Err(bad(&format!("invalid volume path {odd:?}")));
    }
    let id = found.id.ok_or_else(|| bad("the engine reports no image ID"))?;
    let id = if id.contains(':') { id } else { format!("sha256:{id}") };
    Ok(ImageFacts { name: name.clone(), id, volumes: volumes.into_iter().collect(), path })
}

/// Pulls an image from its registry, and reports progress to `on_progress`: the bytes done and, if known, the total.
#[tracing::instrument(level = "debug", name = "pull_image", skip_all)]
pub(crate) async fn pull(
    client: &Docker,
    name: &ImageName,
    mut on_progress: impl FnMut(u64, Option<u64>),
) -> Result<(), ContainerError> {
    let options = CreateImageOptionsBuilder::default().from_image(name.as_str()).build();
    let mut steps = Box::pin(client.create_image(Some(options), None, None));
    let mut layers: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    while let Some(step) = steps.next().await {
        let step = step.map_err(|error| pull_error(name, ContainerError::call("pull the image")(error)))?;
        if let Some(error) = step.error_detail.and_then(|detail| detail.message) {
            let refusal = ContainerError::Refused { doing: "pull the image", refusal: one_line(&error) };
            return Err(pull_error(name, refusal));
        }
        if let (Some(layer), Some(progress)) = (step.id, step.progress_detail) {
            let done = progress.current.unwrap_or(0).max(0).unsigned_abs();
            let whole = progress.total.unwrap_or(0).max(0).unsigned_abs();
            if whole > 0 {
                layers.insert(layer, (done.min(whole), whole));
                let (done, whole) = layers.values().fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
                on_progress(done, Some(whole));
            }
        }
    }
    Ok(())
}

fn pull_error(name: &ImageName, error: ContainerError) -> ContainerError {
    match error {
        ContainerError::Refused { refusal, .. } => {
            ContainerError::BadImage { name: name.to_string(), why: format!("pull failed: {refusal}") }
        }
        other => other,
    }
}

/// Returns every image that has a name.
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
    use codebox_core::{Interpreter, LanguageSpec, NamedLanguage};

    use super::*;

    #[test]
    fn default_image_names_are_valid() {
        // All have an image, and so has a command line.
        let languages = Languages::default().all().filter(|language| !language.spec().is_module).count();
        assert_eq!(ImageTable::default().languages().len(), languages + 1);
    }

    #[test]
    fn lists_forbidden_images() {
        let table = ImageTable::default().allowing(|name| !name.as_str().contains("node"));
        let allowed: Vec<String> = table.languages().iter().map(Language::to_string).collect();
        assert_eq!(allowed, ["python", "command", "shell"]);
        let forbidden: Vec<Language> = table.forbidden().into_keys().collect();
        assert_eq!(forbidden, [Language::JavaScript, Language::TypeScript]);
        assert_eq!(table.of(&Language::TypeScript), None);
    }

    #[test]
    fn languages_without_an_image_wait_for_one() {
        let command = vec!["lua".to_owned()];
        let container =
            Some(Interpreter { image: None, command, module_hook: Vec::new(), inline: vec!["{program}".to_owned()] });
        let spec = LanguageSpec { name: "lua".to_owned(), container, ..LanguageSpec::default() };
        let lua = Language::Named(NamedLanguage::new(spec).expect("a valid description"));
        let table = ImageTable::of_languages(&Languages::with([lua.clone()]));
        assert!(table.languages().contains(&lua) && table.of(&lua).is_none());
        let table = table.with([(lua.clone(), "lua:5.4".parse().expect("a name"))]);
        assert_eq!(table.of(&lua).map(ImageName::as_str), Some("docker.io/library/lua:5.4"));
        assert_eq!(table.languages().iter().filter(|language| **language == lua).count(), 1);
    }
}
