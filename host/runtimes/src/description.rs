//! Descriptions of languages that are added with their runtimes.

use std::fs;
use std::io;
use std::path::Path;

use codebox_core::{ByteSize, Language, LanguageSpec, NamedLanguage};
use codebox_service::catalog::{CatalogError, Description};
use serde::Deserialize;

/// The largest description file.
const MAX_DESCRIPTION: ByteSize = ByteSize::kib(64);

/// Contents of a description file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tables {
    language: Vec<LanguageSpec>,
}

/// Returns the described language, which must not be one of codebox's own.
pub(crate) fn read(description: &Description) -> Result<NamedLanguage, CatalogError> {
    let spec = match description {
        Description::Name { language, extensions } => {
            LanguageSpec { name: language.to_string(), extensions: extensions.clone(), ..LanguageSpec::default() }
        }
        Description::File(file) => parse(file)?,
    };
    if spec.typed
        && let Description::File(file) = description
    {
        let reason = "typed is only for the languages of codebox: a component removes types itself".to_owned();
        return Err(CatalogError::BadDescription { file: file.clone(), reason });
    }
    match spec.name.parse() {
        Ok(Language::Named(_)) | Err(_) => {}
        Ok(language) => return Err(CatalogError::NotToAdd { language }),
    }
    NamedLanguage::new(spec).map_err(|error| match description {
        Description::Name { .. } => CatalogError::BadEnding { ending: error.text, rule: error.rule.to_owned() },
        Description::File(file) => CatalogError::BadDescription { file: file.clone(), reason: error.to_string() },
    })
}

fn parse(file: &Path) -> Result<LanguageSpec, CatalogError> {
    let bad = |reason: String| CatalogError::BadDescription { file: file.to_owned(), reason };
    let bytes = read_file(file, MAX_DESCRIPTION).map_err(|error| bad(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| bad("it is not UTF-8".to_owned()))?;
    let Tables { language } = toml::from_str(&text).map_err(|error| bad(error.message().to_owned()))?;
    let count = language.len();
    <[LanguageSpec; 1]>::try_from(language)
        .map(|[spec]| spec)
        .map_err(|_| bad(format!("expected one [[language]] table, found {count}")))
}

/// Reads a regular file of at most `limit` bytes.
pub(crate) fn read_file(path: &Path, limit: ByteSize) -> io::Result<Vec<u8>> {
    // The file type is checked before opening, because opening a FIFO would block until a writer appears.
    let meta = fs::metadata(path)?;
    if !meta.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let too_large = || io::Error::other(format!("it is larger than {limit}"));
    if meta.len() > limit.get() {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(fs::File::open(path)?, limit.get() + 1), &mut bytes)?;
    if bytes.len() as u64 > limit.get() { Err(too_large()) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_descriptions_that_cannot_be_used() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("runtime.toml");
        let read_text = |text: &str| {
            fs::write(&file, text).expect("the directory is writable");
            read(&Description::File(file.clone())).map_err(|error| error.to_string())
        };
        let lua = include_str!("../../../guest-runtimes/lua/runtime.toml");
        assert_eq!(read_text(lua).expect("a valid description").name().as_str(), "lua");
        for (text, message) in [
            ("", "missing field `language`"),
            ("[[language]]\nname = \"a\"\n[[language]]\nname = \"b\"\n", "expected one [[language]] table, found 2"),
            ("[[language]]\nname = \"python\"\n", "python"),
            ("[[language]]\nname = \"a\"\ntyped = true\n", "typed"),
            ("[[language]]\nname = \"a\"\nadapter = \"perl\"\n", "unknown variant `perl`"),
            ("[[language]]\nname = \"a\"\nendings = [\"a\"]\n", "unknown field `endings`"),
            (
                "[[language]]\nname = \"a\"\n[language.container]\ncommand = [\"a\"]\ninline = [\"-e\"]\n",
                "use the argument {program} once",
            ),
            ("[[language]]\nname = \"a\"\n[language.container]\ncommand = []\ninline = []\n", "name the interpreter"),
        ] {
            let error = read_text(text).expect_err(text);
            assert!(error.contains(message), "{error}");
        }
        let absent = Description::File(dir.path().join("absent.toml"));
        assert!(read(&absent).expect_err("no file").to_string().contains("absent.toml"));
    }
}
