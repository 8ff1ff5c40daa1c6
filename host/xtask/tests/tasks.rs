//! The list of tasks. This test also makes `cargo test` build the program, which the tests of packages run.

use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn every_task_is_described() -> anyhow::Result<()> {
    let help = String::from_utf8(Command::new(env!("CARGO_BIN_EXE_xtask")).arg("--help").output()?.stdout)?;
    let contributing = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../CONTRIBUTING.md"))?;
    let tasks =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).map_while(|line| line.split_whitespace().next());
    let tasks: Vec<_> = tasks.filter(|task| *task != "help").collect();
    assert!(tasks.contains(&"dist"), "{help}");
    for task in tasks {
        assert!(contributing.contains(&format!("`cargo xtask {task}`")), "{task} is not in CONTRIBUTING.md");
    }
    Ok(())
}
