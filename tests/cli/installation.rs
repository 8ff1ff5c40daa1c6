//! Runtimes that are installed together with the program.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use codebox_testkit::{Codebox, ProcessResult};
use tempfile::TempDir;

use crate::support::{assert_one_line, folder, kit, run};

/// Creates an installation of the program, with all runtimes for this machine's processor.
fn installation() -> &'static Path {
    static INSTALLATION: OnceLock<PathBuf> = OnceLock::new();
    INSTALLATION.get_or_init(|| {
        // Statics are not dropped, so the next run of the tests removes it.
        let dir = kit().temporary().join("installation");
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).expect("the directory can be created");
        link_programs(&dir);
        let packed = Command::new(dir.join("bin/codebox-full"))
            .env("CODEBOX_HOME", kit().home())
            .arg("pack-runtimes")
            .args([dir.join("lib/codebox").as_os_str(), "native".as_ref()])
            .status();
        assert!(packed.expect("the program starts").success());
        dir
    })
}

/// Links the programs into `bin`.
fn link_programs(dir: &Path) {
    fs::create_dir(dir.join("bin")).expect("the directory is empty");
    for name in ["codebox", "codebox-run", "codebox-full"] {
        let program = kit().binary().with_file_name(name);
        if program.exists() {
            fs::hard_link(program, dir.join("bin").join(name)).expect("both are on one disk");
        }
    }
}

/// Creates an installation that a test may change, with JavaScript alone.
fn javascript_installation() -> TempDir {
    let dir = folder();
    link_programs(dir.path());
    for part in ["runtimes", "prepared"] {
        let to = dir.path().join("lib/codebox").join(part);
        fs::create_dir_all(&to).expect("it can be created");
        let from = find(&installation().join("lib/codebox").join(part), "javascript");
        let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp starts");
        assert!(copied.success());
    }
    dir
}

/// Returns the only entry of a directory whose name starts with a prefix.
fn find(dir: &Path, prefix: &str) -> PathBuf {
    let entries = fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path());
    let is_wanted = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix));
    let found: Vec<_> = entries.filter(is_wanted).collect();
    assert_eq!(found.len(), 1, "{prefix} in {}", dir.display());
    found[0].clone()
}

/// Returns the file with the code of JavaScript.
fn code_file(installation: &Path) -> PathBuf {
    let prepared = find(&installation.join("lib/codebox/prepared"), "javascript");
    let levels = fs::read_dir(prepared).expect("a directory").map(|entry| entry.expect("an entry").path());
    levels.map(|level| level.join("code.cwasm")).find(|code| code.exists()).expect("code for this machine")
}

fn installed(installation: &Path, home: &Path) -> Codebox {
    // Without an index and a cache, fetching fails.
    let codebox = Codebox::new(&installation.join("bin/codebox"), home);
    codebox.env("UV_OFFLINE", "1").env("UV_CACHE_DIR", home.join("no-cache"))
}

fn run_javascript(installation: &Path, home: &Path) -> ProcessResult {
    run(installed(installation, home).args(["run", "--lang", "js", "-c", "console.log(6 * 7)"]))
}

#[test]
fn runs_at_once_without_network() {
    let home = folder();
    // All parts of the code, one that is loaded during the run, and another runtime.
    for (args, printed) in [
        (vec!["run", "-c", "print(6 * 7)"], "42\n"),
        (vec!["run", "-c", "import pandas; print(pandas.Series([1, 2]).sum())"], "3\n"),
        (
            vec!["run", "-c", "import importlib; print(importlib.import_module('regex').match('a', 'a').span())"],
            "(0, 1)\n",
        ),
        (vec!["run", "--lang", "js", "-c", "console.log(6 * 7)"], "42\n"),
    ] {
        let result = run(installed(installation(), home.path()).args(args.iter().copied()));
        assert_eq!(result.stdout_text(), printed, "{args:?}: {}", result.stderr_text());
        assert_eq!(result.stderr_text(), "", "{args:?}");
    }
    let own = home.path().join("data/runtimes");
    assert!(!own.exists(), "runtimes are copied to {}", own.display());
    for embedded in ["cache/programs", "cache/containers"] {
        assert!(!home.path().join(embedded).exists(), "a program is copied to {embedded}");
    }
    let prepared = find(&home.path().join("cache/prepared"), "python");
    let mut files: Vec<_> =
        fs::read_dir(prepared).expect("a directory").map(|e| e.expect("an entry").file_name()).collect();
    files.sort();
    assert_eq!(files, ["manifest.json", "root"]);
    let list = run(installed(installation(), home.path()).args(["runtime", "list"])).stdout_text();
    let places = list.lines().filter(|line| line.contains(&*installation().to_string_lossy()));
    assert_eq!(places.count(), 2, "{list}");
    let verified = run(installed(installation(), home.path()).args(["runtime", "verify"]));
    assert_eq!(verified.stdout_text(), "ok    python: verified 8 files\n", "{}", verified.stderr_text());
}

#[test]
fn adds_images_of_the_user() {
    let home = folder();
    let build = ["image", "build", "own", "--import", "decimal"];
    let built = run(installed(installation(), home.path()).args(build));
    assert_eq!(built.code, Some(0), "{}", built.stderr_text());
    let program = "import sys; print('decimal' in sys.modules)";
    let ran = run(installed(installation(), home.path()).args(["run", "--image", "own", "-c", program]));
    assert_eq!(ran.stdout_text(), "True\n", "{}", ran.stderr_text());
    let removed = run(installed(installation(), home.path()).args(["image", "remove", "own"]));
    assert_eq!(removed.code, Some(0), "{}", removed.stderr_text());
}

#[test]
fn cannot_be_removed_in_part() {
    let home = folder();
    let removed = run(installed(installation(), home.path()).args(["runtime", "remove", "python"]));
    assert_one_line(&removed, 125, "is part of codebox and cannot be removed alone");
    assert!(find(&installation().join("lib/codebox/runtimes"), "python").exists());
}

/// Change of a file or an installation.
type Change<'a> = &'a dyn Fn(&Path);

#[test]
fn files_that_differ_are_refused() {
    let flip = |path: &Path| {
        let mut bytes = fs::read(path).expect("the file is readable");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(path, bytes).expect("the file is writable");
    };
    let cut = |path: &Path| {
        let bytes = fs::read(path).expect("the file is readable");
        fs::write(path, &bytes[..bytes.len() - 1]).expect("the file is writable");
    };
    let link = |path: &Path| {
        let moved = path.with_extension("moved");
        fs::rename(path, &moved).and_then(|()| symlink(moved, path)).expect("the directory is writable");
    };
    let make_writable = |path: &Path| {
        fs::set_permissions(path, fs::Permissions::from_mode(0o666)).expect("the file is our own");
    };
    let remove = |path: &Path| fs::remove_file(path).expect("the directory is writable");
    let open_dir = |path: &Path| {
        let prepared = path.ancestors().nth(3).expect("a directory");
        fs::set_permissions(prepared, fs::Permissions::from_mode(0o777)).expect("the directory is our own");
    };
    let open_prefix = |path: &Path| {
        let prefix = path.ancestors().nth(6).expect("a directory");
        fs::set_permissions(prefix, fs::Permissions::from_mode(0o777)).expect("the directory is our own");
    };
    let link_manifest = |path: &Path| link(&path.with_file_name("manifest.json"));
    // Before the first use, a file is trusted as the program is, if it has the size and owner of the installed file.
    let changes: [(bool, Change<'_>, &str); 9] = [
        (true, &flip, "differs from the installed file"),
        (false, &cut, "differs from the installed file"),
        (true, &cut, "differs from the installed file"),
        (false, &link, "not a regular file"),
        (false, &make_writable, "writable by other users"),
        (false, &remove, "is missing"),
        (false, &open_dir, "writable by other users"),
        (false, &open_prefix, "writable by other users"),
        (false, &link_manifest, "not a regular file"),
    ];
    for (is_used, change, message) in changes {
        let (installation, home) = (javascript_installation(), folder());
        if is_used {
            assert_eq!(run_javascript(installation.path(), home.path()).stdout_text(), "42\n");
        }
        change(&code_file(installation.path()));
        assert_one_line(&run_javascript(installation.path(), home.path()), 125, message);
    }
}

#[test]
fn files_that_were_installed_again_are_used() {
    let (installation, home) = (javascript_installation(), folder());
    assert_eq!(run_javascript(installation.path(), home.path()).stdout_text(), "42\n");
    let code = code_file(installation.path());
    let bytes = fs::read(&code).expect("the file is readable");
    fs::remove_file(&code).and_then(|()| fs::write(&code, bytes)).expect("the directory is writable");
    let result = run_javascript(installation.path(), home.path());
    assert_eq!((result.stdout_text().as_str(), result.stderr_text().as_str()), ("42\n", ""));
}

/// Files of another version and files for other processors are not used. codebox then prepares the runtime itself.
#[test]
fn other_installations_are_ignored() {
    let rename = |dir: &Path| {
        let prepared = find(&dir.join("lib/codebox/prepared"), "javascript");
        fs::rename(&prepared, prepared.with_file_name("javascript-another")).expect("the directory is writable");
    };
    let rename_level = |dir: &Path| {
        let level = code_file(dir).parent().expect("a directory").to_owned();
        fs::rename(&level, level.with_file_name("x86-64-v9")).expect("the directory is writable");
    };
    let changes: [Change<'_>; 2] = [&rename, &rename_level];
    for change in changes {
        let (installation, home) = (javascript_installation(), folder());
        change(installation.path());
        let result = run_javascript(installation.path(), home.path());
        assert_eq!(result.stdout_text(), "42\n", "{}", result.stderr_text());
        assert!(result.stderr_text().contains("compiling javascript"), "{}", result.stderr_text());
    }
}

/// The manifest of installed files is not flushed to the disk. It may be empty after a failure of the system.
#[test]
fn lost_manifests_are_made_again() {
    let (installation, home) = (javascript_installation(), folder());
    assert_eq!(run_javascript(installation.path(), home.path()).stdout_text(), "42\n");
    let manifest = find(&home.path().join("cache/prepared"), "javascript").join("manifest.json");
    let written = fs::read(&manifest).expect("it is our own");
    for content in [&[][..], &written[..written.len() / 2]] {
        fs::write(&manifest, content).expect("it is our own");
        let result = run_javascript(installation.path(), home.path());
        assert_eq!((result.stdout_text().as_str(), result.stderr_text().as_str()), ("42\n", ""));
        assert_eq!(fs::read(&manifest).expect("it is our own").len(), written.len());
    }
}

#[test]
fn directories_that_an_installation_lacks_are_made_again() {
    let (installation, home) = (javascript_installation(), folder());
    assert_eq!(run_javascript(installation.path(), home.path()).stdout_text(), "42\n");
    let root = find(&home.path().join("cache/prepared"), "javascript").join("root");
    fs::remove_dir_all(root).expect("it is our own");
    let result = run_javascript(installation.path(), home.path());
    assert_eq!(result.stdout_text(), "42\n", "{}", result.stderr_text());
}

/// A runtime that codebox has prepared by itself does not hide that of a later installation, also if it is incomplete.
#[test]
fn replaces_runtimes_that_were_prepared_before() {
    let (installation, home) = (javascript_installation(), folder());
    let without = folder();
    link_programs(without.path());
    assert_eq!(run_javascript(without.path(), home.path()).stdout_text(), "42\n");
    let places = || {
        let list = run(installed(installation.path(), home.path()).args(["runtime", "list"])).stdout_text();
        list.lines().filter(|line| line.contains(&*installation.path().to_string_lossy())).count()
    };
    assert_eq!(places(), 1);
    fs::remove_dir_all(home.path().join("data/runtimes")).expect("it is our own");
    let result = run_javascript(installation.path(), home.path());
    assert_eq!(result.stdout_text(), "42\n", "{}", result.stderr_text());
    // A runtime that the user has installed takes precedence, until it is removed.
    let chosen = run(installed(installation.path(), home.path()).args(["runtime", "install", "javascript"]));
    assert_eq!((chosen.code, places()), (Some(0), 0), "{}", chosen.stderr_text());
    let removed = run(installed(installation.path(), home.path()).args(["runtime", "remove", "javascript"]));
    assert_eq!((removed.code, places()), (Some(0), 1), "{}", removed.stderr_text());
}

/// A guest that could change the files would run native code at the next start.
#[test]
fn cannot_be_granted_with_write_access() {
    let (installation, home) = (javascript_installation(), folder());
    let grant = |dir: &Path, access: &str| {
        let grant = format!("{}:/granted:{access}", dir.display());
        let args = ["run", "--lang", "js", "--dir", &grant, "-c", "console.log(6 * 7)"];
        run(installed(installation.path(), home.path()).args(args))
    };
    let codebox = installation.path().join("lib/codebox");
    for dir in [
        installation.path(),
        &installation.path().join("lib"),
        &codebox.join("prepared"),
        &installation.path().join("bin"),
    ] {
        assert_one_line(&grant(dir, "rw"), 126, "codebox itself");
        assert_eq!(grant(dir, "ro").stdout_text(), "42\n", "{}", dir.display());
    }
}
