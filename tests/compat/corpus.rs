//! Programs of the kind that people and models write, each a folder with its main file and the output of the language's
//! own interpreter: Node, and Lua's `lua`; for TypeScript, Node after npm's `typescript`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::{Input, Kit, corpus_dir};
use libtest_mimic::{Completion, Trial};
use serde::Deserialize;

use crate::programs::difference;
use crate::{Shared, completed, without};

/// Folder of programs.
struct Corpus {
    name: &'static str,
    /// Names of main files.
    mains: &'static [&'static str],
    /// Minimum number of programs.
    least: usize,
    /// Programs whose output differs from that of the language's own interpreter, each with the reason.
    unlike: &'static [(&'static str, &'static str)],
}

const CORPORA: [Corpus; 3] = [
    Corpus {
        name: "javascript",
        mains: &["main.js", "main.mjs", "main.cjs", "main.ts", "main.mts", "main.cts"],
        least: 140,
        unlike: &[("dynamic-import", "the promise of importing one of Node's modules is settled a turn earlier")],
    },
    Corpus { name: "typescript", mains: &["main.ts", "main.cts"], least: 18, unlike: &[] },
    Corpus { name: "lua", mains: &["main.lua"], least: 25, unlike: &[] },
];

/// Arguments, input and environment of a program.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Given {
    args: Vec<String>,
    stdin: String,
    env: BTreeMap<String, String>,
}

pub fn trials(kit: &Kit, ready: &Shared<()>) -> Result<Vec<Trial>> {
    let mut trials = Vec::new();
    for corpus in &CORPORA {
        let names = corpus.programs()?;
        ensure!(names.len() >= corpus.least, "only {} programs are in {}", names.len(), corpus.name);
        trials.extend(names.into_iter().map(|name| {
            let (kit, ready) = (kit.clone(), ready.clone());
            Trial::ignorable_test(format!("{}::{name}", corpus.name), move || match &**ready {
                Ok(()) => match corpus.unlike.iter().find(|(unlike, _)| *unlike == name) {
                    Some((_, reason)) => Ok(Completion::ignored_with(*reason)),
                    None => completed(corpus.run(&kit, &name)),
                },
                Err(reason) => without("wasm", reason),
            })
        }));
    }
    Ok(trials)
}

impl Corpus {
    /// Lists the names of the corpus's programs.
    fn programs(&self) -> Result<Vec<String>> {
        let folder = corpus_dir(self.name);
        let mut names = Vec::new();
        for entry in fs::read_dir(&folder).with_context(|| format!("list {}", folder.display()))? {
            let entry = entry?;
            if self.main_of(&entry.path()).is_some() {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    fn main_of(&self, folder: &Path) -> Option<&'static str> {
        self.mains.iter().copied().find(|main| folder.join(main).is_file())
    }

    /// Runs one program in a copy of its folder, granted as `/work`, and compares output and status.
    fn run(&self, kit: &Kit, name: &str) -> Result<()> {
        let source = corpus_dir(self.name).join(name);
        let folder = kit.folder()?;
        copy(&source, folder.path())?;
        let given: Given = match fs::read(source.join("case.json")) {
            Ok(bytes) => serde_json::from_slice(&bytes)?,
            Err(_) => Given::default(),
        };
        let main = self.main_of(&source).context("it has no main file")?;
        let env = given.env.iter().flat_map(|(name, value)| ["--env".to_owned(), format!("{name}={value}")]);
        let run = kit.codebox().args(["run", "--isolation", "wasm"]).grant(folder.path(), "/work", "rw").args(env);
        let run = run.arg(main).args(&given.args).folder(folder.path()).input(Input::Bytes(given.stdin.into_bytes()));
        let ran = run.deadline(Duration::from_secs(60)).run()?;
        let expected = fs::read(source.join("expected.stdout"))?;
        let status: i32 = fs::read_to_string(source.join("expected.status"))?.trim().parse()?;
        ensure!(ran.stdout == expected, "{}\n{}", difference(&expected, &ran.stdout), ran.stderr_text());
        ensure!(ran.code == Some(status), "its status is {:?} and not {status}\n{}", ran.code, ran.stderr_text());
        Ok(())
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            fs::create_dir(&target)?;
            copy(&entry.path(), &target)?;
        } else if !["case.json", "expected.stdout", "expected.status"].iter().any(|name| target.ends_with(name)) {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}
