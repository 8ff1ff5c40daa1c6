//! What a second run of the same command has to know of the first.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

/// What happened so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Handover {
    /// The number under which it was accepted.
    pub id: String,
    /// The backend that ran it, and what it lacked there.
    pub from: String,
    pub lacked: String,
    /// What was printed on standard output already.
    pub stdout: Vec<u8>,
    /// What was read of standard input already.
    pub stdin: Vec<u8>,
    /// The program, if it came from standard input.
    pub program: Option<String>,
}

/// The first line; the bytes follow it.
#[derive(Serialize, Deserialize)]
struct Head {
    id: String,
    from: String,
    lacked: String,
    stdout: usize,
    stdin: usize,
    program: Option<String>,
}

/// The most that is believed of one length.
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

    /// Nothing where the writer went away, or wrote something else: it may have been taken over.
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
