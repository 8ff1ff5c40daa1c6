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
        ("if True: 42", None),
        ("", None),
        ("class A:\n  def __repr__(self): raise SystemExit(3)\nA()", None),
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
        ("plt.savefig('a.png')", 1),
        ("x = 1", 1),
    ] {
        let found = results(&format!("{plot}x = 0\n{rest}"));
        let is_image = |data: &Value| data["image/png"].as_str().is_some_and(|png| png.starts_with("iVBORw0KGgo"));
        let images = found.iter().filter(|(role, data)| role == "display" && is_image(data)).count();
        assert_eq!((images, found.len()), (count, count), "{rest}");
    }
    let result = run_in(folder().path(), &["run", "--isolation", "wasm", "-c", &format!("{plot}plt.show()")]);
    assert_eq!((result.code, result.stdout_text(), result.stderr_text()), (Some(0), String::new(), String::new()));
}

#[test]
fn results_above_the_maximum_are_counted() {
    let many = report("for i in range(300): display(i)");
    assert_eq!(many["results"].as_array().map(Vec::len), Some(256));
    assert_eq!(many["results_dropped"], 44);
    let large = report("display('x' * (17 << 20))\ndisplay('y')");
    assert_eq!((&large["results"][0]["data"]["text/plain"], &large["results_dropped"]), (&json!("'y'"), &json!(1)));
}
