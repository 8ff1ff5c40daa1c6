//! S2: an image holds nothing of the machine and the moment it was made on.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::{Canaries, Kit, hostile_dir};

use crate::attack::sound;
use crate::tampering::with_copied_home;
use crate::{Compound, Verdict};

pub fn compound() -> Vec<Compound> {
    vec![("S2::s2_secrets", vec!["s2_secrets"], no_secrets), ("S2::images_hold_no_host_path", Vec::new(), no_host_path)]
}

/// Builds an image among canaries, looks for them in its file, and has a guest look for them from inside.
fn no_secrets(kit: &Kit) -> Result<Verdict> {
    with_copied_home(kit, |home| {
        let canaries = Canaries::plant(kit)?;
        let build = canaries.around(kit.codebox()).home(home).env("HOME", canaries.grant()).folder(&canaries.grant());
        let build = build.env("PYTHONPATH", canaries.secret()).env("USER", canaries.secret());
        let built = build.args(["image", "build", "among-canaries", "--import", "colorsys,json.tool"]).run()?;
        ensure!(built.code == Some(0), "no image: {}", built.stderr_text());
        let image = artefacts(home, "img")?.into_iter().find(|path| path.ends_with("among-canaries.img"));
        let image = image.context("the image's file is not found")?;
        absent(&image, &[canaries.secret(), &canaries.grant().display().to_string()])?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs().to_string();
        let run = kit.run_json().home(home).args(["--image", "among-canaries", "--timeout", "40s"]);
        let ran = run.arg(hostile_dir().join("s2_secrets.py")).args([canaries.prefix(), &now]).run()?;
        let report = sound(&ran)?;
        ensure!(report.outcome() == "exited 0", "{}", report.json());
        canaries.check(&ran)?;
        let late = report.lines().first().and_then(|line| line["clock_off"].as_u64());
        ensure!(late.is_some_and(|late| late < 60), "the guest's clock is off by {late:?} s");
        Ok(Verdict::Held)
    })
}

/// No prepared file names the directories that it was made in.
fn no_host_path(kit: &Kit) -> Result<Verdict> {
    let home = kit.home().display().to_string();
    for file in artefacts(kit.home(), "img")? {
        absent(&file, &[&home])?;
    }
    Ok(Verdict::Held)
}

fn artefacts(home: &Path, ending: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for folder in fs::read_dir(home.join("cache/prepared"))? {
        for file in fs::read_dir(folder?.path())? {
            let path = file?.path();
            found.extend(path.extension().is_some_and(|e| e == ending).then_some(path));
        }
    }
    ensure!(!found.is_empty(), "there is no .{ending} file");
    Ok(found)
}

fn absent(file: &Path, words: &[&str]) -> Result<()> {
    let bytes = fs::read(file)?;
    for word in words {
        let shows = bytes.windows(word.len()).any(|window| window == word.as_bytes());
        ensure!(!shows, "{} holds {word:?}", file.display());
    }
    Ok(())
}
