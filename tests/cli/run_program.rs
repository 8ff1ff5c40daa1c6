//! The program `codebox-run`, which executes cold runs in WebAssembly, and its place beside the other two.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use codebox_testkit::{Codebox, Input, ProcessResult};
use tempfile::TempDir;

use crate::support::{assert_one_line, folder, keep_images, kit, run};

/// Returns a directory with some of the programs, and an empty directory for the files of a run.
fn programs(names: &[&str]) -> (TempDir, TempDir) {
    let dir = folder();
    for name in names {
        let built = kit().binary().with_file_name(name);
        fs::hard_link(&built, dir.path().join(name))
            .or_else(|_| symlink(&built, dir.path().join(name)))
            .expect("a link");
    }
    (dir, folder())
}

/// Returns the command of such a directory, without a host process, and with the runtimes of the tests.
fn command(dir: &Path, home: &Path) -> Codebox {
    kit().share_runtimes(home).expect("a home");
    Codebox::new(&dir.join("codebox"), home).env("CODEBOX_HOST", "off")
}

fn lines(result: &ProcessResult) -> String {
    assert_eq!(result.code, Some(0), "{}", result.stderr_text());
    result.stdout_text()
}

#[test]
fn runs_without_the_complete_program() {
    let _guard = keep_images();
    let (dir, home) = programs(&["codebox", "codebox-run"]);
    let codebox = || command(dir.path(), home.path());
    assert_eq!(lines(&run(codebox().args(["run", "-c", "print(6 * 7)"]))), "42\n");
    let script = "const of: number = 7; console.log(6 * of)";
    assert_eq!(lines(&run(codebox().args(["run", "--lang", "typescript", "-c", script]))), "42\n");
    let json = run(codebox().args(["run", "--json", "-c", "1 / 0"]));
    assert_eq!(json.code, Some(1), "{}", json.stderr_text());
    assert!(json.stdout_text().contains("ZeroDivisionError"), "{}", json.stdout_text());
}

#[test]
fn other_runs_need_the_complete_program() {
    let _guard = keep_images();
    let (dir, home) = programs(&["codebox", "codebox-run"]);
    let work = folder();
    fs::write(work.path().join("with.py"), "# /// script\n# dependencies = []\n# ///\nprint(1)").expect("a file");
    let script = work.path().join("with.py").display().to_string();
    let cases: &[&[&str]] = &[
        &["run", "--with", "six", "-c", "print(1)"],
        &["run", "--isolation", "container", "-c", "print(1)"],
        &["run", "--", "true"],
        &["run", &script],
        &["run", "--no-such-option"],
        &["run", "--help"],
        &["--version"],
    ];
    for case in cases {
        assert_one_line(&run(command(dir.path(), home.path()).args(*case)), 125, "codebox-full");
    }
    let fifo = work.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).expect("a pipe");
    for program in [fifo.as_path(), Path::new("/dev/stdin"), Path::new("/nonexistent.py")] {
        let args = ["run".as_ref(), "--lang".as_ref(), "python".as_ref(), program.as_os_str()];
        assert_one_line(&run(command(dir.path(), home.path()).args(args)), 125, "codebox-full");
    }
    let logged = ["run", "--log", "debug", "-c", "print(1)"];
    assert_one_line(&run(command(dir.path(), home.path()).args(logged)), 125, "codebox-full");
    let piped = command(dir.path(), home.path()).args(["run", "-"]).input(Input::Bytes(b"print(1)".to_vec()));
    assert_one_line(&run(piped), 125, "codebox-full");
}

#[test]
fn a_runtime_that_is_not_prepared_needs_the_complete_program() {
    let (dir, home) = programs(&["codebox", "codebox-run"]);
    let codebox = Codebox::new(&dir.path().join("codebox"), home.path()).env("CODEBOX_HOST", "off");
    assert_one_line(&run(codebox.args(["run", "-c", "print(1)"])), 125, "codebox-full");
    let jobs = fs::read_dir(home.path().join("data/jobs")).map_or(0, Iterator::count);
    assert_eq!(jobs, 0, "a job was recorded");
}

#[test]
fn a_missing_program_for_containers_is_an_unavailable_engine() {
    let _guard = keep_images();
    let (dir, home) = programs(&["codebox", "codebox-run"]);
    // The program prefers a container, and runs without one.
    let codebox = command(dir.path(), home.path()).args(["run", "-c", "import subprocess; print(6 * 7)"]);
    assert_eq!(lines(&run(codebox)), "42\n");
}

#[test]
fn programs_are_read_from_pipes_once() {
    let _guard = keep_images();
    let home = folder();
    let dir = kit().binary().parent().expect("a directory").to_owned();
    for program in ["print(6 * 7)", "# /// script\n# dependencies = []\n# ///\nprint(6 * 7)"] {
        let codebox = command(&dir, home.path()).args(["run", "--lang", "python", "/dev/stdin"]);
        assert_eq!(lines(&run(codebox.input(Input::Bytes(program.into())))), "42\n", "{program}");
    }
}

#[test]
fn its_place_can_be_empty() {
    let _guard = keep_images();
    let (dir, home) = programs(&["codebox", "codebox-full"]);
    assert_eq!(lines(&run(command(dir.path(), home.path()).args(["run", "-c", "print(6 * 7)"]))), "42\n");
}

#[test]
fn a_job_that_is_passed_on_is_recorded_once() {
    let _guard = keep_images();
    let home = folder();
    let dir = kit().binary().parent().expect("a directory").to_owned();
    let script = folder();
    let file = script.path().join("with.py");
    fs::write(&file, "# /// script\n# dependencies = []\n# ///\nprint(1)").expect("a file");
    assert_eq!(lines(&run(command(&dir, home.path()).args(["run".as_ref(), file.as_os_str()]))), "1\n");
    let jobs = lines(&run(command(&dir, home.path()).args(["jobs", "--json"])));
    let jobs: serde_json::Value = serde_json::from_str(&jobs).expect("JSON");
    assert_eq!(jobs.as_array().or_else(|| jobs["jobs"].as_array()).map(Vec::len), Some(1), "{jobs}");
}
