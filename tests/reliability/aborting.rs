//! A1: a job that ends in a way that could end its process ends only itself.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use codebox::{ByteSize, ExecIo, Outcome, Stdin, Workbench};
use codebox_core::OutputSink;
use codebox_testkit::{Guest, Kit};

use crate::support::{hostile, job, printing, run_successfully, text, with_memory_limit};

/// Time limit of the job that runs beside all others.
const BYSTANDER_TIMEOUT: Duration = Duration::from_secs(300);

/// Programs that trap, abort, overflow the stack or exhaust their memory, in Python and in JavaScript.
const FATAL_PROGRAMS: [[&str; 2]; 4] = [
    ["import os\nos.abort()", "process.abort()"],
    ["import sys\nsys.setrecursionlimit(10 ** 9)\ndef f(): f()\nf()", "function f() { f() }\nf()"],
    ["x = []\nwhile True: x.append(bytearray(1 << 20))", "const x = []\nwhile (true) x.push(new Uint8Array(1 << 20))"],
    ["x = 'x' * 1000\nwhile True: x += x", "let x = 'x'.repeat(1000)\nwhile (true) x += x"],
];

/// Program that reads a line, which arrives after all other jobs have ended, and checks that its memory is unchanged.
const BYSTANDER: [&str; 2] = [
    "import sys\nkept = [bytes([n % 256]) * 1000 for n in range(1000)]
line = sys.stdin.readline().strip()
assert all(kept[n] == bytes([n % 256]) * 1000 for n in range(1000))\nprint(line)",
    "const fs = require('fs')\nconst kept = Array.from({ length: 1000 }, (_, n) => new Uint8Array(1000).fill(n % 256))
const line = fs.readFileSync(0, 'utf8').trim()
if (!kept.every((bytes, n) => bytes.every(byte => byte === n % 256))) throw new Error('changed')\nconsole.log(line)",
];

/// Input that arrives when the other end of the channel sends it.
struct DelayedInput {
    from: Receiver<&'static [u8]>,
}

impl Read for DelayedInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Ok(bytes) = self.from.recv() else { return Ok(0) };
        buffer[..bytes.len()].copy_from_slice(bytes);
        Ok(bytes.len())
    }
}

/// Sink or source of an embedder that panics.
struct PanickingIo;

impl OutputSink for PanickingIo {
    fn write(&mut self, _bytes: &[u8]) -> io::Result<()> {
        panic!("a sink that panics");
    }
}

impl Read for PanickingIo {
    fn read(&mut self, _buffer: &mut [u8]) -> io::Result<usize> {
        panic!("a source that panics");
    }
}

pub fn spares_others(runner: &Workbench, _kit: &Kit, guest: Guest) -> Result<()> {
    let (send, from) = channel();
    thread::scope(|scope| {
        let bystander = scope.spawn(move || run_bystander(runner, guest, from));
        let ended = end_others(runner, guest);
        // The bystander waits for this line even if one of the others failed.
        let released = release_bystander(&send);
        drop(send);
        let bystander_result = bystander.join().map_err(|_| anyhow::anyhow!("the job beside them panicked"))?;
        ended.and(released).and(bystander_result)
    })
}

fn release_bystander(send: &Sender<&'static [u8]>) -> Result<()> {
    send.send(b"still here\n").context("the job beside them did not wait")
}

fn run_bystander(runner: &Workbench, guest: Guest, from: Receiver<&'static [u8]>) -> Result<()> {
    let mut waiting = job(guest, guest.choose(BYSTANDER[0], BYSTANDER[1]), BYSTANDER_TIMEOUT);
    waiting.stdin = Stdin::Streamed;
    let mut io = ExecIo { stdin: Some(Box::new(DelayedInput { from })), ..ExecIo::none() };
    let report = runner.run_with(&waiting, &mut io)?;
    let (out, error) = (text(&report.stdout.bytes()), text(&report.stderr.bytes()));
    ensure!(report.outcome == Outcome::Exited(0) && out == "still here\n", "{:?}: {out}{error}", report.outcome);
    Ok(())
}

fn end_others(runner: &Workbench, guest: Guest) -> Result<()> {
    for (at, [python, javascript]) in FATAL_PROGRAMS.into_iter().enumerate() {
        let fatal_job =
            with_memory_limit(job(guest, guest.choose(python, javascript), BYSTANDER_TIMEOUT), ByteSize::mib(256));
        let report = runner.run(fatal_job)?;
        ensure!(report.outcome != Outcome::Exited(0), "outcome {at} is {:?}", report.outcome);
        run_successfully(runner, printing(guest, at))?;
    }
    for name in ["r6_recursion", "r7_stack_hostcall", "h9_corrupt"] {
        let fatal_job = with_memory_limit(hostile(guest, name, &[], Duration::from_secs(20))?, ByteSize::mib(384));
        runner.run(fatal_job)?;
        run_successfully(runner, printing(guest, 1))?;
    }
    for io in [
        ExecIo { stdout: Some(Box::new(PanickingIo)), ..ExecIo::none() },
        ExecIo { stdin: Some(Box::new(PanickingIo)), ..ExecIo::none() },
    ] {
        thread::scope(|scope| {
            let panicking = scope.spawn(move || {
                let mut io = io;
                let mut job = job(guest, guest.choose(BYSTANDER[0], BYSTANDER[1]), Duration::from_secs(5));
                job.stdin = if io.stdin.is_some() { Stdin::Streamed } else { Stdin::Empty };
                runner.run_with(&job, &mut io).map(drop)
            });
            // The panic may reach this thread or become an error of that job; both are acceptable.
            let _ = panicking.join();
        });
        run_successfully(runner, printing(guest, 2))?;
    }
    Ok(())
}
