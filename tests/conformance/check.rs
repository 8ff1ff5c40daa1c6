//! Running a case in one language, and comparison with its expectations.

use std::borrow::Cow;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::{Codebox, Input, Kit, ProcessResult, Report};

use crate::backend::Backend;
use crate::case::{Case, CollectOutput, ProgramSource};
use crate::expect::Expectation;
use crate::language::Language;
use crate::program::{Files, Program};
use crate::server::substitute_port;
use crate::tier::Tier;

/// Delay longer than the resolution of file timestamps. The report attributes files written in the same clock tick as
/// the job's start to the job, and some systems have no file that shows when the next tick has begun.
const TIMESTAMP_STEP: Duration = Duration::from_millis(20);

/// Runs the program of `case` in `language` in a separate directory and checks all its expectations.
pub fn run(kit: &Kit, backend: Backend, language: Language, case: &Case) -> Result<()> {
    let program = case.program(language).context("the case has no program in this language")?;
    let tier = backend.tier();
    let expect = case.expectation_for(program, tier);
    let folder = kit.folder()?;
    let root = folder.path();
    let run = backend.codebox(kit).args(["run", "--json"]).args(backend.options().iter().copied()).folder(root);
    let run = apply_grants(run, case, program, root)?;
    let mut text = Cow::Borrowed(program.text_for(tier));
    if case.needs_server {
        text = Cow::Owned(substitute_port(str::from_utf8(&text)?)?.into_bytes());
    }
    let result = program_source(run, case, program, &text, language, root)?.run()?;
    ensure!(!result.timed_out, "timed out");
    let report = result.report()?;
    let details = || details(&report);
    check_end(&expect, &result, &report).with_context(details)?;
    check_output(&expect, language, tier, &report).with_context(details)?;
    for (dir, file, content) in &expect.expected_files {
        let path = root.join(dir).join(file);
        let found = fs::read(&path).unwrap_or_default();
        let found = String::from_utf8_lossy(&found);
        ensure!(found == *content, "{dir}/{file} holds {found:?} and not {content:?}\n{}", details());
    }
    Ok(())
}

/// Creates the directories and grants them.
fn apply_grants(mut run: Codebox, case: &Case, program: &Program, root: &Path) -> Result<Codebox> {
    for option in &case.options {
        run = if case.needs_server { run.arg(substitute_port(option)?) } else { run.arg(option) };
    }
    for grant in &case.grants {
        let host = root.join(grant.host);
        fs::create_dir_all(&host)?;
        write(root, &(grant.host, grant.files))?;
        run = run.grant(&host, grant.guest, grant.access);
    }
    for files in &program.files {
        write(root, files)?;
    }
    if !case.grants.is_empty() {
        thread::sleep(TIMESTAMP_STEP);
    }
    Ok(if case.out == CollectOutput::Yes { run.args(["--out", "out"]) } else { run })
}

fn write(root: &Path, (directory, files): &Files) -> Result<()> {
    for (name, content) in *files {
        let file = root.join(directory).join(name);
        fs::create_dir_all(file.parent().unwrap_or(root))?;
        fs::write(file, content)?;
    }
    Ok(())
}

/// Passes the program, its arguments and its input.
fn program_source(
    run: Codebox,
    case: &Case,
    program: &Program,
    text: &[u8],
    language: Language,
    root: &Path,
) -> Result<Codebox> {
    let mut input = case.input.clone();
    let in_file = |run: Codebox, name: &str| -> Result<Codebox> {
        let name = program.name.unwrap_or(name);
        fs::write(root.join(name), text)?;
        Ok(run.arg(name))
    };
    let run = match case.program_source {
        ProgramSource::File(stem) => in_file(run, &format!("{stem}.{}", language.extension()))?,
        ProgramSource::ExactFile(name) => in_file(run, name)?,
        ProgramSource::Code => run.args(["--lang", language.name(), "-c", str::from_utf8(text)?]),
        ProgramSource::Stdin => {
            input = Input::Bytes(text.to_vec());
            run.args(["--lang", language.name(), "-"])
        }
    };
    Ok(run.args(case.args.iter().copied()).input(input))
}

/// Checks the end of the program and its effects.
fn check_end(expect: &Expectation, result: &ProcessResult, report: &Report) -> Result<()> {
    let (kind, code) = expect.ending.unwrap_or(("ok", 0));
    ensure!(report.kind() == kind, "kind is {} and not {kind}", report.kind());
    ensure!(result.code == Some(code), "exit status is {:?} and not {code}", result.code);
    ensure!(report.exit_code() == Some(i64::from(code)), "exit status in the report is {:?}", report.exit_code());
    for what in &expect.missing {
        ensure!(report.missing().iter().any(|reported| reported.contains(what)), "`missing` does not contain {what:?}");
    }
    if expect.missing.is_empty() {
        ensure!(report.missing().is_empty(), "something is missing: {:?}", report.missing());
    }
    if let Some(files) = &expect.created {
        ensure!(
            report.files("created") == *files,
            "created files are {:?}, expected {files:?}",
            report.files("created")
        );
    }
    for verify in &expect.verify {
        verify(report).map_err(anyhow::Error::msg)?;
    }
    Ok(())
}

/// Checks the program's output.
fn check_output(expect: &Expectation, language: Language, tier: Tier, report: &Report) -> Result<()> {
    if let Some(text) = expect.stdout {
        ensure!(report.stdout() == text, "stdout is {:?} and not {text:?}", report.stdout());
    }
    for part in &expect.stdout_has {
        ensure!(report.stdout().contains(part), "stdout does not contain {part:?}");
    }
    for part in &expect.stderr_has {
        let part = language.adapt_message(tier, part);
        ensure!(report.stderr().contains(&part), "stderr does not contain {part:?}");
    }
    for part in expect.stderr_lacks.iter().chain(language.internal_names(tier)) {
        let part = language.adapt_message(tier, part);
        ensure!(!report.stderr().contains(&part), "stderr contains {part:?}");
    }
    Ok(())
}

/// Formats the details that explain a failure.
fn details(report: &Report) -> String {
    let mut text = format!("outcome {}; missing {:?}", report.outcome(), report.missing());
    for (name, output) in [("stdout", report.stdout()), ("stderr", report.stderr())] {
        let output: String = output.chars().take(1500).collect();
        text.push_str(&format!("\n{name}: {output}"));
    }
    if report.kind() != "ok" && !report.at("/error").is_null() {
        text.push_str(&format!("\nerror: {}", report.at("/error")));
    }
    text
}
