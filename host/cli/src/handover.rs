//! Serialized form of the state that a second run of the same command continues from.

use std::io::{self, Read, Write};

use codebox_core::{CodeScope, Handover};
use serde::{Deserialize, Serialize};

/// First line of the serialized handover; the bytes of the streams follow it.
#[derive(Serialize, Deserialize)]
struct Head {
    /// Version of the program that writes it. The two programs of a partly replaced installation can differ.
    version: String,
    id: String,
    from: String,
    missing: String,
    all_code: bool,
    stdout: usize,
    stdin: usize,
    program: Option<String>,
}

/// Maximum number of bytes that are accepted for one stream.
const MAX_STREAM_SIZE: usize = 1 << 30;

pub(crate) fn write(handover: &Handover, to: &mut impl Write) -> io::Result<()> {
    let Handover { id, from, missing, code, stdout, stdin, program } = handover.clone();
    let all_code = code == CodeScope::All;
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let head = Head { version, id, from, missing, all_code, stdout: stdout.len(), stdin: stdin.len(), program };
    let mut line = serde_json::to_vec(&head)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.write_all(&stdout)?;
    to.write_all(&stdin)
}

/// Reads a handover; `None` if the writer closed the pipe or wrote invalid data. A guest may have taken the writer
/// over.
pub(crate) fn read(from: &mut impl Read) -> Option<Handover> {
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
    if head.version != env!("CARGO_PKG_VERSION") || head.stdout > MAX_STREAM_SIZE || head.stdin > MAX_STREAM_SIZE {
        return None;
    }
    let mut bytes = |count: usize| {
        let mut bytes = Vec::new();
        from.take(count as u64).read_to_end(&mut bytes).ok()?;
        (bytes.len() == count).then_some(bytes)
    };
    let (stdout, stdin) = (bytes(head.stdout)?, bytes(head.stdin)?);
    let Head { id, from, missing, all_code, program, .. } = head;
    let code = if all_code { CodeScope::All } else { CodeScope::Image };
    Some(Handover { id, from, missing, code, stdout, stdin, program })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handover_round_trips() {
        let handover = Handover {
            id: "0f".to_owned(),
            from: "wasm".to_owned(),
            missing: "threads".to_owned(),
            code: CodeScope::All,
            stdout: b"a\n\0b".to_vec(),
            stdin: vec![10; 3],
            program: Some("print('\n')".to_owned()),
        };
        let mut wire = Vec::new();
        write(&handover, &mut wire).expect("a vector takes all");
        assert_eq!(read(&mut wire.as_slice()), Some(handover));
        for broken in [&b""[..], b"{}\n", b"x", &wire[..wire.len() - 1]] {
            assert_eq!(read(&mut &*broken), None);
        }
    }
}
