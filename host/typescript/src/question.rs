//! The question of a guest that loads TypeScript, and its answer.

use serde::{Deserialize, Serialize};

use crate::{Place, StripError, Stripped, strip};

/// A TypeScript text and the name that says which kind it is.
#[derive(Debug, Clone, Deserialize)]
pub struct Question {
    /// The name.
    pub file: String,
    /// The text.
    pub text: String,
}

/// The first line of the answer; the program follows it.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Head {
    Map(String),
    Error(Fault),
}

/// Why there is no program.
#[derive(Serialize)]
struct Fault {
    message: String,
    line: Option<u32>,
    column: Option<u32>,
}

impl Question {
    /// A line of JSON with the mappings or with what is wrong, and then the program.
    #[must_use]
    pub fn answer(&self) -> Vec<u8> {
        let (head, code) = match strip(&self.file, &self.text) {
            Ok(Stripped { code, mappings }) => (Head::Map(mappings), code),
            Err(error) => {
                let place = match &error {
                    StripError::Syntax { place, .. } => Some(*place),
                    _ => None,
                };
                let (line, column) = place.map(|Place { line, column }| (line, column)).unzip();
                (Head::Error(Fault { message: error.to_string(), line, column }), String::new())
            }
        };
        // Texts and numbers always have a form in JSON.
        let mut answer = serde_json::to_vec(&head).unwrap_or_default();
        answer.push(b'\n');
        answer.extend_from_slice(code.as_bytes());
        answer
    }
}
