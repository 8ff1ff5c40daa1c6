//! Hostile texts: no text harms this process or exceeds its limits.

#![cfg(target_os = "linux")]

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use codebox_analysis::{AnalysisError, Analyzer, Budget, StripRequest, StripResponse, split_answer};

/// The memory of an analyzer beside the limit of a text: the program itself and the received text.
const BASE: u64 = 32 << 20;

/// Set in a run of this test program with a limited address space.
const LIMITED: &str = "CODEBOX_TEST_ADDRESS_SPACE";

fn analyzer() -> (tempfile::TempDir, Analyzer) {
    let dir = tempfile::tempdir().expect("a directory");
    let analyzer = Analyzer::below(&dir.path().join("programs"));
    (dir, analyzer)
}

fn nested(open: &str, middle: &str, close: &str, levels: usize) -> String {
    format!("{}{middle}{}", open.repeat(levels), close.repeat(levels))
}

fn repeat_to_len(link: &str, length: usize) -> String {
    link.repeat(length / link.len())
}

/// The most expensive texts for the parsers of TypeScript and JavaScript.
fn scripts() -> Vec<String> {
    const LONG: usize = 500 << 10;
    let nested_forms = [
        ("(", "1", ")"),
        ("[", "1", "]"),
        ("{a:", "1", "}"),
        ("(a=", "1", ")"),
        ("a?(b=", "1", "):c"),
        ("(function(){", "", "})()"),
        ("({get a(){", "", "}})"),
        ("class A{m(){", "", "}}"),
        ("async()=>{", "", "}"),
        ("namespace A{", "", "}"),
        ("`${", "1", "}`"),
        ("let x:A<", "A", ">"),
        ("f<", "A", ">()"),
        // These constructs are parsed again at every level.
        ("type T=(infer A extends ", "A", " ? 0 : 0)"),
        ("({a=b as ", "c", ":0)=>0}:0)=>0"),
        ("a<{[", "x", "]:y}>b"),
    ];
    let chains = [
        "!",
        "- ",
        "typeof ",
        "a=>",
        "a=",
        "a?",
        "1?1:",
        "1+",
        "a.",
        "1**",
        "a&&",
        "a,",
        "new ",
        "await ",
        "keyof ",
        "if(1);else ",
        "a:",
        "@a ",
        "x!",
        "a?.b",
        "a`b`",
        "a()",
        "a[0]",
        "<T>",
        "type A=()=>",
        "async a=>",
        "do ",
        "for(;;)",
        "export default ",
        "infer ",
        "type A=B extends C?D:",
        "a as T|",
    ];
    let mut texts = vec![
        format!("export{{{}}}", "a,".repeat(65_537)),
        format!("export{{{}}}", "a,".repeat(250_000)),
        format!("import {{{}}} from 'x'", "a,".repeat(200_000)),
        format!("let x = '{}'", "a".repeat(LONG)),
        format!("let x = {{{}}}", "a:1,".repeat(LONG / 5)),
        format!(
            "enum A {{ b0 = 'xxxxxxxx', {} }}",
            (0..60).map(|n| format!("b{} = b{n} + b{n},", n + 1)).collect::<String>()
        ),
        format!("namespace {} {{ export const b = 1 }}", vec!["a"; 400].join(".")),
        "\u{0}".repeat(LONG),
        "/".repeat(LONG),
        "\n".repeat(LONG),
        repeat_to_len("let a;", LONG),
        repeat_to_len("@", LONG),
        repeat_to_len("var \u{1F600}=1;", LONG),
    ];
    for (open, middle, close) in nested_forms {
        texts.extend([40, 199].map(|levels| nested(open, middle, close, levels)));
        texts.push(nested(open, middle, close, LONG / (open.len() + close.len() + 1)));
    }
    for link in chains {
        texts.push(format!("import 'x';{}1", repeat_to_len(link, LONG)));
        texts.push(format!("fetch('x');{}a", repeat_to_len(link, 100_000)));
        texts.push(format!("type X={}1", repeat_to_len(link, 64 << 10)));
    }
    texts
}

/// The most expensive texts for the parser of Python. Each has an import, because other texts are not parsed.
fn python() -> Vec<String> {
    const LONG: usize = 250 << 10;
    let mut texts = vec![
        format!("import os\nx = [{}]", repeat_to_len("1,", LONG)),
        format!("import os\nx = {}", repeat_to_len("1+", LONG)),
        format!("import {}", repeat_to_len("a,", LONG)),
        format!("import {}", repeat_to_len("a.", LONG)),
        format!("import os\n'{}'", "a".repeat(LONG)),
        format!("import os\nf'{}'", repeat_to_len("{a}", LONG)),
        format!("import os\n{}", repeat_to_len("a=1\n", LONG)),
        format!("import os\n{}", "\u{0}".repeat(LONG)),
        format!("import os\n{}", repeat_to_len("match x:\n case (", LONG)),
    ];
    for pattern in [
        "lambda \n",
        "lambda \n  @",
        "lambda a\n",
        "match lambda lambda \n  ",
        "\n + lambda ;*|:=",
        "(",
        "[",
        "if x:\n ",
    ] {
        texts.push(format!("import os\n{}", repeat_to_len(pattern, LONG)));
    }
    for (open, close) in [("[", "]"), ("f(", ")"), ("lambda: ", ""), ("not ", ""), ("f'{", "}'")] {
        for levels in [190, 20_000] {
            texts.push(format!("import os\nx = {}", nested(open, "1", close, levels)));
        }
    }
    texts
}

fn excerpt(text: &str) -> String {
    format!("{} bytes of {:?}", text.len(), text.chars().take(60).collect::<String>())
}

fn strip(analyzer: &Analyzer, text: &str, budget: Budget) -> StripResponse {
    analyzer.strip(&StripRequest { file: "a.ts".to_owned(), text: text.to_owned() }, budget)
}

/// Checks that the same analyzer still serves a cheap text.
fn assert_serves(analyzer: &Analyzer) {
    // The texts differ, because answers are cached.
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let stripped = strip(analyzer, &format!("let a: number = {number}"), Budget::default());
    assert_eq!(split_answer(&stripped.answer), Ok(format!("let a = {number};\n")));
}

#[test]
fn enforces_limits_on_hostile_scripts() {
    let (_dir, analyzer) = analyzer();
    for memory in [None, Some(64 << 20)] {
        let cpu = Duration::from_secs(1);
        let budget = Budget::within(memory, Some(cpu));
        for text in scripts() {
            let StripResponse { answer, used } = strip(&analyzer, &text, budget);
            let description = excerpt(&text);
            assert!(
                used.peak_memory <= memory.unwrap_or(256 << 20) + BASE,
                "{} MiB: {description}",
                used.peak_memory >> 20
            );
            // The timer counts in kernel ticks, and freeing the memory of a text takes time too.
            assert!(used.cpu <= cpu * 2, "{:?}: {description}", used.cpu);
            assert!(answer.contains(&b'\n'), "{description}");
            let _ = analyzer.script_needs("a.ts", &text, budget);
        }
        assert_serves(&analyzer);
    }
}

#[test]
fn survives_hostile_python() {
    let (_dir, analyzer) = analyzer();
    for memory in [None, Some(64 << 20)] {
        for text in python() {
            let budget = Budget::within(memory, Some(Duration::from_secs(1)));
            let _ = analyzer.python_needs(&text, budget);
            let _ = analyzer.is_python(&text, budget);
        }
        assert_serves(&analyzer);
    }
}

#[test]
fn reports_reason_of_failure() {
    let (_dir, analyzer) = analyzer();
    let large = format!("import os\nx = [{}]\n", "a,".repeat(100_000));
    let needs = analyzer.python_needs(&large, Budget::within(Some(1), None));
    assert_eq!(needs, Err(AnalysisError::Memory { limit: 16 << 20 }));
    let short = Duration::from_millis(1);
    let busy = format!("import os\n{}", "a = [1, 2, {3: f(4)}]\n".repeat(11_000));
    assert_eq!(
        analyzer.python_needs(&busy, Budget::within(None, Some(short))),
        Err(AnalysisError::Cpu { limit: short })
    );
    let long = strip(&analyzer, &" ".repeat(2 << 20), Budget::default());
    assert!(split_answer(&long.answer).expect_err("it is too long").message.contains("the maximum is 1048576"));
    let deep = format!("import os\nx = {}1", "-".repeat(250_000));
    let needs = analyzer.python_needs(&deep, Budget::default());
    assert!(matches!(needs, Err(AnalysisError::Memory { .. })), "{needs:?}");
    let deep = strip(&analyzer, &nested("(", "1", ")", 200_000), Budget::default());
    assert!(split_answer(&deep.answer).expect_err("it is too deep").message.contains("nested too deeply"));
    let error = split_answer(&strip(&analyzer, "let a: = 1", Budget::default()).answer).expect_err("a syntax error");
    assert_eq!((error.line, error.column), (Some(1), Some(8)));
    assert_serves(&analyzer);
}

#[test]
fn serves_texts_concurrently() {
    let (_dir, analyzer) = analyzer();
    let hostile = format!("export{{{}}}", "a,".repeat(250_000));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..3).for_each(|_| drop(strip(&analyzer, &hostile, Budget::within(Some(64 << 20), None)))));
            scope.spawn(|| (0..20).for_each(|_| assert_serves(&analyzer)));
        }
    });
}

#[test]
fn prestarted_process_serves_after_close() {
    let (_dir, analyzer) = analyzer();
    analyzer.prestart();
    analyzer.close();
    assert_serves(&analyzer);
    assert_serves(&analyzer);
    let (_dir, closed) = self::analyzer();
    closed.close();
    closed.prestart();
    let error = closed.python_needs("import os", Budget::default()).expect_err("none may be started");
    assert!(error.to_string().contains("sandboxed"), "{error}");
}

#[test]
fn reports_prestart_error_after_close() {
    let analyzer = Analyzer::with_program("/nonexistent/analyzer".into(), Duration::from_secs(5));
    analyzer.prestart();
    analyzer.close();
    let error = analyzer.python_needs("import os", Budget::default()).expect_err("there is no such program");
    assert!(error.to_string().contains("No such file"), "{error}");
}

/// Runs hostile texts in a process with a small address space: neither the process nor its analyzers end when an
/// allocation fails.
#[test]
fn little_address_space_is_survived() {
    if std::env::var_os(LIMITED).is_some() {
        let (_dir, analyzer) = analyzer();
        for text in scripts().into_iter().take(8) {
            let _ = strip(&analyzer, &text, Budget::default());
        }
        for text in python().into_iter().take(4) {
            let _ = analyzer.python_needs(&text, Budget::default());
        }
        assert_serves(&analyzer);
        return;
    }
    let program = std::env::current_exe().expect("this program");
    for kibibytes in [160_000, 400_000] {
        let limited = Command::new("sh")
            .args(["-c", &format!("ulimit -v {kibibytes}; exec \"$0\" \"$@\"")])
            .arg(&program)
            .args(["--exact", "little_address_space_is_survived", "--test-threads", "1"])
            .env(LIMITED, "1")
            .output()
            .expect("a shell");
        assert!(limited.status.success(), "{kibibytes}: {}", String::from_utf8_lossy(&limited.stdout));
    }
}
