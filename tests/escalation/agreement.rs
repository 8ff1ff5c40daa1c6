//! Agreement of `codebox explain` with `codebox run`.

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::Codebox;
use serde_json::Value;

use crate::ground::Ground;
use crate::programs::ALL;
use crate::{Cases, case};

pub fn cases() -> Cases {
    vec![
        case("explain", "agrees_where_text_shows", agrees_where_text_shows),
        case("explain", "agrees_where_only_a_run_shows", agrees_where_only_a_run_shows),
        case("explain", "agrees_without_engines", agrees_without_engines),
        case("explain", "agrees_where_it_is_forbidden", agrees_where_it_is_forbidden),
    ]
}

/// Arguments of programs whose text determines the tier.
const SHOWN: [&[&str]; 7] = [
    &["--lang", "python", "-c", "print(1)"],
    &["--lang", "python", "-c", "import numpy\nprint(numpy.arange(3).sum())"],
    &["--lang", "python", "-c", "import threading\nthreading.Thread(target=int).start()"],
    &["--lang", "python", "-c", "try:\n    import torch\nexcept ImportError:\n    print('without')"],
    &["--lang", "js", "-c", "require('child_process').execSync('true')"],
    &["-c", "# codebox: isolation=container\nprint(1)"],
    &["-c", "# codebox: isolation=wasm\nimport threading\nthreading.Thread(target=int).start()"],
];

fn explained(command: Codebox) -> Result<Value> {
    let ran = command.run()?;
    serde_json::from_slice(&ran.stdout).with_context(|| format!("{} {}", ran.stdout_text(), ran.stderr_text()))
}

/// Checks that the tier of the first run and its reason equal the explained ones.
fn agree(explained: &Value, ran: &Value) -> Result<()> {
    let provenance = &ran["provenance"];
    let first = &provenance["escalated_from"];
    if first.is_null() {
        for key in ["isolation", "backend", "reason"] {
            ensure!(explained[key] == provenance[key], "{key}: {} is not {}", explained[key], provenance[key]);
        }
    } else {
        for key in ["isolation", "backend"] {
            ensure!(explained[key] == first[key], "{key}: {} is not {}", explained[key], first[key]);
        }
    }
    if provenance["isolation"] == "wasm" {
        ensure!(explained["image"]["name"] == provenance["image"], "{explained} {provenance}");
    }
    Ok(())
}

fn explain(ground: &Ground, words: &[&str]) -> Codebox {
    ground.codebox().args(["explain", "--json"]).args(words.iter().copied())
}

fn agrees_where_text_shows(ground: &Ground) -> Result<()> {
    for words in SHOWN {
        let told = explained(explain(ground, words))?;
        let ran = ground.report(ground.run(words))?;
        agree(&told, ran.json()).with_context(|| format!("{words:?}"))?;
    }
    Ok(())
}

fn agrees_where_only_a_run_shows(ground: &Ground) -> Result<()> {
    for needy in ALL {
        let words = ["--lang", needy.language, "-c", needy.code];
        let told = explained(explain(ground, &words))?;
        ensure!(told["isolation"] == "wasm" && told["needs"] == serde_json::json!([]), "{}: {told}", needy.name);
        let ran = ground.report(ground.run(&words))?;
        agree(&told, ran.json()).context(needy.name)?;
    }
    Ok(())
}

fn agrees_without_engines(ground: &Ground) -> Result<()> {
    for words in SHOWN {
        let nowhere = |command: Codebox| {
            command.env("DOCKER_HOST", "unix:///no/docker.sock").env("CONTAINER_HOST", "unix:///no/podman.sock")
        };
        let told = explained(nowhere(explain(ground, words)))?;
        let ran = ground.report(ground.run_without_engines(words))?;
        agree(&told, ran.json()).with_context(|| format!("{words:?}"))?;
    }
    Ok(())
}

fn agrees_where_it_is_forbidden(ground: &Ground) -> Result<()> {
    ground.configure("escalation = \"forbid\"\n")?;
    for words in SHOWN {
        let told = explained(explain(ground, words))?;
        let ran = ground.report(ground.run(words))?;
        agree(&told, ran.json()).with_context(|| format!("{words:?}"))?;
    }
    Ok(())
}
