//! Shell scripts, which run in containers alone.

use anyhow::{Result, ensure};

use crate::row::{Row, row};
use crate::test_env::TestEnvironment;

pub fn rows() -> Vec<Row> {
    vec![row("shell::scripts", scripts)]
}

fn scripts(test_env: &TestEnvironment) -> Result<()> {
    let dir = test_env.kit.folder()?;
    std::fs::write(
        dir.path().join("a.sh"),
        "read -r line\nwords=(\"$@\")\necho \"${#words[@]} $line $A\" >&2\nexit 3\n",
    )?;
    std::fs::write(dir.path().join("tool"), "#!/usr/bin/env bash\necho $((6 * 7)) | cat\n")?;
    let input = codebox_testkit::Input::Bytes(b"line\n".to_vec());
    let script = test_env.run().env("CODEBOX_HOST", "off").args(["--env", "A=1", "a.sh", "x", "y z"]);
    let report = test_env.check_run(&script.folder(dir.path()).input(input).run()?)?;
    ensure!(report.exit_code() == Some(3) && report.stderr() == "2 line 1\n", "{report:?}");
    let report = test_env.check_run(&test_env.run().arg("tool").folder(dir.path()).run()?)?;
    ensure!(report.exit_code() == Some(0) && report.stdout() == "42\n", "{report:?}");
    // A name of the language is enough for a text.
    let text = test_env.run().args(["--lang", "sh", "-c", "echo \"$0 $1\"", "a"]).run()?;
    ensure!(test_env.check_run(&text)?.stdout() == "bash a\n", "{}", text.stdout_text());
    let refused = test_env.codebox().args(["run", "--isolation", "wasm", "a.sh"]).folder(dir.path()).run()?;
    ensure!(refused.code == Some(125) && refused.stderr_text().contains("shell"), "{}", refused.stderr_text());
    Ok(())
}
