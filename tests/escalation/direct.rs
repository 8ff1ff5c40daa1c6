//! Programs whose text shows their needs, and that start in a container.

use anyhow::{Result, ensure};
use codebox_testkit::Report;

use crate::test_env::{TestEnvironment, bytes};
use crate::{Cases, case};

pub fn cases() -> Cases {
    vec![
        case("direct", "python", python),
        case("direct", "memory_image", memory_image),
        case("direct", "javascript", javascript),
        case("direct", "typescript", typescript),
        case("direct", "directive", comment),
        case("direct", "program_on_stdin", program_on_stdin),
        case("direct", "no_needs", no_needs),
        case("direct", "forbidden", forbidden),
        case("direct", "added_language", added_language),
    ]
}

fn check_in_container(test_env: &TestEnvironment, report: &Report, reason: &str, printed: &str) -> Result<()> {
    let provenance = report.at("/provenance");
    ensure!(provenance["backend"] == test_env.engine.name(), "backend is {}: {}", provenance["backend"], report.json());
    ensure!(provenance["reason"] == reason, "the reason is {}", provenance["reason"]);
    ensure!(provenance["escalated_from"].is_null(), "the program has run before");
    ensure!(report.stdout() == printed && report.exit_code() == Some(0), "{}", report.json());
    Ok(())
}

fn python(test_env: &TestEnvironment) -> Result<()> {
    let code = "import threading\nmade = threading.Thread(target=print, args=('there',))\nmade.start()\nmade.join()\n";
    let report = test_env.report(test_env.run(&["--lang", "python", "-c", code]))?;
    check_in_container(
        test_env,
        &report,
        "line 2 needs threads (threading.Thread), which WebAssembly does not support",
        "there\n",
    )
}

/// A memory image has no effect in a container, whether it is requested or configured.
fn memory_image(test_env: &TestEnvironment) -> Result<()> {
    let code = "import threading\nmade = threading.Thread(target=print, args=('there',))\nmade.start()\nmade.join()\n";
    let reason = "line 2 needs threads (threading.Thread), which WebAssembly does not support";
    let report = test_env.report(test_env.run(&["--image", "python-data", "--lang", "python", "-c", code]))?;
    check_in_container(test_env, &report, reason, "there\n")?;
    test_env.configure("image = \"python-data\"\n")?;
    let report = test_env.report(test_env.run(&["--lang", "python", "-c", code]))?;
    check_in_container(test_env, &report, reason, "there\n")
}

fn javascript(test_env: &TestEnvironment) -> Result<()> {
    let code = "const { execSync } = require('child_process');\nprocess.stdout.write(execSync('echo there'));\n";
    let report = test_env.report(test_env.run(&["--lang", "js", "-c", code]))?;
    let reason = "line 2 needs processes (child_process.execSync), which WebAssembly does not support";
    check_in_container(test_env, &report, reason, "there\n")
}

fn typescript(test_env: &TestEnvironment) -> Result<()> {
    test_env.write_file(
        "starts_process.ts",
        "import { execSync } from 'node:child_process';\nconst output: string = execSync('echo there').toString();\nconsole.log(output.trim());\n",
    )?;
    let report = test_env.report(test_env.run(&["starts_process.ts"]))?;
    let reason = "line 2 needs processes (child_process.execSync), which WebAssembly does not support";
    check_in_container(test_env, &report, reason, "there\n")
}

/// A language that a user adds has comments, an interpreter and an error reader in containers by its description.
fn added_language(test_env: &TestEnvironment) -> Result<()> {
    test_env.add_lua()?;
    let code = "-- codebox: isolation=container\nprint(_VERSION, io.open('/proc/self/status') ~= nil, ...)\n";
    test_env.write_file("hello.lua", code)?;
    let report = test_env.report(test_env.run(&["hello.lua", "a"]))?;
    check_in_container(test_env, &report, "line 1 requests isolation container", "Lua 5.4\ttrue\ta\n")?;
    let failing = ["--lang", "lua", "--isolation", "container", "-c", "print(arg[1])\nerror('no')", "a"];
    let report = test_env.report(test_env.run(&failing))?;
    ensure!(report.stdout() == "a\n", "{}", report.json());
    let error = report.at("/error");
    ensure!(error["value"] == "no" && error["line"] == 2, "the error is {error}");
    Ok(())
}

fn comment(test_env: &TestEnvironment) -> Result<()> {
    let report = test_env.report(test_env.run(&["-c", "# codebox: isolation=container\nprint('there')\n"]))?;
    check_in_container(test_env, &report, "line 1 requests isolation container", "there\n")
}

fn program_on_stdin(test_env: &TestEnvironment) -> Result<()> {
    let code = "import os\npid = os.fork()\nif pid == 0:\n    os._exit(0)\nos.waitpid(pid, 0)\nprint('both')\n";
    let report = test_env.report(test_env.run(&["--lang", "python", "-"]).input(bytes(code)))?;
    let reason = "line 2 needs processes (os.fork), which WebAssembly does not support";
    check_in_container(test_env, &report, reason, "both\n")
}

/// For a program without such needs, engines are not queried and no standby remains.
fn no_needs(test_env: &TestEnvironment) -> Result<()> {
    let report = test_env.report(test_env.run(&["--lang", "python", "-c", "import threading\nprint('here')\n"]))?;
    ensure!(report.at("/provenance/isolation") == "wasm" && report.stdout() == "here\n", "{}", report.json());
    ensure!(!test_env.has_queried_engines(), "engine was queried");
    Ok(())
}

fn forbidden(test_env: &TestEnvironment) -> Result<()> {
    test_env.configure("escalation = \"forbid\"\n")?;
    let code = "import threading\nthreading.Thread(target=int).start()\n";
    let report = test_env.report(test_env.run(&["--lang", "python", "-c", code]))?;
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
    ensure!(!test_env.has_queried_engines(), "engine was queried");
    Ok(())
}
