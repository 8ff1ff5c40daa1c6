//! Choice of the memory image that a program starts from.

use std::collections::BTreeSet;

use codebox_core::{Language, ResultKind};
use thiserror::Error;

use crate::needs::Needs;

/// Returns the image that every other image of the language is built on: the interpreter with common standard library
/// modules.
fn default_image(language: &Language) -> &str {
    match language.runtime_language() {
        // A command line starts from no memory image.
        Language::Command => "",
        language => language.as_str(),
    }
}

/// Properties of an image that are known before it is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageFacts {
    /// Name of the image.
    pub name: String,
    /// Modules that the image has already imported. Every image also has those of the default image.
    pub imports: Vec<String>,
    /// Size in bytes; `None` if the image is not made yet.
    pub size: Option<u64>,
    /// True if programs that do not name the image can start from it. An image of the user's own has to be made first,
    /// because its modules may not exist any more.
    pub is_offered: bool,
}

/// An image and the reason for its choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageChoice {
    /// Name of the image.
    pub name: String,
    /// Reason for the choice, in one line.
    pub reason: String,
}

/// The requested memory image does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoImage {
    /// The program's language has no image of this name.
    #[error("unknown image {requested:?} for {language}; available: {}", known.join(", "))]
    Unknown {
        /// Requested name.
        requested: String,
        /// Language of the program.
        language: Language,
        /// Images of the language.
        known: Vec<String>,
    },
    /// The program's language has no images.
    #[error("unknown image {requested:?}: {language} has no memory images")]
    NoneForLanguage {
        /// Requested name.
        requested: String,
        /// Language of the program.
        language: Language,
    },
    /// No language has the image that the configuration names.
    #[error("the configuration sets image to {requested:?}, but the images are {}", known.join(", "))]
    UnknownDefault {
        /// Configured name.
        requested: String,
        /// Images of all languages.
        known: Vec<String>,
    },
}

impl NoImage {
    /// Returns the result kind.
    #[must_use]
    pub fn kind(&self) -> ResultKind {
        ResultKind::InvalidRequest
    }

    /// Returns the remedy.
    #[must_use]
    pub fn fix(&self) -> String {
        match self {
            // Only images of Python can be built.
            Self::Unknown { requested, language: Language::Python, .. } if is_memory_image_name(requested) => {
                format!("choose one of these, or build it: codebox image build {requested} --import MODULE,…")
            }
            Self::Unknown { .. } => "choose one of these, or run it without an image's name".to_owned(),
            Self::NoneForLanguage { .. } => {
                "run it without an image's name, or name a container image with its tag".to_owned()
            }
            Self::UnknownDefault { .. } => "correct image in the configuration, or remove it".to_owned(),
        }
    }
}

/// Returns true if a memory image can have this name.
pub(crate) fn is_memory_image_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !name.is_empty() && name.len() <= 64 && name.chars().all(plain)
}

/// Modules that import others when they load. An image with those modules also speeds up a program that names only the
/// importing module.
const DATA_STACK: [(&str, &[&str]); 15] = [
    ("scipy", &["numpy"]),
    ("sklearn", &["numpy", "scipy"]),
    ("skimage", &["numpy", "scipy"]),
    ("statsmodels", &["numpy", "pandas", "scipy"]),
    ("seaborn", &["numpy", "pandas", "matplotlib"]),
    ("patsy", &["numpy", "pandas"]),
    ("plotnine", &["numpy", "pandas", "matplotlib"]),
    ("xarray", &["numpy", "pandas"]),
    ("pandas", &["numpy"]),
    ("matplotlib", &["numpy"]),
    ("pylab", &["numpy", "matplotlib"]),
    ("mpl_toolkits", &["numpy", "matplotlib"]),
    ("openpyxl", &["numpy"]),
    ("shapely", &["numpy"]),
    ("contourpy", &["numpy"]),
];

/// Returns the image that has most of the modules that the program needs already imported; among equals the smallest.
///
/// Only modules count that another image has and the language's default image has not. If no image has any of them, the
/// default image is chosen.
pub(crate) fn choose_image(language: &Language, needs: &Needs, available: &[ImageFacts]) -> ImageChoice {
    let default_name = default_image(language);
    let default = available.iter().find(|image| image.name == default_name);
    let common: BTreeSet<&str> = default.into_iter().flat_map(modules).collect();
    let wanted = wanted(needs);
    let covered = |image: &ImageFacts| -> BTreeSet<String> {
        let counts = |module: &&str| wanted.contains(module) && !common.contains(module);
        modules(image).filter(counts).map(str::to_owned).collect()
    };
    let offered = available.iter().filter(|image| image.is_offered);
    let best = offered.map(|image| (covered(image), image)).filter(|(covered, _)| !covered.is_empty()).min_by(
        |(one, a), (two, b)| {
            let rank = |image: &ImageFacts| (image.size.unwrap_or(u64::MAX), image.name.clone());
            two.len().cmp(&one.len()).then_with(|| rank(a).cmp(&rank(b)))
        },
    );
    match best {
        Some((covered, image)) => {
            let covered: Vec<String> = covered.into_iter().collect();
            ImageChoice { name: image.name.clone(), reason: format!("it has {} preloaded", covered.join(", ")) }
        }
        None => ImageChoice {
            name: default_name.to_owned(),
            reason: "no other image preloads a module that the program imports".to_owned(),
        },
    }
}

/// Returns the image that the user named, regardless of the program's imports. `available` has the images of `language`.
///
/// # Errors
/// Returns an error if no image has this name.
pub(crate) fn named_image(
    requested: &str,
    language: &Language,
    available: &[ImageFacts],
) -> Result<ImageChoice, NoImage> {
    let (requested, language) = (requested.to_owned(), language.clone());
    let known: Vec<String> = available.iter().map(|image| image.name.clone()).collect();
    if known.contains(&requested) {
        return Ok(ImageChoice { name: requested, reason: "requested by name".to_owned() });
    }
    match known.is_empty() {
        true => Err(NoImage::NoneForLanguage { requested, language }),
        false => Err(NoImage::Unknown { requested, language, known }),
    }
}

/// Returns the image that the configuration names; `None` if the program's language, with these images, does not have
/// it.
pub(crate) fn configured_image(name: &str, available: &[ImageFacts]) -> Option<ImageChoice> {
    let is_available = available.iter().any(|image| image.name == name);
    is_available.then(|| ImageChoice { name: name.to_owned(), reason: "set by the configuration".to_owned() })
}

fn modules(image: &ImageFacts) -> impl Iterator<Item = &str> {
    image.imports.iter().map(String::as_str)
}

/// Returns the program's imports, and the modules that [`DATA_STACK`] lists for them.
fn wanted(needs: &Needs) -> BTreeSet<&str> {
    let own = needs.imports.iter().map(String::as_str);
    let transitive = needs.modules().flat_map(|module| {
        DATA_STACK.iter().filter(move |(name, _)| *name == module).flat_map(|(_, imports)| imports.iter().copied())
    });
    own.chain(transitive).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn needs(text: &str) -> Needs {
        let parser = crate::testing::Parser::new();
        parser.analyzer.python_needs(text, codebox_analysis::Budget::default()).expect("the text is harmless")
    }

    fn image(name: &str, imports: &[&str], size: u64) -> ImageFacts {
        let imports = imports.iter().map(|module| (*module).to_owned()).collect();
        ImageFacts { name: name.to_owned(), imports, size: Some(size), is_offered: true }
    }

    fn images() -> Vec<ImageFacts> {
        vec![
            image("python-data", &["numpy", "pandas", "matplotlib"], 90),
            image("python", &["json", "re", "asyncio"], 20),
            image("arrays", &["numpy"], 40),
            image("web", &["bs4", "lxml"], 50),
        ]
    }

    fn chosen(program: &str) -> String {
        choose_image(&Language::Python, &needs(program), &images()).name
    }

    #[test]
    fn chooses_smallest_image_with_most_imports() {
        for (program, name) in [
            ("print(1)", "python"),
            ("import json", "python"),
            ("import nowhere", "python"),
            ("import pandas", "python-data"),
            ("import json, pandas as pd, nowhere", "python-data"),
            ("import numpy", "arrays"),
            ("import numpy.linalg", "arrays"),
            ("from scipy import stats", "arrays"),
            ("import seaborn", "python-data"),
            ("import statsmodels.api as sm", "python-data"),
            ("import matplotlib.pyplot as plt", "python-data"),
            ("from bs4 import BeautifulSoup", "web"),
            ("import bs4, numpy, pandas", "python-data"),
            ("import pandas(", "python"),
        ] {
            assert_eq!(chosen(program), name, "{program:?}");
        }
    }

    #[test]
    fn reasons_name_the_modules() {
        let choice = choose_image(&Language::Python, &needs("import seaborn"), &images());
        assert_eq!(choice.reason, "it has matplotlib, numpy, pandas preloaded");
    }

    #[test]
    fn with_no_image_at_all_it_is_the_default() {
        let needs = self::needs("import pandas");
        for language in [Language::Python, Language::JavaScript] {
            assert_eq!(choose_image(&language, &needs, &[]).name, language.as_str());
        }
    }

    #[test]
    fn named_image_takes_precedence_and_must_exist() {
        let named = |name: &str| named_image(name, &Language::Python, &images());
        assert_eq!(named("web").map(|c| c.name), Ok("web".to_owned()));
        let missing = named("x").expect_err("there is no x");
        let message = "unknown image \"x\" for python; available: python-data, python, arrays, web";
        assert_eq!(missing.to_string(), message);
        assert!(missing.fix().contains("codebox image build x --import"), "{}", missing.fix());
        for unbuildable in ["node:22", "a/b", "a b", ""] {
            let missing = named(unbuildable).expect_err("there is no such image");
            assert!(!missing.fix().contains("image build"), "{}", missing.fix());
        }
    }

    #[test]
    fn named_image_must_be_one_of_the_language() {
        let own = [image("javascript", &[], 5)];
        let missing = named_image("python-data", &Language::JavaScript, &own).expect_err("it is an image of Python");
        assert_eq!(missing.to_string(), "unknown image \"python-data\" for javascript; available: javascript");
        assert!(!missing.fix().contains("image build"), "{}", missing.fix());
        let missing = named_image("python-data", &Language::JavaScript, &[]).expect_err("there are no images");
        assert_eq!(missing.to_string(), "unknown image \"python-data\": javascript has no memory images");
        assert_eq!(configured_image("python-data", &own), None);
        assert_eq!(configured_image("javascript", &own).map(|choice| choice.name).as_deref(), Some("javascript"));
    }

    proptest! {
        #[test]
        fn order_of_the_images_does_not_matter(
            wanted in prop::collection::btree_set("[abcd]", 0..4),
            imports in prop::collection::vec((prop::collection::vec("[abcd]", 0..4), 0u64..3), 0..5),
        ) {
            let needs = Needs { imports: wanted, ..Needs::default() };
            let mut images: Vec<ImageFacts> = imports
                .into_iter()
                .enumerate()
                .map(|(index, (imports, size))| ImageFacts { name: format!("i{index}"), imports, size: Some(size), is_offered: true })
                .collect();
            let forwards = choose_image(&Language::Python, &needs, &images);
            images.reverse();
            prop_assert_eq!(choose_image(&Language::Python, &needs, &images), forwards);
        }
    }
}
