//! Lines of a server, which are messages.

use std::io;
use std::sync::{Arc, OnceLock};

use serde_json::Value;
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream,
};

/// Maximum length of a message in bytes. The library drops longer ones, and their calls would wait for ever.
const MAX_LINE: u64 = 16 << 20;

/// Size of the buffer between the server and the library in bytes.
const BUFFER: usize = 64 << 10;

/// Reason that a connection was ended.
pub(super) type Failure = Arc<OnceLock<String>>;

/// Passes the lines of a server on, until one is a message that cannot be read. The connection then ends, and with it all calls in progress. Other
/// output, such as messages for people, is left out.
pub(super) fn checked(output: impl AsyncRead + Send + Unpin + 'static) -> (DuplexStream, Failure) {
    let (mut to, from) = tokio::io::duplex(BUFFER);
    let failure = Failure::default();
    let reason = Arc::clone(&failure);
    tokio::spawn(async move {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        loop {
            line.clear();
            match read_message(&mut output, &mut line).await {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    // It is set once.
                    let _ = reason.set(error.to_string());
                    return;
                }
            }
            if to.write_all(&line).await.is_err() {
                return;
            }
        }
    });
    (from, failure)
}

/// Reads the next line that is a message; false at the end.
async fn read_message(output: &mut (impl AsyncBufRead + Unpin), line: &mut Vec<u8>) -> io::Result<bool> {
    loop {
        line.clear();
        if (&mut *output).take(MAX_LINE + 1).read_until(b'\n', line).await? == 0 {
            return Ok(false);
        }
        if line.len() as u64 > MAX_LINE {
            return Err(io::Error::other(format!("the server has sent a message of more than {MAX_LINE} bytes")));
        }
        if !line.trim_ascii_start().starts_with(b"{") {
            continue;
        }
        if let Err(error) = serde_json::from_slice::<Value>(line) {
            return Err(io::Error::other(format!("the server has sent a message that is not valid: {error}")));
        }
        return Ok(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn passed(text: Vec<u8>) -> (String, Option<String>) {
        let (mut lines, failure) = checked(io::Cursor::new(text));
        let mut all = String::new();
        lines.read_to_string(&mut all).await.expect("it is text");
        (all, failure.get().cloned())
    }

    #[tokio::test]
    async fn messages_that_cannot_be_read_end_the_connection() {
        let text = b"starting\n{\"a\":1}\n\n{\"b\":2}\n".to_vec();
        assert_eq!(passed(text).await, ("{\"a\":1}\n{\"b\":2}\n".to_owned(), None));
        let (all, failure) = passed(b"{\"a\":1}\n{\"a\":\n{\"b\":2}\n".to_vec()).await;
        assert_eq!(all, "{\"a\":1}\n");
        assert!(failure.expect("a reason").contains("not valid"));
        let deep = ["{\"a\":", &"[".repeat(200), &"]".repeat(200), "}\n"].concat();
        assert!(passed(deep.into_bytes()).await.1.expect("a reason").contains("recursion limit"));
        let long = ["{\"a\":\"", &"x".repeat(17 << 20), "\"}\n"].concat();
        assert!(passed(long.into_bytes()).await.1.expect("a reason").contains("more than 16777216 bytes"));
    }
}
