//! Rich results of Python programs in the report.

use serde_json::{Value, json};

use crate::support::{folder, kit, run, run_in};

/// Runs a program, which must succeed and write nothing to its standard error, and returns its report.
fn report(program: &str) -> Value {
    let result = run(kit().codebox().args(["run", "--isolation", "wasm", "--json", "-c", program]));
    let report: Value = serde_json::from_slice(&result.stdout).expect("a report");
    assert_eq!((result.code, &report["stderr"]), (Some(0), &json!("")), "{report}");
    report
}

/// Returns the results of a program, each with its role.
fn results(program: &str) -> Vec<(String, Value)> {
    let report = report(program);
    assert!(report.get("results_dropped").is_none(), "{report}");
    let results = report["results"].as_array().expect("a list");
    results.iter().map(|one| (one["role"].as_str().expect("a role").to_owned(), one["data"].clone())).collect()
}

fn value(data: Value) -> (String, Value) {
    ("value".to_owned(), data)
}

fn shown(data: Value) -> (String, Value) {
    ("display".to_owned(), data)
}

#[test]
fn the_value_of_the_last_expression_is_a_result() {
    for (program, expected) in [
        ("x = 41\nx + 1", Some("42")),
        ("'text'", Some("'text'")),
        ("'text'\n__doc__", Some("'text'")),
        ("from __future__ import annotations\ndef f(x: y): pass\nf.__annotations__", Some("{'x': 'y'}")),
        ("class A:\n  def __repr__(self): return 1 / 0\nA()", Some("<A: repr() failed>")),
        ("[1,\n 2][\n1]", Some("2")),
        ("print(1)", None),
        ("x = 1", None),
        ("41 + 1;", None),
        ("41 + 1; # no", None),
        ("x = '\u{e9}'; x ;", None),
        ("42 # x;", Some("42")),
        ("x = 1; '\u{e9}'", Some("'\u{e9}'")),
        (
            "class A:\n  def __init__(self): self.d = {}\n  def __getattr__(self, n): return self.d[n]\n  def __repr__(self): return 'A!'\nA()",
            Some("A!"),
        ),
        (
            "class A:\n  def _repr_mimebundle_(self, **o): return 'any'\n  def __repr__(self): return 'A!'\nA()",
            Some("A!"),
        ),
        ("class A:\n  __class__ = property(lambda self: 1 / 0)\n  def __repr__(self): return 'A!'\nA()", Some("A!")),
        ("if True: 42", None),
        ("", None),
        ("import sys\nsys.exit(0)\n42", None),
    ] {
        let expected: Vec<_> = expected.into_iter().map(|text| value(json!({"text/plain": text}))).collect();
        assert_eq!(results(program), expected, "{program}");
    }
}

#[test]
fn collecting_results_changes_nothing_else() {
    let programs = [
        "import sys\n(1 /\n  0)",
        "def f():\n    return g()\nf()",
        "def f(:",
        "print(sorted(globals()), __doc__)",
        "'doc'",
        "import atexit\natexit.register(lambda: print(sorted(globals())))\n42",
        "class A:\n  def __del__(self): print('gone')\na = A()\na",
        "import warnings\nwarnings.warn('careful')",
        "await f()",
        "return 1",
        "x = 1\nx += '1'",
        "x = '\\d'",
        "x = '\\d'\nx",
        "x = '\\d'\nreturn 1",
        "x = '\\d'\ndef f(:",
        "x = 1 is 1\nx",
        "# -*- coding: latin-1 -*-\nx = '\u{e9}'; x",
    ];
    for program in programs {
        let plain = run_in(folder().path(), &["run", "--isolation", "wasm", "-c", program]);
        let json = run_in(folder().path(), &["run", "--isolation", "wasm", "--json", "-c", program]);
        let report: Value = serde_json::from_slice(&json.stdout).expect("a report");
        let text = |name: &str| report[name].as_str().expect("text").to_owned();
        assert_eq!((text("stdout"), text("stderr")), (plain.stdout_text(), plain.stderr_text()), "{program}");
        assert_eq!(report["exit_code"].as_i64(), plain.code.map(i64::from), "{program}");
    }
}

#[test]
fn displayed_objects_are_results_in_their_forms() {
    let program = "\
class Rich:
    def _repr_html_(self): return '<b>x</b>'
    def _repr_png_(self): return b'\\x89PNG'
    def _repr_json_(self): return {'a': [1, None]}
    def _repr_svg_(self): raise ValueError
    def _repr_latex_(self): return None
    def __repr__(self): return 'rich'
class Bundle:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {'text/plain': 'b', 'text/x-own': 'own'}, {'text/x-own': {'k': 1}}
class Any:
    def __getattr__(self, name): return lambda *a, **k: 'any'
    def __repr__(self): return 'any'
display(Rich(), 1)
display({'text/plain': 'raw'}, raw=True)
display(Rich(), include=['text/html'])
display(Rich(), exclude=['text/html', 'image/png', 'application/json'])
print('between')
display(Bundle(), Any(), Rich)
display('\\ud800')";
    let found = results(program);
    assert_eq!(
        found,
        [
            shown(json!({
                "text/plain": "rich", "text/html": "<b>x</b>", "image/png": "iVBORw==",
                "application/json": {"a": [1, null]},
            })),
            shown(json!({"text/plain": "1"})),
            shown(json!({"text/plain": "raw"})),
            shown(json!({"text/html": "<b>x</b>"})),
            shown(json!({"text/plain": "rich"})),
            shown(json!({"text/plain": "b", "text/x-own": "own"})),
            shown(json!({"text/plain": "any"})),
            shown(json!({"text/plain": "<class '__main__.Rich'>"})),
            shown(json!({"text/plain": "'\\ud800'"})),
        ]
    );
    let report = report(program);
    assert_eq!(report["stdout"], "between\n");
    assert_eq!(report["results"][5]["metadata"], json!({"text/x-own": {"k": 1}}));
}

#[test]
fn without_a_report_display_prints_text() {
    let program = "display([1, 2], 'x')\n42";
    let result = run_in(folder().path(), &["run", "--isolation", "wasm", "-c", program]);
    assert_eq!((result.stdout_text(), result.stderr_text()), ("[1, 2]\n'x'\n".to_owned(), String::new()));
}

#[test]
fn tables_and_images_of_libraries_are_results() {
    let found = results("import pandas as pd\npd.DataFrame({'a': [1, 2]})");
    let [(role, table)] = &found[..] else { panic!("{found:?}") };
    assert_eq!(role, "value");
    assert!(table["text/html"].as_str().is_some_and(|html| html.contains("<table")), "{table}");
    assert_eq!(table["text/plain"], "   a\n0  1\n1  2");
    let found = results("from PIL import Image\ndisplay(Image.new('RGB', (2, 3)))");
    assert!(found[0].1["image/png"].as_str().is_some_and(|png| png.starts_with("iVBORw0KGgo")), "{found:?}");
}

#[test]
fn figures_are_results_when_they_are_shown_and_at_the_end() {
    let plot = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\n";
    for (rest, count) in [
        ("", 1),
        ("plt.show()", 1),
        ("plt.show()\nplt.show()", 1),
        ("plt.show()\nplt.title('changed')\nplt.show()", 2),
        ("plt.gcf().show()", 1),
        ("plt.show()\nplt.figure()\nplt.plot([3]);", 2),
        ("plt.close('all')", 0),
        ("display(plt.gcf())\nplt.close('all')", 1),
        ("display(plt.gcf())", 1),
        ("display(plt.gcf()); display(plt.gcf())", 2),
        ("class A:\n  def __repr__(self): raise SystemExit(3)\nx = A()", 1),
        ("plt.savefig('a.png')", 1),
        ("x = 1", 1),
    ] {
        let found = results(&format!("{plot}x = 0\n{rest}"));
        let is_image = |data: &Value| data["image/png"].as_str().is_some_and(|png| png.starts_with("iVBORw0KGgo"));
        let images = found.iter().filter(|(role, data)| role == "display" && is_image(data)).count();
        assert_eq!((images, found.len()), (count, count), "{rest}");
    }
    let result = run_in(folder().path(), &["run", "--isolation", "wasm", "-c", &format!("{plot}plt.show()")]);
    let note = "codebox: the program has shown a figure; draw it in the terminal or save it with --show\n";
    assert_eq!((result.code, result.stdout_text(), result.stderr_text()), (Some(0), String::new(), note.to_owned()));
}

#[test]
fn a_figure_is_one_result_as_a_value() {
    let plot = "import matplotlib.pyplot as plt\nfigure = plt.figure()\nplt.plot([1, 2])\n";
    for (rest, roles) in [("figure", vec!["value"]), ("plt.show(); figure", vec!["display", "value"])] {
        let found = results(&format!("{plot}{rest}"));
        assert_eq!(found.iter().map(|(role, _)| role.as_str()).collect::<Vec<_>>(), roles, "{rest}");
        assert!(found.iter().all(|(_, data)| data["image/png"].is_string()), "{rest}");
    }
    // Closed figures are not kept.
    let program = "import gc, weakref, matplotlib.pyplot as plt\nfigure = plt.figure()\nplt.show()\nplt.close(figure)\n\
                   seen = weakref.ref(figure)\ndel figure\ngc.collect()\nprint(seen())";
    assert_eq!(report(program)["stdout"], "None\n");
}

#[test]
fn results_that_fail_are_counted_and_affect_no_other() {
    for failure in ["raise SystemExit(3)", "raise KeyboardInterrupt", "return 'x' * (3 << 29)"] {
        let program =
            format!("import matplotlib.pyplot as plt\nplt.plot([1])\nclass A:\n  def __repr__(self): {failure}\nA()");
        let report = report(&program);
        assert_eq!(
            (&report["results_dropped"], &report["results"][0]["role"]),
            (&json!(1), &json!("display")),
            "{failure}"
        );
    }
}

#[test]
fn forms_that_are_no_documents_are_left_out() {
    let program = "\
import numpy as np
class A:
    def __init__(self, form): self.form = form
    def _repr_json_(self): return self.form
    def _repr_html_(self): return 5
    def __repr__(self): return 'A'
display(A({'n': np.int64(1), 'a': np.arange(2)}), A(float('nan')), A({1, 2}))
nested = []
for _ in range(200): nested = [nested]
display({'text/plain': 'x', 'application/json': nested}, raw=True)
display({'text/plain': 'x', 'image/png': b'x' * (7 << 20)}, raw=True)
display(1, metadata=5)";
    let report = report(program);
    let data: Vec<_> = report["results"].as_array().expect("a list").iter().map(|one| one["data"].clone()).collect();
    assert_eq!(data[0], json!({"text/plain": "A", "application/json": {"n": 1, "a": [0, 1]}}));
    assert_eq!((&data[1], &data[2]), (&json!({"text/plain": "A"}), &json!({"text/plain": "A"})));
    assert_eq!(
        (&data[3], &data[4], &data[5]),
        (&json!({"text/plain": "x"}), &json!({"text/plain": "x"}), &json!({"text/plain": "1"}))
    );
    assert_eq!(report["results_dropped"], 2);
}

#[test]
fn errors_have_the_calls_that_led_to_them() {
    let frames = |args: &[&str]| {
        let result = run(kit().codebox().args(["run", "--isolation", "wasm", "--json"]).args(args.iter().copied()));
        let report: Value = serde_json::from_slice(&result.stdout).expect("a report");
        let frames = report["error"]["frames"].as_array().cloned().unwrap_or_default();
        let short = |frame: &Value| {
            let member = |name: &str| frame[name].as_str().unwrap_or("-").to_owned();
            format!("{}:{} {} {}", member("file"), frame["line"], member("function"), member("code"))
        };
        frames.iter().map(short).collect::<Vec<_>>()
    };
    assert_eq!(
        frames(&["-c", "def f(x):\n    return 1 / x\nf(0)"]),
        ["<string>:3 <module> f(0)", "<string>:2 f return 1 / x"]
    );
    assert_eq!(frames(&["-c", "x = 1\ndef f(:"]), ["<string>:2 - def f(:"]);
    let deep = frames(&["-c", "def f(n):\n  if n == 0: raise ValueError('x' * 70000)\n  f(n - 1)\nf(300)"]);
    assert_eq!(
        (deep.len(), deep.last().map(String::as_str)),
        (50, Some("<string>:2 f if n == 0: raise ValueError('x' * 70000)"))
    );
    let message = "import traceback\ntry: 1 / 0\nexcept Exception: m = traceback.format_exc()\nraise RuntimeError(m)";
    assert_eq!(frames(&["-c", message]), ["<string>:4 <module> raise RuntimeError(m)"]);
    assert_eq!(
        frames(&["--lang", "js", "-c", "function f() {\n  throw new Error('no');\n}\nf();"]),
        ["<string>:4 - -", "<string>:2 f throw new Error('no');"]
    );
}

#[test]
fn programs_in_javascript_display_values() {
    let program = "\
const forms = { [Symbol.for('Jupyter.display')]: () => ({ 'text/plain': 'p', 'image/png': new Uint8Array([137, 80]), 'application/json': { a: [1, null] } }) };
display({ a: 'x' });
display(forms);
display({ 'text/html': '<b>x</b>' }, { raw: true, metadata: { k: 1 } });
display({ [Symbol.for('Jupyter.display')]() { throw new Error('no'); }, b: 1n });
console.log(typeof display, Object.keys(globalThis).includes('display'));
await 1;
42;";
    for lang in ["js", "ts"] {
        let args = ["run", "--isolation", "wasm", "--lang", lang];
        let result = run(kit().codebox().args(args).args(["--json", "-c", program]));
        let report: Value = serde_json::from_slice(&result.stdout).expect("a report");
        assert_eq!((&report["stdout"], &report["stderr"]), (&json!("function false\n"), &json!("")), "{report}");
        assert_eq!(
            report["results"],
            json!([
                { "data": { "text/plain": "{ a: 'x' }" }, "metadata": {}, "role": "display" },
                {
                    "data": { "application/json": { "a": [1, null] }, "image/png": "iVA=", "text/plain": "p" },
                    "metadata": {}, "role": "display",
                },
                { "data": { "text/html": "<b>x</b>" }, "metadata": { "k": 1 }, "role": "display" },
                {
                    "data": { "text/plain": "{ b: 1n, [Symbol(Jupyter.display)]: [Function: [Jupyter.display]] }" },
                    "metadata": {}, "role": "display",
                },
            ])
        );
        let plain = run(kit().codebox().args(args).args(["-c", "display(['%s', 1]); display('x')"]));
        assert_eq!((plain.stdout_text(), plain.stderr_text()), ("[ '%s', 1 ]\n'x'\n".to_owned(), String::new()));
    }
}

#[test]
fn results_above_the_maximum_are_counted() {
    let many = report("for i in range(300): display(i)");
    assert_eq!(many["results"].as_array().map(Vec::len), Some(256));
    assert_eq!(many["results_dropped"], 44);
    let large = report("display('x' * (17 << 20))\ndisplay('y')");
    assert_eq!((&large["results"][0]["data"]["text/plain"], &large["results_dropped"]), (&json!("'y'"), &json!(1)));
    let value = report("x = 'x' * (300 << 20)\nx");
    assert_eq!((&value["results"], &value["results_dropped"]), (&json!([]), &json!(1)));
}

#[test]
fn images_are_drawn_or_saved() {
    let folder = kit().folder().expect("a directory");
    let figure = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nprint('out')\n'value'";
    let run = |options: &[&str], text: &str| {
        let words = [&["run"], options, &["-c", text]].concat().into_iter().map(str::to_owned);
        let ran = kit().codebox().folder(folder.path()).args(words).run().expect("it runs");
        assert_eq!(ran.code, Some(0), "{}", ran.stderr_text());
        ran
    };
    // The output is no terminal.
    for name in ["codebox-1.png", "codebox-2.png"] {
        let ran = run(&["--show"], figure);
        assert_eq!(ran.stdout_text(), "out\n'value'\n");
        assert!(ran.stderr_text().contains(&format!("saved an image as {name}")), "{}", ran.stderr_text());
        assert!(std::fs::read(folder.path().join(name)).expect("a file").starts_with(b"\x89PNG"));
    }
    for (protocol, begin, end) in [
        ("kitty", "out\n\x1b_Ga=T,f=100,q=2,m=", "\x1b\\\n'value'\n"),
        ("iterm", "out\n\x1b]1337;File=inline=1;size=", "\x07\n'value'\n"),
        ("sixel", "out\n\x1bP", "\x1b\\\n'value'\n"),
    ] {
        let drawn = run(&[&format!("--show={protocol}")], figure).stdout_text();
        assert!(drawn.starts_with(begin) && drawn.ends_with(end), "{protocol} {:?}", &drawn[..drawn.len().min(100)]);
    }
    // A form that is no image is neither sent to the terminal nor saved.
    let text = "display({'image/png': '\\x1b]0;x\\x07'}, raw=True); display({'image/png': 'QUJD', 'text/plain': 't'}, raw=True)";
    let ran = run(&["--show=kitty"], text);
    assert_eq!(ran.stdout_text(), "<image/png; see --show>\n<image/png; see --show>\n", "{}", ran.stderr_text());
    assert!(!folder.path().join("codebox-3.png").exists());
}
