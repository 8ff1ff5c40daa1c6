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

/// Returns the frames of an error as short texts.
fn frames(adapter: Adapter, traceback: &str) -> Vec<String> {
    let traceback = traceback.lines().map(str::to_owned).collect();
    let frames = adapter.frames(&GuestError { traceback, ..GuestError::default() });
    let text = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let short = |frame: ErrorFrame| {
        let column = text(frame.column.map(|column| column.to_string()));
        format!("{}:{}:{column} {} {}", frame.file, frame.line, text(frame.function), text(frame.code))
    };
    frames.into_iter().map(short).collect()
}

#[test]
fn reads_frames_of_python() {
    let text = "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nKeyError: 1\n\n\
        During handling of the above exception, another exception occurred:\n\n\
        Traceback (most recent call last):\n  File \"/work/a \"b\".py\", line 7, in <module>\n    f(1,\n      2)\n    ~^~\n\
        \x20 File \"/usr/local/lib/python315.zip/x.py\", line 3, in C.f\n  File \"<string>\", line 9, in g\n    raise E\n\
        \x20 [Previous line repeated 3 more times]\nE: no";
    assert_eq!(
        frames(Adapter::Python, text),
        ["/work/a \"b\".py:7:- <module> f(1,", "/usr/local/lib/python315.zip/x.py:3:- C.f -", "<string>:9:- g raise E",]
    );
    let syntax = "  File \"<string>\", line 2\n    def f(:\n          ^\nSyntaxError: invalid syntax";
    assert_eq!(frames(Adapter::Python, syntax), ["<string>:2:- - def f(:"]);
    let group = "  + Exception Group Traceback (most recent call last):\n  |   File \"a.py\", line 1, in f\n  |     g()\n  | \
        ExceptionGroup: g (1 sub-exception)\n  +-+---------------- 1 ----------------\n    | ValueError: x";
    assert_eq!(frames(Adapter::Python, group), ["a.py:1:- f g()"]);
    assert_eq!(frames(Adapter::Python, "  File \"a\", line x, in f\nwords").len(), 0);
    let message = "Traceback (most recent call last):\n  File \"a.py\", line 5, in f\n    raise E(m)\nE: failed:\n\
        Traceback (most recent call last):\n  File \"b.py\", line 1, in g\n    1/0\nZeroDivisionError: x\n  File \"n.py\", line 1, in n";
    assert_eq!(frames(Adapter::Python, message), ["a.py:5:- f raise E(m)"]);
    let deep = format!("Traceback (most recent call last):\n{}", "  File \"a\", line 1, in f\n".repeat(200));
    assert_eq!(frames(Adapter::Python, &deep).len(), MAX_FRAMES);
}

#[test]
fn reads_frames_of_node_and_lua() {
    let text = "/work/a (1).js:2\n  throw no;\n  ^\n\nTypeError: no\n    at C.f (/work/a (1).js:2:7)\n    at async Promise.all (index 0)\n\
        \x20   at new D (file:///work/b.mjs:4:1)\n    at /work/c.js:9:3\n    at eval (eval at g (/work/c.js:1:1), <anonymous>:1:1)\n\
        \x20   at Module._compile (node:internal/modules/cjs/loader:1554:14)\n    at f (native)\n    at file:///work/<string>:3:1 {\n\
        \x20 [cause]: Error: c\n      at x (/work/d.js:1:1)\n    at y (/work/d.js:1:1)";
    assert_eq!(
        frames(Adapter::Node, text),
        ["<string>:3:1 - -", "/work/c.js:9:3 - -", "/work/b.mjs:4:1 new D -", "/work/a (1).js:2:7 C.f throw no;"]
    );
    let message = "Error: failed\n   at other:3:4\n    at real (/work/a.js:1:2)\nat x (/work/b.js:1:1)";
    assert_eq!(frames(Adapter::Node, message), ["/work/a.js:1:2 real -"]);
    let text = "lua: a.lua:3: no\n\tfake.lua:1: in function 'x'\nstack traceback:\n\t[C]: in function 'error'\n\
        \ta.lua:3: in upvalue 'f'\n\ta.lua:4: in function <a.lua:1>\n\ta.lua:5: in main chunk\n\t[C]: in ?";
    assert_eq!(frames(Adapter::Lua, text), ["a.lua:5:- main chunk -", "a.lua:4:- - -", "a.lua:3:- f -"]);
}
