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

use crate::programs::first_difference;
use crate::{Shared, completion, unavailable};

/// Folder of programs.
struct Corpus {
    name: &'static str,
    /// Names of main files.
    main_files: &'static [&'static str],
    /// Minimum number of programs.
    min_programs: usize,
    /// Programs whose output differs from that of the language's own interpreter, each with the reason.
    differing: &'static [(&'static str, &'static str)],
}

const CORPORA: [Corpus; 3] = [
    Corpus {
        name: "javascript",
        main_files: &["main.js", "main.mjs", "main.cjs", "main.ts", "main.mts", "main.cts"],
        min_programs: 140,
        differing: &[("dynamic-import", "the promise of importing one of Node's modules is settled a turn earlier")],
    },
    Corpus { name: "typescript", main_files: &["main.ts", "main.cts"], min_programs: 18, differing: &[] },
    Corpus { name: "lua", main_files: &["main.lua"], min_programs: 25, differing: &[] },
];

/// Arguments, input and environment of a program.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ProgramInputs {
    args: Vec<String>,
    stdin: String,
    env: BTreeMap<String, String>,
}

pub fn trials(kit: &Kit, ready: &Shared<()>) -> Result<Vec<Trial>> {
    let mut trials = Vec::new();
    for corpus in &CORPORA {
        let names = corpus.programs()?;
        ensure!(names.len() >= corpus.min_programs, "only {} programs are in {}", names.len(), corpus.name);
        trials.extend(names.into_iter().map(|name| {
            let (kit, ready) = (kit.clone(), ready.clone());
            Trial::ignorable_test(format!("{}::{name}", corpus.name), move || match &**ready {
                Ok(()) => match corpus.differing.iter().find(|(differing, _)| *differing == name) {
                    Some((_, reason)) => Ok(Completion::ignored_with(*reason)),
                    None => completion(corpus.run(&kit, &name)),
                },
                Err(reason) => unavailable("wasm", reason),
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
            if self.main_file(&entry.path()).is_some() {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    fn main_file(&self, folder: &Path) -> Option<&'static str> {
        self.main_files.iter().copied().find(|main| folder.join(main).is_file())
    }

    /// Runs one program in a copy of its folder, granted as `/work`, and compares output and status.
    fn run(&self, kit: &Kit, name: &str) -> Result<()> {
        let source = corpus_dir(self.name).join(name);
        let folder = kit.folder()?;
        copy(&source, folder.path())?;
        let inputs: ProgramInputs = match fs::read(source.join("case.json")) {
            Ok(bytes) => serde_json::from_slice(&bytes)?,
            Err(_) => ProgramInputs::default(),
        };
        let main = self.main_file(&source).context("the program has no main file")?;
        let env = inputs.env.iter().flat_map(|(name, value)| ["--env".to_owned(), format!("{name}={value}")]);
        let run = kit.codebox().args(["run", "--isolation", "wasm"]).grant(folder.path(), "/work", "rw").args(env);
        let run = run.arg(main).args(&inputs.args).folder(folder.path()).input(Input::Bytes(inputs.stdin.into_bytes()));
        let result = run.deadline(Duration::from_secs(60)).run()?;
        let expected = fs::read(source.join("expected.stdout"))?;
        let status: i32 = fs::read_to_string(source.join("expected.status"))?.trim().parse()?;
        ensure!(result.stdout == expected, "{}\n{}", first_difference(&expected, &result.stdout), result.stderr_text());
        ensure!(
            result.code == Some(status),
            "status is {:?}, expected {status}\n{}",
            result.code,
            result.stderr_text()
        );
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
