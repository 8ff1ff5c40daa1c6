//! State of a run that a second run of the same command continues from.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

/// State of the first run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Handover {
    /// Id of the job.
    pub id: String,
    /// Backend of the first run; `lacked` lists the features that it lacked.
    pub from: String,
    pub lacked: String,
    /// Data that was written to standard output so far.
    pub stdout: Vec<u8>,
    /// Data that was read from standard input so far.
    pub stdin: Vec<u8>,
    /// Text of the program, if it came from standard input.
    pub program: Option<String>,
}

/// First line of the serialized handover; the bytes of the streams follow it.
#[derive(Serialize, Deserialize)]
struct Head {
    id: String,
    from: String,
    lacked: String,
    stdout: usize,
    stdin: usize,
    program: Option<String>,
}

/// Maximum number of bytes that are accepted for one stream.
const MOST: usize = 1 << 30;

impl Handover {
    pub(crate) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let Self { id, from, lacked, stdout, stdin, program } = self.clone();
        let head = Head { id, from, lacked, stdout: stdout.len(), stdin: stdin.len(), program };
        let mut line = serde_json::to_vec(&head)?;
        line.push(b'\n');
        to.write_all(&line)?;
        to.write_all(&stdout)?;
        to.write_all(&stdin)
    }

    /// Reads a handover; `None` if the writer closed the pipe or wrote invalid data. A guest may have taken the writer
    /// over.
    pub(crate) fn read(from: &mut impl Read) -> Option<Self> {
        let mut line = Vec::new();
        let mut byte = [0];
        while line.len() < 64 << 20 {
            from.read_exact(&mut byte).ok()?;
            if byte == *b"\n" {
                break;
            }
            line.push(byte[0]);
        }
        let head: Head = serde_json::from_slice(&line).ok()?;
        if head.stdout > MOST || head.stdin > MOST {
            return None;
        }
        let mut bytes = |count: usize| {
            let mut bytes = Vec::new();
            from.take(count as u64).read_to_end(&mut bytes).ok()?;
            (bytes.len() == count).then_some(bytes)
        };
        let (stdout, stdin) = (bytes(head.stdout)?, bytes(head.stdin)?);
        let Head { id, from, lacked, program, .. } = head;
        Some(Self { id, from, lacked, stdout, stdin, program })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handover_survives_its_pipe() {
        let handover = Handover {
            id: "0f".to_owned(),
            from: "wasm".to_owned(),
            lacked: "threads".to_owned(),
            stdout: b"a\n\0b".to_vec(),
            stdin: vec![10; 3],
            program: Some("print('\n')".to_owned()),
        };
        let mut wire = Vec::new();
        handover.write(&mut wire).expect("a vector takes all");
        assert_eq!(Handover::read(&mut wire.as_slice()), Some(handover));
        for broken in [&b""[..], b"{}\n", b"x", &wire[..wire.len() - 1]] {
            assert_eq!(Handover::read(&mut &*broken), None);
        }
    }
}
