//! S2: images contain no data of the machine and time of their creation.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::{Canaries, Codebox, Guest, Kit};

use crate::Verdict;
use crate::attack::check_sound;
use crate::scenario::{Scenario, scenario};
use crate::tampering::with_copied_home;

pub fn trials() -> Vec<Scenario> {
    vec![
        scenario("S2::s2_secrets", no_secrets).with(&["s2_secrets"]),
        scenario("S2::images_contain_no_host_path", no_host_path),
    ]
}

/// Creates an image near canaries and searches for them in its file and, by a guest, from inside.
fn no_secrets(kit: &Kit, guest: Guest) -> Result<Verdict> {
    match guest {
        Guest::Python => with_copied_home(kit, |home| {
            let build = ["image", "build", "among-canaries", "--import", "colorsys,json.tool"];
            build_and_search_image(kit, guest, home, "among-canaries", |codebox| codebox.args(build))
        }),
        // This runtime has only its own image, which is created at the first use of a home.
        Guest::JavaScript => {
            let home = kit.folder()?;
            build_and_search_image(kit, guest, home.path(), guest.name(), |codebox| {
                codebox.arg("run").args(guest.inline("0"))
            })
        }
    }
}

fn build_and_search_image(
    kit: &Kit,
    guest: Guest,
    home: &Path,
    image: &str,
    configure: impl FnOnce(Codebox) -> Codebox,
) -> Result<Verdict> {
    let canaries = Canaries::plant(kit)?;
    let mut command = canaries.around(kit.codebox()).home(home).env("HOME", canaries.grant()).folder(&canaries.grant());
    for name in ["PYTHONPATH", "NODE_PATH", "NODE_OPTIONS", "USER"] {
        command = command.env(name, canaries.secret());
    }
    let built = configure(command).run()?;
    ensure!(built.code == Some(0), "no image: {}", built.stderr_text());
    let file = format!("{image}.img");
    let path = artefacts(home, guest, "img")?.into_iter().find(|path| path.ends_with(&file));
    check_absent(
        &path.context("the image's file is not found")?,
        &[canaries.secret(), &canaries.grant().display().to_string()],
    )?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs().to_string();
    let run = kit.run_json().home(home).args(["--image", image, "--timeout", "40s"]);
    let result = run.arg(guest.hostile("s2_secrets")).args([canaries.prefix(), &now]).run()?;
    let report = check_sound(&result)?;
    ensure!(report.outcome() == "exited 0", "{}", report.json());
    canaries.check(&result)?;
    let clock_offset = report.lines().first().and_then(|line| line["clock_off"].as_u64());
    ensure!(
        clock_offset.is_some_and(|clock_offset| clock_offset < 60),
        "the guest's clock is off by {clock_offset:?} s"
    );
    Ok(Verdict::Passed)
}

/// Prepared files do not contain the paths of the directories in which they were created.
fn no_host_path(kit: &Kit, guest: Guest) -> Result<Verdict> {
    let home = kit.home().display().to_string();
    for file in artefacts(kit.home(), guest, "img")? {
        check_absent(&file, &[&home])?;
    }
    Ok(Verdict::Passed)
}

fn artefacts(home: &Path, guest: Guest, suffix: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for folder in fs::read_dir(home.join("cache/prepared"))? {
        let folder = folder?;
        if !folder.file_name().to_string_lossy().starts_with(guest.name()) {
            continue;
        }
        for file in fs::read_dir(folder.path())? {
            let path = file?.path();
            found.extend(path.extension().is_some_and(|e| e == suffix).then_some(path));
        }
    }
    ensure!(!found.is_empty(), "no .{suffix} file");
    Ok(found)
}

fn check_absent(file: &Path, words: &[&str]) -> Result<()> {
    let bytes = fs::read(file)?;
    for word in words {
        let shows = bytes.windows(word.len()).any(|window| window == word.as_bytes());
        ensure!(!shows, "{} contains {word:?}", file.display());
    }
    Ok(())
}
