//! Programs for Deno and Bun.

use std::ffi::OsString;
use std::path::Path;

use codebox_core::{Missing, RunReport};

use super::files::has_home;
use crate::rerun_command::shell_line;

/// Ends of the names of programs in JavaScript and TypeScript.
const SCRIPT_ENDS: [&str; 8] = ["js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx"];

/// Options whose values the command of a runner has too.
const KEPT_OPTIONS: [&str; 15] = [
    "--cpu-time",
    "--cpus",
    "--env",
    "--env-file",
    "--max-disk",
    "--max-files",
    "--max-net-bytes",
    "--max-net-connections",
    "--max-open-files",
    "--max-output",
    "--max-processes",
    "--memory",
    "--net",
    "--out",
    "--timeout",
];

/// Returns the line with the command that runs a program in a container of its own runner; `None` if it is for Node.
pub(super) fn advice(report: &RunReport, script: Option<&Path>, words: &[String], args: &[OsString]) -> Option<String> {
    let script = script?;
    let is_script = script.extension().and_then(|end| end.to_str()).is_some_and(|end| SCRIPT_ENDS.contains(&end));
    if !is_script {
        return None;
    }
    let name = script.file_name()?.to_str()?;
    let grant = match script.parent()?.to_str()? {
        "" | "." => ".:rw".to_owned(),
        dir => format!("{dir}:/work:rw"),
    };
    let lacks = |what: &str| report.missing.iter().any(|missing| missing.what == what);
    let (kind, image, runner, fetches) = match () {
        () if lacks(Missing::IMPORTS_OF_URLS) => ("Deno", "denoland/deno", &["deno", "run", "-A"][..], true),
        () if lacks(Missing::API_OF_DENO) => ("Deno", "denoland/deno", &["deno", "run", "-A"][..], false),
        () if lacks(Missing::API_OF_BUN) => ("Bun", "oven/bun", &["bun", "run"][..], false),
        () => return None,
    };
    if has_home(script.parent()?) {
        return Some(format!(
            "the program is for {kind}; run it with {kind} in a container, with --image {image} and from a directory of its own"
        ));
    }
    let options: Vec<String> = args.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let options = &options[..options.len().saturating_sub(words.len() + 1)];
    let mut line = vec!["codebox", "run", "--image", image, "--dir", &grant];
    line.extend(kept(options));
    line.push("--");
    line.extend(runner);
    line.push(name);
    line.extend(words.iter().map(String::as_str));
    // Both install packages themselves.
    let has_packages = options.iter().any(|word| word == "--with" || word.starts_with("--with="));
    let hosts = match (fetches, has_packages) {
        (true, _) => ", with --net for each host of its imports",
        (false, true) => ", with --net for the registry of its packages",
        (false, false) => "",
    };
    Some(format!("the program is for {kind}; to run it with {kind} in a container{hosts}: {}", shell_line(line)))
}

/// Returns the words of the options that a command keeps.
fn kept(options: &[String]) -> Vec<&str> {
    let mut found = Vec::new();
    let mut words = options.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word.split_once('=') {
            Some((name, _)) if KEPT_OPTIONS.contains(&name) => found.push(word),
            None if KEPT_OPTIONS.contains(&word) => found.extend([word].into_iter().chain(words.next())),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use codebox_core::{BackendId, Isolation, Limits, Outcome, Provenance};

    use super::*;

    #[test]
    fn commands_are_whole() {
        let provenance = Provenance::new(BackendId::new("wasm"), Isolation::Wasm);
        let mut report = RunReport::new(Outcome::Exited(1), provenance, Limits::default());
        let words = ["--input".to_owned(), "a b.csv".to_owned()];
        let args = ["codebox", "run", "--with", "x", "--env", "A", "--net=b.example", "a.ts", "--input", "a b.csv"];
        let args = args.map(OsString::from);
        assert_eq!(advice(&report, Some(Path::new("a.ts")), &words, &[]), None);
        report.missing = vec![Missing { what: Missing::API_OF_BUN.to_owned(), hint: String::new() }];
        assert_eq!(advice(&report, Some(Path::new("a.py")), &words, &[]), None);
        let line = advice(&report, Some(Path::new("../d/a.ts")), &[], &[]).expect("a command");
        assert!(line.ends_with("--dir ../d:/work:rw -- bun run a.ts"), "{line}");
        for (what, command) in [
            (
                Missing::IMPORTS_OF_URLS,
                "with --net for each host of its imports: codebox run --image denoland/deno --dir .:rw --env A --net=b.example -- deno run -A a.ts --input 'a b.csv'",
            ),
            (
                Missing::API_OF_DENO,
                "with --net for the registry of its packages: codebox run --image denoland/deno --dir .:rw --env A --net=b.example -- deno run -A a.ts --input 'a b.csv'",
            ),
            (
                Missing::API_OF_BUN,
                "codebox run --image oven/bun --dir .:rw --env A --net=b.example -- bun run a.ts --input 'a b.csv'",
            ),
        ] {
            report.missing = vec![Missing { what: what.to_owned(), hint: String::new() }];
            let line = advice(&report, Some(Path::new("a.ts")), &words, &args).expect("a command");
            assert!(line.ends_with(command), "{line}");
        }
    }
}
