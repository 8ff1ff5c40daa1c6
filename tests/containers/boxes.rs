//! Boxes: containers that run many commands, over the agent, over shims and over the engine's own `exec`.

use std::fs;
use std::io::Write as _;
use std::process::{Output, Stdio};
use std::thread;

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::{BASE_IMAGE, Codebox, Input, ProcessResult, is_full};
use serde_json::Value;

use crate::residue::wait_until_empty;
use crate::row::{Row, row};
use crate::test_env::TestEnvironment;

mod callers;
mod endings;
mod hostile;
mod terminal;

pub fn rows() -> Vec<Row> {
    let mut rows = vec![
        row("box::commands_of_the_engine", commands_of_the_engine),
        row("box::streams_are_exact", streams_are_exact),
        row("box::statuses", statuses),
        row("box::shims_behave_as_the_command", shims_behave_as_the_command),
        row("box::output_is_cut", output_is_cut),
        row("box::every_shim_cuts", every_shim_cuts),
        row("box::rules", rules),
        row("box::grants_and_limits", grants_and_limits),
        row("box::many_commands", many_commands),
        row("box::records", records),
        row("box::missing_records", missing_records),
    ];
    rows.extend(callers::rows());
    rows.extend(endings::rows());
    rows.extend(hostile::rows());
    rows.extend(terminal::rows());
    rows
}

/// A running box, which is stopped on drop.
pub struct Sandbox<'t> {
    pub test_env: &'t TestEnvironment,
    pub name: String,
}

impl<'t> Sandbox<'t> {
    pub fn start(test_env: &'t TestEnvironment, options: &[&str]) -> Result<Self> {
        // Both engines, and other runs of the tests, have names of their own.
        let random = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), std::process::id());
        let name = format!("box-{random:016x}");
        let started = start_command(test_env, &name, options).run()?;
        ensure!(started.code == Some(0), "box start: {}", started.stderr_text());
        ensure!(started.stdout_text().trim() == name, "unexpected output {:?}", started.stdout_text());
        let sandbox = Self { test_env, name };
        test_env.record_container(&sandbox.container_id()?);
        Ok(sandbox)
    }

    pub fn info(&self) -> Result<Value> {
        let listed = self.test_env.codebox().args(["box", "list", "--json"]).run()?;
        let boxes: Vec<Value> = serde_json::from_str(&listed.stdout_text())?;
        boxes.into_iter().find(|info| info["name"] == self.name.as_str()).context("the box is not listed")
    }

    pub fn container_id(&self) -> Result<String> {
        Ok(self.info()?["container_id"].as_str().context("an id")?.to_owned())
    }

    pub fn exec_with(&self, options: &[&str]) -> Codebox {
        self.test_env.codebox().args(["box", "exec"]).args(options.iter().copied()).arg(&self.name).arg("--")
    }

    /// Runs a command and returns its result.
    pub fn exec(&self, words: &[&str]) -> Result<ProcessResult> {
        self.exec_with(&[]).args(words.iter().copied()).run()
    }

    /// Runs a shell script, and returns its standard output.
    pub fn shell(&self, script: &str) -> Result<String> {
        let done = self.exec(&["sh", "-c", script])?;
        ensure!(done.code == Some(0), "{script}: status {:?}: {}", done.code, done.stderr_text());
        Ok(done.stdout_text())
    }

    /// Runs a command with the engine's own `exec`.
    pub fn engine_exec(&self, words: &[&str], input: &[u8]) -> Result<Output> {
        let mut command = std::process::Command::new(self.test_env.engine.name());
        command.args(["exec", "-i", &self.name]).args(words);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("the engine")?;
        let mut stdin = child.stdin.take().context("a pipe")?;
        let input = input.to_vec();
        let writer = thread::spawn(move || stdin.write_all(&input));
        let output = child.wait_with_output()?;
        let _ = writer.join();
        Ok(output)
    }

    /// Runs a shell script with the engine's own `exec`, and returns its standard output.
    pub fn engine_shell(&self, script: &str) -> Result<String> {
        let output = self.engine_exec(&["bash", "-lc", script], b"")?;
        ensure!(output.status.success(), "{script}: {output:?}");
        Ok(String::from_utf8(output.stdout)?)
    }

    pub fn log(&self) -> Result<Vec<Value>> {
        let logs = self.test_env.codebox().args(["box", "logs", "--json", "--last", "100000", &self.name]).run()?;
        Ok(logs.stdout_text().lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
    }

    pub fn stop(&self) -> Result<ProcessResult> {
        self.test_env.codebox().args(["box", "stop", &self.name]).run()
    }
}

impl Drop for Sandbox<'_> {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

pub fn start_command(test_env: &TestEnvironment, name: &str, options: &[&str]) -> Codebox {
    let fixed = ["box", "start", "--name", name, "--engine", test_env.engine.name(), "--image", BASE_IMAGE];
    test_env.codebox().args(fixed).args(options.iter().copied())
}

/// The three commands that other tools send to a container, over the engine and over the agent.
fn commands_of_the_engine(test_env: &TestEnvironment) -> Result<()> {
    let sandbox = Sandbox::start(test_env, &[])?;
    sandbox.shell("seq 1 100000 > large_file.txt")?;
    ensure!(sandbox.engine_shell("echo hello")? == "hello\n");
    ensure!(sandbox.engine_shell("cat /etc/passwd | grep root")?.starts_with("root:"));
    let cut = sandbox.engine_shell("cat large_file.txt")?;
    ensure!(cut.ends_with("\n200\n...[truncated]"), "the end is {:?}", &cut[cut.len() - 40..]);
    // The command that reads it gets all of it.
    ensure!(sandbox.engine_shell("cat large_file.txt | wc -l")?.trim() == "100000");
    ensure!(sandbox.shell("cat large_file.txt | wc -l")?.trim() == "100000");
    ensure!(sandbox.engine_shell("cat large_file.txt > copy; cmp copy large_file.txt && echo same")? == "same\n");
    let exec = sandbox.exec(&["bash", "-lc", "cat /etc/passwd | grep root"])?;
    ensure!(exec.stdout_text().starts_with("root:") && exec.code == Some(0));
    Ok(())
}

fn streams_are_exact(test_env: &TestEnvironment) -> Result<()> {
    let sandbox = Sandbox::start(test_env, &[])?;
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|number| (number * 7 + number / 256) as u8).collect();
    let echoed = sandbox.exec_with(&["--full"]).arg("cat").input(Input::Bytes(bytes.clone())).run()?;
    ensure!(echoed.code == Some(0) && echoed.stdout == bytes, "cat over the agent: {} bytes", echoed.stdout.len());
    let piped =
        sandbox.exec_with(&["--full"]).args(["sh", "-c", "cat | cat"]).input(Input::Bytes(bytes.clone())).run()?;
    ensure!(piped.stdout == bytes, "cat through two shims: {} bytes", piped.stdout.len());
    // Words of a command line are any bytes.
    let odd = ["a\tb", "", "new\nline", "'\"\\$(x)`", "ü😀", "-n"];
    let script = "import sys; sys.stdout.buffer.write(repr([a.encode('utf8', 'surrogateescape') for a in sys.argv[1:]]).encode())";
    let mut command = sandbox.exec_with(&[]).args(["python3", "-c", script]).args(odd);
    {
        use std::os::unix::ffi::OsStringExt as _;
        command = command.arg(std::ffi::OsString::from_vec(b"\xff\xfe".to_vec()));
    }
    let shown = command.run()?.stdout_text();
    let expected = r#"[b'a\tb', b'', b'new\nline', b'\'"\\$(x)`', b'\xc3\xbc\xf0\x9f\x98\x80', b'-n', b'\xff\xfe']"#;
    ensure!(shown == expected, "{shown}");
    let both = sandbox.exec(&["sh", "-c", "echo out; echo err >&2"])?;
    ensure!(both.stdout_text() == "out\n" && both.stderr_text() == "err\n");
    let env = sandbox.exec_with(&["--env", "A=b c", "--workdir", "/tmp"]).args(["sh", "-c", "echo $A; pwd"]).run()?;
    ensure!(env.stdout_text() == "b c\n/tmp\n", "{}", env.stdout_text());
    // A reader that is gone ends the command, which goes on writing otherwise.
    let mut yes = sandbox.exec_with(&["--full"]).arg("yes").command();
    let mut child = yes.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut first = [0; 4];
    std::io::Read::read_exact(&mut child.stdout.take().context("a pipe")?, &mut first)?;
    ensure!(child.wait()?.code() == Some(141) && first == *b"y\ny\n");
    Ok(())
}

fn statuses(test_env: &TestEnvironment) -> Result<()> {
    let sandbox = Sandbox::start(test_env, &[])?;
    sandbox.shell("echo text > /work/plain")?;
    for (words, status) in [
        (&["true"][..], 0),
        (&["sh", "-c", "exit 7"], 7),
        (&["no-such-program"], 127),
        (&["/no/such/program"], 127),
        (&["/work/plain"], 126),
        (&["sh", "-c", "kill -TERM $$"], 143),
        (&["sh", "-c", "kill -KILL $$"], 137),
    ] {
        let done = sandbox.exec(words)?;
        ensure!(done.code == Some(status), "{words:?}: {:?}, {}", done.code, done.stderr_text());
    }
    let late = sandbox.exec_with(&["--timeout", "300ms"]).args(["sh", "-c", "echo early; sleep 60"]).run()?;
    ensure!(late.code == Some(124) && late.stdout_text() == "early\n", "{:?} {}", late.code, late.stderr_text());
    // A command does not evade its limit by leaving its process group.
    let evading = "import os, time\nif os.fork() == 0: time.sleep(600)\nd = os.fork()\nif d == 0:\n os.setpgid(0, 0); time.sleep(600)\ntime.sleep(0.1); os.setpgid(0, d); time.sleep(600)";
    let late = sandbox.exec_with(&["--timeout", "1s"]).args(["python3", "-c", evading]).run()?;
    ensure!(late.code == Some(124) && !late.timed_out, "{:?}", late.code);
    // A process in the background does not keep the command, and goes on.
    let left = sandbox.exec(&["sh", "-c", "(sleep 1; echo done > /work/left) & echo $!"])?;
    ensure!(left.code == Some(0));
    let waited = sandbox.shell("for i in $(seq 100); do [ -e left ] && exec cat left; sleep 0.1; done; exit 1")?;
    ensure!(waited == "done\n");
    let json = sandbox.exec_with(&["--json"]).args(["sh", "-c", "echo out; exit 3"]).run()?;
    let report: Value = serde_json::from_str(&json.stdout_text())?;
    ensure!(report["stdout"] == "out\n" && report["exit_code"] == 3 && report["method"] == test_env.engine.name());
    ensure!(report["provenance"]["container_id"] == sandbox.container_id()?.as_str());
    ensure!(json.code == Some(3));
    Ok(())
}

/// Each script ends the same with shims and without.
fn shims_behave_as_the_command(test_env: &TestEnvironment) -> Result<()> {
    let sandbox = Sandbox::start(test_env, &["--truncate", "off"])?;
    ensure!(sandbox.shell("command -v cat")? == "/.codebox/bin/cat\n", "the shim is not found first");
    // A command that the image lacks has no shim.
    ensure!(sandbox.exec(&["sh", "-c", "command -v jq || command -v rg"])?.code != Some(0));
    sandbox.shell("mkdir -p dir/sub; printf 'b\\na\\nroot\\n' > dir/text; chmod 000 dir/sub")?;
    for script in [
        "cat dir/text | sort | head -n 2",
        "cat <<END\nhere\nEND",
        "cat < dir/text > copy; cat copy; echo $?",
        "grep -q root dir/text; echo $?; grep -q none dir/text; echo $?",
        "grep x /no/such/file; echo $?",
        "cat - dir/text 0< copy",
        "cd dir && ls && cat text | wc -c",
        "cd dir && rmdir sub && mkdir gone && cd gone && rmdir ../gone && cat ../text; echo $?; mkdir ../sub 2>&1; true",
        "umask 077; sort dir/text -o private; stat -c %a private; rm private",
        "yes | head -n 1; echo ${PIPESTATUS[0]} ${PIPESTATUS[1]}",
        "seq 1 200000 | tail -n 1",
        "VAR=x awk 'BEGIN { print ENVIRON[\"VAR\"] }'",
        "exec 0<&-; cat dir/text",
        "find dir -name text -exec cat {} +",
        "cat \"$(printf 'odd\\tname')\" 2>&1; echo $?",
        "sleep 0.3 & cat dir/text; wait; echo $?",
        "bash -c 'tail -f /dev/null & kill -TERM $!; wait $!; echo $?' < /dev/zero",
        "trap '' TERM HUP; tail -f /dev/null & p=$!; sleep 0.3; kill -TERM $p; kill -HUP $p; sleep 0.3; kill -0 $p; echo $?; kill -KILL $p; { wait $p; } 2>/dev/null; echo $?",
        "tail -f /dev/null & p=$!; sleep 0.3; kill -INT $p; sleep 0.3; kill -0 $p; echo $?; kill $p; { wait $p; } 2>/dev/null; echo $?",
        "echo a | (cat; cat) | cat",
        "diff <(sort dir/text) <(sort dir/text | grep -v root)",
        "cat /dev/fd/3 3< dir/text; exec 5< dir/text; head -n 1 <&5; cat <&5",
        "cat dir/text dir/text > /dev/full; echo $?",
    ] {
        let with = sandbox.exec(&["bash", "-c", script])?;
        let bare = format!("PATH=/usr/local/bin:/usr/bin:/bin; {script}");
        let without = sandbox.exec(&["bash", "-c", &bare])?;
        let ends = |done: &ProcessResult| (done.code, done.stdout_text(), done.stderr_text());
        ensure!(ends(&with) == ends(&without), "{script}\nwith:    {:?}\nwithout: {:?}", ends(&with), ends(&without));
        let engine = sandbox.engine_exec(&["bash", "-lc", script], b"")?;
        ensure!(
            engine.stdout == without.stdout,
            "{script} over the engine: {:?}",
            String::from_utf8_lossy(&engine.stdout)
        );
    }
    Ok(())
}

fn output_is_cut(test_env: &TestEnvironment) -> Result<()> {
    let sandbox = Sandbox::start(test_env, &["--output-bytes", "100", "--output-lines", "5"])?;
    let script = "for i in $(seq 1 2000); do printf 'é%.0s' $(seq 1 20); echo $i; done";
    let whole = sandbox.exec_with(&["--full"]).args(["sh", "-c", script]).run()?.stdout_text();
    ensure!(whole.lines().count() == 2000);
    let cut = sandbox.exec_with(&["--json"]).args(["sh", "-c", script]).run()?;
    let report: Value = serde_json::from_str(&cut.stdout_text())?;
    let text = report["stdout"].as_str().context("text")?;
    ensure!(text.ends_with("\n...[truncated]") && text.len() <= 100 + 15 + 1, "{text:?}");
    ensure!(whole.starts_with(text.trim_end_matches("...[truncated]").trim_end_matches('\n')));
    let path = report["spilled"][0]["path"].as_str().context("a path")?;
    ensure!(std::fs::read_to_string(path)? == whole && report["spilled"][0]["stream"] == "stdout");
    let plain = sandbox.exec(&["sh", "-c", script])?;
    ensure!(plain.stdout_text() == text && plain.stderr_text().contains("output"), "{}", plain.stderr_text());
    let lines = sandbox.exec(&["seq", "1", "9"])?;
    ensure!(lines.stdout_text() == "1\n2\n3\n4\n5\n...[truncated]");
    let errors = sandbox.exec(&["sh", "-c", "seq 1 9 >&2"])?;
    ensure!(errors.stderr_text().starts_with("1\n2\n3\n4\n5\n...[truncated]"), "{}", errors.stderr_text());
    // Each call is cut by itself, and the file in the box has the whole text.
    sandbox.shell("seq 1 50 > fifty")?;
    ensure!(
        sandbox.engine_shell("cat fifty; cat fifty")? == "1\n2\n3\n4\n5\n...[truncated]1\n2\n3\n4\n5\n...[truncated]"
    );
    let spilled = sandbox.log()?.into_iter().rev().find_map(|entry| Some(entry["spilled"][0].as_str()?.to_owned()));
    let spilled = spilled.context("no file is named")?;
    ensure!(sandbox.engine_shell(&format!("cmp {spilled} fifty && echo same"))? == "same\n");
    Ok(())
}

fn every_shim_cuts(test_env: &TestEnvironment) -> Result<()> {
    let sandbox = Sandbox::start(test_env, &["--truncate", "every", "--output-lines", "3", "--shim", "cat"])?;
    sandbox.shell("seq 1 100 > hundred")?;
    ensure!(sandbox.shell("cat hundred | wc -l")?.trim() == "3", "the reader got more");
    ensure!(sandbox.shell("/bin/cat hundred | wc -l")?.trim() == "100");
    // A command ends when its reader is gone.
    let ended = "cat /dev/zero | head -c 3 | wc -c";
    let done = sandbox.exec_with(&["--timeout", "20s"]).args(["bash", "-c", ended]).run()?;
    ensure!(done.stdout_text() == "3\n" && done.code == Some(0), "{:?} {}", done.code, done.stdout_text());
    // Callers that do not read their output keep no others waiting.
    let blocked = "r, w = __import__('os').pipe(); import os, subprocess\nos.set_blocking(w, False)\ntry:\n while True: os.write(w, b'x' * 4096)\nexcept BlockingIOError: pass\nos.set_blocking(w, True)\nall = [subprocess.Popen(['cat', '/etc/passwd'], stdout=w) for _ in range(12)]\nprint('blocked', flush=True)\nimport time; time.sleep(600)";
    let mut waiting = sandbox.exec_with(&[]).args(["python3", "-c", blocked]).command();
    let mut waiting = waiting.stdout(Stdio::piped()).stdin(Stdio::null()).spawn()?;
    let mut line = [0; 8];
    std::io::Read::read_exact(waiting.stdout.as_mut().context("a pipe")?, &mut line)?;
    let other = sandbox.exec_with(&["--timeout", "20s"]).args(["sh", "-c", "cat hundred | head -n 1"]).run()?;
    ensure!(other.stdout_text() == "1\n" && other.code == Some(0), "{:?}", other.code);
    waiting.kill()?;
    waiting.wait()?;
    Ok(())
}

fn rules(test_env: &TestEnvironment) -> Result<()> {
    let options = ["--deny-command", "find", "--command-timeout", "tail=300ms"];
    let sandbox = Sandbox::start(test_env, &options)?;
    let denied = sandbox.exec(&["find", "/etc"])?;
    ensure!(denied.code == Some(126) && denied.stderr_text().contains("not allowed"), "{}", denied.stderr_text());
    let shimmed = sandbox.exec(&["sh", "-c", "find /etc; echo $?"])?;
    ensure!(shimmed.stdout_text() == "126\n" && shimmed.stderr_text().contains("find: not allowed by the rules"));
    let late = sandbox.exec(&["sh", "-c", "tail -f /dev/null; echo $?"])?;
    ensure!(
        late.stdout_text() == "124\n" && late.stderr_text().contains("time limit of 300 ms"),
        "{}",
        late.stderr_text()
    );
    ensure!(sandbox.exec(&["tail", "-f", "/dev/null"])?.code == Some(124));
    drop(sandbox);
    let sandbox = Sandbox::start(test_env, &["--allow-command", "echo", "--allow-command", "sh"])?;
    ensure!(sandbox.exec(&["echo", "x"])?.stdout_text() == "x\n");
    ensure!(sandbox.exec(&["true"])?.code == Some(126));
    ensure!(sandbox.exec(&["sh", "-c", "cat /etc/passwd; echo $?"])?.stdout_text() == "126\n");
    Ok(())
}

fn grants_and_limits(test_env: &TestEnvironment) -> Result<()> {
    let data = test_env.kit.folder()?;
    std::fs::write(data.path().join("in"), "granted")?;
    let grant = format!("{}:/data:rw", data.path().display());
    let options = ["--dir", &grant, "--env", "WORD=given", "--memory", "100M", "--max-processes", "40"];
    let sandbox = Sandbox::start(test_env, &options)?;
    ensure!(sandbox.shell("cat /data/in; echo $WORD; echo new > /data/out")? == "grantedgiven\n");
    ensure!(std::fs::read_to_string(data.path().join("out"))? == "new\n");
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        ensure!(std::fs::metadata(data.path().join("out"))?.uid() == std::fs::metadata(data.path())?.uid());
    }
    let memory = sandbox.exec(&["python3", "-c", "x = bytearray(300 << 20)"])?;
    ensure!(
        memory.code == Some(137) || memory.stderr_text().contains("memory"),
        "{:?} {}",
        memory.code,
        memory.stderr_text()
    );
    ensure!(sandbox.exec(&["true"])?.code == Some(0), "the box ended with the command");
    let network = sandbox.exec(&["python3", "-c", "import socket; socket.create_connection(('1.1.1.1', 80), 2)"])?;
    ensure!(network.code == Some(1) && network.stderr_text().contains("unreachable"), "{}", network.stderr_text());
    // Variables of the user are not in the description of the container.
    let described = test_env.engine.inspect(&sandbox.name)?.to_string();
    ensure!(!described.contains("WORD=given"));
    Ok(())
}

fn many_commands(test_env: &TestEnvironment) -> Result<()> {
    let sandbox = Sandbox::start(test_env, &["--max-processes", "1000", "--no-shims"])?;
    let agent = "for f in /proc/1/task/*; do :; done; ls /proc/1/task | wc -l; grep VmRSS /proc/1/status | tr -dc 0-9";
    let keeper = sandbox.info()?["pid"].as_u64().context("a process")?;
    let descriptors = || Ok::<_, anyhow::Error>(std::fs::read_dir(format!("/proc/{keeper}/fd"))?.count());
    let at_once = |count: usize| -> Result<()> {
        thread::scope(|scope| {
            let command = |number: usize| {
                let sandbox = &sandbox;
                scope.spawn(move || {
                    let script = format!("head -c 2000 /dev/zero | tr '\\0' x; sleep 0.2; echo {number}");
                    let done = sandbox.exec(&["sh", "-c", &script])?;
                    let text = done.stdout_text();
                    let is_whole = text.len() > 2000 && text.trim_start_matches('x').trim() == number.to_string();
                    ensure!(done.code == Some(0) && is_whole, "{number}: {:?} {}", done.code, done.stderr_text());
                    Ok(())
                })
            };
            let running: Vec<_> = (0..count).map(command).collect();
            running.into_iter().try_for_each(|one| one.join().expect("it does not panic"))
        })
    };
    at_once(200)?;
    let (before, agent_before) = (descriptors()?, sandbox.shell(agent)?);
    at_once(200)?;
    for number in 0..if is_full() { 10_000 } else { 300 } {
        let done = sandbox.exec(&["echo", &number.to_string()])?;
        ensure!(done.stdout_text() == format!("{number}\n") && done.code == Some(0));
    }
    let (after, agent_after) = (descriptors()?, sandbox.shell(agent)?);
    ensure!(after <= before + 2, "the process of the box has {before}, then {after} descriptors");
    let numbers = |text: &str| text.split_whitespace().map(str::parse::<u64>).collect::<Result<Vec<_>, _>>();
    let (before, after) = (numbers(&agent_before)?, numbers(&agent_after)?);
    ensure!(after[0] <= before[0] + 4, "the agent has {} threads, then {}", before[0], after[0]);
    ensure!(after[1] <= before[1] + 4096, "the agent has {} KiB, then {}", before[1], after[1]);
    ensure!(sandbox.shell("ls -d /proc/[0-9]* | wc -l")?.trim().parse::<u32>()? < 10, "processes are left");
    Ok(())
}

/// The log of the box and the audit log have every command, without secrets.
fn records(test_env: &TestEnvironment) -> Result<()> {
    let sandbox = Sandbox::start(test_env, &["--env", "KEY=s3cr3t-value"])?;
    sandbox.exec(&["sh", "-c", "cat /etc/hostname > /dev/null"])?;
    sandbox.exec(&["echo", "s3cr3t-value", "--password=hunter2"])?;
    // The value of a variable of a command, also in a call of a process that outlives it.
    let text = "cat /etc/hostname \"$OWN\"; (sleep 1; cat \"$OWN\") > /dev/null 2>&1 &";
    let own = ["box", "exec", "--env", "OWN=s3cr3t-2", &sandbox.name, "--", "sh", "-c", text];
    test_env.codebox().args(own).run()?;
    sandbox.engine_shell("cat /etc/hostname")?;
    // The value as the name of a command, and where the log cuts a long command line.
    sandbox.exec(&["bash", "-c", "exec -a \"$KEY\" /.codebox/bin/cat /etc/hostname"])?;
    sandbox.exec(&["bash", "-c", "exec -a \"/work/$KEY/cat\" /.codebox/bin/cat /etc/hostname"])?;
    sandbox.exec(&["bash", "-c", "cat $(printf '%4078s' | tr ' ' A) \"$KEY\""])?;
    // The shim answers its caller before the call is recorded.
    let calls = || Ok::<_, anyhow::Error>(sandbox.log()?.iter().filter(|entry| entry["is_shim"] == true).count());
    wait_until_empty(|| Ok(if calls()? >= 7 { Vec::new() } else { vec!["a call is not recorded".to_owned()] }))?;
    let log = sandbox.log()?;
    let text = serde_json::to_string(&log)?;
    ensure!(
        !text.contains("s3cr3t")
            && text.contains("\"cat\",\"***\"")
            && !text.contains("hunter2")
            && text.contains("--password=***"),
        "{text}"
    );
    let shims = log.iter().filter(|entry| entry["is_shim"] == true && entry["argv"][0] == "cat").count();
    ensure!(shims == 5, "{shims} calls of cat: {text}");
    let (name, id) = (sandbox.name.clone(), sandbox.container_id()?);
    drop(sandbox);
    let audit = test_env.codebox().args(["audit", "show", "--json", &name]).run()?.stdout_text();
    for part in ["started", "stopped", "called", "\"box\"", &name, &id] {
        ensure!(audit.contains(part), "{part} is not in {audit}");
    }
    ensure!(!audit.contains("s3cr3t") && !audit.contains("hunter2"), "{audit}");
    // A box that is used by the engine alone has its grants in the log as well.
    let records: Value = serde_json::from_str(&audit)?;
    let records = records["records"].as_array().context("records")?;
    let start = records.iter().map(|record| &record["event"]).find(|event| event["action"] == "started");
    let start = &start.with_context(|| audit.clone())?["start"];
    ensure!(start["grants"]["env"][0] == "KEY" && start["limits"].is_object() && start["pid"].is_u64(), "{audit}");
    ensure!(test_env.codebox().args(["audit", "verify"]).run()?.code == Some(0));
    Ok(())
}

/// A command that cannot be recorded runs, and its caller learns of it.
fn missing_records(test_env: &TestEnvironment) -> Result<()> {
    let home = tempfile::tempdir()?;
    let audit = home.path().join("data/jobs/audit");
    fs::create_dir_all(audit.parent().context("a parent")?)?;
    fs::write(&audit, "no directory")?;
    let name = format!("box-unrecorded-{}", test_env.engine.name());
    let codebox = |args: &[&str]| test_env.codebox().home(home.path()).args(args.iter().copied()).run();
    let started = start_command(test_env, &name, &[]).home(home.path()).run()?;
    ensure!(started.code == Some(0), "box start: {}", started.stderr_text());
    let ran = codebox(&["box", "exec", &name, "--", "echo", "x"]);
    let report = codebox(&["box", "exec", "--json", &name, "--", "echo", "x"]);
    codebox(&["box", "stop", &name])?;
    let (ran, report) = (ran?, report?.report()?);
    ensure!(ran.code == Some(0) && ran.stdout_text() == "x\n", "{}", ran.stderr_text());
    ensure!(ran.stderr_text().contains("not recorded in the audit log: "), "{}", ran.stderr_text());
    ensure!(report.at("/unaudited").as_str().is_some_and(|reason| reason.contains("audit log")), "{}", report.json());
    Ok(())
}
