use serde::{Deserialize, Serialize};

/// Code with which a guest of a memory image starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum CodeScope {
    /// The code of the image. Other code is loaded when the guest first uses it.
    #[default]
    Image,
    /// All code of the runtime.
    All,
}

/// Prepared contents of a runtime: code that is compiled, and memory images that are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preparation<'a> {
    /// The image of this name, and the code with which its guests start. A guest that uses other code ends with
    /// [`MissingCode`](crate::TrapKind::MissingCode) if that code is not compiled.
    Image(&'a str),
    /// All code and all images.
    Complete,
}

impl<'a> Preparation<'a> {
    /// Returns the contents that guests of an image need if they start with this code.
    #[must_use]
    pub fn of(image: &'a str, code: CodeScope) -> Self {
        match code {
            CodeScope::Image => Self::Image(image),
            CodeScope::All => Self::Complete,
        }
    }
}
