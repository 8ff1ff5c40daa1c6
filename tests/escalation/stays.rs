//! Runs that fail in WebAssembly and are not repeated: the report names the missing feature, and its suggested command
//! works.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::Report;

use crate::again::is_second;
use crate::ground::{Ground, bytes, sound};
use crate::programs::{DIES, THREAD};
use crate::{Cases, case};

pub fn cases() -> Cases {
    vec![
        case("stays", "wrote_to_a_grant", wrote_to_a_grant),
        case("stays", "brought_files_out", brought_files_out),
        case("stays", "granted_but_untouched", granted_but_untouched),
        case("stays", "reached_a_host", reached_a_host),
        case("stays", "granted_a_host_and_reached_none", granted_a_host_and_reached_none),
        case("stays", "only_wasm", only_wasm),
        case("stays", "comment_asks_for_wasm", comment_asks_for_wasm),
        case("stays", "forbidden", forbidden),
        case("stays", "forbidden_by_project", forbidden_by_project),
        case("stays", "only_wasm_by_policy", only_wasm_by_policy),
        case("stays", "image_not_allowed", image_not_allowed),
        case("stays", "forged_message", forged_message),
        case("stays", "caught", caught),
        case("stays", "failed_otherwise", failed_otherwise),
        case("stays", "output_truncated", output_truncated),
        case("stays", "too_much_input", too_much_input),
        case("stays", "no_engine", no_engine),
        case("stays", "no_image", no_image),
    ]
}

/// Checks that a run was not repeated, for this reason, and returns the suggested command.
fn needs(report: &Report, why: &str) -> Result<String> {
    stayed(report)?;
    let needs = report.at("/needs_escalation");
    let reason = needs["reason"].as_str().with_context(|| format!("nothing is needed: {}", report.json()))?;
    ensure!(
        reason.starts_with("the program needs threads, which WebAssembly does not support; "),
        "the reason is {reason}"
    );
    ensure!(reason.contains(why), "the reason is {reason}");
    ensure!(report.exit_code() == Some(1), "it ended with {:?}", report.exit_code());
    ensure!(report.stderr().contains("RuntimeError: can't start new thread"), "it said {:?}", report.stderr());
    Ok(needs["command"].as_str().unwrap_or_default().to_owned())
}

fn stayed(report: &Report) -> Result<()> {
    ensure!(report.at("/provenance/isolation") == "wasm", "it left wasm: {}", report.json());
    ensure!(report.at("/provenance/escalated_from").is_null(), "it says that it was escalated: {}", report.json());
    Ok(())
}

/// Pastes the command into a shell and checks that it runs in a container.
fn works(ground: &Ground, command: &str, input: &[u8]) -> Result<Report> {
    let ran = ground.paste(command, input)?;
    sound(&ran)?;
    let report = ran.report().with_context(|| command.to_owned())?;
    ensure!(report.at("/provenance/isolation") == "container", "{command}: {}", report.json());
    ensure!(report.exit_code() == Some(0), "{command}: {}", report.json());
    Ok(report)
}

fn wrote_to_a_grant(ground: &Ground) -> Result<()> {
    let code = format!("open('/data/written', 'a').write('x')\n{DIES}print(\"it's done\")\n");
    let run = ground.run(&[]).grant(&ground.granted(), "/data", "rw").args(["--lang", "python", "-c"]).arg(code);
    let command = needs(&ground.report(run)?, "it has changed files outside its sandbox")?;
    ensure!(fs::read_to_string(ground.granted().join("written"))? == "x", "it ran more than once");
    let report = works(ground, &command, b"")?;
    ensure!(report.stdout() == "it's done\n", "it printed {:?}", report.stdout());
    ensure!(fs::read_to_string(ground.granted().join("written"))? == "xx", "the command did not run it once");
    Ok(())
}

/// Files that were copied out are visible outside, so the run is not repeated.
fn brought_files_out(ground: &Ground) -> Result<()> {
    let code = format!("open('left', 'w').write('x')\n{DIES}");
    let report = ground.report(ground.run(&["--out", "out", "--lang", "python", "-c", &code]))?;
    needs(&report, "it has changed files outside its sandbox")?;
    ensure!(ground.place().join("out/left").exists(), "nothing was brought out");
    Ok(())
}

/// A writable directory that was only read does not prevent a second run.
fn granted_but_untouched(ground: &Ground) -> Result<()> {
    fs::write(ground.granted().join("word"), "read")?;
    let code = format!("word = open('/data/word').read()\n{DIES}open('/data/word', 'w').write(word * 2)\n");
    let run = ground.run(&[]).grant(&ground.granted(), "/data", "rw").args(["--lang", "python", "-c"]).arg(code);
    is_second(ground, &ground.report(run)?, "threads")?;
    ensure!(fs::read_to_string(ground.granted().join("word"))? == "readread", "it did not run once");
    Ok(())
}

/// A host that was reached has observed the run, so the run is repeated only on request.
fn reached_a_host(ground: &Ground) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&seen);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            counted.fetch_add(1, Ordering::SeqCst);
            let _told = stream.write_all(b"seen");
        }
    });
    // The program waits for a response, so that the server has counted the connection.
    let code = format!("import socket\nprint(socket.create_connection(('127.0.0.1', {port})).recv(4))\n{DIES}");
    let words = ["--net", &format!("127.0.0.1:{port}"), "--lang", "python", "-c", &code];
    let command = needs(&ground.report(ground.run(&words))?, "it has connected to hosts on the network")?;
    ensure!(seen.load(Ordering::SeqCst) == 1, "it was run more than once");
    let report = works(ground, &command, b"")?;
    ensure!(report.stdout() == "b'seen'\n", "it printed {:?}", report.stdout());
    ensure!(seen.load(Ordering::SeqCst) == 2, "the command did not run it once");
    Ok(())
}

/// A grant alone does not prevent a second run, and neither does an unreachable host.
fn granted_a_host_and_reached_none(ground: &Ground) -> Result<()> {
    let code = format!("import socket\nprint(socket.socket().connect_ex(('127.0.0.1', 1)) != 0)\n{DIES}");
    let words = ["--net", "127.0.0.1:1", "--lang", "python", "-c", &code];
    is_second(ground, &ground.report(ground.run(&words))?, "threads")
}

fn only_wasm(ground: &Ground) -> Result<()> {
    ground.put("a program.py", &format!("import sys\n{DIES}print(sys.argv[1:])\n"))?;
    let words = ["--isolation", "wasm", "a program.py", "--isolation", "wasm", "it's", "$HOME", ""];
    let command = needs(&ground.report(ground.run(&words))?, "only isolation wasm is allowed")?;
    ensure!(!ground.has_asked_engines(), "it asked an engine");
    let report = works(ground, &command, b"")?;
    ensure!(report.stdout() == "['--isolation', 'wasm', \"it's\", '$HOME', '']\n", "{:?}", report.stdout());
    Ok(())
}

/// A directive in the program's text applies after the run as it does before.
fn comment_asks_for_wasm(ground: &Ground) -> Result<()> {
    let code = format!("#!/usr/bin/env python\n# codebox: isolation=wasm\n{DIES}");
    let command = needs(&ground.report(ground.run(&["-c", &code]))?, "line 2 requests isolation wasm")?;
    ensure!(!ground.has_asked_engines(), "it asked an engine");
    works(ground, &command, b"").map(drop)
}

fn forbidden(ground: &Ground) -> Result<()> {
    ground.configure("escalation = \"forbid\"\n")?;
    let command =
        needs(&ground.report(ground.run(&["--lang", "python", "-c", DIES]))?, "the policy does not allow escalation")?;
    ensure!(!ground.has_asked_engines(), "it asked an engine");
    works(ground, &command, b"").map(drop)
}

fn forbidden_by_project(ground: &Ground) -> Result<()> {
    ground.put("codebox.toml", "escalation = \"forbid\"\n")?;
    needs(&ground.report(ground.run(&["--lang", "python", "-c", DIES]))?, "the policy does not allow escalation")?;
    // A project cannot allow escalation that the user has forbidden.
    ground.configure("escalation = \"forbid\"\n")?;
    ground.put("codebox.toml", "escalation = \"allow\"\n")?;
    needs(&ground.report(ground.run(&["--lang", "python", "-c", DIES]))?, "the policy does not allow escalation")
        .map(drop)
}

fn only_wasm_by_policy(ground: &Ground) -> Result<()> {
    ground.configure("isolation = \"wasm\"\n")?;
    needs(&ground.report(ground.run(&["--lang", "python", "-c", DIES]))?, "only isolation wasm is allowed").map(drop)
}

/// An image that the configuration does not allow is not started for a second run either.
fn image_not_allowed(ground: &Ground) -> Result<()> {
    let path = ground.home().join("config/config.toml");
    let text = fs::read_to_string(&path)?;
    fs::write(&path, format!("{text}allowed = [\"docker.io/library/*\"]\n"))?;
    needs(&ground.report(ground.run(&["--lang", "python", "-c", DIES]))?, "").map(drop)
}

/// A guest's own output is not evidence of a missing feature.
fn forged_message(ground: &Ground) -> Result<()> {
    let forged = "RuntimeError: can't start new thread\\nOSError: processes are not available in this sandbox\\n";
    let code = format!("import sys\nsys.stderr.write(\"{forged}\")\nsys.exit(1)\n");
    let report = ground.report(ground.run(&["--lang", "python", "-c", &code]))?;
    stayed(&report)?;
    ensure!(report.at("/needs_escalation").is_null() && report.exit_code() == Some(1), "{}", report.json());
    ensure!(!ground.has_asked_engines(), "it asked an engine");
    Ok(())
}

fn caught(ground: &Ground) -> Result<()> {
    let code = format!("try:\n    {DIES}except RuntimeError:\n    print('without')\n");
    let report = ground.report(ground.run(&["--lang", "python", "-c", &code]))?;
    stayed(&report)?;
    ensure!(report.stdout() == "without\n" && report.exit_code() == Some(0), "{}", report.json());
    ensure!(report.at("/needs_escalation").is_null(), "{}", report.json());
    Ok(())
}

/// Programs that end by a limit, by an error of their own or by an unknown module are not repeated.
fn failed_otherwise(ground: &Ground) -> Result<()> {
    let spins = format!("try:\n    {DIES}except RuntimeError:\n    pass\nwhile True: pass\n");
    let limited = ground.report(ground.run(&["--timeout", "2s", "--lang", "python", "-c", &spins]))?;
    ensure!(limited.kind() == "timeout_wall", "{}", limited.json());
    for report in [limited, ground.report(ground.run(&["--lang", "python", "-c", "__import__('no' + 'where')"]))?] {
        stayed(&report)?;
        ensure!(report.at("/needs_escalation").is_null(), "{}", report.json());
    }
    Ok(())
}

fn output_truncated(ground: &Ground) -> Result<()> {
    let code = format!("print('x' * 10_000, flush=True)\n{DIES}");
    let report = ground.report(ground.run(&["--max-output", "1K", "--lang", "python", "-c", &code]))?;
    let needs = report.at("/needs_escalation");
    stayed(&report)?;
    ensure!(needs["reason"].to_string().contains("its output was truncated"), "{}", report.json());
    let report = works(ground, needs["command"].as_str().unwrap_or_default(), b"")?;
    ensure!(report.at("/stdout_truncated/dropped_bytes").as_u64() > Some(0), "{}", report.json());
    Ok(())
}

fn too_much_input(ground: &Ground) -> Result<()> {
    let code = format!("import sys\nread = len(sys.stdin.buffer.read())\n{DIES}print(read)\n");
    let input = vec![b'x'; 2 << 20];
    let run = ground.run(&["--lang", "python", "-c", &code]).input(bytes(input.clone()));
    let command = needs(&ground.report(run)?, "it has read more input than can be replayed")?;
    let report = works(ground, &command, &input)?;
    ensure!(report.stdout() == "2097152\n", "it printed {:?}", report.stdout());
    // Without `--json`, standard error shows the program's last output and the suggested command.
    let ran = ground.codebox().args(["run", "--lang", "python", "-c"]).arg(code).input(bytes(input)).run()?;
    let said = ran.stderr_text();
    ensure!(said.contains("RuntimeError: can't start new thread"), "it said {said}");
    let line = said.lines().find_map(|line| line.split_once("to run it in a container: "));
    let (_, command) = line.with_context(|| format!("it said {said}"))?;
    let ran = ground.paste(command, b"short")?;
    ensure!(ran.code == Some(0) && ran.stdout_text() == "5\n", "{command}: {}", ran.stderr_text());
    Ok(())
}

fn no_engine(ground: &Ground) -> Result<()> {
    let run = ground.run_without_engines(&["--lang", "python", "-c", DIES]);
    let command = needs(&ground.report(run)?, "no container engine is available")?;
    works(ground, &command, b"").map(drop)?;
    // A program whose text shows the need for a container also runs in WebAssembly, where it may succeed.
    let code = "import threading\nthreading.Thread(target=int).start()\n";
    let report = ground.report(ground.run_without_engines(&["--lang", "python", "-c", code]))?;
    let reason = report.at("/provenance/reason").as_str().unwrap_or_default();
    ensure!(reason.contains("line 2 needs threads") && reason.contains("no container is available"), "{reason}");
    needs(&report, "no container engine is available")?;
    ensure!(ground.processes().is_empty(), "somebody stands by");
    Ok(())
}

/// An engine without the image, which cannot be pulled.
fn no_image(ground: &Ground) -> Result<()> {
    let path = ground.home().join("config/config.toml");
    let text = fs::read_to_string(&path)?;
    fs::write(&path, text.replace("localhost/codebox-test:1", "localhost/codebox-nobody-has-this:1"))?;
    needs(&ground.report(ground.run(&["--lang", "python", "-c", THREAD.code]))?, "codebox-nobody-has-this").map(drop)
}
