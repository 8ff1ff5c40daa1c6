//! O6: a container stream that breaks off at any byte, and jobs that end almost immediately.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::{BASE_IMAGE, BytePosition, EngineCall, Fault, soak};

use crate::engine_proxy::{check_gc_removes_all, proxy, via_proxy};
use crate::parallel_map::parallel_map;
use crate::row::{Row, row};
use crate::test_env::TestEnvironment;

pub fn rows() -> Vec<Row> {
    vec![row("O6::stream_cut_at_each_byte", cut_at_each_byte), row("O6::short_jobs", short_jobs_keep_output)]
}

const RUN_DEADLINE: Duration = Duration::from_secs(60);

/// A cut stream is never a success; output before the cut is kept, and nothing is added to it.
fn cut_at_each_byte(test_env: &TestEnvironment) -> Result<()> {
    let offsets: Vec<usize> = (0..64).step_by(soak().of(16, 1)).chain((64..600).step_by(soak().of(134, 11))).collect();
    parallel_map(3, &offsets, |at| cut_at(test_env, *at).with_context(|| format!("cut before byte {at}")))?;
    check_gc_removes_all(test_env)
}

fn cut_at(test_env: &TestEnvironment, at: usize) -> Result<()> {
    let proxy = proxy(test_env.engine)?;
    proxy.set_faults(&[(EngineCall::Attach, Fault::Cut(BytePosition::Body(at)))]);
    let expected_output: String = (0..100).map(|n| format!("line {n}\n")).collect();
    let program = "for n in range(100): print('line', n, flush=True)";
    let options = ["run", "--isolation", "container", "--engine", test_env.engine.name(), "--image", BASE_IMAGE];
    let command = via_proxy(&proxy, test_env.engine, test_env.codebox().args(options)).deadline(RUN_DEADLINE);
    let result = command.args(["--lang", "python", "-c", program]).run()?;
    ensure!(
        !result.timed_out && result.code == Some(125),
        "timed out: {}, code {:?}: {}",
        result.timed_out,
        result.code,
        result.stderr_text()
    );
    let (out, messages) = (result.stdout_text(), result.stderr_text());
    ensure!(expected_output.starts_with(&out), "stdout is {out:?}");
    ensure!(messages.contains("lost connection to "), "stderr is {messages:?}");
    let job = via_proxy(&proxy, test_env.engine, test_env.run()).deadline(RUN_DEADLINE);
    let result = job.args(["--lang", "python", "-c", program]).run()?;
    let report = result.report()?;
    ensure!(report.kind() == "engine_lost", "unexpected result: {:.600}", report.json().to_string());
    ensure!(proxy.injected_count() == 2, "{} streams were cut", proxy.injected_count());
    Ok(())
}

/// Output of a job that ends immediately is complete.
fn short_jobs_keep_output(test_env: &TestEnvironment) -> Result<()> {
    let numbers: Vec<usize> = (0..soak().of(10, 1000)).collect();
    parallel_map(2, &numbers, |number| {
        let (script, status) = (format!("echo out {number}; echo err {number} >&2; exit {}", number % 7), number % 7);
        let kind = if status == 0 { "ok" } else { "guest_error" };
        let report = test_env.run_expecting(
            kind,
            i64::try_from(status)?,
            test_env.run().args(["--", "/bin/sh", "-c", &script]),
        )?;
        let printed = (report.stdout(), report.stderr());
        let expected = (format!("out {number}\n"), format!("err {number}\n"));
        ensure!(printed == (expected.0.as_str(), expected.1.as_str()), "stdout is {printed:?}, expected {expected:?}");
        Ok(())
    })?;
    Ok(())
}
