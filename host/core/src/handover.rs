use crate::code::CodeScope;

/// State of a run that a second run in another process continues from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Handover {
    /// Id of the job in the journal; empty without a journal.
    pub id: String,
    /// Backend of the first run.
    pub from: String,
    /// Features that the backend lacked.
    pub missing: String,
    /// Code of the second run: all code if the first run lacked some, and the second one runs in WebAssembly too.
    /// Otherwise the second run takes place in a container.
    pub code: CodeScope,
    /// Data that was written to standard output so far.
    pub stdout: Vec<u8>,
    /// Data that was read from standard input so far.
    pub stdin: Vec<u8>,
    /// Text of the program, if it came from standard input.
    pub program: Option<String>,
}
