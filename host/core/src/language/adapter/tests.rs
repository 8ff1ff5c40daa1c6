use super::*;

#[test]
fn reads_missing_module() {
    let module = |adapter: Adapter, text: &str| {
        let error = adapter.parse_error(text).expect("an error");
        adapter.missing_module(&error)
    };
    let python = |last: &str| {
        module(Adapter::Python, &format!("Traceback (most recent call last):\n  File \"a\", line 1, in b\n{last}\n"))
    };
    assert_eq!(python("ModuleNotFoundError: No module named 'pandas'").as_deref(), Some("pandas"));
    assert_eq!(python("ModuleNotFoundError: No module named 'a.b'; 'a' is not a package").as_deref(), Some("a"));
    assert_eq!(python("ImportError: No module named 'pandas'"), None);
    assert_eq!(python("ValueError: No module named 'pandas'"), None);
    let node = |head: &str| {
        module(Adapter::Node, &format!("node:internal/m:1\n  throw e;\n\n{head}\n    at x (node:y:1:2)\n"))
    };
    assert_eq!(node("Error: Cannot find module 'zod'\nRequire stack:\n- /work/a.js").as_deref(), Some("zod"));
    let esm = "Error [ERR_MODULE_NOT_FOUND]: Cannot find package '@a/b' imported from /work/a.mjs";
    assert_eq!(node(esm).as_deref(), Some("@a/b"));
    assert_eq!(node("Error: Cannot find module '/work/b.js'"), None);
    assert_eq!(node("Error: Cannot find module './b'"), None);
}

#[test]
fn knows_native_parts_of_each_library() {
    for feature in ["the module ssl", "the module dbm.gnu", "Python's os.mkfifo"] {
        assert!(Adapter::Python.has_natively(feature) && !Adapter::Node.has_natively(feature), "{feature}");
    }
    for feature in ["the module node:sqlite", "Node's crypto.createCipheriv"] {
        assert!(Adapter::Node.has_natively(feature) && !Adapter::Python.has_natively(feature), "{feature}");
    }
    for text in ["Python's os.mkfifo\n", "Python's \u{1b}[2J", &format!("Python's {}", "x".repeat(1000))] {
        assert!(!Adapter::Python.has_natively(text), "{text:?}");
    }
    for adapter in [Adapter::Python, Adapter::Node, Adapter::Lua] {
        assert!(!adapter.has_natively("the module nosuchmodule") && !adapter.has_natively("threads"));
    }
}

fn parsed(adapter: Adapter, text: &str) -> Option<(String, String, Option<u32>)> {
    adapter.parse_error(text).map(|error| (error.name, error.value, error.line))
}

#[test]
fn parses_python_tracebacks() {
    let text = "warning: x\nTraceback (most recent call last):\n  File \"/work/a.py\", line 7, in <module>\n    f()\n  File \"/work/a.py\", line 3, in f\n    1/0\n    ~^~\nZeroDivisionError: division by zero\n";
    assert_eq!(parsed(Adapter::Python, text), Some(("ZeroDivisionError".into(), "division by zero".into(), Some(3))));
    let text = "  File \"/work/a.py\", line 2\n    x = (\n        ^\nSyntaxError: '(' was never closed\n";
    assert_eq!(parsed(Adapter::Python, text), Some(("SyntaxError".into(), "'(' was never closed".into(), Some(2))));
    let text = "Traceback (most recent call last):\n  File \"<string>\", line 1, in <module>\njson.decoder.JSONDecodeError: a: b\nmore\n";
    assert_eq!(parsed(Adapter::Python, text), Some(("JSONDecodeError".into(), "a: b\nmore".into(), Some(1))));
    assert_eq!(parsed(Adapter::Python, "just words\n"), None);
}

#[test]
fn parses_node_errors() {
    let text = "/work/a.js:2\nthrow new TypeError('no')\n^\n\nTypeError: no\n    at Object.<anonymous> (/work/a.js:2:7)\n\nNode.js v22\n";
    assert_eq!(parsed(Adapter::Node, text), Some(("TypeError".into(), "no".into(), Some(2))));
    assert_eq!(parsed(Adapter::Node, "all is well\n"), None);
    let text = "/work/a.js:4\nthrow new Own('x')\n^\n\nOwn: x\n    at node:internal/f:7:1\n    at g (/work/a.js:4:7)\n";
    assert_eq!(parsed(Adapter::Node, text), Some(("Own".into(), "x".into(), Some(4))));
    let text =
        "node:assert:77\n  throw e\n  ^\n\nAssertionError [ERR_ASSERTION]: x\n    at [eval]:1:18 {\n  code: 'X'\n}\n";
    assert_eq!(parsed(Adapter::Node, text), Some(("AssertionError".into(), "x".into(), Some(1))));
}
