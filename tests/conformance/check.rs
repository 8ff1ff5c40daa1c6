//! Runs a case and compares.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::{Codebox, Input, Kit, Ran, Report};

use crate::backend::Backend;
use crate::case::{Case, Expect, Out, Program};

/// Runs `case` in a directory of its own and checks everything it expects.
pub fn run(kit: &Kit, backend: Backend, case: &Case) -> Result<()> {
    let folder = kit.folder()?;
    let place = folder.path();
    let ran = command(kit, backend, case, place)?.run()?;
    ensure!(!ran.hung, "it hung");
    let report = ran.report()?;
    let told = || told(&report);
    expected(&case.expect, &ran, &report).with_context(told)?;
    for (dir, file, content) in &case.expect.left {
        let path = place.join(dir).join(file);
        let found = fs::read(&path).unwrap_or_default();
        let found = String::from_utf8_lossy(&found);
        ensure!(found == *content, "{dir}/{file} holds {found:?} and not {content:?}\n{}", told());
    }
    Ok(())
}

fn command(kit: &Kit, backend: Backend, case: &Case, place: &Path) -> Result<Codebox> {
    let mut run = kit.codebox().args(["run", "--json", "--isolation", backend.name()]).folder(place);
    run = run.args(case.options.iter().copied());
    for grant in &case.grants {
        let host = place.join(grant.host);
        fs::create_dir_all(&host)?;
        for (name, content) in grant.files {
            let file = host.join(name);
            fs::create_dir_all(file.parent().unwrap_or(&host))?;
            fs::write(file, content)?;
        }
        run = run.grant(&host, grant.guest, grant.access);
    }
    if case.out == Out::Yes {
        run = run.args(["--out", "out"]);
    }
    let input = case.input.clone();
    run = match &case.program {
        Program::File(name, text) => {
            fs::write(place.join(name), text)?;
            run.arg(*name)
        }
        Program::Bytes(name, text) => {
            fs::write(place.join(name), text)?;
            run.arg(*name)
        }
        Program::Code(text) => run.args(["-c", text]),
        Program::Stdin(_) => run.arg("-"),
    };
    let input = match &case.program {
        Program::Stdin(text) => Input::Bytes(text.as_bytes().to_vec()),
        _ => input,
    };
    Ok(run.args(case.args.iter().copied()).input(input))
}

fn expected(expect: &Expect, ran: &Ran, report: &Report) -> Result<()> {
    let Expect { kind, code, stdout, stdout_has, stderr_has, stderr_lacks, missing, created, left: _, look } = expect;
    ensure!(report.kind() == *kind, "kind is {} and not {kind}", report.kind());
    ensure!(ran.code == Some(*code), "exit status is {:?} and not {code}", ran.code);
    ensure!(report.exit_code() == Some(i64::from(*code)), "the report gives another status: {:?}", report.exit_code());
    if let Some(text) = stdout {
        ensure!(report.stdout() == *text, "stdout is {:?} and not {text:?}", report.stdout());
    }
    for part in stdout_has {
        ensure!(report.stdout().contains(part), "stdout lacks {part:?}");
    }
    for part in stderr_has {
        ensure!(report.stderr().contains(part), "stderr lacks {part:?}");
    }
    for part in stderr_lacks.iter().chain(&["<codebox>", "<reactor>", "_codebox", "_reactor"]) {
        ensure!(!report.stderr().contains(part), "stderr has {part:?}");
    }
    for what in missing {
        ensure!(report.missing().iter().any(|one| one.contains(what)), "missing lacks {what:?}");
    }
    if missing.is_empty() {
        ensure!(report.missing().is_empty(), "something is missing: {:?}", report.missing());
    }
    if let Some(files) = created {
        ensure!(report.files("created") == *files, "created are {:?} and not {files:?}", report.files("created"));
    }
    for look in look {
        look(report).map_err(anyhow::Error::msg)?;
    }
    Ok(())
}

/// What a failure needs to be understood.
fn told(report: &Report) -> String {
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
