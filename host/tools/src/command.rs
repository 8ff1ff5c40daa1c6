//! Tools that are commands of this machine.

use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use codebox_core::{LimitKind, Outcome, SecretValues, ToolFailure, exit_status, mask_secrets};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

use crate::tool::{CallFacts, CallLimits, Tool, ToolError};

/// Maximum length of an output in bytes.
const MAX_OUTPUT: u64 = 16 << 20;

/// Time after the end of a command in which its output is read.
const STREAM_TIME: Duration = Duration::from_secs(1);

/// Maximum number of bytes of standard error in a message, the last ones.
const MAX_STDERR: usize = 2_000;

impl Tool {
    /// Creates a tool from the words of a command, which runs outside of any sandbox with the powers of this process, and through no shell.
    /// It gets the input as JSON text on its standard input and writes the output as JSON text to its standard output; no output is
    /// `null`. The call fails if its exit status is not 0, with the end of its standard error. A call that ends before the command ends
    /// it and its process group. Facts about a call have the exit status of the command, that of a time limit or of a cancellation if one
    /// ended it, and its time.
    ///
    /// # Errors
    /// Returns an error if the name or the schema is invalid.
    pub fn command(
        name: &str,
        description: impl Into<String>,
        input: Value,
        words: Vec<String>,
    ) -> Result<Self, ToolError> {
        let facts = CallFacts::default();
        let written = facts.clone();
        let tool = Self::with_limits(name, description, input, move |input, limits| {
            let (words, facts) = (words.clone(), facts.clone());
            async move { run(&words, &input, limits, &facts).await }
        });
        Ok(tool?.with_facts(written))
    }
}

async fn run(words: &[String], input: &Value, limits: CallLimits, facts: &CallFacts) -> Result<Value, ToolFailure> {
    let failed = |why: String| ToolFailure::new(ToolFailure::FAILED, why);
    let (program, args) = words.split_first().ok_or_else(|| failed("the command is empty".to_owned()))?;
    let shown = program.escape_debug();
    let mut command = Command::new(program);
    command.args(args).kill_on_drop(true).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A signal of the terminal is for this process, which ends the program first.
    #[cfg(unix)]
    command.process_group(0);
    let unavailable = |error| ToolFailure::new(ToolFailure::UNAVAILABLE, format!("cannot start {shown}: {error}"));
    let began = Instant::now();
    let mut child = command.spawn().map_err(unavailable)?;
    let group = Group(child.id());
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let text = input.to_string();
    let write = async move {
        if let Some(mut stdin) = stdin {
            // A command that does not read its input may still succeed.
            let _ = stdin.write_all(text.as_bytes()).await;
        }
    };
    let wait = async {
        let status = child.wait().await;
        // A process that it has started may keep the streams open.
        drop(group);
        status
    };
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let ended = {
        let streams = async {
            tokio::join!(write, read(stdout, &mut output), read(stderr, &mut errors));
        };
        let reached = async {
            tokio::select! {
                () = tokio::time::sleep(limits.time) => Outcome::LimitHit(LimitKind::Wall),
                () = limits.cancel.cancelled() => Outcome::Cancelled,
            }
        };
        tokio::pin!(streams, wait, reached);
        let mut is_read = false;
        let ended = loop {
            tokio::select! {
                status = &mut wait => break Ok(status),
                outcome = &mut reached => break Err(outcome),
                () = &mut streams, if !is_read => is_read = true,
            }
        };
        // A process that has left the group may keep the streams open.
        if ended.is_ok() && !is_read {
            let _ = tokio::time::timeout(STREAM_TIME, streams).await;
        }
        // The output up to a limit is kept, and the process group is killed with `wait`.
        ended
    };
    let ended = match ended {
        Ok(status) => Ok(status.map_err(|error| failed(format!("cannot wait for {shown}: {error}")))?),
        Err(outcome) => Err(outcome),
    };
    let none = SecretValues::default();
    let stderr = end_of(&errors, &none);
    let outcome = ended.as_ref().map_or_else(Clone::clone, |status| outcome_of(*status));
    let of_call = json!({
        "method": "process",
        "exit_code": exit_status(&outcome),
        "outcome": outcome.result_kind().as_str(),
        "exec_ms": began.elapsed().as_secs_f64() * 1e3,
    });
    facts.set(of_call, end_of(&output, &none), stderr.clone());
    let failure = match ended {
        Ok(status) if status.success() => return output_of(&output, &shown.to_string()),
        Ok(status) => failed(format!("{shown} failed ({status})")),
        Err(Outcome::Cancelled) => ToolFailure::new(ToolFailure::INTERRUPTED, "the call was cancelled"),
        Err(_) => {
            // The start of the call has taken some microseconds.
            let seconds = (limits.time.as_secs_f64() * 1e3).ceil() / 1e3;
            let line = format!("{shown} took longer than {seconds} s");
            ToolFailure::new(ToolFailure::BUDGET, line)
        }
    };
    Err(failure.with_stderr(&stderr))
}

/// Returns the outcome of a process that has ended.
fn outcome_of(status: ExitStatus) -> Outcome {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return Outcome::Signalled(signal);
    }
    Outcome::Exited(status.code().unwrap_or(1))
}

/// Parses the output of a tool that is a program. `program` appears in messages.
///
/// # Errors
/// Returns a failure for an output that is too large, or that is not JSON text.
pub fn output_of(output: &[u8], program: &str) -> Result<Value, ToolFailure> {
    let invalid = |why: String| ToolFailure::new(ToolFailure::INVALID_OUTPUT, why);
    if output.len() as u64 > MAX_OUTPUT {
        return Err(invalid(format!("the output of {program} has more than {MAX_OUTPUT} bytes")));
    }
    if output.trim_ascii().is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(output).map_err(|error| invalid(format!("the output of {program} is not JSON: {error}")))
}

/// Number of bytes at the end of an output in which secrets are masked before it is cut.
const MASKED: usize = 64 << 10;

/// Returns the end of an output of a program, in which secrets are masked.
#[must_use]
pub fn end_of(output: &[u8], secrets: &SecretValues) -> String {
    let output = output.trim_ascii();
    let output = &output[output.len().saturating_sub(MASKED)..];
    let text = mask_secrets(&String::from_utf8_lossy(output), &secrets.all());
    text[text.ceil_char_boundary(text.len().saturating_sub(MAX_STDERR))..].to_owned()
}

/// Reads a stream to its end into `kept`, up to one byte more than the maximum.
async fn read(stream: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>) {
    let Some(mut stream) = stream else { return };
    let mut first = (&mut stream).take(MAX_OUTPUT + 1);
    while matches!(first.read_buf(kept).await, Ok(1..)) {}
    // The command does not wait for a reader.
    let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
}

/// Process group of a command, which ends with this value.
struct Group(#[cfg_attr(not(unix), expect(dead_code, reason = "only Unix has process groups"))] Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(id) = self.0.and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?)) {
            // It may have ended.
            let _ = rustix::process::kill_process_group(id, rustix::process::Signal::KILL);
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use codebox_core::CancelToken;

    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    /// Runs a command with the limits of a call that nothing cancels.
    async fn run(words: &[String], input: &Value) -> Result<Value, ToolFailure> {
        super::run(words, input, limits(), &CallFacts::default()).await
    }

    async fn run_with(words: &[String], facts: &CallFacts) -> Result<Value, ToolFailure> {
        super::run(words, &json!({}), limits(), facts).await
    }

    fn limits() -> CallLimits {
        CallLimits { time: Duration::from_secs(60), cancel: CancelToken::new() }
    }

    #[tokio::test]
    async fn ended_commands_keep_their_output() {
        let dir = tempfile::tempdir().expect("a directory");
        let written = dir.path().join("written");
        let text = format!("printf early; printf why >&2; touch {}; kill -STOP $$", written.display());
        let (script, input) = (words(&["sh", "-c", &text]), json!({}));
        let facts = CallFacts::default();
        let short = CallLimits { time: Duration::from_secs(2), cancel: CancelToken::new() };
        let failed = super::run(&script, &input, short, &facts).await.expect_err("it takes too long");
        assert_eq!(failed, ToolFailure::new(ToolFailure::BUDGET, "sh took longer than 2 s").with_stderr("why"));
        let of_call = facts.take(Some(&mut failed.clone()));
        assert_eq!((&of_call["exit_code"], &of_call["partial_output"]), (&124.into(), &"early".into()));

        std::fs::remove_file(&written).expect("it was written");
        let unlimited = limits();
        let cancel = unlimited.cancel.clone();
        let (ended, ()) = tokio::join!(super::run(&script, &input, unlimited, &facts), async {
            while !written.exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            cancel.cancel();
        });
        let mut failed = ended.expect_err("it is cancelled");
        assert_eq!(failed.kind, ToolFailure::INTERRUPTED);
        let of_call = facts.take(Some(&mut failed));
        assert_eq!((&of_call["exit_code"], &of_call["outcome"]), (&130.into(), &"cancelled".into()));

        let killed = run_with(&words(&["sh", "-c", "kill -KILL $$"]), &facts).await.expect_err("it is killed");
        assert_eq!(killed.message, "sh failed (signal: 9 (SIGKILL))");
        assert_eq!(facts.take(None)["exit_code"], 137);
        let mut invalid =
            run_with(&words(&["sh", "-c", "echo text; echo why >&2"]), &facts).await.expect_err("no JSON");
        let of_call = facts.take(Some(&mut invalid));
        assert_eq!((&of_call["partial_output"], invalid.stderr.as_deref()), (&"text".into(), Some("why")));
    }

    #[tokio::test]
    async fn commands_exchange_json() {
        let input = json!({ "a": [1, "x\ny"] });
        assert_eq!(run(&words(&["cat"]), &input).await, Ok(input.clone()));
        assert_eq!(run(&words(&["true"]), &input).await, Ok(Value::Null));
        let failed = run(&words(&["sh", "-c", "echo no >&2; exit 3"]), &input).await.expect_err("it fails");
        assert_eq!(failed, ToolFailure::new("failed", "sh failed (exit status: 3)").with_stderr("no"));
        assert_eq!(failed.message, "sh failed (exit status: 3): no");
        let failed = run(&words(&["echo", "x y"]), &input).await.expect_err("it is no JSON");
        assert_eq!(failed.kind, ToolFailure::INVALID_OUTPUT);
        let failed = run(&words(&["/missing/program"]), &input).await.expect_err("it does not exist");
        assert!(failed.message.starts_with("cannot start /missing/program: "), "{failed:?}");
        assert_eq!(failed.kind, ToolFailure::UNAVAILABLE);
    }

    #[tokio::test]
    async fn large_inputs_and_outputs_do_not_wait_for_each_other() {
        let input = json!({ "text": "x".repeat(1 << 20) });
        assert_eq!(run(&words(&["cat"]), &input).await, Ok(input));
        let flood = words(&["sh", "-c", "head -c 20000000 /dev/zero; head -c 20000000 /dev/zero >&2"]);
        let failed = run(&flood, &json!({})).await.expect_err("it is too large");
        assert_eq!(failed.kind, ToolFailure::INVALID_OUTPUT);
    }

    /// A process that stays behind does not keep the call waiting, and ends with it.
    #[tokio::test]
    async fn processes_that_stay_behind_are_ended() {
        let call = words(&["sh", "-c", "cat > /dev/null; sleep 1000 & echo $!"]);
        let pid = run(&call, &json!({})).await.expect("it succeeds").as_i64().expect("a number");
        let pid = rustix::process::Pid::from_raw(pid as i32).expect("a process");
        wait_for_end(pid).await;
    }

    /// A process that has left the group and keeps the streams open changes nothing about the call.
    #[tokio::test]
    async fn processes_that_leave_the_group_are_not_waited_for() {
        // It outlives the time of the call.
        let call = words(&["sh", "-c", "setsid sleep 90 & sleep 0.2; echo 5"]);
        assert_eq!(run(&call, &json!({})).await, Ok(json!(5)));
        // The time limit is that of the command, and not of the rest of its output.
        let limits = CallLimits { time: Duration::from_millis(1_100), cancel: CancelToken::new() };
        let ended = super::run(&call, &json!({}), limits, &CallFacts::default()).await;
        assert_eq!(ended, Ok(json!(5)));
    }

    #[tokio::test]
    async fn the_process_group_ends_with_the_call() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("pid");
        let script = format!("sleep 1000 & echo $! > {0}.new; mv {0}.new {0}; wait", file.display());
        let call = words(&["sh", "-c", &script]);
        let input = json!({});
        let mut running = Box::pin(run(&call, &input));
        let pid = loop {
            tokio::select! {
                ended = &mut running => panic!("{ended:?}"),
                () = tokio::time::sleep(Duration::from_millis(5)) => {}
            }
            if let Ok(text) = std::fs::read_to_string(&file) {
                break rustix::process::Pid::from_raw(text.trim().parse().expect("a number")).expect("a process");
            }
        };
        drop(running);
        wait_for_end(pid).await;
    }

    /// Waits until a process has ended. It may not have been waited for by the process that the system made its parent.
    async fn wait_for_end(pid: rustix::process::Pid) {
        while rustix::process::test_kill_process(pid).is_ok() {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
            if stat.contains(") Z ") {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
