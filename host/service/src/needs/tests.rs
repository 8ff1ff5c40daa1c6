use codebox_core::{ByteSize, Language, Limit, Source};

use super::*;
use crate::testing::Parser;

fn words(needs: Needs) -> Vec<String> {
    needs.powers.into_iter().map(|need| need.words).collect()
}

#[test]
fn parses_each_language() {
    let Parser { analyzer, .. } = &Parser::new();
    let needs = |job: &Job| needs_of(job, &LocalModules::none(), analyzer).0;
    let python = Job::python("import os, threading\nthreading.Thread()");
    assert_eq!(needs(&python).modules().collect::<Vec<_>>(), ["os", "threading"]);
    assert_eq!(words(needs(&python)), ["threading.Thread"]);
    let job = |text: &str, language| Job::new(Source::Inline(text.to_owned()), language);
    let text = "import { spawn } from 'child_process'\nspawn('ls')";
    assert_eq!(words(needs(&job(text, Language::JavaScript))), ["child_process.spawn"]);
    assert_eq!(
        words(needs(&job(&format!("{text}\nlet a: number = 1"), Language::TypeScript))),
        ["child_process.spawn"]
    );
    assert_eq!(needs(&job("import ssl", "lua".parse().expect("a name"))), Needs::default());
    assert_eq!(needs(&Job::new(Source::Command(vec!["ls".to_owned()]), Language::Python)), Needs::default());
}

#[test]
fn ignores_local_modules() {
    let Parser { analyzer, .. } = &Parser::new();
    let dir = tempfile::tempdir().expect("a directory");
    for name in ["torch.py", "subprocess.py", "loop.py"] {
        std::fs::write(dir.path().join(name), "").expect("a file");
    }
    let text = "import torch, numba, subprocess, asyncio\nsubprocess.run('ls')\n\
                asyncio.get_event_loop().run_in_executor(None, f)";
    let request = crate::Request {
        dirs: vec![format!("{}:/data", dir.path().display()).parse().expect("a grant")],
        ..crate::Request::new(crate::Program::Inline(text.to_owned()))
    };
    let admitted = crate::admit(request, &crate::Policy::default(), &crate::Process).expect("it is allowed");
    let found = |neighbours: &LocalModules| words(needs_of(admitted.job(), neighbours, analyzer).0);
    assert_eq!(found(&LocalModules::of(admitted.job(), admitted.path_map())), ["import numba", "loop.run_in_executor"]);
    let all = ["import torch", "import numba", "subprocess.run", "loop.run_in_executor"];
    assert_eq!(found(&LocalModules::none()), all);
}

#[test]
fn failed_analysis_is_reported() {
    let _alone = Parser::new();
    let analyzer = Analyzer::with_program("/nonexistent/analyzer".into(), std::time::Duration::from_secs(1));
    let job = Job::python("import os");
    let (needs, why) = needs_of(&job, &LocalModules::none(), &analyzer);
    assert_eq!(needs, Needs::default());
    assert!(why.expect("there is a reason").contains("cannot start the analyzer"));
    let long = Job::python(format!("import os\n#{}", " ".repeat(256 << 10)));
    let why = needs_of(&long, &LocalModules::none(), &analyzer).1;
    assert!(why.expect("there is a reason").contains("the maximum is 262144"));
    // A text without imports needs no analyzer.
    assert_eq!(needs_of(&Job::python("print(1)"), &LocalModules::none(), &analyzer).1, None);
}

#[test]
fn memory_limit_bounds_analysis() {
    let Parser { analyzer, .. } = &Parser::new();
    let text = format!("import os\nx = [{}]\n", "a,".repeat(100_000));
    let mut job = Job::python(text);
    let look = |job: &Job| needs_of(job, &LocalModules::none(), analyzer);
    // This case comes first, because the analyzer caches the result for a text.
    job.limits.memory = Limit::At(ByteSize::mib(1));
    let (needs, why) = look(&job);
    assert_eq!(needs, Needs::default());
    assert!(why.expect("there is a reason").contains("16 MiB of memory"));
    job.limits.memory = Limit::Unlimited;
    assert!(look(&job).0.imports.contains("os"));
}

#[test]
fn analyzes_only_programs_that_may_have_needs() {
    assert!(is_analyzed(&Job::python("import os")) && !is_analyzed(&Job::python("print(1)")));
    assert!(is_analyzed(&Job::new(Source::Inline("1".to_owned()), Language::TypeScript)));
    let script = |text: &str| is_analyzed(&Job::new(Source::Inline(text.to_owned()), Language::JavaScript));
    assert!(!script("console.log(1)"));
    assert!(script("import('./a.ts')") && script("createRequire(x)") && script("eval(x)") && script("fetch(x)"));
    assert!(!is_analyzed(&Job::new(Source::Inline("import".to_owned()), "lua".parse().expect("a name"))));
}
