//! Programs for Deno and Bun.

use std::path::Path;

use codebox_core::{Missing, RunReport};

use crate::rerun_command::shell_line;

/// Ends of the names of programs in JavaScript and TypeScript.
const SCRIPT_ENDS: [&str; 8] = ["js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx"];

/// Returns the line with the command that runs a program in a container of its own runner; `None` if it is for Node.
pub(super) fn advice(report: &RunReport, script: Option<&Path>, words: &[String]) -> Option<String> {
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
    let mut line = vec!["codebox", "run", "--image", image, "--dir", &grant];
    line.push("--");
    line.extend(runner);
    line.push(name);
    line.extend(words.iter().map(String::as_str));
    let hosts = if fetches { ", with --net for each host of its imports" } else { "" };
    Some(format!("the program is for {kind}; to run it with {kind} in a container{hosts}: {}", shell_line(line)))
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
        assert_eq!(advice(&report, Some(Path::new("a.ts")), &words), None);
        report.missing = vec![Missing { what: Missing::API_OF_BUN.to_owned(), hint: String::new() }];
        assert_eq!(advice(&report, Some(Path::new("a.py")), &words), None);
        let line = advice(&report, Some(Path::new("../d/a.ts")), &[]).expect("a command");
        assert!(line.ends_with("--dir ../d:/work:rw -- bun run a.ts"), "{line}");
        for (what, command) in [
            (
                Missing::IMPORTS_OF_URLS,
                "with --net for each host of its imports: codebox run --image denoland/deno --dir .:rw -- deno run -A a.ts --input 'a b.csv'",
            ),
            (
                Missing::API_OF_DENO,
                "codebox run --image denoland/deno --dir .:rw -- deno run -A a.ts --input 'a b.csv'",
            ),
            (Missing::API_OF_BUN, "codebox run --image oven/bun --dir .:rw -- bun run a.ts --input 'a b.csv'"),
        ] {
            report.missing = vec![Missing { what: what.to_owned(), hint: String::new() }];
            let line = advice(&report, Some(Path::new("a.ts")), &words).expect("a command");
            assert!(line.ends_with(command), "{line}");
        }
    }
}
