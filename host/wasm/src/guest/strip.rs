//! Takes the types out of a guest's TypeScript while the guest waits.

use std::io;

use codebox_typescript::{Place, StripError, Stripped};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

/// A TypeScript text and the name that says which kind it is.
#[derive(Deserialize)]
pub(crate) struct Typed {
    file: String,
    text: String,
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

/// Begins the work on a thread of its own, so that the guest's deadline holds whatever the text costs to parse.
pub(crate) fn start(typed: Typed) -> io::Result<oneshot::Receiver<Vec<u8>>> {
    let (send, receive) = oneshot::channel();
    let strip = move || {
        let answer = answer(codebox_typescript::strip(&typed.file, &typed.text));
        // A guest that was stopped waits no longer.
        let _ = send.send(answer);
    };
    std::thread::Builder::new().name("codebox-strip".into()).spawn(strip)?;
    Ok(receive)
}

fn answer(stripped: Result<Stripped, StripError>) -> Vec<u8> {
    let (head, code) = match stripped {
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
