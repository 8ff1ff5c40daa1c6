//! Descriptions of languages, as in the `[[language]]` tables of a `runtime.toml`.

use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};

use super::NamedLanguage;
use super::adapter::Adapter;
use crate::name::{NameError, RuntimeName};
use crate::{ImageName, Language};

/// Properties of a language that codebox does not have to execute code for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LanguageSpec {
    /// Name on the command line, in configuration files and in reports.
    pub name: String,
    /// Other names on the command line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// File name extensions of programs, without the dot.
    pub extensions: Vec<String>,
    /// Starts of the interpreters' names in shebang lines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interpreters: Vec<String>,
    /// Start of a comment that ends with its line. A program can select its isolation only in such a comment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Code for this language, beyond this description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter: Option<Adapter>,
    /// True if programs are WebAssembly themselves, and have no runtime. No added language is.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_module: bool,
    /// True if types are removed from a program before it runs.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub typed: bool,
    /// Interpreter in a container; `None` if programs run only in WebAssembly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<Interpreter>,
}

/// Interpreter of a language in a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interpreter {
    /// Image of a job that names none. `None` if the configuration has to name it.
    pub image: Option<String>,
    /// Program and its arguments, before the program's file or text.
    pub command: Vec<String>,
    /// Arguments after the command that load a hook, which removes the types from modules as the program loads them. They
    /// are used only for programs that are given directories or input files, from which they can load such modules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub module_hook: Vec<String>,
    /// Arguments that run program text, in place of the program's file. One of them is `{program}`, which stands for the
    /// text.
    pub inline: Vec<String>,
}

/// Name of the language of programs that are WebAssembly themselves.
const WASM: &str = "wasm";

/// Placeholder of the program's text in [`Interpreter::inline`].
const PROGRAM: &str = "{program}";

impl Interpreter {
    /// Returns the arguments that run this program text.
    #[must_use]
    pub fn inline_arguments(&self, text: &str) -> Vec<String> {
        self.inline.iter().map(|word| if word == PROGRAM { text.to_owned() } else { word.clone() }).collect()
    }
}

impl LanguageSpec {
    /// Returns the description of a language of which only the name is known.
    pub(super) fn bare(name: &RuntimeName) -> Self {
        Self { name: name.to_string(), ..Self::default() }
    }

    /// Checks the values of a description that is not part of codebox.
    ///
    /// # Errors
    /// Returns an error for the first name, extension or image that is malformed, and for an empty command.
    pub fn check(&self) -> Result<(), NameError> {
        let mut names = std::iter::once(&self.name).chain(&self.aliases).chain(&self.interpreters);
        names.try_for_each(|name| RuntimeName::new(name.as_str()).map(drop))?;
        self.extensions.iter().try_for_each(|extension| check_extension(extension))?;
        if self.is_module && self.name != WASM {
            return Err(NameError::new("is_module", "true", "remove it"));
        }
        if let Some(comment) = &self.comment
            && !((1..=4).contains(&comment.len()) && comment.chars().all(|c| c.is_ascii_punctuation()))
        {
            return Err(NameError::new("start of a comment", comment, "use one to four punctuation characters"));
        }
        match &self.container {
            Some(Interpreter { command, .. }) if command.is_empty() => {
                Err(NameError::new("command", "", "name the interpreter"))
            }
            Some(Interpreter { inline, .. }) if inline.iter().filter(|word| *word == PROGRAM).count() != 1 => {
                Err(NameError::new("inline", &inline.join(" "), "use the argument {program} once"))
            }
            Some(Interpreter { image: Some(image), .. }) => image.parse::<ImageName>().map(drop),
            _ => Ok(()),
        }
    }

    /// Returns true if `name` is the name of this language or an alias.
    pub(super) fn has_name(&self, name: &str) -> bool {
        self.name == name || self.aliases.iter().any(|alias| alias == name)
    }

    /// Returns true if `name` is that of an interpreter of this language, which may have a version at its end.
    #[must_use]
    pub fn has_interpreter(&self, name: &str) -> bool {
        self.interpreters.iter().any(|begin| name.starts_with(begin.as_str()))
    }

    /// Returns true if programs of this language have this extension.
    #[must_use]
    pub fn has_extension(&self, extension: &str) -> bool {
        self.extensions.iter().any(|own| own == extension)
    }
}

/// Checks a file name extension.
///
/// # Errors
/// Returns an error if it is empty, long, or contains anything but lower-case letters, digits and `_`.
pub fn check_extension(extension: &str) -> Result<(), NameError> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if !extension.is_empty() && extension.len() <= 16 && extension.chars().all(plain) {
        return Ok(());
    }
    let rule = "use at most 16 lower-case letters and digits, without the dot";
    Err(NameError::new("file extension", extension, rule))
}

/// Descriptions of the languages of each runtime that is part of codebox, from its `runtime.toml`. The first language of
/// a runtime is the one that the runtime itself runs.
static RUNTIMES: LazyLock<Vec<Vec<Arc<LanguageSpec>>>> = LazyLock::new(|| {
    let described = include_str!(concat!(env!("OUT_DIR"), "/languages.json"));
    let runtimes: Vec<Vec<LanguageSpec>> = serde_json::from_str(described).unwrap_or_default();
    runtimes.into_iter().map(|languages| languages.into_iter().map(Arc::new).collect()).collect()
});

/// Returns the descriptions of the languages whose runtimes are part of codebox.
pub(super) fn built_in() -> impl Iterator<Item = &'static Arc<LanguageSpec>> {
    RUNTIMES.iter().flatten()
}

/// Returns the description of the language that the built-in runtime of the language `name` itself runs.
pub(super) fn runtime_language(name: &str) -> Option<&'static LanguageSpec> {
    let languages = RUNTIMES.iter().find(|languages| languages.iter().any(|spec| spec.name == name))?;
    languages.first().map(Arc::as_ref)
}

/// Language of programs that are WebAssembly themselves.
pub(super) static WEBASSEMBLY: LazyLock<Language> = LazyLock::new(|| {
    let name = WASM.to_owned();
    let spec = LanguageSpec { extensions: vec![name.clone()], name, is_module: true, ..LanguageSpec::default() };
    NamedLanguage::new(spec).map_or(Language::Command, Language::Named)
});

/// Languages that have no runtime: those whose programs run only in containers, and WebAssembly itself.
static WITHOUT_RUNTIME: LazyLock<Vec<Language>> = LazyLock::new(|| {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let shell = LanguageSpec {
        name: "shell".to_owned(),
        aliases: words(&["sh", "bash"]),
        extensions: words(&["sh", "bash"]),
        interpreters: words(&["sh", "bash", "dash"]),
        comment: Some("#".to_owned()),
        container: Some(Interpreter {
            image: Some("docker.io/library/debian:stable-slim".to_owned()),
            command: words(&["bash"]),
            module_hook: Vec::new(),
            // The word after the text is the name of the program.
            inline: words(&["-c", PROGRAM, "bash"]),
        }),
        ..LanguageSpec::default()
    };
    let shell = NamedLanguage::new(shell).into_iter().map(Language::Named);
    shell.chain(std::iter::once(WEBASSEMBLY.clone())).collect()
});

/// Languages with the descriptions of runtimes that the user added.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Languages {
    added: Vec<Language>,
}

impl Languages {
    /// Returns the languages of codebox with these in addition.
    #[must_use]
    pub fn with(added: impl IntoIterator<Item = Language>) -> Self {
        Self { added: added.into_iter().collect() }
    }

    /// Returns all languages: those that codebox has a runtime for, those that the user added, and those that have no runtime.
    pub fn all(&self) -> impl Iterator<Item = Language> {
        Language::built_in().into_iter().chain(self.named().cloned())
    }

    /// Returns the languages that have a runtime, or are added.
    pub fn with_runtime(&self) -> impl Iterator<Item = Language> {
        Language::built_in().into_iter().chain(self.added.iter().cloned())
    }

    fn named(&self) -> impl Iterator<Item = &Language> {
        let is_added = |language: &&Language| self.added.contains(language);
        self.added.iter().chain(WITHOUT_RUNTIME.iter().filter(move |language| !is_added(language)))
    }

    /// Returns the language of a file name extension.
    #[must_use]
    pub fn of_extension(&self, extension: &str) -> Option<Language> {
        self.all().find(|language| language.spec().has_extension(extension))
    }

    /// Returns the language of an interpreter's name in a shebang line.
    #[must_use]
    pub fn of_interpreter(&self, name: &str) -> Option<Language> {
        self.all().find(|language| language.spec().has_interpreter(name) || language.spec().name == name)
    }

    /// Returns the language with its description, if it is known.
    #[must_use]
    pub fn described(&self, language: Language) -> Language {
        let name = language.as_str();
        self.named().find(|named| named.spec().has_name(name)).cloned().unwrap_or(language)
    }
}
