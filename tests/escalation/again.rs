//! Runs that fail in WebAssembly and are repeated in a container.

use std::fs;

use anyhow::{Result, ensure};
use codebox_testkit::Report;

use crate::ground::{Ground, bytes, sound};
use crate::programs::{ALL, DIES, Needy, THREAD};
use crate::{Cases, case};

pub fn cases() -> Cases {
    let mut cases: Cases = vec![
        case("again", "python_thread", |ground| both_ways(ground, &ALL[0])),
        case("again", "python_process", |ground| both_ways(ground, &ALL[1])),
        case("again", "python_socket", |ground| both_ways(ground, &ALL[2])),
        case("again", "python_native_module", |ground| both_ways(ground, &ALL[3])),
        case("again", "javascript_process", |ground| both_ways(ground, &ALL[4])),
        case("again", "javascript_thread", |ground| both_ways(ground, &ALL[5])),
        case("again", "typescript_process", |ground| both_ways(ground, &ALL[6])),
        case("again", "typescript_thread", |ground| both_ways(ground, &ALL[7])),
    ];
    cases.extend([
        case("again", "file_and_arguments", file_and_arguments),
        case("again", "program_on_stdin", program_on_stdin),
        case("again", "input_is_read_again", input_is_read_again),
        case("again", "input_of_javascript", input_of_javascript),
        case("again", "output_long_ago", output_long_ago),
        case("again", "output_without_end", output_without_end),
        case("again", "private_files_are_fresh", private_files_are_fresh),
        case("again", "not_a_third_time", not_a_third_time),
        case("again", "image_of_wasm", image_of_wasm),
        case("again", "caught_and_given_up", caught_and_given_up),
    ]);
    cases
}

/// Checks that a report describes a second run.
pub fn is_second(ground: &Ground, report: &Report, lacks: &str) -> Result<()> {
    let from = report.at("/provenance/escalated_from");
    ensure!(from["backend"] == "wasm" && from["isolation"] == "wasm", "it is no second run: {}", report.json());
    ensure!(from["reason"] == lacks, "it lacked {} and not {lacks}", from["reason"]);
    let provenance = report.at("/provenance");
    ensure!(provenance["backend"] == ground.engine.name(), "it ran in {}", provenance["backend"]);
    ensure!(provenance["isolation"] == "container", "it ran in {}", provenance["isolation"]);
    ensure!(provenance["reason"] == format!("failed in wasm: missing {lacks}"), "{}", provenance["reason"]);
    ensure!(report.at("/needs_escalation").is_null(), "it says that it was not run again");
    Ok(())
}

/// As a stream and as a document, output appears once, with the status of the second run and without the first run's
/// error.
fn both_ways(ground: &Ground, needy: &Needy) -> Result<()> {
    let words = ["--lang", needy.language, "-c", needy.code];
    let ran = ground.codebox().arg("run").args(words).run()?;
    sound(&ran)?;
    ensure!(ran.stdout_text() == needy.prints, "it printed {:?}; {}", ran.stdout_text(), ran.stderr_text());
    ensure!(ran.code == Some(7), "it ended with {:?}: {}", ran.code, ran.stderr_text());
    ensure!(ran.stderr.is_empty(), "it said {:?}", ran.stderr_text());
    let report = ground.report(ground.run(&words))?;
    is_second(ground, &report, needy.lacks)?;
    ensure!(report.stdout() == needy.prints, "it printed {:?}", report.stdout());
    ensure!(report.stderr().is_empty(), "it said {:?}", report.stderr());
    ensure!(report.exit_code() == Some(7), "it ended with {:?}", report.exit_code());
    Ok(())
}

/// The second run has the same file, name and arguments, even if these look like options.
fn file_and_arguments(ground: &Ground) -> Result<()> {
    let code = format!("import sys\n{DIES}print(sys.argv, __file__)\n");
    ground.put("needy.py", &code)?;
    let report = ground.report(ground.run(&["needy.py", "--isolation", "wasm", "it's"]))?;
    is_second(ground, &report, "threads")?;
    let printed = "['/run/codebox/needy.py', '--isolation', 'wasm', \"it's\"] /run/codebox/needy.py\n";
    ensure!(report.stdout() == printed, "it printed {:?}", report.stdout());
    Ok(())
}

fn program_on_stdin(ground: &Ground) -> Result<()> {
    let words = ["--lang", "python", "-", "word"];
    let report = ground.report(ground.run(&words).input(bytes(THREAD.code)))?;
    is_second(ground, &report, "threads")?;
    ensure!(report.stdout() == THREAD.prints, "it printed {:?}", report.stdout());
    let ran = ground.codebox().arg("run").args(words).input(bytes(THREAD.code)).run()?;
    ensure!(ran.stdout_text() == THREAD.prints && ran.code == Some(7), "{:?} {}", ran.code, ran.stdout_text());
    Ok(())
}

/// The second run reads the first run's input again, including input that was only buffered.
fn input_is_read_again(ground: &Ground) -> Result<()> {
    let code = format!(
        "one = input()\nprint(one, flush=True)\n{DIES}print(input())\nimport sys\nprint(sys.stdin.read(), end='')\n"
    );
    let input = "first\nsecond\nthird\nfourth\n";
    let run = ground.codebox().args(["run", "--lang", "python", "-c"]).arg(code.as_str());
    let ran = run.input(bytes(input)).run()?;
    sound(&ran)?;
    ensure!(ran.stdout_text() == input && ran.code == Some(0), "{:?} {:?}", ran.stdout_text(), ran.stderr_text());
    let report = ground.report(ground.run(&["--lang", "python", "-c", &code]).input(bytes(input)))?;
    is_second(ground, &report, "threads")?;
    ensure!(report.stdout() == input, "it printed {:?}", report.stdout());
    // All pieces of a longer input are kept.
    let code = format!("import sys\nread = sys.stdin.read()\n{DIES}print(len(read), read[-4:])\n");
    let long = format!("{}last", "x".repeat(600_000));
    let report = ground.report(ground.run(&["--lang", "python", "-c", &code]).input(bytes(long)))?;
    is_second(ground, &report, "threads")?;
    ensure!(report.stdout() == "600004 last\n", "it printed {:?}", report.stdout());
    Ok(())
}

fn input_of_javascript(ground: &Ground) -> Result<()> {
    let code = "\
let read = '';
process.stdin.on('data', (piece) => { read += piece; });
process.stdin.on('end', () => {
  process.stdout.write(require('child_' + 'process').execSync('cat', { input: read.toUpperCase() }));
});
";
    let report = ground.report(ground.run(&["--lang", "js", "-c", code]).input(bytes("one\ntwo\n")))?;
    is_second(ground, &report, "processes")?;
    ensure!(report.stdout() == "ONE\nTWO\n", "it printed {:?}", report.stdout());
    Ok(())
}

/// Output that was already forwarded, on either stream, is not repeated; only the last output is held back.
fn output_long_ago(ground: &Ground) -> Result<()> {
    let code = format!("import sys, time\nprint('out', flush=True)\ntime.sleep(1.5)\n{DIES}print('end')\n");
    let ran = ground.codebox().args(["run", "--lang", "python", "-c"]).arg(code).run()?;
    sound(&ran)?;
    ensure!(ran.stdout_text() == "out\nend\n" && ran.stderr.is_empty(), "{:?} {:?}", ran.stdout, ran.stderr_text());
    Ok(())
}

/// An unfinished line continues at its end.
fn output_without_end(ground: &Ground) -> Result<()> {
    let code = format!("print('half', end='', flush=True)\n{DIES}print(' whole \\u00e9')\n");
    let ran = ground.codebox().args(["run", "--lang", "python", "-c"]).arg(code).run()?;
    ensure!(ran.stdout_text() == "half whole é\n", "it printed {:?}", ran.stdout_text());
    Ok(())
}

/// Files of the first run's private directories do not exist in the second run.
fn private_files_are_fresh(ground: &Ground) -> Result<()> {
    let code = format!(
        "import os\nprint(os.listdir('/work'), os.listdir('/tmp'))\nopen('/work/a', 'w').close()\nopen('/tmp/b', 'w').close()\n{DIES}"
    );
    let report = ground.report(ground.run(&["--lang", "python", "-c", &code]))?;
    is_second(ground, &report, "threads")?;
    ensure!(report.stdout() == "[] []\n", "it found {:?}", report.stdout());
    ensure!(report.files("created") == ["/work/a"], "it left {}", report.at("/files"));
    Ok(())
}

/// A second run that fails with the same error is not repeated.
fn not_a_third_time(ground: &Ground) -> Result<()> {
    let code = format!(
        "import resource\n{DIES}open('/data/runs', 'a').write('x')\nraise RuntimeError(\"can't start new thread\")\n"
    );
    // The import is removed, because the module is missing in WebAssembly and would be a separate need.
    let code = code.replace("import resource\n", "");
    let run = ground.run(&[]).grant(&ground.granted(), "/data", "rw").args(["--lang", "python", "-c"]).arg(code);
    let report = ground.report(run)?;
    is_second(ground, &report, "threads")?;
    ensure!(report.exit_code() == Some(1), "it ended with {:?}", report.exit_code());
    let runs = fs::read_to_string(ground.granted().join("runs"))?;
    ensure!(runs == "x", "it ran {} times", runs.len());
    Ok(())
}

/// A requested memory image applies to WebAssembly and does not affect the container.
fn image_of_wasm(ground: &Ground) -> Result<()> {
    let report = ground.report(ground.run(&["--image", "python-data", "--lang", "python", "-c", THREAD.code]))?;
    is_second(ground, &report, "threads")?;
    ensure!(report.stdout() == THREAD.prints, "it printed {:?}", report.stdout());
    Ok(())
}

/// A program that catches the error and exits with a failure is repeated with the missing feature.
fn caught_and_given_up(ground: &Ground) -> Result<()> {
    let code = format!("try:\n    {DIES}except RuntimeError:\n    raise SystemExit('no threads')\nprint('fine')\n");
    let report = ground.report(ground.run(&["--lang", "python", "-c", &code]))?;
    is_second(ground, &report, "threads")?;
    ensure!(report.stdout() == "fine\n" && report.exit_code() == Some(0), "{}", report.json());
    Ok(())
}
