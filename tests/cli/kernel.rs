//! `codebox kernel`, with the clients of Jupyter.

use std::path::{Path, PathBuf};
use std::process::Command;

use codebox_testkit::{has_registries, succeed};

use crate::support::{folder, kit, run_in};

/// Packages of the clients, and the kernel with which this one is compared.
const PACKAGES: [&str; 4] = ["jupyter_client==8.10.0", "nbclient==0.11.0", "ipykernel==7.4.0", "matplotlib==3.11.2"];

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/kernel").join(name)
}

#[test]
fn clients_of_jupyter_pass() {
    if has_registries() {
        let dir = folder();
        let venv = dir.path().join("venv");
        succeed(Command::new("python3").args(["-m", "venv"]).arg(&venv));
        let python = venv.join("bin/python");
        succeed(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(PACKAGES));
        let data = dir.path().join("data");
        std::fs::create_dir(&data).expect("a directory");
        std::fs::write(data.join("note"), "granted").expect("a file");
        let (prefix, grant) = (venv.display().to_string(), format!("{}:/data", data.display()));
        for (language, options) in [("python", &["--dir", &grant, "--with", "matplotlib"][..]), ("javascript", &[])] {
            let args = ["kernel", "install", "--prefix", &prefix, "--lang", language];
            let installed = run_in(dir.path(), &[&args[..], options].concat());
            assert_eq!(installed.code, Some(0), "{}", installed.stderr_text());
        }
        let mut client = Command::new(&python);
        client.arg(source("client.py")).args(["codebox-python", "codebox-javascript"]).current_dir(dir.path());
        let ran = succeed(client.env("CODEBOX_HOME", kit().home()).env("CODEBOX_HOST", "off"));
        assert!(ran.ends_with("passed\n"), "{ran}");
    }
}
