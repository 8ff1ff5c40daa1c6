//! Memory images that are made for programs that run repeatedly.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{GuestPath, Layer};

/// A memory image with the imports with which a program starts, and the key of that image: programs with equal values share
/// it. It contains nothing of a program or its user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AutomaticImage {
    /// The image from which the program would start otherwise.
    pub base: String,
    /// The import statements, in their order: each module, and the names that are imported from it.
    pub imports: Vec<(String, Vec<String>)>,
    /// The layers with the program's packages.
    pub layers: Vec<Layer>,
    /// The directory of the program, which imports search first: empty for a program without a file.
    pub program_dir: String,
    /// True if the program can connect to hosts, which changes the modules for that.
    pub network: bool,
}

/// Properties of a job that an image could contradict.
#[derive(Clone, Copy)]
pub struct ImageUse<'a> {
    /// Returns true if the program has a file for a module of this name, which takes precedence over that of an image.
    pub has_module: &'a dyn Fn(&str) -> bool,
    /// Returns true if a guest path may lead to a file of the program's user.
    pub has_path: &'a dyn Fn(&str) -> bool,
    /// Maximum size of the image in bytes.
    pub max_size: u64,
}

/// Form of an image's description that is passed between processes.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    base: String,
    imports: Vec<(String, Vec<String>)>,
    /// The paths of each layer on this machine and in the guest.
    layers: Vec<(PathBuf, String)>,
    program_dir: String,
    network: bool,
}

impl AutomaticImage {
    /// Returns a text for another process, which [`parse`](Self::parse) reads.
    #[must_use]
    pub fn to_text(&self) -> String {
        let Self { base, imports, layers, program_dir, network } = self.clone();
        let layers = layers.into_iter().map(|layer| (layer.host, layer.guest.as_str().to_owned())).collect();
        // A path that is not UTF-8 has no text, and no process accepts an empty one.
        serde_json::to_string(&Description { base, imports, layers, program_dir, network }).unwrap_or_default()
    }

    /// Reads a text that [`to_text`](Self::to_text) has returned.
    ///
    /// # Errors
    /// A description of the error in one line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let described: Description = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let Description { base, imports, layers, program_dir, network } = described;
        let layer = |(host, guest): (PathBuf, String)| {
            let guest = GuestPath::new(&guest).map_err(|error| error.to_string())?;
            Ok(Layer { host, guest })
        };
        let layers = layers.into_iter().map(layer).collect::<Result<_, String>>()?;
        Ok(Self { base, imports, layers, program_dir, network })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_text() {
        let image = AutomaticImage {
            base: "python".to_owned(),
            imports: vec![("a.b".to_owned(), vec!["c".to_owned()]), ("d".to_owned(), vec![])],
            layers: vec![Layer { host: "/x y".into(), guest: GuestPath::new("/packages").expect("a path") }],
            program_dir: "/run/codebox".to_owned(),
            network: true,
        };
        assert_eq!(AutomaticImage::parse(&image.to_text()), Ok(image));
        assert!(AutomaticImage::parse("").is_err());
    }
}
