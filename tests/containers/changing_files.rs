//! P8: special and changing files during collection.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Result, bail, ensure};
use codebox_testkit::Report;

use crate::row::{Row, row};
use crate::test_env::TestEnvironment;

pub fn rows() -> Vec<Row> {
    vec![row("P8::special_files", special_files), row("P8::changing_size", changing_size)]
}

/// Files that are sparse and far larger than the disk, unreadable, FIFOs without a writer, or larger than allowed
/// neither block nor inflate the collection, and the report names each.
fn special_files(test_env: &TestEnvironment) -> Result<()> {
    let folder = test_env.kit.folder()?;
    let out = folder.path().join("out");
    let program = "import os
open('sparse', 'wb').truncate(1 << 40)
with open('holes', 'wb') as file:
    for part in range(3): file.seek(part << 20); file.write(b'x')
os.mkfifo('fifo')
open('closed', 'w').write('mine')
os.chmod('closed', 0)
os.mkdir('closed-folder'); open('closed-folder/in', 'w').write('mine'); os.chmod('closed-folder', 0)
open('plain', 'w').write('mine')";
    let job = test_env.run().args(["--max-disk", "unlimited", "--timeout", "100s", "--out"]).arg(&out);
    let report = test_env.run_expecting("ok", 0, job.args(["--lang", "python", "-c", program]))?;
    for (name, why) in [("sparse", "bytes allocated"), ("fifo", "it is a FIFO")] {
        ensure!(is_skipped(&report, name, why), "{name}: {}", report.at("/files/skipped"));
        ensure!(fs::symlink_metadata(out.join(name)).is_err(), "{name} was copied out");
    }
    ensure!(fs::metadata(out.join("holes"))?.len() == (2 << 20) + 1, "the sparse file was copied out incorrectly");
    ensure!(fs::read(out.join("plain"))? == b"mine", "the plain file was not copied out");
    for name in ["closed", "closed-folder/in"] {
        // A caller that may read all files reads it; otherwise the report names it.
        let collected = fs::read(out.join(name)).is_ok_and(|text| text == b"mine");
        ensure!(
            collected || is_skipped(&report, name.split('/').next().unwrap_or(name), "cannot be"),
            "{name} is neither copied out nor reported"
        );
    }
    Ok(())
}

/// A file that another process changes during collection comes out in one consistent state or is named.
fn changing_size(test_env: &TestEnvironment) -> Result<()> {
    let shared = test_env.canaries.grant();
    let file = shared.join("changing");
    fs::write(&file, "")?;
    let stopped = AtomicBool::new(false);
    let (mut collected, mut refused) = (0, 0);
    thread::scope(|scope| -> Result<()> {
        let writer = scope.spawn(|| change(&file, &stopped));
        let done = (0..12).try_for_each(|round| -> Result<()> {
            let folder = test_env.kit.folder()?;
            let out = folder.path().join("out");
            let job = test_env.run().grant(&shared, "/work", "rw").arg("--out").arg(&out);
            let report = test_env.run_expecting(
                "ok",
                0,
                job.args(["--lang", "python", "-c", "open('plain', 'w').write('mine')"]),
            )?;
            ensure!(fs::read(out.join("plain"))? == b"mine", "round {round}: the plain file was not copied out");
            match fs::read(out.join("changing")) {
                Ok(text) => {
                    collected += 1;
                    ensure!(
                        is_consistent(&text),
                        "round {round}: {} bytes of several states were copied out",
                        text.len()
                    );
                }
                // On a busy machine the file may not have been written between the job's start and its end.
                Err(_) if report.file("/work/changing").is_none() && !is_skipped(&report, "changing", "") => {}
                Err(_) => {
                    refused += 1;
                    ensure!(is_skipped(&report, "changing", "cannot be"), "round {round}: {}", report.at("/files"));
                }
            }
            Ok(())
        });
        stopped.store(true, Ordering::Relaxed);
        let changes = writer.join().map_err(|_| anyhow::anyhow!("the writer panicked"))??;
        ensure!(changes > 0, "the file never changed");
        done
    })?;
    ensure!(collected + refused > 0, "the file never changed while a job ran");
    Ok(())
}

/// Grows the file and truncates it again as fast as possible; returns the number of truncations.
fn change(path: &Path, stopped: &AtomicBool) -> Result<u64> {
    let mut file = OpenOptions::new().append(true).open(path)?;
    for generation in 0.. {
        file.set_len(0)?;
        for block in 0..BLOCKS {
            if stopped.load(Ordering::Relaxed) {
                return Ok(generation);
            }
            file.write_all(&content(generation, block))?;
        }
    }
    bail!("there are no more numbers")
}

/// Maximum size of the file in blocks: four MiB.
const BLOCKS: u64 = 64;
const LINES: u64 = 4096;

/// Returns a block of lines, each with its generation and its line number.
fn content(generation: u64, block: u64) -> Vec<u8> {
    let lines = (block * LINES..(block + 1) * LINES).map(|line| format!("{generation:07} {line:07}\n"));
    lines.collect::<String>().into_bytes()
}

/// Returns true if the text is a prefix of one generation.
fn is_consistent(text: &[u8]) -> bool {
    let first = text.get(..7).and_then(|number| std::str::from_utf8(number).ok()?.parse().ok());
    let generation_content = |generation| (0..BLOCKS).flat_map(move |block| content(generation, block));
    match first {
        Some(generation) => {
            text.len() <= 16 * (BLOCKS * LINES) as usize
                && text.iter().copied().eq(generation_content(generation).take(text.len()))
        }
        None => text.len() < 7,
    }
}

fn is_skipped(report: &Report, name: &str, why: &str) -> bool {
    let skipped = report.at("/files/skipped").as_array().cloned().unwrap_or_default();
    let is_match = |one: &serde_json::Value| {
        one["name"] == format!("/work/{name}") && one["reason"].as_str().is_some_and(|reason| reason.contains(why))
    };
    skipped.iter().any(is_match)
}
