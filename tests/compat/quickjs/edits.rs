//! Edits of tests that expect engine behaviour which this runtime replaces by Node's, or that need the engine's own
//! runner.

use anyhow::{Result, ensure};

/// Specifier of the replacement for quickjs-libc.
const LIBC: &str = "\"/work/libc.mjs\"";

/// Edit: the test, the original text and its replacement.
type Edit = (&'static str, &'static str, &'static str);

const EDITS: [Edit; 21] = [
    // Programs see V8's messages.
    ("null_or_undefined", "cannot read property 'x' of null", "Cannot read properties of null (reading 'x')"),
    ("null_or_undefined", "cannot read property 'x' of undefined", "Cannot read properties of undefined (reading 'x')"),
    ("bug1591", ", \"duplicate group name\")", ".endsWith(\": Duplicate capture group name\"), true)"),
    ("bug1498", "\"invalid number literal\"", "\"Invalid or unexpected token\""),
    (
        "test_builtin",
        "\"invalid character in class in regular expression\"",
        "\"Invalid regular expression: /[a-]/v: Invalid character in character class\"",
    ),
    // Positions of errors in `eval` code follow V8 too.
    ("bug1498", "    assert(error.stack[0].getFileName(), \"<input>\");\n", ""),
    ("bug1498", "    assert(error.stack[0].getLineNumber(), 2);\n", ""),
    ("bug1498", "    assert(error.stack[0].getColumnNumber(), 13);\n", ""),
    ("global-reference-column", "/<input>:", "/<anonymous>:"),
    (
        "test_builtin",
        "\"this is not initialized\"",
        "\"Must call super constructor in derived class before accessing 'this' or returning from derived constructor\"",
    ),
    ("test_builtin", "\"ArrayBuffer is detached\"", "\"Cannot perform Construct on a detached ArrayBuffer\""),
    ("test_builtin", "\"invalid value used as WeakMap key\"", "\"Invalid value used as weak map key\""),
    ("test_builtin", "\"invalid value used as WeakSet key\"", "\"Invalid value used in weak set\""),
    // Dates have Node's format for the United States.
    ("test_builtin", "\"04/07/2024, 0", "\"4/7/2024, "),
    ("test_builtin", "\"04/07/2024, 1", "\"4/7/2024, 1"),
    // Stacks are created on access, and a position is that of `new`, as in Node.
    ("callsite-isconstructor", "void new Error(\"\")", "void new Error(\"\").stack"),
    ("test_builtin", "\ntest_exception_source_pos();\n", "\n"),
    ("test_builtin", "\ntest_exception_prepare_stack();\n", "\n"),
    ("test_builtin", "\ntest_exception_stack_size_limit();\n", "\n"),
    // Programs cannot query the memory representation of a string.
    ("test_builtin", "qjs.getStringKind(\"xyzzy\".slice(1))", "0"),
    ("test_builtin", "qjs.getStringKind(\"xyzzy\".repeat(512).slice(1))", "1"),
];

/// Applies the edits of a test and redirects its imports of quickjs-libc to the replacement.
pub fn apply_edits(test: &str, mut text: String) -> Result<String> {
    for (_, from, to) in EDITS.iter().filter(|(edited, ..)| *edited == test) {
        ensure!(text.contains(from), "{test} no longer contains {from:?}");
        text = text.replace(from, to);
    }
    Ok(text.replace("\"qjs:std\"", LIBC).replace("\"qjs:os\"", LIBC))
}
