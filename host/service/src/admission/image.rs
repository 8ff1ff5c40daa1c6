//! Image that a request starts from, and command lines, which only container images run.

use codebox_core::{ImageName, Isolation, IsolationSet, Language, ResultKind};

use super::denied::Denied;
use super::policy::Policy;

/// Image that a request starts from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Image {
    /// The memory image that the request names.
    Memory(String),
    /// The memory image that the policy names, for languages that have it.
    Default(String),
    /// A container image.
    Container(ImageName),
    /// Any image that fits the program.
    Any,
}

/// Determines the kind of the requested image, and checks that the policy allows it.
///
/// A name with a colon, a slash or an at sign is a container image, and so is any name if WebAssembly is not accepted.
/// Any other name is a memory image. The policy's image is always one.
pub(super) fn admit(
    requested: Option<String>,
    language: &Language,
    isolations: IsolationSet,
    policy: &Policy,
) -> Result<Image, Denied> {
    let in_container = *language == Language::Command || !isolations.contains(Isolation::Wasm);
    if *language == Language::Command && isolations.iter().all(|isolation| isolation == Isolation::Wasm) {
        return Err(Denied::new(
            ResultKind::Denied,
            "run",
            "a command line",
            format!("it requires a container, but only isolation {isolations} is allowed"),
            "use --isolation container or auto",
        ));
    }
    let image = match requested {
        Some(name) if in_container || is_container_image_name(&name) => Image::Container(parsed(&name)?),
        Some(name) => Image::Memory(name),
        None if in_container => Image::Any,
        None => policy.image.clone().map_or(Image::Any, Image::Default),
    };
    // The router checks the container image that a language starts from if the request names none.
    let checked = match &image {
        Image::Container(name) => Some(name),
        Image::Memory(_) | Image::Default(_) | Image::Any => None,
    };
    match (checked, &policy.allowed_images) {
        (Some(name), Some(allowed)) if !allowed.iter().any(|pattern| pattern.allows(name)) => Err(Denied::new(
            ResultKind::Denied,
            "use image",
            name.as_str(),
            "the configuration does not allow it",
            "use an allowed image, or add this one to images.allowed",
        )),
        _ => Ok(image),
    }
}

/// Returns true if the policy allows a container image.
#[must_use]
pub fn is_allowed_image(policy: &Policy, name: &str) -> bool {
    let Some(allowed) = &policy.allowed_images else { return true };
    name.parse().is_ok_and(|name| allowed.iter().any(|pattern| pattern.allows(&name)))
}

/// Returns true if a name can only be that of a container image.
pub(super) fn is_container_image_name(name: &str) -> bool {
    name.contains([':', '/', '@'])
}

fn parsed(name: &str) -> Result<ImageName, Denied> {
    name.parse().map_err(|error: codebox_core::NameError| {
        Denied::new(ResultKind::InvalidRequest, "use image", format!("{name:?}"), "not a valid image name", error.rule)
    })
}

/// Checks that a command line names a program.
pub(super) fn command(words: Vec<String>) -> Result<Vec<String>, Denied> {
    if words.first().is_none_or(String::is_empty) {
        let (detail, fix) = ("it has no program", "pass a command after --");
        return Err(Denied::new(ResultKind::InvalidRequest, "run", "a command line", detail, fix));
    }
    Ok(words)
}
