//! C11: endless output. It ends at a limit; the host keeps a small part of it, and the engine keeps none.

use anyhow::{Result, ensure};
use codebox_testkit::Codebox;

use crate::row::{Row, row};
use crate::test_env::TestEnvironment;

/// Memory bound in bytes, far above codebox's own use and far below the size of the floods.
const MEMORY: u64 = 64 << 20;

pub fn rows() -> Vec<Row> {
    vec![
        row("C11::lines", |test_env| flood(test_env, "exec yes")),
        row("C11::one_line", |test_env| flood(test_env, "exec cat /dev/zero")),
        row("C11::both_streams", |test_env| flood(test_env, "cat /dev/zero >&2 & exec yes")),
        row("C11::forged_frames", forged_frames),
    ]
}

fn limited_run(test_env: &TestEnvironment) -> Codebox {
    test_env.run().args(["--max-output", "64K", "--timeout", "60s"])
}

fn flood(test_env: &TestEnvironment, script: &str) -> Result<()> {
    let result = limited_run(test_env).args(["--", "/bin/bash", "-c", script]).run()?;
    let report = test_env.check_run(&result)?;
    ensure!(
        report.kind() == "output_limit" && result.code == Some(122),
        "unexpected result: {} {:?}",
        report.kind(),
        result.code
    );
    ensure!(report.stdout().len() <= 64 << 10, "{} bytes are kept", report.stdout().len());
    let dropped = |stream: &str| report.at(&format!("/{stream}_truncated/dropped_bytes")).as_u64() > Some(0);
    ensure!(dropped("stdout") || dropped("stderr"), "nothing was dropped");
    ensure!(result.peak_rss < MEMORY, "codebox took {} bytes", result.peak_rss);
    Ok(())
}

/// Bytes that imitate an engine's stream headers or the agent's frames are plain output of the job.
fn forged_frames(test_env: &TestEnvironment) -> Result<()> {
    let program = "import os\n\
                 os.write(1, bytes([2, 0, 0, 0, 255, 255, 255, 255]) + b'frame\\n')\n\
                 os.write(1, bytes([22, 0, 0, 0, 2]) + b'{}\\n')\n\
                 os.write(1, b'\\x00' * 64 + b'end\\n')\n";
    let report = test_env.run_expecting("ok", 0, limited_run(test_env).args(["--lang", "python", "-c", program]))?;
    ensure!(report.stdout().contains("frame") && report.stdout().ends_with("end\n"), "stdout is {:?}", report.stdout());
    ensure!(report.stderr().is_empty(), "on the other stream: {:?}", report.stderr());
    Ok(())
}
