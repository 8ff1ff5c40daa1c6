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

use crate::programs::{STARTS_THREAD, THREAD};
use crate::rerun::check_rerun;
use crate::test_env::{TestEnvironment, bytes, check_run};
use crate::{Cases, case};

pub fn cases() -> Cases {
    vec![
        case("not_rerun", "wrote_to_a_grant", wrote_to_a_grant),
        case("not_rerun", "copied_files_out", copied_files_out),
        case("not_rerun", "reruns_if_grant_is_untouched", reruns_if_grant_is_untouched),
        case("not_rerun", "connected_to_host", connected_to_host),
        case("not_rerun", "reruns_if_no_host_was_reached", reruns_if_no_host_was_reached),
        case("not_rerun", "only_wasm", only_wasm),
        case("not_rerun", "directive_requests_wasm", directive_requests_wasm),
        case("not_rerun", "forbidden", forbidden),
        case("not_rerun", "forbidden_by_project", forbidden_by_project),
        case("not_rerun", "only_wasm_by_policy", only_wasm_by_policy),
        case("not_rerun", "image_not_allowed", image_not_allowed),
        case("not_rerun", "forged_message", forged_message),
        case("not_rerun", "error_caught", error_caught),
        case("not_rerun", "failed_for_other_reasons", failed_for_other_reasons),
        case("not_rerun", "output_truncated", output_truncated),
        case("not_rerun", "too_much_input", too_much_input),
        case("not_rerun", "no_engine", no_engine),
        case("not_rerun", "no_image", no_image),
    ]
}

/// Checks that a run was not repeated, for this reason, and returns the suggested command.
fn escalation_hint(report: &Report, why: &str) -> Result<String> {
    check_stayed_in_wasm(report)?;
    let escalation_hint = report.at("/needs_escalation");
    let reason = escalation_hint["reason"].as_str().with_context(|| format!("nothing is needed: {}", report.json()))?;
    ensure!(
        reason.starts_with("the program needs threads, which WebAssembly does not support; "),
        "the reason is {reason}"
    );
    ensure!(reason.contains(why), "the reason is {reason}");
    ensure!(report.exit_code() == Some(1), "exit status is {:?}", report.exit_code());
    ensure!(report.stderr().contains("RuntimeError: can't start new thread"), "stderr is {:?}", report.stderr());
    Ok(escalation_hint["command"].as_str().unwrap_or_default().to_owned())
}

fn check_stayed_in_wasm(report: &Report) -> Result<()> {
    ensure!(report.at("/provenance/isolation") == "wasm", "isolation is not wasm: {}", report.json());
    ensure!(
        report.at("/provenance/escalated_from").is_null(),
        "the report says that the job was rerun: {}",
        report.json()
    );
    Ok(())
}

/// Pastes the command into a shell and checks that it runs in a container.
fn check_command_works(test_env: &TestEnvironment, command: &str, input: &[u8]) -> Result<Report> {
    let result = test_env.run_in_shell(command, input)?;
    check_run(&result)?;
    let report = result.report().with_context(|| command.to_owned())?;
    ensure!(report.at("/provenance/isolation") == "container", "{command}: {}", report.json());
    ensure!(report.exit_code() == Some(0), "{command}: {}", report.json());
    Ok(report)
}

fn wrote_to_a_grant(test_env: &TestEnvironment) -> Result<()> {
    let code = format!("open('/data/written', 'a').write('x')\n{STARTS_THREAD}print(\"it's done\")\n");
    let run =
        test_env.run(&[]).grant(&test_env.granted_dir(), "/data", "rw").args(["--lang", "python", "-c"]).arg(code);
    let command = escalation_hint(&test_env.report(run)?, "it has changed files outside its sandbox")?;
    ensure!(fs::read_to_string(test_env.granted_dir().join("written"))? == "x", "ran more than once");
    let report = check_command_works(test_env, &command, b"")?;
    ensure!(report.stdout() == "it's done\n", "stdout is {:?}", report.stdout());
    ensure!(fs::read_to_string(test_env.granted_dir().join("written"))? == "xx", "the command did not run it once");
    Ok(())
}

/// Files that were copied out are visible outside, so the run is not repeated.
fn copied_files_out(test_env: &TestEnvironment) -> Result<()> {
    let code = format!("open('left', 'w').write('x')\n{STARTS_THREAD}");
    let report = test_env.report(test_env.run(&["--out", "out", "--lang", "python", "-c", &code]))?;
    escalation_hint(&report, "it has changed files outside its sandbox")?;
    ensure!(test_env.root().join("out/left").exists(), "no file was copied out");
    Ok(())
}

/// A writable directory that was only read does not prevent a second run.
fn reruns_if_grant_is_untouched(test_env: &TestEnvironment) -> Result<()> {
    fs::write(test_env.granted_dir().join("word"), "read")?;
    let code = format!("word = open('/data/word').read()\n{STARTS_THREAD}open('/data/word', 'w').write(word * 2)\n");
    let run =
        test_env.run(&[]).grant(&test_env.granted_dir(), "/data", "rw").args(["--lang", "python", "-c"]).arg(code);
    check_rerun(test_env, &test_env.report(run)?, "threads")?;
    ensure!(fs::read_to_string(test_env.granted_dir().join("word"))? == "readread", "did not run exactly once");
    Ok(())
}

/// A host that was reached has observed the run, so the run is repeated only on request.
fn connected_to_host(test_env: &TestEnvironment) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&seen);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            counted.fetch_add(1, Ordering::SeqCst);
            let _sent = stream.write_all(b"seen");
        }
    });
    // The program waits for a response, so that the server has counted the connection.
    let code =
        format!("import socket\nprint(socket.create_connection(('127.0.0.1', {port})).recv(4))\n{STARTS_THREAD}");
    let arguments = ["--net", &format!("127.0.0.1:{port}"), "--lang", "python", "-c", &code];
    let command =
        escalation_hint(&test_env.report(test_env.run(&arguments))?, "it has connected to hosts on the network")?;
    ensure!(seen.load(Ordering::SeqCst) == 1, "ran more than once");
    let report = check_command_works(test_env, &command, b"")?;
    ensure!(report.stdout() == "b'seen'\n", "stdout is {:?}", report.stdout());
    ensure!(seen.load(Ordering::SeqCst) == 2, "the command did not run it once");
    Ok(())
}

/// A grant alone does not prevent a second run, and neither does an unreachable host.
fn reruns_if_no_host_was_reached(test_env: &TestEnvironment) -> Result<()> {
    let code = format!("import socket\nprint(socket.socket().connect_ex(('127.0.0.1', 1)) != 0)\n{STARTS_THREAD}");
    let arguments = ["--net", "127.0.0.1:1", "--lang", "python", "-c", &code];
    check_rerun(test_env, &test_env.report(test_env.run(&arguments))?, "threads")
}

fn only_wasm(test_env: &TestEnvironment) -> Result<()> {
    test_env.write_file("a program.py", &format!("import sys\n{STARTS_THREAD}print(sys.argv[1:])\n"))?;
    let arguments = ["--isolation", "wasm", "a program.py", "--isolation", "wasm", "it's", "$HOME", ""];
    let command = escalation_hint(&test_env.report(test_env.run(&arguments))?, "only isolation wasm is allowed")?;
    ensure!(!test_env.has_queried_engines(), "engine was queried");
    let report = check_command_works(test_env, &command, b"")?;
    ensure!(report.stdout() == "['--isolation', 'wasm', \"it's\", '$HOME', '']\n", "{:?}", report.stdout());
    Ok(())
}

/// A directive in the program's text applies after the run as it does before.
fn directive_requests_wasm(test_env: &TestEnvironment) -> Result<()> {
    let code = format!("#!/usr/bin/env python\n# codebox: isolation=wasm\n{STARTS_THREAD}");
    let command = escalation_hint(&test_env.report(test_env.run(&["-c", &code]))?, "line 2 requests isolation wasm")?;
    ensure!(!test_env.has_queried_engines(), "engine was queried");
    check_command_works(test_env, &command, b"").map(drop)
}

fn forbidden(test_env: &TestEnvironment) -> Result<()> {
    test_env.configure("escalation = \"forbid\"\n")?;
    let command = escalation_hint(
        &test_env.report(test_env.run(&["--lang", "python", "-c", STARTS_THREAD]))?,
        "the policy does not allow escalation",
    )?;
    ensure!(!test_env.has_queried_engines(), "engine was queried");
    check_command_works(test_env, &command, b"").map(drop)
}

fn forbidden_by_project(test_env: &TestEnvironment) -> Result<()> {
    test_env.write_file("codebox.toml", "escalation = \"forbid\"\n")?;
    escalation_hint(
        &test_env.report(test_env.run(&["--lang", "python", "-c", STARTS_THREAD]))?,
        "the policy does not allow escalation",
    )?;
    // A project cannot allow escalation that the user has forbidden.
    test_env.configure("escalation = \"forbid\"\n")?;
    test_env.write_file("codebox.toml", "escalation = \"allow\"\n")?;
    escalation_hint(
        &test_env.report(test_env.run(&["--lang", "python", "-c", STARTS_THREAD]))?,
        "the policy does not allow escalation",
    )
    .map(drop)
}

fn only_wasm_by_policy(test_env: &TestEnvironment) -> Result<()> {
    test_env.configure("isolation = \"wasm\"\n")?;
    escalation_hint(
        &test_env.report(test_env.run(&["--lang", "python", "-c", STARTS_THREAD]))?,
        "only isolation wasm is allowed",
    )
    .map(drop)
}

/// An image that the configuration does not allow is not started for a second run either.
fn image_not_allowed(test_env: &TestEnvironment) -> Result<()> {
    let path = test_env.home().join("config/config.toml");
    let text = fs::read_to_string(&path)?;
    fs::write(&path, format!("{text}allowed = [\"docker.io/library/*\"]\n"))?;
    escalation_hint(&test_env.report(test_env.run(&["--lang", "python", "-c", STARTS_THREAD]))?, "").map(drop)
}

/// A guest's own output is not evidence of a missing feature.
fn forged_message(test_env: &TestEnvironment) -> Result<()> {
    let forged = "RuntimeError: can't start new thread\\nOSError: processes are not available in this sandbox\\n";
    let code = format!("import sys\nsys.stderr.write(\"{forged}\")\nsys.exit(1)\n");
    let report = test_env.report(test_env.run(&["--lang", "python", "-c", &code]))?;
    check_stayed_in_wasm(&report)?;
    ensure!(report.at("/needs_escalation").is_null() && report.exit_code() == Some(1), "{}", report.json());
    ensure!(!test_env.has_queried_engines(), "engine was queried");
    Ok(())
}

fn error_caught(test_env: &TestEnvironment) -> Result<()> {
    let code = format!("try:\n    {STARTS_THREAD}except RuntimeError:\n    print('without')\n");
    let report = test_env.report(test_env.run(&["--lang", "python", "-c", &code]))?;
    check_stayed_in_wasm(&report)?;
    ensure!(report.stdout() == "without\n" && report.exit_code() == Some(0), "{}", report.json());
    ensure!(report.at("/needs_escalation").is_null(), "{}", report.json());
    Ok(())
}

/// Programs that end by a limit, by an error of their own or by an unknown module are not repeated.
fn failed_for_other_reasons(test_env: &TestEnvironment) -> Result<()> {
    let endless = format!("try:\n    {STARTS_THREAD}except RuntimeError:\n    pass\nwhile True: pass\n");
    let limited = test_env.report(test_env.run(&["--timeout", "2s", "--lang", "python", "-c", &endless]))?;
    ensure!(limited.kind() == "timeout_wall", "{}", limited.json());
    for report in [limited, test_env.report(test_env.run(&["--lang", "python", "-c", "__import__('no' + 'where')"]))?] {
        check_stayed_in_wasm(&report)?;
        ensure!(report.at("/needs_escalation").is_null(), "{}", report.json());
    }
    Ok(())
}

fn output_truncated(test_env: &TestEnvironment) -> Result<()> {
    let code = format!("print('x' * 10_000, flush=True)\n{STARTS_THREAD}");
    let report = test_env.report(test_env.run(&["--max-output", "1K", "--lang", "python", "-c", &code]))?;
    let escalation_hint = report.at("/needs_escalation");
    check_stayed_in_wasm(&report)?;
    ensure!(escalation_hint["reason"].to_string().contains("its output was truncated"), "{}", report.json());
    let report = check_command_works(test_env, escalation_hint["command"].as_str().unwrap_or_default(), b"")?;
    ensure!(report.at("/stdout_truncated/dropped_bytes").as_u64() > Some(0), "{}", report.json());
    Ok(())
}

fn too_much_input(test_env: &TestEnvironment) -> Result<()> {
    let code = format!("import sys\nread = len(sys.stdin.buffer.read())\n{STARTS_THREAD}print(read)\n");
    let input = vec![b'x'; 2 << 20];
    let run = test_env.run(&["--lang", "python", "-c", &code]).input(bytes(input.clone()));
    let command = escalation_hint(&test_env.report(run)?, "it has read more input than can be replayed")?;
    let report = check_command_works(test_env, &command, &input)?;
    ensure!(report.stdout() == "2097152\n", "stdout is {:?}", report.stdout());
    // Without `--json`, standard error shows the program's last output and the suggested command.
    let result = test_env.codebox().args(["run", "--lang", "python", "-c"]).arg(code).input(bytes(input)).run()?;
    let messages = result.stderr_text();
    ensure!(messages.contains("RuntimeError: can't start new thread"), "stderr is {messages}");
    let line = messages.lines().find_map(|line| line.split_once("to run it in a container: "));
    let (_, command) = line.with_context(|| format!("stderr is {messages}"))?;
    let result = test_env.run_in_shell(command, b"short")?;
    ensure!(result.code == Some(0) && result.stdout_text() == "5\n", "{command}: {}", result.stderr_text());
    Ok(())
}

fn no_engine(test_env: &TestEnvironment) -> Result<()> {
    let run = test_env.run_without_engines(&["--lang", "python", "-c", STARTS_THREAD]);
    let command = escalation_hint(&test_env.report(run)?, "no container engine is available")?;
    check_command_works(test_env, &command, b"").map(drop)?;
    // A program whose text shows the need for a container also runs in WebAssembly, where it may succeed.
    let code = "import threading\nthreading.Thread(target=int).start()\n";
    let report = test_env.report(test_env.run_without_engines(&["--lang", "python", "-c", code]))?;
    let reason = report.at("/provenance/reason").as_str().unwrap_or_default();
    ensure!(reason.contains("line 2 needs threads") && reason.contains("no container is available"), "{reason}");
    escalation_hint(&report, "no container engine is available")?;
    ensure!(test_env.processes().is_empty(), "standby process exists");
    Ok(())
}

/// An engine without the image, which cannot be pulled.
fn no_image(test_env: &TestEnvironment) -> Result<()> {
    let path = test_env.home().join("config/config.toml");
    let text = fs::read_to_string(&path)?;
    fs::write(&path, text.replace("localhost/codebox-test:1", "localhost/codebox-missing-image:1"))?;
    escalation_hint(&test_env.report(test_env.run(&["--lang", "python", "-c", THREAD.code]))?, "codebox-missing-image")
        .map(drop)
}
