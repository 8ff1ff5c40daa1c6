//! Programs whose text shows their needs, and that start in a container.

use anyhow::{Result, ensure};
use codebox_testkit::Report;

use crate::ground::{Ground, bytes};
use crate::{Cases, case};

pub fn cases() -> Cases {
    vec![
        case("straight", "python", python),
        case("straight", "javascript", javascript),
        case("straight", "typescript", typescript),
        case("straight", "comment", comment),
        case("straight", "program_on_stdin", program_on_stdin),
        case("straight", "nothing_needed", nothing_needed),
        case("straight", "forbidden", forbidden),
    ]
}

fn in_container(ground: &Ground, report: &Report, reason: &str, printed: &str) -> Result<()> {
    let provenance = report.at("/provenance");
    ensure!(provenance["backend"] == ground.engine.name(), "it ran in {}: {}", provenance["backend"], report.json());
    ensure!(provenance["reason"] == reason, "the reason is {}", provenance["reason"]);
    ensure!(provenance["escalated_from"].is_null(), "it ran before");
    ensure!(report.stdout() == printed && report.exit_code() == Some(0), "{}", report.json());
    Ok(())
}

fn python(ground: &Ground) -> Result<()> {
    let code = "import threading\nmade = threading.Thread(target=print, args=('there',))\nmade.start()\nmade.join()\n";
    let report = ground.report(ground.run(&["--lang", "python", "-c", code]))?;
    in_container(
        ground,
        &report,
        "line 2 needs threads (threading.Thread), which WebAssembly does not support",
        "there\n",
    )
}

fn javascript(ground: &Ground) -> Result<()> {
    let code = "const { execSync } = require('child_process');\nprocess.stdout.write(execSync('echo there'));\n";
    let report = ground.report(ground.run(&["--lang", "js", "-c", code]))?;
    let reason = "line 2 needs processes (child_process.execSync), which WebAssembly does not support";
    in_container(ground, &report, reason, "there\n")
}

fn typescript(ground: &Ground) -> Result<()> {
    ground.put(
        "needy.ts",
        "import { execSync } from 'node:child_process';\nconst said: string = execSync('echo there').toString();\nconsole.log(said.trim());\n",
    )?;
    let report = ground.report(ground.run(&["needy.ts"]))?;
    let reason = "line 2 needs processes (child_process.execSync), which WebAssembly does not support";
    in_container(ground, &report, reason, "there\n")
}

fn comment(ground: &Ground) -> Result<()> {
    let report = ground.report(ground.run(&["-c", "# codebox: isolation=container\nprint('there')\n"]))?;
    in_container(ground, &report, "line 1 requests isolation container", "there\n")
}

fn program_on_stdin(ground: &Ground) -> Result<()> {
    let code = "import os\npid = os.fork()\nif pid == 0:\n    os._exit(0)\nos.waitpid(pid, 0)\nprint('both')\n";
    let report = ground.report(ground.run(&["--lang", "python", "-"]).input(bytes(code)))?;
    let reason = "line 2 needs processes (os.fork), which WebAssembly does not support";
    in_container(ground, &report, reason, "both\n")
}

/// For a program without such needs, engines are not queried and no standby remains.
fn nothing_needed(ground: &Ground) -> Result<()> {
    let report = ground.report(ground.run(&["--lang", "python", "-c", "import threading\nprint('here')\n"]))?;
    ensure!(report.at("/provenance/isolation") == "wasm" && report.stdout() == "here\n", "{}", report.json());
    ensure!(!ground.has_asked_engines(), "it asked an engine");
    Ok(())
}

fn forbidden(ground: &Ground) -> Result<()> {
    ground.configure("escalation = \"forbid\"\n")?;
    let code = "import threading\nthreading.Thread(target=int).start()\n";
    let report = ground.report(ground.run(&["--lang", "python", "-c", code]))?;
    let provenance = report.at("/provenance");
    ensure!(provenance["isolation"] == "wasm", "{}", report.json());
    ensure!(
        provenance["reason"].to_string().contains("the policy does not allow escalation"),
        "{}",
        provenance["reason"]
    );
    ensure!(
        report.at("/needs_escalation/reason").to_string().contains("the policy does not allow escalation"),
        "{}",
        report.json()
    );
    ensure!(!ground.has_asked_engines(), "it asked an engine");
    Ok(())
}
