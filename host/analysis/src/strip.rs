//! Stripping of TypeScript types: the request of a program that loads TypeScript, and the answer.
//!
//! An answer is one line of JSON, `{"map": MAPPINGS}` or `{"error": FAULT}`, followed by the program. The analyzer
//! writes the answer in the form that guests read, and the host passes it on unchanged.

use serde::{Deserialize, Serialize};

/// A TypeScript text, and the file name that selects the kind of TypeScript.
#[derive(Debug, Clone, Deserialize)]
pub struct StripRequest {
    /// The file name.
    pub file: String,
    /// The text.
    pub text: String,
}

/// Error of stripping types.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StripFault {
    /// A description of the error in one line.
    pub message: String,
    /// The line, counted from 1.
    pub line: Option<u32>,
    /// The column, counted from 1 in UTF-16 code units.
    pub column: Option<u32>,
}

/// The first line of an answer.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Head {
    Map(String),
    Error(StripFault),
}

/// Encodes an answer with a program and the source map's mappings to its text.
#[must_use]
pub fn encode_program(code: &str, mappings: String) -> Vec<u8> {
    let mut answer = encode(&Head::Map(mappings));
    answer.extend_from_slice(code.as_bytes());
    answer
}

/// Encodes an answer with an error.
#[must_use]
pub fn encode_fault(fault: StripFault) -> Vec<u8> {
    encode(&Head::Error(fault))
}

fn encode(head: &Head) -> Vec<u8> {
    // Strings and numbers can always be encoded in JSON.
    let mut answer = serde_json::to_vec(head).unwrap_or_default();
    answer.push(b'\n');
    answer
}

/// Extracts the program from an answer.
///
/// # Errors
/// The error in the answer, or an error for a malformed answer.
pub fn split_answer(answer: &[u8]) -> Result<String, StripFault> {
    let malformed =
        || StripFault { message: "malformed response from the analyzer".to_owned(), line: None, column: None };
    let end = answer.iter().position(|byte| *byte == b'\n').ok_or_else(malformed)?;
    match serde_json::from_slice(&answer[..end]).map_err(|_| malformed())? {
        Head::Map(_) => String::from_utf8(answer[end + 1..].to_vec()).map_err(|_| malformed()),
        Head::Error(fault) => Err(fault),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_round_trip() {
        assert_eq!(split_answer(&encode_program("let a\n", "AAAA".to_owned())).as_deref(), Ok("let a\n"));
        let fault = StripFault { message: "a\nb".to_owned(), line: Some(1), column: None };
        assert_eq!(split_answer(&encode_fault(fault.clone())), Err(fault));
        for malformed in [&b""[..], b"{}", b"{}\n", b"{\"map\":\"\"}\n\xff", b"null\nx"] {
            assert!(split_answer(malformed).is_err(), "{malformed:?}");
        }
    }
}
