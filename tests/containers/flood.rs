//! C11: endless output. It ends at a limit; the host keeps a small part of it, and the engine keeps none.

use anyhow::{Result, ensure};
use codebox_testkit::Codebox;

use crate::ground::Ground;
use crate::row::{Row, row};

/// Memory bound in bytes, far above codebox's own use and far below the size of the floods.
const MEMORY: u64 = 64 << 20;

pub fn rows() -> Vec<Row> {
    vec![
        row("C11::lines", |ground| flood(ground, "exec yes")),
        row("C11::one_line", |ground| flood(ground, "exec cat /dev/zero")),
        row("C11::both_streams", |ground| flood(ground, "cat /dev/zero >&2 & exec yes")),
        row("C11::forged_frames", forged),
    ]
}

fn limited(ground: &Ground) -> Codebox {
    ground.run().args(["--max-output", "64K", "--timeout", "60s"])
}

fn flood(ground: &Ground, script: &str) -> Result<()> {
    let ran = limited(ground).args(["--", "/bin/bash", "-c", script]).run()?;
    let report = ground.judge(&ran)?;
    ensure!(report.kind() == "output_limit" && ran.code == Some(122), "it ended as {} {:?}", report.kind(), ran.code);
    ensure!(report.stdout().len() <= 64 << 10, "{} bytes are kept", report.stdout().len());
    let dropped = |stream: &str| report.at(&format!("/{stream}_truncated/dropped_bytes")).as_u64() > Some(0);
    ensure!(dropped("stdout") || dropped("stderr"), "nothing was dropped");
    ensure!(ran.peak_rss < MEMORY, "codebox took {} bytes", ran.peak_rss);
    Ok(())
}

/// Bytes that imitate an engine's stream headers or the agent's frames are plain output of the job.
fn forged(ground: &Ground) -> Result<()> {
    let forge = "import os\n\
                 os.write(1, bytes([2, 0, 0, 0, 255, 255, 255, 255]) + b'frame\\n')\n\
                 os.write(1, bytes([22, 0, 0, 0, 2]) + b'{}\\n')\n\
                 os.write(1, b'\\x00' * 64 + b'end\\n')\n";
    let report = ground.ends("ok", 0, limited(ground).args(["--lang", "python", "-c", forge]))?;
    ensure!(
        report.stdout().contains("frame") && report.stdout().ends_with("end\n"),
        "it printed {:?}",
        report.stdout()
    );
    ensure!(report.stderr().is_empty(), "on the other stream: {:?}", report.stderr());
    Ok(())
}
