//! The languages that the list is written in.

use anyhow::{Context as _, Result};
use codebox_testkit::Kit;

use crate::tier::Tier;

/// A language that a case can have a program in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    Python,
    JavaScript,
    TypeScript,
    Lua,
}

impl Language {
    pub const ALL: [Self; 4] = [Self::Python, Self::JavaScript, Self::TypeScript, Self::Lua];

    /// The name that `--lang` takes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::JavaScript => "javascript",
            Self::TypeScript => "typescript",
            Self::Lua => "lua",
        }
    }

    /// How the names of its files end.
    pub fn ending(self) -> &'static str {
        match self {
            Self::Python => "py",
            Self::JavaScript => "js",
            Self::TypeScript => "ts",
            Self::Lua => "lua",
        }
    }

    /// What only our own code is called, and what no program may therefore find on its standard error. An image's
    /// interpreter is not ours, and shows what it likes of itself.
    pub fn internals(self, tier: Tier) -> &'static [&'static str] {
        match self {
            _ if tier == Tier::Container => &["/.codebox"],
            Self::Python => &["<codebox", "<reactor>", "_codebox", "_reactor"],
            Self::JavaScript | Self::TypeScript => &["node:internal", "[turn]"],
            Self::Lua => &["[string ", "lua.c"],
        }
    }

    /// An expected text as the tier's interpreter words it: Node has other names than ours for a program without a file.
    pub fn worded(self, tier: Tier, text: &str) -> String {
        match (self, tier) {
            (Self::JavaScript | Self::TypeScript, Tier::Container) => {
                text.replace("<string>", "[eval]").replace("<stdin>", "[stdin]")
            }
            _ => text.to_owned(),
        }
    }

    /// Makes the home of `kit` ready to run it.
    pub fn prepare(self, kit: &Kit) -> Result<()> {
        match self {
            Self::Python => kit.prepare_language(self.name(), "pass"),
            Self::JavaScript | Self::TypeScript => kit.prepare_language(self.name(), "0"),
            Self::Lua => {
                kit.add_lua().context("Lua's runtime is not registered")?;
                kit.prepare_language(self.name(), "return")
            }
        }
    }
}
