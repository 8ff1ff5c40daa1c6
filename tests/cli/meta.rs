//! Commands about codebox itself.

use insta::assert_snapshot;

use crate::support::{folder, kit, run, run_and_format, run_in, unprepared_kit};

#[test]
fn prints_help() {
    assert_snapshot!("help", run_and_format(folder().path(), &["--help"]));
    assert_snapshot!("help-run", run_and_format(folder().path(), &["run", "--help"]));
}

#[test]
fn shows_help_without_arguments() {
    let result = run_in(folder().path(), &[]);
    assert_eq!(result.code, Some(125));
    assert!(result.stdout.is_empty() && result.stderr_text().contains("Usage: codebox"), "{}", result.stderr_text());
}

#[test]
fn prints_version() {
    let result = run_in(folder().path(), &["--version"]);
    assert_eq!(result.code, Some(0));
    assert_eq!(result.stdout_text(), format!("codebox {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn generates_completions_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let result = run_in(folder().path(), &["completions", shell]);
        assert_eq!(result.code, Some(0), "{shell}");
        assert!(result.stdout_text().contains("CODEBOX_COMPLETE") && result.stderr.is_empty(), "{shell}");
    }
}

#[test]
fn completions_have_options_and_values() {
    let complete = |words: &[&str]| {
        let asking = kit().codebox().env("CODEBOX_COMPLETE", "fish").args(["--", "codebox"]).args(words);
        run(asking).stdout_text()
    };
    assert!(complete(&["run", "--isol"]).starts_with("--isolation\t"), "{}", complete(&["run", "--isol"]));
    assert_eq!(complete(&["run", "--isolation", "w"]).trim(), "wasm");
    assert!(complete(&["run", "--lang", "py"]).starts_with("python"));
    // Images of memory are listed by codebox itself.
    assert!(complete(&["run", "--image", "python-"]).starts_with("python-data\tpython"));
    assert!(complete(&["runtime", "verify", "lu"]).starts_with("lua"));
    assert_eq!(complete(&["session", "show", "no-such"]), "");
    let dir = folder();
    std::fs::write(dir.path().join("program.py"), "").expect("it is ours");
    let file =
        kit().codebox().env("CODEBOX_COMPLETE", "fish").args(["--", "codebox", "run", "prog"]).folder(dir.path());
    assert_eq!(run(file).stdout_text().trim(), "program.py");
}

#[test]
fn completions_leave_out_names_that_shells_would_run() {
    let dir = folder();
    for name in [
        "plain.py",
        "report$(id).py",
        "a b.py",
        "c;id.py",
        "d`id`.py",
        "-e.py",
        "g\u{b}h.py",
        "dir&x/y.py",
        "plain.d/z",
        "h,--dir,i.py",
    ] {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("it is ours");
        std::fs::write(path, "").expect("it is ours");
    }
    for (shell, words, expected) in [
        ("bash", &["run", ""][..], "plain.py"),
        ("bash", &["run", "--project", ""], "plain.d"),
        ("bash", &["run", "plain.py", ""], "plain.py"),
        ("bash", &["--trace", ""], "plain.py"),
        ("bash", &["run", "--trace", ""], "plain.py"),
        ("bash", &["run", "--trace="], "plain.py"),
        ("powershell", &["run", ""], "plain.py"),
        ("fish", &["run", ""], "a b.py"),
    ] {
        let index = words.len().to_string();
        let asking = kit().codebox().env("CODEBOX_COMPLETE", shell).env("_CLAP_COMPLETE_INDEX", index);
        let asking = asking.env("_CLAP_IFS", "\n").args(["--", "codebox"]).args(words).folder(dir.path());
        let shown = run(asking).stdout_text();
        let values: Vec<&str> = shown.lines().map(|line| line.split('\t').next().unwrap_or_default()).collect();
        let shown = values.join("\n");
        assert!(shown.contains(expected), "{shell} {words:?}: {shown}");
        let of_bash = ["$(", " b.py", ";", "`", "&", ","];
        let unsafe_parts = if shell == "fish" { &[][..] } else { &of_bash[..] };
        let has_other = unsafe_parts.iter().chain(&["-e.py", "\u{b}h"]).any(|part| shown.contains(part));
        assert!(!has_other, "{shell} {words:?}: {shown}");
    }
}

/// The script of bash, in bash.
#[test]
fn bash_completes_with_the_script() {
    let script = run_in(folder().path(), &["completions", "bash"]).stdout_text();
    let home = folder();
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_codebox"));
    let dir = program.parent().expect("a directory").display();
    let asked = format!(
        "PATH={dir}:$PATH\n{script}\nCOMP_WORDS=(codebox run --isol) COMP_CWORD=2 COMP_TYPE=9\n_clap_complete_codebox codebox --isol run\necho \"${{COMPREPLY[@]}}\"\n"
    );
    let bash = std::process::Command::new("bash").arg("-c").arg(asked).env("CODEBOX_HOME", home.path()).output();
    let bash = bash.expect("bash starts");
    assert_eq!(
        String::from_utf8_lossy(&bash.stdout).trim(),
        "--isolation",
        "{}",
        String::from_utf8_lossy(&bash.stderr)
    );
}

#[test]
fn doctor_lists_checks() {
    let result = run_in(folder().path(), &["doctor"]);
    assert_eq!(result.code, Some(0), "{}", result.stdout_text());
    let listing = result.stdout_text();
    for check in ["system: ", "directories: ", "runtime python: ", "OS sandbox: "] {
        assert!(listing.contains(check), "{listing}");
    }
}

#[test]
fn doctor_suggests_runtime_install() {
    let empty = folder();
    let result = run(unprepared_kit().codebox().home(empty.path()).arg("doctor"));
    let listing = result.stdout_text();
    assert!(listing.contains("codebox runtime install"), "{listing}");
}

#[test]
fn prints_reference_as_markdown() {
    let result = run_in(folder().path(), &["help-markdown"]);
    assert!(result.stdout_text().starts_with("# ") && result.code == Some(0), "{}", result.stdout_text());
}

#[test]
fn version_needs_no_home() {
    let result = run(kit().codebox().home(std::path::Path::new("")).arg("--version"));
    assert_eq!(result.code, Some(0), "{}", result.stderr_text());
}
