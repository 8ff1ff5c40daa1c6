//! Code for languages that their descriptions cannot express: what the text of a program and of its errors means.

use serde::{Deserialize, Serialize};

use crate::guest_error::{ErrorFrame, GuestError};

mod lua;
mod node;
mod python;

/// Code for a language, beyond its description. Languages with the same interpreter share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Adapter {
    /// CPython.
    Python,
    /// Node: JavaScript and TypeScript.
    Node,
    /// The reference implementation of Lua.
    Lua,
}

/// Package manager of a language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PackageManager {
    /// Packages of the Python Package Index.
    Pip,
    /// Packages of the npm registry.
    Npm,
}

/// Start of the description of a missing module, as in [`Missing::module`](crate::Missing::module).
const MODULE_PREFIX: &str = "the module ";

/// Length limit for the name of a missing module, in bytes.
const MAX_MODULE_NAME_SIZE: usize = 256;

/// Maximum length of the name of a library function in a report of a missing feature, in bytes.
const MAX_FUNCTION_NAME: usize = 128;

/// Maximum number of calls of an error.
pub const MAX_FRAMES: usize = 50;

/// Maximum length of each text of a call in bytes.
const MAX_FRAME_TEXT: usize = 1024;

/// Most lines of a traceback that are kept.
const MAX_TRACEBACK_LINES: usize = 200;

impl Adapter {
    /// Returns the package manager of the language.
    #[must_use]
    pub fn package_manager(self) -> Option<PackageManager> {
        match self {
            Self::Python => Some(PackageManager::Pip),
            Self::Node => Some(PackageManager::Npm),
            Self::Lua => None,
        }
    }

    /// Reads the last error that the interpreter wrote to standard error.
    ///
    /// A program can forge the text, and would only misreport itself.
    #[must_use]
    pub fn parse_error(self, stderr: &str) -> Option<GuestError> {
        match self {
            Self::Python => python::parse_error(stderr),
            Self::Node => node::parse_error(stderr),
            Self::Lua => lua::parse_error(stderr),
        }
    }

    /// Returns the calls in an error's traceback, the innermost last. At most [`MAX_FRAMES`] of the innermost.
    #[must_use]
    pub fn frames(self, error: &GuestError) -> Vec<ErrorFrame> {
        let mut frames = match self {
            Self::Python => python::frames(&error.traceback),
            Self::Node => node::frames(&error.traceback),
            Self::Lua => lua::frames(&error.traceback),
        };
        let skip = frames.len().saturating_sub(MAX_FRAMES);
        frames.drain(..skip);
        for ErrorFrame { file, function, code, .. } in &mut frames {
            for text in [Some(file), function.as_mut(), code.as_mut()].into_iter().flatten() {
                text.truncate(text.floor_char_boundary(MAX_FRAME_TEXT));
            }
        }
        frames
    }

    /// Returns the module or package that the interpreter did not find, if that error ended the program.
    ///
    /// A file that the program names by its path does not count as a module.
    #[must_use]
    pub fn missing_module(self, error: &GuestError) -> Option<String> {
        let name = match self {
            Self::Python => python::missing_module(error),
            Self::Node => node::missing_module(error),
            Self::Lua => lua::missing_module(error),
        };
        name.filter(|name| !name.is_empty() && name.len() <= MAX_MODULE_NAME_SIZE)
    }

    /// Returns true if every interpreter of the language on an operating system has this part of its library, which
    /// the runtime in WebAssembly reported as missing: `the module ssl`, or `Python's os.mkfifo`.
    #[must_use]
    pub fn has_natively(self, feature: &str) -> bool {
        match self {
            Self::Python => has_library_part(feature, python::LIBRARY_PREFIX, &python::NATIVE_MODULES),
            Self::Node => has_library_part(feature, node::LIBRARY_PREFIX, &node::NATIVE_MODULES),
            // The library of Lua has no native modules.
            Self::Lua => false,
        }
    }

    /// Returns the encoding that a program declares and that is not UTF-8; `None` if a program must be UTF-8.
    #[must_use]
    pub fn declared_encoding(self, text: &[u8]) -> Option<String> {
        match self {
            Self::Python => python::declared_encoding(text).filter(|encoding| !python::is_utf8(encoding)),
            Self::Node | Self::Lua => None,
        }
    }

    /// Returns the remedy for a program that is not UTF-8 and declares no encoding.
    #[must_use]
    pub fn encoding_fix(self) -> &'static str {
        match self {
            Self::Python => {
                "save it as UTF-8, or declare its encoding in its first line, as in # -*- coding: latin-1 -*-"
            }
            Self::Node | Self::Lua => "save it as UTF-8",
        }
    }
}

/// Returns true if a missing feature is one of these modules, or begins with the language's prefix of functions.
fn has_library_part(feature: &str, function_prefix: &str, modules: &[&str]) -> bool {
    match feature.strip_prefix(MODULE_PREFIX) {
        Some(module) => modules.contains(&module),
        // The text comes from the guest.
        None => feature.strip_prefix(function_prefix).is_some_and(is_dotted_name),
    }
}

/// Returns true for the name of a function, such as `os.mkfifo`, that is not longer than any in a library.
fn is_dotted_name(text: &str) -> bool {
    text.len() <= MAX_FUNCTION_NAME
        && text.chars().all(|char| char.is_alphanumeric() || matches!(char, '_' | '.' | '-' | '/' | ' '))
}

/// Returns the text between the prefix and the next quotation mark.
fn quoted(text: &str, prefix: &str) -> Option<String> {
    let (name, _) = text.strip_prefix(prefix)?.split_once('\'')?;
    Some(name.to_owned())
}

fn last_lines(lines: &[&str]) -> Vec<String> {
    let skip = lines.len().saturating_sub(MAX_TRACEBACK_LINES);
    lines.iter().skip(skip).map(|line| (*line).to_owned()).collect()
}

#[cfg(test)]
mod tests;
