//! Runs a program with live output, answers its input, and cancels it after its third line.
//!
//! ```sh
//! cargo run --release --example streams
//! ```

use std::io::{self, Cursor};

use codebox::{CancelToken, ExecIo, OutputSink, Request, Stdin};

const PROGRAM: &str = "
name = input()
number = 0
while True:
    number += 1
    print(name, number, flush=True)
";

/// Sink that prints every line as it arrives, and cancels the job after the third.
struct ThreeLines {
    lines: usize,
    cancel: CancelToken,
}

impl OutputSink for ThreeLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        for line in String::from_utf8_lossy(bytes).lines().take(3 - self.lines.min(3)) {
            println!("{line}");
            self.lines += 1;
        }
        if self.lines >= 3 {
            self.cancel.cancel();
        }
        Ok(())
    }
}

fn main() -> Result<(), codebox::RunnerError> {
    let runner = codebox::runner();
    let cancel = CancelToken::new();
    let mut io = ExecIo {
        stdin: Some(Box::new(Cursor::new(b"line\n".to_vec()))),
        stdout: Some(Box::new(ThreeLines { lines: 0, cancel: cancel.clone() })),
        cancel,
        ..ExecIo::none()
    };
    let request = Request { stdin: Stdin::Streamed, ..Request::python(PROGRAM) };
    let report = runner.run_with(request, &mut io)?;
    println!("{:?}", report.outcome);
    Ok(())
}
