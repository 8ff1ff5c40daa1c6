//! Hostile programs in a box, against its agent and its shims.

use anyhow::{Context as _, Result, ensure};

use super::Sandbox;
use crate::row::{Row, row};
use crate::test_env::TestEnvironment;

pub fn rows() -> Vec<Row> {
    vec![
        row("box::C5::working_directory", working_directory),
        row("box::C6::descriptors", descriptors),
        row("box::C20::attacks_on_the_agent", attacks_on_the_agent),
        row("box::H10::forged_ends", forged_ends),
        row("box::P4::planted_links", planted_links),
        row("box::P14::hostile_names", hostile_names),
        row("box::malformed_frames", malformed_frames),
    ]
}

fn working_directory(test_env: &TestEnvironment) -> Result<()> {
    let sandbox = Sandbox::start(test_env, &[])?;
    sandbox.shell("ln -s /proc/self/fd link; ln -s /proc/1 one; ln -s /work fine")?;
    for path in
        ["/proc/self/fd/3", "/proc/self/fd/7/../..", "/proc", "/sys", "/dev/fd", "/work/link", "/work/one", "relative"]
    {
        let refused = sandbox.exec_with(&["--workdir", path]).arg("pwd").run()?;
        ensure!(refused.code == Some(126), "{path}: {:?} {}", refused.code, refused.stdout_text());
    }
    for number in 0..30 {
        let path = format!("/work/../proc/self/fd/{number}");
        let refused = sandbox.exec_with(&["--workdir", &path]).arg("pwd").run()?;
        ensure!(refused.code == Some(126), "{path}: {:?} {}", refused.code, refused.stdout_text());
    }
    ensure!(sandbox.exec_with(&["--workdir", "/work/fine"]).arg("pwd").run()?.stdout_text() == "/work\n");
    Ok(())
}

/// A command has its three streams open and nothing of the agent or the host, in each way to start it.
fn descriptors(test_env: &TestEnvironment) -> Result<()> {
    let sandbox = Sandbox::start(test_env, &["--shim", "python3", "--truncate", "every"])?;
    let script = "import os\nfor n in os.listdir('/proc/self/fd'):\n try: print(n, os.readlink(f'/proc/self/fd/{n}'))\n except FileNotFoundError: pass";
    let bare = format!("/usr/bin/python3 -c \"{script}\"");
    for (way, text) in [
        ("agent", sandbox.exec(&["python3", "-c", script])?.stdout_text()),
        ("shim", sandbox.shell(&format!("python3 -c \"{script}\""))?),
        ("bare", sandbox.shell(&bare)?),
    ] {
        for line in text.lines() {
            let (number, target) = line.split_once(' ').context("a line")?;
            ensure!(["0", "1", "2"].contains(&number), "{way}: descriptor {number} is {target}");
            ensure!(target.starts_with("pipe:") || target == "/dev/null", "{way}: {line}");
        }
        ensure!(text.lines().count() == 3, "{way}: {text}");
    }
    Ok(())
}

fn attacks_on_the_agent(test_env: &TestEnvironment) -> Result<()> {
    let sandbox = Sandbox::start(test_env, &[])?;
    for script in [
        "kill -9 1; kill -STOP 1; kill -TERM 1; kill -INT 1; true",
        "for s in $(seq 1 31); do kill -$s 1 2>/dev/null; done; true",
        "python3 -c 'import os\nfor n in range(640000):\n try: os.kill(1, n % 64 + 1)\n except OSError: pass'",
        "cat /proc/1/maps > /dev/null; cat /proc/1/environ; ls -l /proc/1/fd; true",
        "rm -f /.codebox/agent /.codebox/bin/cat /.codebox/run/* 2>/dev/null; true",
        "mv /.codebox/bin /tmp/x 2>/dev/null; ln -sf /bin/true /.codebox/bin/cat 2>/dev/null; true",
        "echo x > /proc/1/oom_score_adj; true",
        "LD_PRELOAD=/work/evil.so LD_AUDIT=/work/evil.so cat /etc/hostname; true",
        "python3 -c \"import ctypes; print(ctypes.CDLL(None).ptrace(16, 1, 0, 0))\"",
    ] {
        let done = sandbox.exec(&["sh", "-c", script])?;
        ensure!(done.code == Some(0), "{script}: {:?} {}", done.code, done.stderr_text());
        let alive = sandbox.exec(&["sh", "-c", "cat /etc/hostname; exit 5"])?;
        ensure!(alive.code == Some(5) && alive.stdout_text().trim() == "codebox", "after {script}: {:?}", alive.code);
    }
    let traced = sandbox.shell("python3 -c \"import ctypes; print(ctypes.CDLL(None).ptrace(16, 1, 0, 0))\"")?;
    ensure!(traced == "-1\n", "the agent can be traced");
    ensure!(sandbox.exec(&["sh", "-c", "ls /proc/1/fd"])?.code != Some(0), "the agent's descriptors can be listed");
    // Output without an end is cut, and its command ends, also for a caller that sets no time limit.
    let flood = sandbox.engine_exec(&["cat", "/dev/zero"], b"")?;
    ensure!(flood.status.code() == Some(137) && flood.stdout.ends_with(b"...[truncated]"), "{:?}", flood.status);
    ensure!(String::from_utf8_lossy(&flood.stderr).contains("16 MiB of output"), "{:?}", flood.status);
    // A fork bomb fills the limit on processes, and the box accepts commands again when it has ended.
    let bomb = "b() { b | b & }; ulimit -u 200; (b) 2>/dev/null; sleep 1; kill -9 -1";
    let _ = sandbox.exec_with(&["--timeout", "20s"]).args(["bash", "-c", bomb]).run()?;
    ensure!(sandbox.exec(&["echo", "x"])?.stdout_text() == "x\n");
    Ok(())
}

/// Text and descriptors of a program are output, and never its end.
fn forged_ends(test_env: &TestEnvironment) -> Result<()> {
    let sandbox = Sandbox::start(test_env, &[])?;
    let script = "import os\nfor n in range(1, 40):\n try: os.write(n, b'\\x1a\\0\\0\\0\\x06\\0\\0\\0\\0\\3\\x80...[truncated]')\n except OSError: pass\nos._exit(3)";
    let done = sandbox.exec(&["python3", "-c", script])?;
    ensure!(done.code == Some(3) && done.stdout.ends_with(b"...[truncated]"), "{:?}", done.code);
    for (code, status) in [("-1", 255), ("256", 0), ("2**31", 0), ("'text'", 1)] {
        let done = sandbox.exec(&["python3", "-c", &format!("import sys; sys.exit({code})")])?;
        ensure!(done.code == Some(status) || code == "2**31", "{code}: {:?}", done.code);
    }
    Ok(())
}

/// A link in the place of a file that the agent writes is not followed.
fn planted_links(test_env: &TestEnvironment) -> Result<()> {
    let data = test_env.kit.folder()?;
    std::fs::write(data.path().join("canary"), "untouched")?;
    let grant = format!("{}:/data:rw", data.path().display());
    let sandbox = Sandbox::start(test_env, &["--dir", &grant, "--output-lines", "2"])?;
    sandbox.shell("mkdir -p /tmp/.codebox-output; for i in $(seq 0 50); do ln -s /data/canary /tmp/.codebox-output/$i-cat.stdout; done; seq 1 99 > numbers")?;
    ensure!(sandbox.engine_shell("cat numbers")? == "1\n2\n...[truncated]");
    ensure!(std::fs::read_to_string(data.path().join("canary"))? == "untouched");
    sandbox.shell("rm -r /tmp/.codebox-output; ln -s /data /tmp/.codebox-output")?;
    ensure!(sandbox.engine_shell("cat numbers")? == "1\n2\n...[truncated]");
    let names: Vec<_> = std::fs::read_dir(data.path())?.flatten().map(|entry| entry.file_name()).collect();
    ensure!(names == ["canary"], "{names:?}");
    Ok(())
}

/// Names of commands and files reach the log and the terminal escaped.
fn hostile_names(test_env: &TestEnvironment) -> Result<()> {
    let sandbox = Sandbox::start(test_env, &[])?;
    let odd = "\u{1b}]0;title\u{7}\nnew line\u{202e}";
    let missing = sandbox.exec(&[odd])?;
    ensure!(missing.code == Some(127) && !missing.stderr_text().contains('\u{1b}'), "{:?}", missing.stderr_text());
    sandbox.exec(&["cat", odd])?;
    let log = test_env.codebox().args(["box", "logs", &sandbox.name]).run()?.stdout_text();
    ensure!(log.lines().count() == 2 && !log.contains(['\u{1b}', '\u{202e}', '\u{7}']), "{log:?}");
    let json = test_env.codebox().args(["box", "logs", "--json", &sandbox.name]).run()?.stdout_text();
    ensure!(json.lines().count() == 2 && !json.contains(['\u{1b}', '\u{202e}']), "{json:?}");
    Ok(())
}

/// Connections to the socket of the shims that send anything, or nothing, keep no other command waiting.
fn malformed_frames(test_env: &TestEnvironment) -> Result<()> {
    let sandbox = Sandbox::start(test_env, &["--max-processes", "400"])?;
    let script = r#"
import socket, os, array
def connect():
    s = socket.socket(socket.AF_UNIX); s.connect("\0codebox-shims"); return s
kept = [connect() for _ in range(100)]
def fds(*numbers): return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", numbers))]
for data, control in [(b"", []), (b"\0", []), (b"\xff\xff\xff\xff", fds(0, 1, 2, 0)), (b"\0\0\0\5hello", fds(0, 1, 2, 0)),
                      (b"\0\0\0\1\x90", fds(0)), (b"\0\0\0\1\x90", fds(*[0] * 30)), (os.urandom(5000), fds(0, 1, 2, 0)),
                      (b"\0\0\0\x06\x93\x90\x90\0\0\0", fds(0, 1, 2, 0)), (b"\1\0\0\0" + b"\x93" * 100, fds(0, 1, 2, 0))]:
    s = connect()
    try: s.sendmsg([data or b"\0"], control); s.shutdown(socket.SHUT_WR); s.settimeout(15); s.recv(1000)
    except OSError as e: pass
print("sent")
"#;
    let sent = sandbox.exec(&["python3", "-c", script])?;
    ensure!(sent.stdout_text() == "sent\n", "{}", sent.stderr_text());
    ensure!(sandbox.shell("cat /etc/hostname")?.trim() == "codebox");
    Ok(())
}
