//! Languages of programs, and their descriptions.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};

use crate::name::{NameError, RuntimeName};

mod adapter;
mod python_packages;
mod spec;

pub use adapter::{Adapter, MAX_FRAMES, PackageManager};
pub use python_packages::{POPULAR_PACKAGES, package_of_module};
pub use spec::{Interpreter, LanguageSpec, Languages, check_extension};

/// Language of a program.
///
/// Everything that codebox has to know about a language is in its [description](LanguageSpec) and its
/// [adapter](Adapter). Languages are equal if their names are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Language {
    /// Python.
    Python,
    /// JavaScript.
    JavaScript,
    /// TypeScript, run after its types are removed.
    TypeScript,
    /// No language: a command line, whatever program it runs.
    Command,
    /// Any other language, by its description.
    Named(NamedLanguage),
}

/// Language that is known only by its description.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "LanguageSpec", into = "LanguageSpec")]
pub struct NamedLanguage {
    name: RuntimeName,
    spec: Arc<LanguageSpec>,
}

impl NamedLanguage {
    /// Returns the language of a description.
    ///
    /// # Errors
    /// Returns an error if a value of the description is malformed.
    pub fn new(spec: LanguageSpec) -> Result<Self, NameError> {
        spec.check()?;
        Ok(Self { name: RuntimeName::new(spec.name.as_str())?, spec: Arc::new(spec) })
    }

    /// Returns the name, which is also that of the runtime.
    #[must_use]
    pub fn name(&self) -> &RuntimeName {
        &self.name
    }
}

impl TryFrom<LanguageSpec> for NamedLanguage {
    type Error = NameError;

    fn try_from(spec: LanguageSpec) -> Result<Self, NameError> {
        Self::new(spec)
    }
}

impl From<NamedLanguage> for LanguageSpec {
    fn from(language: NamedLanguage) -> Self {
        Arc::unwrap_or_clone(language.spec)
    }
}

impl PartialEq for NamedLanguage {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for NamedLanguage {}

impl PartialOrd for NamedLanguage {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for NamedLanguage {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name.cmp(&other.name)
    }
}

impl Hash for NamedLanguage {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl From<RuntimeName> for NamedLanguage {
    /// Returns a language of which only the name is known.
    fn from(name: RuntimeName) -> Self {
        let spec = Arc::new(LanguageSpec::bare(&name));
        Self { name, spec }
    }
}

impl Language {
    /// Returns the languages that codebox brings a runtime for.
    #[must_use]
    pub fn built_in() -> Vec<Self> {
        let name = |spec: &Arc<LanguageSpec>| spec.name.parse().ok();
        spec::built_in().filter_map(name).collect()
    }

    /// Returns the language of programs that are WebAssembly themselves: commands of WASI.
    #[must_use]
    pub fn webassembly() -> Self {
        spec::WEBASSEMBLY.clone()
    }

    /// Returns the name used on the command line and in reports.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Python => "python",
            Self::JavaScript => "javascript",
            Self::TypeScript => "typescript",
            Self::Command => "command",
            Self::Named(named) => named.name.as_str(),
        }
    }

    /// Returns the description. That of a command line is empty.
    #[must_use]
    pub fn spec(&self) -> &LanguageSpec {
        static NONE: LazyLock<LanguageSpec> = LazyLock::new(LanguageSpec::default);
        match self {
            Self::Named(named) => &named.spec,
            known => spec::built_in().find(|spec| spec.name == known.as_str()).map_or(&NONE, |spec| spec),
        }
    }

    /// Returns the code for this language.
    #[must_use]
    pub fn adapter(&self) -> Option<Adapter> {
        self.spec().adapter
    }

    /// Returns the package manager of the language. A language that a user adds has none, because packages are installed
    /// only for the runtimes that are part of codebox.
    #[must_use]
    pub fn package_manager(&self) -> Option<PackageManager> {
        match self {
            Self::Named(_) => None,
            known => known.adapter()?.package_manager(),
        }
    }

    /// Returns true if types are removed from a program before it runs.
    #[must_use]
    pub fn is_typed(&self) -> bool {
        self.spec().typed
    }

    /// Returns the language whose runtime, images and configuration this one uses: the language that its built-in
    /// runtime itself runs, such as JavaScript for TypeScript, and otherwise the language itself.
    #[must_use]
    pub fn runtime_language(&self) -> &Self {
        static BUILT_IN: LazyLock<Vec<Language>> = LazyLock::new(Language::built_in);
        let name = self.as_str();
        let own = spec::runtime_language(name).filter(|own| own.name != name);
        own.and_then(|own| BUILT_IN.iter().find(|language| language.as_str() == own.name)).unwrap_or(self)
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Language {
    type Err = NameError;

    /// Returns the language of a name or an alias. A name that codebox does not know is that of an added runtime.
    fn from_str(text: &str) -> Result<Self, NameError> {
        let known = spec::built_in().find(|spec| spec.has_name(text));
        Ok(match known.map_or(text, |spec| spec.name.as_str()) {
            "python" => Self::Python,
            "javascript" => Self::JavaScript,
            "typescript" => Self::TypeScript,
            name => match known {
                Some(spec) => Self::Named(NamedLanguage { name: RuntimeName::new(name)?, spec: Arc::clone(spec) }),
                None => Self::Named(RuntimeName::new(name)?.into()),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_languages() {
        assert_eq!("py".parse(), Ok(Language::Python));
        assert_eq!("ts".parse(), Ok(Language::TypeScript));
        assert!(matches!("ruby".parse(), Ok(Language::Named(_))));
        assert!("Ruby!".parse::<Language>().is_err());
    }

    #[test]
    fn built_in_languages_are_described() {
        let languages = Languages::default();
        assert_eq!(Language::built_in(), [Language::Python, Language::JavaScript, Language::TypeScript]);
        for language in Language::built_in() {
            let spec = language.spec();
            spec.check().expect("a valid description");
            assert_eq!(spec.name, language.as_str());
            assert!(spec.adapter.is_some() && spec.comment.is_some() && spec.container.is_some(), "{language}");
        }
        assert_eq!(languages.of_extension("mjs"), Some(Language::JavaScript));
        assert_eq!(languages.of_interpreter("python3.11"), Some(Language::Python));
        assert_eq!(languages.of_interpreter("lua"), None);
        assert_eq!(Language::Command.spec(), &LanguageSpec::default());
        assert_eq!(Language::TypeScript.runtime_language(), &Language::JavaScript);
        let lua: Language = "lua".parse().expect("a name");
        for own in [Language::Python, Language::JavaScript, Language::Command, lua] {
            assert_eq!(own.runtime_language(), &own);
        }
    }

    #[test]
    fn added_languages_have_their_description() {
        let spec = LanguageSpec {
            name: "lua".to_owned(),
            extensions: vec!["lua".to_owned()],
            comment: Some("--".to_owned()),
            ..LanguageSpec::default()
        };
        let lua = Language::Named(NamedLanguage::new(spec.clone()).expect("a valid description"));
        let languages = Languages::with([lua.clone()]);
        assert_eq!(languages.of_extension("lua"), Some(lua.clone()));
        assert_eq!(languages.of_interpreter("lua"), Some(lua.clone()));
        let bare: Language = "lua".parse().expect("a name");
        assert_eq!(bare, lua);
        assert_eq!(bare.spec().comment, None);
        assert_eq!(languages.described(bare).spec().comment.as_deref(), Some("--"));
        let like_python = LanguageSpec { adapter: Some(Adapter::Python), ..spec.clone() };
        let like_python = Language::Named(NamedLanguage::new(like_python).expect("a valid description"));
        assert_eq!(
            (like_python.package_manager(), Language::Python.package_manager()),
            (None, Some(PackageManager::Pip))
        );
        for (bad, spec) in [
            ("name", LanguageSpec { name: "Lua".to_owned(), ..spec.clone() }),
            ("extension", LanguageSpec { extensions: vec![".lua".to_owned()], ..spec.clone() }),
            ("comment", LanguageSpec { comment: Some(" ".to_owned()), ..spec.clone() }),
            ("comment with a word", LanguageSpec { comment: Some("rem #".to_owned()), ..spec.clone() }),
        ] {
            assert!(NamedLanguage::new(spec).is_err(), "{bad}");
        }
    }
}
