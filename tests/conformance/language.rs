//! Languages of the cases.

use anyhow::{Context as _, Result};
use codebox_testkit::Kit;

use crate::tier::Tier;

/// Language of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    Python,
    JavaScript,
    TypeScript,
    Lua,
}

impl Language {
    pub const ALL: [Self; 4] = [Self::Python, Self::JavaScript, Self::TypeScript, Self::Lua];

    /// Returns the name that `--lang` accepts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::JavaScript => "javascript",
            Self::TypeScript => "typescript",
            Self::Lua => "lua",
        }
    }

    /// Returns the extension of the language's files.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Python => "py",
            Self::JavaScript => "js",
            Self::TypeScript => "ts",
            Self::Lua => "lua",
        }
    }

    /// Returns names that occur only in codebox's own code and that must therefore not appear on a program's standard
    /// error. An image's interpreter is not codebox's and may show its own internals.
    pub fn internal_names(self, tier: Tier) -> &'static [&'static str] {
        match self {
            _ if tier == Tier::Container => &["/.codebox"],
            Self::Python => &["<codebox", "<reactor>", "_codebox", "_reactor"],
            Self::JavaScript | Self::TypeScript => &["node:internal", "[turn]"],
            Self::Lua => &["[string ", "lua.c"],
        }
    }

    /// Adapts an expected text to the tier's interpreter: Node has other names for a program without a file.
    pub fn adapt_message(self, tier: Tier, text: &str) -> String {
        match (self, tier) {
            (Self::JavaScript | Self::TypeScript, Tier::Container) => {
                text.replace("<string>", "[eval]").replace("<stdin>", "[stdin]")
            }
            _ => text.to_owned(),
        }
    }

    /// Adds the language's description to the home of `kit`, if it is not one of codebox's own.
    pub fn describe(self, kit: &Kit) -> Result<()> {
        match self {
            Self::Lua => kit.add_lua().context("Lua's runtime is not registered"),
            Self::Python | Self::JavaScript | Self::TypeScript => Ok(()),
        }
    }

    /// Prepares the home of `kit` for this language.
    pub fn prepare(self, kit: &Kit) -> Result<()> {
        self.describe(kit)?;
        kit.prepare_runtime(self.runtime())
    }

    /// Name of the runtime that runs this language.
    fn runtime(self) -> &'static str {
        match self {
            Self::TypeScript => Self::JavaScript.name(),
            Self::Python | Self::JavaScript | Self::Lua => self.name(),
        }
    }
}
