//! Tracebacks name the user's file and lines and nothing of ours.

use crate::case::{Case, code, file, piped};

pub fn cases() -> Vec<Case> {
    vec![
        file("tracebacks::file_and_line", "\n\ndef f():\n    return 1 / 0\n\nf()\n")
            .exits(1)
            .complains("main.py\", line 6, in <module>\n    f()")
            .complains("main.py\", line 4, in f\n    return 1 / 0"),
        file("tracebacks::nothing_else", "1/0")
            .exits(1)
            .look(|report| {
                let frames = report.stderr().matches("  File \"").count();
                if frames == 1 { Ok(()) } else { Err(format!("{frames} frames")) }
            })
            .look(|report| {
                if report.stderr().starts_with("Traceback (most recent call last):\n  File \"") {
                    return Ok(());
                }
                Err("it does not begin as Python's".to_owned())
            }),
        file("tracebacks::chained", CHAIN)
            .exits(1)
            .complains("During handling of the above exception, another exception occurred:")
            .complains("line 2, in <module>")
            .complains("line 4, in <module>"),
        file("tracebacks::cause", "try:\n    1/0\nexcept Exception as e:\n    raise KeyError('k') from e")
            .exits(1)
            .complains("The above exception was the direct cause of the following exception:"),
        file("tracebacks::marks", "x = {'a': {}}\nprint(x['a']['b'])").exits(1).complains("~~~~~~^^^^^"),
        file("tracebacks::notes", "e = ValueError('v')\ne.add_note('a note')\nraise e").exits(1).complains("a note"),
        file("tracebacks::syntax", "x = (1,\n").exits(1).complains("main.py\", line 1").complains("never closed"),
        file("tracebacks::indentation", "if 1:\nx").exits(1).complains("IndentationError"),
        code("tracebacks::inline", "def f():\n    raise ValueError('v')\nf()")
            .exits(1)
            .complains("File \"<string>\", line 3, in <module>")
            .complains("File \"<string>\", line 2, in f"),
        piped("tracebacks::from_stdin", "\n1/0").exits(1).complains("File \"<stdin>\", line 2, in <module>"),
        code("tracebacks::in_the_library", "import json\njson.loads('{')")
            .exits(1)
            .complains("json/decoder.py\", line")
            .complains("JSONDecodeError"),
        code("tracebacks::in_asyncio", "import asyncio\nasync def f(): 1/0\nasyncio.run(f())")
            .exits(1)
            .complains("line 2, in f"),
        code(
            "tracebacks::printed_by_the_program",
            "import traceback\ntry:\n    1/0\nexcept Exception:\n    traceback.print_exc()",
        )
        .complains("line 3, in <module>"),
        code("tracebacks::stack_has_only_the_program", "import traceback\nprint(len(traceback.extract_stack()))")
            .prints("1\n"),
        code("tracebacks::recursion", "def f(): f()\nf()")
            .exits(1)
            .complains("RecursionError: maximum recursion depth exceeded")
            .complains("[Previous line repeated"),
    ]
}

const CHAIN: &str = "try:
    {}['k']
except KeyError:
    1 / 0";
