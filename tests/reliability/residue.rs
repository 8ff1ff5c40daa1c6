//! S7: nothing of a job is left in the memory that the next one gets.

use std::time::Duration;

use anyhow::{Result, ensure};
use codebox::{ByteSize, Outcome, Runner};
use codebox_testkit::{Kit, soak};

use crate::host::{hostile, job, succeed, text, with_memory};

/// How often a job plants and another hunts.
const ROUNDS: usize = 1000;

/// A marker that is different in every round and stands in no program text.
fn marker(round: usize) -> [u8; 32] {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ (round as u64).wrapping_mul(0xd134_2543_de82_ef95);
    std::array::from_fn(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Plants a marker in objects, freed blocks, modules, files and the environment, cheaply.
const PLANT: &str = "import sys, os, builtins
marker = bytes.fromhex(sys.argv[1])
sys.planted = builtins.planted = kept = [bytes(bytearray(marker)) + bytes([n & 255]) for n in range(300)]
kept.append(bytearray(marker * 4000))
freed = [bytearray(marker * size) for size in (1, 8, 64, 512, 4096)]
del freed
os.environ['PLANTED'] = marker.hex()
open('/tmp/planted', 'wb').write(marker)
open('/work/planted', 'wb').write(marker)
print('planted')";

/// Looks for the marker's first bytes in memory that nobody cleared, and for every name and file.
const HUNT: &str = "import sys, os, io, gc, builtins
first = bytes.fromhex(sys.argv[1])[::-1]
class Peek(io.RawIOBase):
    def readable(self): return True
    def readinto(self, view):
        self.view = view
        return 0
held, found = [], []
for size in (512, 1000, 4096, 10000, 65536, 1 << 18):
    for _ in range(24):
        raw = Peek()
        reader = io.BufferedReader(raw, size)
        reader.peek(1)
        held.append(reader)
        if first in bytes(raw.view): found.append(size)
for item in gc.get_objects():
    if type(item) in (list, dict, tuple) and len(item) < 10000:
        for part in (item.values() if type(item) is dict else item):
            if type(part) in (bytes, bytearray) and part is not first and first in part: found.append(type(item))
if hasattr(sys, 'planted') or hasattr(builtins, 'planted'): found.append('name')
if 'PLANTED' in os.environ: found.append('environment')
if os.listdir('/tmp') or os.listdir('/work'): found.append('file')
print(found)";

/// A thousand rounds of planting, comparing the idle memory with its image byte by byte, and hunting.
pub fn planted_bytes_are_gone(runner: &Runner, _kit: &Kit) -> Result<()> {
    for round in 0..ROUNDS {
        let marker = marker(round);
        let mut planting = job(PLANT, Duration::from_secs(20));
        planting.args = vec![hex(&marker)];
        let planted = succeed(runner, planting)?;
        ensure!(planted.stdout.bytes().as_ref() == b"planted\n", "round {round}: nothing was planted");
        if round % soak().of(20, 1) == 0 {
            ensure!(runner.backend().idle_regions_are_clean(), "round {round}: idle memory is not its image");
        }
        let mut hunting = job(HUNT, Duration::from_secs(20));
        // Turned around, so that the hunter's own argument is not what it finds.
        hunting.args = vec![hex(&marker[..12].iter().rev().copied().collect::<Vec<_>>())];
        let hunted = succeed(runner, hunting)?;
        ensure!(hunted.stdout.bytes().as_ref() == b"[]\n", "round {round}: {}", text(&hunted.stdout.bytes()));
    }
    let counts = runner.backend().region_counts("python");
    ensure!(counts.is_some_and(|(_, reused)| reused >= ROUNDS as u64), "regions were not used again: {counts:?}");
    Ok(())
}

/// The thorough planter and hunter of the fixtures, after every way to end.
pub fn after_every_end(runner: &Runner, _kit: &Kit) -> Result<()> {
    for (round, end) in ["exit", "exception", "spin", "memory"].into_iter().cycle().take(soak().of(8, 200)).enumerate()
    {
        let marker = marker(ROUNDS + round);
        let wall = Duration::from_millis(if end == "spin" { 2500 } else { 20_000 });
        let plant = hostile("s7_plant", &[&hex(&marker), end], wall)?;
        let planted = runner.run(with_memory(plant, ByteSize::mib(384)))?;
        let expected = match end {
            "exit" => matches!(planted.outcome, Outcome::Exited(0)),
            "exception" => matches!(planted.outcome, Outcome::Exited(1)),
            _ => matches!(planted.outcome, Outcome::LimitHit(_)),
        };
        ensure!(expected, "{end} ended as {:?}", planted.outcome);
        ensure!(runner.backend().idle_regions_are_clean(), "after {end} idle memory is not its image");
        let digest = succeed(runner, digest_job(&marker))?;
        let digest = text(&digest.stdout.bytes()).trim().to_owned();
        let hunted = succeed(runner, hostile("s7_search", &[&hex(&marker[..8]), &digest], Duration::from_secs(60))?)?;
        let told = text(&hunted.stdout.bytes());
        ensure!(!told.contains("ESCAPE"), "after {end}: {told}");
    }
    Ok(())
}

/// Has the digest made by a guest: the hunter must not be told the marker itself.
fn digest_job(marker: &[u8; 32]) -> codebox::Job {
    let mut job = job(
        "import hashlib, sys\nprint(hashlib.sha256(bytes.fromhex(sys.argv[1])[::-1]).hexdigest())",
        Duration::from_secs(20),
    );
    let turned: Vec<u8> = marker.iter().rev().copied().collect();
    job.args = vec![hex(&turned)];
    job
}
