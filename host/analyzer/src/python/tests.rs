use proptest::prelude::*;

use super::*;

fn imports(text: &str) -> Vec<String> {
    let needs = python_needs(text);
    assert_eq!(needs.syntax_error, None, "{text:?}");
    needs.imports.into_iter().collect()
}

#[test]
fn finds_imports_in_all_statements() {
    for (text, found) in [
        ("import os", vec!["os"]),
        ("import os.path as p, sys", vec!["os", "os.path", "sys"]),
        ("from a.b import c", vec!["a", "a.b"]),
        ("from . import x\nfrom .y import z\nimport q", vec!["q"]),
        ("def f():\n    import a\n    class C:\n        import b\n", vec!["a", "b"]),
        (
            "try:\n    import a\nexcept ImportError:\n    import b\nelse:\n    import c\nfinally:\n    import d\n",
            vec!["a", "b", "c", "d"],
        ),
        ("if x: import a\nelif y: import b\nelse: import c", vec!["a", "b", "c"]),
        ("match x:\n    case 1:\n        import a\n", vec!["a"]),
        ("with x: import a; import b", vec!["a", "b"]),
        ("async def f():\n    async with x:\n        import a\n", vec!["a"]),
        ("x = __import__('a.b')", vec!["a", "a.b"]),
        ("f(lambda: importlib.import_module(\"pandas\"))", vec!["pandas"]),
        ("import_module('.rel', 'p'); __import__(name); __import__('no name')", vec![]),
        ("text = 'import pandas'  # import numpy", vec![]),
        ("print(f'{__import__(\"re\").x}')", vec!["re"]),
        ("\u{feff}import os\r\nimport sys\r\n", vec!["os", "sys"]),
        ("import é", vec!["é"]),
    ] {
        assert_eq!(imports(text), found, "{text:?}");
    }
}

#[test]
fn finds_first_imports_in_order() {
    let first = |text: &str| -> Vec<String> {
        let imports = python_needs(text).first_imports;
        imports.into_iter().map(|import| [vec![import.module], import.names].concat().join(" ")).collect()
    };
    for (text, found) in [
        ("import b, a.c as d\nfrom e.f import g as h, i\n", vec!["b", "a.c", "e.f g i"]),
        ("'text'\nfrom __future__ import annotations\nimport a\n'other'\nimport b", vec!["a"]),
        ("import a\nimport os; os.environ['A'] = 'b'\nimport b", vec!["a", "os"]),
        ("from a import *\nfrom . import b\nimport c", vec!["a *"]),
        ("try:\n    import a\nexcept ImportError:\n    pass\nimport b", vec![]),
        ("x = 1\nimport a", vec![]),
        ("import a\nlazy import b\nimport c", vec!["a"]),
        ("import a\nlazy from b import c\nimport d", vec!["a"]),
        ("print('import a')", vec![]),
    ] {
        assert_eq!(first(text), found, "{text:?}");
    }
    let many: String = (0..100).map(|number| format!("import a{number}\n")).collect();
    assert_eq!(first(&many).len(), codebox_analysis::MAX_FIRST_IMPORTS);
    assert_eq!(first(&format!("import a\nimport {}\nimport b", "x".repeat(500))), ["a"]);
}

#[test]
fn invalid_python_has_no_needs() {
    let needs = python_needs("import os\n\nimport ()\n");
    assert!(needs.imports.is_empty());
    assert_eq!(needs.syntax_error.map(|fault| fault.line), Some(3));
}

#[test]
fn skips_long_texts() {
    let text = format!("import a\n{}", "#".repeat(MAX_PYTHON_LEN));
    assert_eq!(python_needs(&text), Needs::default());
}

#[test]
fn parses_wide_data() {
    let row = "[1, -2, f(3.5), 'x' + 'y', a.b[0]],\n";
    assert_eq!(imports(&format!("import a\nx = [\n{}]\n", row.repeat(5_000))), ["a"]);
}

#[test]
fn parses_nested_data() {
    for (open, close) in [("[", "]"), ("-", ""), ("f(", ")"), ("lambda: ", ""), ("(1 +", ")"), ("{1: ", "}")] {
        let (open, close) = (open.repeat(150), close.repeat(150));
        assert_eq!(imports(&format!("import a\nx = {open}1{close}\n")), ["a"], "{}", &open[..2]);
    }
}

/// A check against accidental slowness, not a benchmark: the bound is a hundred times the usual duration.
#[test]
fn parses_thousand_lines_quickly() {
    let text = "import os\ndef f(a, b):\n    return [a + b * 2, {'k': a}] if a else None\n\n".repeat(250);
    let start = std::time::Instant::now();
    assert_eq!(imports(&text), ["os"]);
    assert!(start.elapsed() < std::time::Duration::from_millis(50), "{:?}", start.elapsed());
}

proptest! {
    #[test]
    fn arbitrary_text_does_not_panic(text in any::<String>()) {
        let _ = python_needs(&format!("import a\n{text}"));
    }

    #[test]
    fn arbitrary_tokens_do_not_panic(
        words in prop::collection::vec(prop::sample::select(vec![
            "import", "from", " ", "a", ".", "(", ")", "[", "]", "{", "}", "\n", "    ", ":", "def", "if", "lambda",
            "f'", "'", "\"\"\"", "\\", ",", "=", "*", "match", "case", "async", "with", "\t", "#", "lazy", "t\"", "-",
        ]), 0..80),
    ) {
        let _ = python_needs(&format!("import a\n{}", words.concat()));
    }
}
