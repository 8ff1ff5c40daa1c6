//! Agreement of `codebox explain` with `codebox run`.

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::Codebox;
use serde_json::Value;

use crate::programs::ALL;
use crate::test_env::TestEnvironment;
use crate::{Cases, case};

pub fn cases() -> Cases {
    vec![
        case("explain", "agrees_when_text_shows_needs", agrees_when_text_shows_needs),
        case("explain", "agrees_when_only_run_shows_needs", agrees_when_only_run_shows_needs),
        case("explain", "agrees_without_engines", agrees_without_engines),
        case("explain", "agrees_when_escalation_is_forbidden", agrees_when_escalation_is_forbidden),
    ]
}

/// Arguments of programs whose text determines the tier.
const PROGRAMS: [&[&str]; 7] = [
    &["--lang", "python", "-c", "print(1)"],
    &["--lang", "python", "-c", "import numpy\nprint(numpy.arange(3).sum())"],
    &["--lang", "python", "-c", "import threading\nthreading.Thread(target=int).start()"],
    &["--lang", "python", "-c", "try:\n    import torch\nexcept ImportError:\n    print('without')"],
    &["--lang", "js", "-c", "require('child_process').execSync('true')"],
    &["-c", "# codebox: isolation=container\nprint(1)"],
    &["-c", "# codebox: isolation=wasm\nimport threading\nthreading.Thread(target=int).start()"],
];

fn explanation(command: Codebox) -> Result<Value> {
    let result = command.run()?;
    serde_json::from_slice(&result.stdout).with_context(|| format!("{} {}", result.stdout_text(), result.stderr_text()))
}

/// Checks that the tier of the first run and its reason equal the explained ones.
fn check_agreement(explanation: &Value, result: &Value) -> Result<()> {
    let provenance = &result["provenance"];
    let first = &provenance["escalated_from"];
    if first.is_null() {
        for key in ["isolation", "backend", "reason"] {
            ensure!(explanation[key] == provenance[key], "{key}: {} is not {}", explanation[key], provenance[key]);
        }
    } else {
        for key in ["isolation", "backend"] {
            ensure!(explanation[key] == first[key], "{key}: {} is not {}", explanation[key], first[key]);
        }
    }
    if provenance["isolation"] == "wasm" {
        ensure!(explanation["image"]["name"] == provenance["image"], "{explanation} {provenance}");
    }
    Ok(())
}

fn explain(test_env: &TestEnvironment, arguments: &[&str]) -> Codebox {
    test_env.codebox().args(["explain", "--json"]).args(arguments.iter().copied())
}

fn agrees_when_text_shows_needs(test_env: &TestEnvironment) -> Result<()> {
    for arguments in PROGRAMS {
        let explanation = explanation(explain(test_env, arguments))?;
        let result = test_env.report(test_env.run(arguments))?;
        check_agreement(&explanation, result.json()).with_context(|| format!("{arguments:?}"))?;
    }
    Ok(())
}

fn agrees_when_only_run_shows_needs(test_env: &TestEnvironment) -> Result<()> {
    for program in ALL {
        let arguments = ["--lang", program.language, "-c", program.code];
        let explanation = explanation(explain(test_env, &arguments))?;
        ensure!(
            explanation["isolation"] == "wasm" && explanation["needs"] == serde_json::json!([]),
            "{}: {explanation}",
            program.name
        );
        let result = test_env.report(test_env.run(&arguments))?;
        check_agreement(&explanation, result.json()).context(program.name)?;
    }
    Ok(())
}

fn agrees_without_engines(test_env: &TestEnvironment) -> Result<()> {
    for arguments in PROGRAMS {
        let without_engines = |command: Codebox| {
            command.env("DOCKER_HOST", "unix:///no/docker.sock").env("CONTAINER_HOST", "unix:///no/podman.sock")
        };
        let explanation = explanation(without_engines(explain(test_env, arguments)))?;
        let result = test_env.report(test_env.run_without_engines(arguments))?;
        check_agreement(&explanation, result.json()).with_context(|| format!("{arguments:?}"))?;
    }
    Ok(())
}

fn agrees_when_escalation_is_forbidden(test_env: &TestEnvironment) -> Result<()> {
    test_env.configure("escalation = \"forbid\"\n")?;
    for arguments in PROGRAMS {
        let explanation = explanation(explain(test_env, arguments))?;
        let result = test_env.report(test_env.run(arguments))?;
        check_agreement(&explanation, result.json()).with_context(|| format!("{arguments:?}"))?;
    }
    Ok(())
}
