//! Runs that fail in WebAssembly and are repeated in a container.

use std::fs;

use anyhow::{Result, ensure};
use codebox_testkit::Report;

use crate::programs::{ALL, FailingProgram, STARTS_THREAD, THREAD};
use crate::test_env::{TestEnvironment, bytes, check_run};
use crate::{Cases, case};

pub fn cases() -> Cases {
    let mut cases: Cases = vec![
        case("rerun", "python_thread", |test_env| check_both_output_modes(test_env, &ALL[0])),
        case("rerun", "python_process", |test_env| check_both_output_modes(test_env, &ALL[1])),
        case("rerun", "python_socket", |test_env| check_both_output_modes(test_env, &ALL[2])),
        case("rerun", "python_native_module", |test_env| check_both_output_modes(test_env, &ALL[3])),
        case("rerun", "javascript_process", |test_env| check_both_output_modes(test_env, &ALL[4])),
        case("rerun", "javascript_thread", |test_env| check_both_output_modes(test_env, &ALL[5])),
        case("rerun", "typescript_process", |test_env| check_both_output_modes(test_env, &ALL[6])),
        case("rerun", "typescript_thread", |test_env| check_both_output_modes(test_env, &ALL[7])),
    ];
    cases.extend([
        case("rerun", "file_and_arguments", file_and_arguments),
        case("rerun", "trace_has_both_runs", trace_has_both_runs),
        case("rerun", "trace_has_no_guest_data", trace_has_no_guest_data),
        case("rerun", "program_on_stdin", program_on_stdin),
        case("rerun", "replays_input", replays_input),
        case("rerun", "input_of_javascript", input_of_javascript),
        case("rerun", "does_not_repeat_output", does_not_repeat_output),
        case("rerun", "continues_unfinished_line", continues_unfinished_line),
        case("rerun", "cuts_the_output_of_both_runs_once", cuts_the_output_of_both_runs_once),
        case("rerun", "private_files_start_fresh", private_files_start_fresh),
        case("rerun", "reruns_only_once", reruns_only_once),
        case("rerun", "ignores_wasm_image", ignores_wasm_image),
        case("rerun", "caught_error_with_failing_exit", caught_error_with_failing_exit),
    ]);
    cases
}

/// Checks that a report describes a second run.
pub fn check_rerun(test_env: &TestEnvironment, report: &Report, lacks: &str) -> Result<()> {
    let from = report.at("/provenance/escalated_from");
    ensure!(from["backend"] == "wasm" && from["isolation"] == "wasm", "not a second run: {}", report.json());
    ensure!(from["reason"] == lacks, "missing feature is {}, expected {lacks}", from["reason"]);
    let provenance = report.at("/provenance");
    ensure!(provenance["backend"] == test_env.engine.name(), "backend is {}", provenance["backend"]);
    ensure!(provenance["isolation"] == "container", "isolation is {}", provenance["isolation"]);
    ensure!(provenance["reason"] == format!("failed in wasm: missing {lacks}"), "{}", provenance["reason"]);
    ensure!(report.at("/needs_escalation").is_null(), "the report suggests a rerun");
    Ok(())
}

/// As a stream and as a document, output appears once, with the status of the second run and without the first run's
/// error.
fn check_both_output_modes(test_env: &TestEnvironment, program: &FailingProgram) -> Result<()> {
    let arguments = ["--lang", program.language, "-c", program.code];
    let result = test_env.codebox().arg("run").args(arguments).run()?;
    check_run(&result)?;
    ensure!(
        result.stdout_text() == program.expected_stdout,
        "stdout is {:?}; {}",
        result.stdout_text(),
        result.stderr_text()
    );
    ensure!(result.code == Some(7), "exit status is {:?}: {}", result.code, result.stderr_text());
    ensure!(result.stderr_text() == note(test_env, program.lacks), "stderr is {:?}", result.stderr_text());
    let report = test_env.report(test_env.run(&arguments))?;
    check_rerun(test_env, &report, program.lacks)?;
    ensure!(report.stdout() == program.expected_stdout, "stdout is {:?}", report.stdout());
    ensure!(report.stderr().is_empty(), "stderr is {:?}", report.stderr());
    ensure!(report.exit_code() == Some(7), "exit status is {:?}", report.exit_code());
    Ok(())
}

/// Returns the only line of codebox about a second run.
fn note(test_env: &TestEnvironment, lacks: &str) -> String {
    format!("codebox: ran again in container ({}), because wasm lacks {lacks}\n", test_env.engine.name())
}

/// The two processes of a rerun write one trace.
fn trace_has_both_runs(test_env: &TestEnvironment) -> Result<()> {
    let arguments = ["--trace", "t.json", "run", "--lang", "python", "-c", THREAD.code];
    let result = test_env.codebox().args(arguments).run()?;
    ensure!(result.stdout_text() == THREAD.expected_stdout, "{}", result.stderr_text());
    let text = std::fs::read_to_string(test_env.root().join("t.json"))?;
    let trace: serde_json::Value = serde_json::from_str(&text)?;
    let events = trace["traceEvents"].as_array().cloned().unwrap_or_default();
    let jobs: Vec<_> = events.iter().filter(|event| event["name"] == "job").collect();
    ensure!(jobs.len() == 2 && jobs[0]["pid"] != jobs[1]["pid"], "{text}");
    ensure!(jobs.iter().any(|job| job["args"]["isolation"] == "container"), "{text}");
    ensure!(jobs.iter().any(|job| job["args"]["isolation"] == "wasm"), "{text}");
    ensure!(events.iter().any(|event| event["name"] == "rerun"), "{text}");
    Ok(())
}

/// A feature that the guest reports as missing is text of the guest.
fn trace_has_no_guest_data(test_env: &TestEnvironment) -> Result<()> {
    let code = "import _host, json\n_host.call(json.dumps({'op': 'missing', 'what': \"Python's sesame\"}).encode())\nraise SystemExit(1)";
    test_env
        .codebox()
        .args(["--trace", "t.json", "--log", "trace=t.log", "run", "--lang", "python", "-c", code])
        .run()?;
    for file in ["t.json", "t.log"] {
        let text = std::fs::read_to_string(test_env.root().join(file))?;
        ensure!(text.contains("rerun") && !text.contains("sesame"), "{file}: {text}");
    }
    Ok(())
}

/// The second run has the same file, name and arguments, even if these look like options.
fn file_and_arguments(test_env: &TestEnvironment) -> Result<()> {
    let code = format!("import sys\n{STARTS_THREAD}print(sys.argv, __file__)\n");
    test_env.write_file("starts_thread.py", &code)?;
    let report = test_env.report(test_env.run(&["starts_thread.py", "--isolation", "wasm", "it's"]))?;
    check_rerun(test_env, &report, "threads")?;
    let expected = "['/run/codebox/starts_thread.py', '--isolation', 'wasm', \"it's\"] /run/codebox/starts_thread.py\n";
    ensure!(report.stdout() == expected, "stdout is {:?}", report.stdout());
    Ok(())
}

/// The limits on output count what the first run printed, and the file has the output of the second run.
fn cuts_the_output_of_both_runs_once(test_env: &TestEnvironment) -> Result<()> {
    let limits = ["--output-lines", "2", "--lang", "python", "-c", THREAD.code];
    let expected = "before\nin a thread\n...[truncated]";
    let result = test_env.codebox().arg("run").args(limits).run()?;
    ensure!(result.stdout_text() == expected, "{:?} {}", result.stdout_text(), result.stderr_text());
    ensure!(result.stderr_text().contains("the output to stdout (25 bytes) is in "), "{}", result.stderr_text());
    let report = test_env.report(test_env.run(&limits))?;
    ensure!(report.stdout() == expected, "{}", report.json());
    let file = report.at("/spilled/0/path").as_str().unwrap_or_default();
    ensure!(fs::read_to_string(file)? == THREAD.expected_stdout, "{}", report.json());
    Ok(())
}

fn program_on_stdin(test_env: &TestEnvironment) -> Result<()> {
    let arguments = ["--lang", "python", "-", "word"];
    let report = test_env.report(test_env.run(&arguments).input(bytes(THREAD.code)))?;
    check_rerun(test_env, &report, "threads")?;
    ensure!(report.stdout() == THREAD.expected_stdout, "stdout is {:?}", report.stdout());
    let result = test_env.codebox().arg("run").args(arguments).input(bytes(THREAD.code)).run()?;
    ensure!(
        result.stdout_text() == THREAD.expected_stdout && result.code == Some(7),
        "{:?} {}",
        result.code,
        result.stdout_text()
    );
    Ok(())
}

/// The second run reads the first run's input again, including input that was only buffered.
fn replays_input(test_env: &TestEnvironment) -> Result<()> {
    let code = format!(
        "one = input()\nprint(one, flush=True)\n{STARTS_THREAD}print(input())\nimport sys\nprint(sys.stdin.read(), end='')\n"
    );
    let input = "first\nsecond\nthird\nfourth\n";
    let run = test_env.codebox().args(["run", "--lang", "python", "-c"]).arg(code.as_str());
    let result = run.input(bytes(input)).run()?;
    check_run(&result)?;
    ensure!(
        result.stdout_text() == input && result.code == Some(0),
        "{:?} {:?}",
        result.stdout_text(),
        result.stderr_text()
    );
    let report = test_env.report(test_env.run(&["--lang", "python", "-c", &code]).input(bytes(input)))?;
    check_rerun(test_env, &report, "threads")?;
    ensure!(report.stdout() == input, "stdout is {:?}", report.stdout());
    // All pieces of a longer input are kept.
    let code = format!("import sys\nread = sys.stdin.read()\n{STARTS_THREAD}print(len(read), read[-4:])\n");
    let long = format!("{}last", "x".repeat(600_000));
    let report = test_env.report(test_env.run(&["--lang", "python", "-c", &code]).input(bytes(long)))?;
    check_rerun(test_env, &report, "threads")?;
    ensure!(report.stdout() == "600004 last\n", "stdout is {:?}", report.stdout());
    Ok(())
}

fn input_of_javascript(test_env: &TestEnvironment) -> Result<()> {
    let code = "\
let read = '';
process.stdin.on('data', (piece) => { read += piece; });
process.stdin.on('end', () => {
  process.stdout.write(require('child_' + 'process').execSync('cat', { input: read.toUpperCase() }));
});
";
    let report = test_env.report(test_env.run(&["--lang", "js", "-c", code]).input(bytes("one\ntwo\n")))?;
    check_rerun(test_env, &report, "processes")?;
    ensure!(report.stdout() == "ONE\nTWO\n", "stdout is {:?}", report.stdout());
    Ok(())
}

/// Output that was already forwarded, on either stream, is not repeated; only the last output is held back.
fn does_not_repeat_output(test_env: &TestEnvironment) -> Result<()> {
    let code = format!("import sys, time\nprint('out', flush=True)\ntime.sleep(1.5)\n{STARTS_THREAD}print('end')\n");
    let result = test_env.codebox().args(["run", "--lang", "python", "-c"]).arg(code).run()?;
    check_run(&result)?;
    ensure!(
        result.stdout_text() == "out\nend\n" && result.stderr_text() == note(test_env, "threads"),
        "{:?} {:?}",
        result.stdout,
        result.stderr_text()
    );
    Ok(())
}

/// An unfinished line continues at its end.
fn continues_unfinished_line(test_env: &TestEnvironment) -> Result<()> {
    let code = format!("print('half', end='', flush=True)\n{STARTS_THREAD}print(' whole \\u00e9')\n");
    let result = test_env.codebox().args(["run", "--lang", "python", "-c"]).arg(code).run()?;
    ensure!(result.stdout_text() == "half whole é\n", "stdout is {:?}", result.stdout_text());
    Ok(())
}

/// Files of the first run's private directories do not exist in the second run.
fn private_files_start_fresh(test_env: &TestEnvironment) -> Result<()> {
    let code = format!(
        "import os\nprint(os.listdir('/work'), os.listdir('/tmp'))\nopen('/work/a', 'w').close()\nopen('/tmp/b', 'w').close()\n{STARTS_THREAD}"
    );
    let report = test_env.report(test_env.run(&["--lang", "python", "-c", &code]))?;
    check_rerun(test_env, &report, "threads")?;
    ensure!(report.stdout() == "[] []\n", "found {:?}", report.stdout());
    ensure!(report.files("created") == ["/work/a"], "left behind: {}", report.at("/files"));
    Ok(())
}

/// A second run that fails with the same error is not repeated.
fn reruns_only_once(test_env: &TestEnvironment) -> Result<()> {
    let code = format!(
        "import resource\n{STARTS_THREAD}open('/data/runs', 'a').write('x')\nraise RuntimeError(\"can't start new thread\")\n"
    );
    // The import is removed, because the module is missing in WebAssembly and would be a separate need.
    let code = code.replace("import resource\n", "");
    let run =
        test_env.run(&[]).grant(&test_env.granted_dir(), "/data", "rw").args(["--lang", "python", "-c"]).arg(code);
    let report = test_env.report(run)?;
    check_rerun(test_env, &report, "threads")?;
    ensure!(report.exit_code() == Some(1), "exit status is {:?}", report.exit_code());
    let runs = fs::read_to_string(test_env.granted_dir().join("runs"))?;
    ensure!(runs == "x", "ran {} times", runs.len());
    Ok(())
}

/// A requested memory image applies to WebAssembly and does not affect the container.
fn ignores_wasm_image(test_env: &TestEnvironment) -> Result<()> {
    let report = test_env.report(test_env.run(&["--image", "python-data", "--lang", "python", "-c", THREAD.code]))?;
    check_rerun(test_env, &report, "threads")?;
    ensure!(report.stdout() == THREAD.expected_stdout, "stdout is {:?}", report.stdout());
    Ok(())
}

/// A program that catches the error and exits with a failure is repeated with the missing feature.
fn caught_error_with_failing_exit(test_env: &TestEnvironment) -> Result<()> {
    let code =
        format!("try:\n    {STARTS_THREAD}except RuntimeError:\n    raise SystemExit('no threads')\nprint('fine')\n");
    let report = test_env.report(test_env.run(&["--lang", "python", "-c", &code]))?;
    check_rerun(test_env, &report, "threads")?;
    ensure!(report.stdout() == "fine\n" && report.exit_code() == Some(0), "{}", report.json());
    Ok(())
}
