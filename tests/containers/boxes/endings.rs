//! Ends of boxes: by request, for lack of use, with their owner, and by force.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::{Sandbox, start_command};
use crate::residue::wait_until_empty;
use crate::row::{Row, row};
use crate::test_env::TestEnvironment;

pub fn rows() -> Vec<Row> {
    vec![
        row("box::stops", stops),
        row("box::unused_box_ends", unused_box_ends),
        row("box::ends_with_its_owner", ends_with_its_owner),
        row("box::killed_process", killed_process),
        row("box::killed_container", killed_container),
        row("box::cancelled_command", cancelled_command),
        row("box::paused_container", paused_container),
        row("box::calls_must_be_recorded", calls_must_be_recorded),
        row("box::refused_starts", refused_starts),
    ]
}

/// Waits until the box has ended, and returns the reason.
fn reason(sandbox: &Sandbox<'_>) -> Result<String> {
    let is_over = || Ok::<_, anyhow::Error>(!sandbox.info()?["ended"].is_null());
    wait_until_empty(|| Ok(if is_over()? { Vec::new() } else { vec!["the box runs".to_owned()] }))?;
    Ok(sandbox.info()?["ended"].as_str().context("a reason")?.to_owned())
}

fn stops(test_env: &TestEnvironment) -> Result<()> {
    let sandbox = Sandbox::start(test_env, &[])?;
    let mut waiting = sandbox.exec_with(&[]).args(["sleep", "600"]).command();
    let waiting = waiting.stdout(Stdio::null()).stderr(Stdio::piped()).stdin(Stdio::null()).spawn()?;
    wait_until_empty(|| {
        let running = sandbox.info()?["running"].as_u64();
        Ok(if running == Some(1) { Vec::new() } else { vec![format!("{running:?} commands")] })
    })?;
    let stopped = sandbox.stop()?;
    ensure!(stopped.code == Some(0), "{}", stopped.stderr_text());
    let audit = test_env.codebox().args(["audit", "show", "--json", &sandbox.name]).run()?.stdout_text();
    ensure!(audit.contains("\"interrupted\""), "the command has no end in {audit}");
    // The caller of a command learns of it at once.
    let ended = waiting.wait_with_output()?;
    let text = String::from_utf8_lossy(&ended.stderr).into_owned();
    ensure!(ended.status.code() == Some(125) && text.contains("box"), "{:?} {text}", ended.status);
    ensure!(sandbox.info().is_err() && !test_env.home().join("cache/boxes").join(&sandbox.name).exists());
    let gone = sandbox.exec(&["true"])?;
    ensure!(gone.code == Some(125) && gone.stderr_text().contains("there is no box"), "{}", gone.stderr_text());
    ensure!(sandbox.stop()?.code == Some(125));
    Ok(())
}

fn unused_box_ends(test_env: &TestEnvironment) -> Result<()> {
    let sandbox = Sandbox::start(test_env, &["--idle", "2s"])?;
    // A command that runs is use.
    ensure!(sandbox.exec(&["sleep", "4"])?.code == Some(0));
    ensure!(reason(&sandbox)? == "it was not used");
    let gone = sandbox.exec(&["true"])?;
    ensure!(gone.code == Some(125) && gone.stderr_text().contains("it was not used"), "{}", gone.stderr_text());
    ensure!(!sandbox.log()?.is_empty(), "the log is kept");
    Ok(())
}

/// A container that does not answer keeps no caller beyond the time limit of its command.
fn paused_container(test_env: &TestEnvironment) -> Result<()> {
    let sandbox = Sandbox::start(test_env, &[])?;
    let id = sandbox.container_id()?;
    test_env.engine.run_cli(&["pause", &id])?;
    let ended = sandbox.exec_with(&["--timeout", "1s"]).arg("true").run();
    test_env.engine.run_cli(&["unpause", &id])?;
    let ended = ended?;
    ensure!(ended.code == Some(124) && !ended.timed_out, "{:?} {}", ended.code, ended.stderr_text());
    ensure!(ended.stderr_text().contains("wall time limit of 1s; raise it with --timeout"), "{}", ended.stderr_text());
    ensure!(sandbox.exec(&["true"])?.code == Some(0));
    Ok(())
}

/// A box in which a call cannot be recorded, and must be, ends.
fn calls_must_be_recorded(test_env: &TestEnvironment) -> Result<()> {
    let home = tempfile::tempdir()?;
    let config = home.path().join("config");
    std::fs::create_dir_all(&config)?;
    std::fs::write(config.join("config.toml"), "require-audit = true\n")?;
    let name = format!("box-audited-{}", test_env.engine.name());
    let codebox = |args: &[&str]| test_env.codebox().home(home.path()).args(args.iter().copied()).run();
    let started = start_command(test_env, &name, &[]).home(home.path()).run()?;
    ensure!(started.code == Some(0), "box start: {}", started.stderr_text());
    let ran = codebox(&["box", "exec", &name, "--", "true"])?;
    ensure!(ran.code == Some(0), "{}", ran.stderr_text());
    let log = home.path().join("data/jobs/audit/log.jsonl");
    std::fs::rename(&log, log.with_extension("kept"))?;
    std::fs::create_dir(&log)?;
    // The engine's own command, which codebox learns of from the shim.
    let _ended = test_env.engine.run_cli(&["exec", &name, "bash", "-lc", "cat /etc/hostname"]);
    let reason = || {
        let listed = codebox(&["box", "list", "--json"])?.stdout_text();
        let boxes: Vec<serde_json::Value> = serde_json::from_str(&listed)?;
        let info = boxes.into_iter().find(|info| info["name"] == name.as_str()).context("the box is not listed")?;
        Ok::<_, anyhow::Error>(info["ended"].as_str().map(str::to_owned))
    };
    wait_until_empty(|| Ok(if reason()?.is_some() { Vec::new() } else { vec!["the box runs".to_owned()] }))?;
    let reason = reason()?.context("a reason")?;
    ensure!(reason.contains("could not be recorded"), "{reason}");
    let refused = codebox(&["box", "exec", &name, "--", "true"])?;
    ensure!(refused.code == Some(125) && refused.stderr_text().contains("could not be recorded"), "{refused:?}");
    std::fs::remove_dir(&log)?;
    std::fs::rename(log.with_extension("kept"), &log)?;
    ensure!(codebox(&["box", "stop", &name])?.code == Some(0));
    Ok(())
}

fn ends_with_its_owner(test_env: &TestEnvironment) -> Result<()> {
    let mut owner = Command::new("sleep").arg("600").spawn()?;
    let sandbox = Sandbox::start(test_env, &["--owner", &owner.id().to_string()]);
    owner.kill()?;
    owner.wait()?;
    ensure!(reason(&sandbox?)? == "its owner has ended");
    Ok(())
}

fn killed_process(test_env: &TestEnvironment) -> Result<()> {
    let sandbox = Sandbox::start(test_env, &[])?;
    let pid = sandbox.info()?["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
    let pid = pid.and_then(rustix::process::Pid::from_raw).context("a process")?;
    rustix::process::kill_process(pid, rustix::process::Signal::KILL)?;
    let gone = sandbox.exec(&["true"])?;
    ensure!(gone.code == Some(125) && gone.stderr_text().contains("its process was killed"), "{}", gone.stderr_text());
    // The agent ends with its connection, and the next run removes the container.
    wait_until_empty(|| {
        let state = test_env.engine.inspect(&sandbox.name)?["State"]["Running"].clone();
        Ok(if state == false { Vec::new() } else { vec![state.to_string()] })
    })?;
    // The name can be used again, and stopping a box whose process was killed removes its container.
    let again = start_command(test_env, &sandbox.name, &[]).run()?;
    ensure!(again.code == Some(0), "{}", again.stderr_text());
    test_env.record_container(&sandbox.container_id()?);
    ensure!(sandbox.exec(&["true"])?.code == Some(0));
    let pid = sandbox.info()?["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
    let pid = pid.and_then(rustix::process::Pid::from_raw).context("a process")?;
    rustix::process::kill_process(pid, rustix::process::Signal::KILL)?;
    ensure!(sandbox.stop()?.code == Some(0));
    wait_until_empty(|| test_env.containers())?;
    Ok(())
}

fn killed_container(test_env: &TestEnvironment) -> Result<()> {
    let sandbox = Sandbox::start(test_env, &[])?;
    let mut waiting = sandbox.exec_with(&[]).args(["sh", "-c", "echo started; sleep 600"]).command();
    let mut waiting = waiting.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null()).spawn()?;
    let mut started = [0; 8];
    std::io::Read::read_exact(waiting.stdout.as_mut().context("a pipe")?, &mut started)?;
    test_env.engine.run_cli(&["kill", &sandbox.name])?;
    let ended = waiting.wait_with_output()?;
    ensure!(ended.status.code() == Some(125), "{ended:?}");
    ensure!(reason(&sandbox)?.contains("killed"), "the reason is {}", reason(&sandbox)?);
    Ok(())
}

fn cancelled_command(test_env: &TestEnvironment) -> Result<()> {
    let sandbox = Sandbox::start(test_env, &[])?;
    let script = "trap 'echo interrupted; exit 9' INT; echo started; while :; do sleep 0.05; done";
    let mut waiting = sandbox.exec_with(&[]).args(["sh", "-c", script]).command();
    let mut waiting = waiting.stdout(Stdio::piped()).stdin(Stdio::null()).spawn()?;
    let mut started = [0; 8];
    std::io::Read::read_exact(waiting.stdout.as_mut().context("a pipe")?, &mut started)?;
    let pid = i32::try_from(waiting.id()).ok().and_then(rustix::process::Pid::from_raw).context("a process")?;
    rustix::process::kill_process(pid, rustix::process::Signal::INT)?;
    let ended = waiting.wait_with_output()?;
    ensure!(ended.status.code() == Some(9) && ended.stdout == b"interrupted\n", "{ended:?}");
    // A caller that is killed takes its command with it.
    let mut waiting = sandbox.exec_with(&[]).args(["sh", "-c", "echo started; exec sleep 599"]).command();
    let mut waiting = waiting.stdout(Stdio::piped()).stdin(Stdio::null()).spawn()?;
    std::io::Read::read_exact(waiting.stdout.as_mut().context("a pipe")?, &mut started)?;
    waiting.kill()?;
    waiting.wait()?;
    wait_until_empty(|| {
        let left = sandbox.shell("grep -l sleep /proc/[0-9]*/comm 2>/dev/null; true")?;
        Ok(left.lines().map(str::to_owned).collect())
    })
}

fn refused_starts(test_env: &TestEnvironment) -> Result<()> {
    let sandbox = Sandbox::start(test_env, &[])?;
    let twice = start_command(test_env, &sandbox.name, &[]).run()?;
    ensure!(twice.code == Some(125) && twice.stderr_text().contains("already"), "{}", twice.stderr_text());
    ensure!(sandbox.exec(&["true"])?.code == Some(0), "the first box goes on");
    for (options, part) in [
        (&["--name", "../x"][..], "letters"),
        (&["--name", "codebox-x"], "letters"),
        (&["--name", "other-box", "--cpu-time", "1s"], "processor time"),
        (&["--name", "other-box", "--secret", "k=env:HOME@example.org"], "secrets"),
        (&["--name", "other-box", "--image", "localhost/no-such-image:1"], "no-such-image"),
        (&["--name", "other-box", "--owner", "4194305"], "there is no such process"),
    ] {
        let command = test_env.codebox().args(["box", "start", "--engine", test_env.engine.name()]);
        let refused = command.args(options.iter().copied()).deadline(Duration::from_secs(60)).run()?;
        ensure!(
            refused.code != Some(0) && refused.stderr_text().contains(part),
            "{options:?}: {}",
            refused.stderr_text()
        );
    }
    let records = test_env.codebox().args(["audit", "export", "--json"]).run()?.stdout_text();
    for part in ["processor time", "nor secrets"] {
        ensure!(records.lines().any(|line| line.contains("\"refused\"") && line.contains(part)), "{part}: {records}");
    }
    Ok(())
}
