//! What a program finds when it starts, as with `python FILE`, `python -c` and `python -`.

use crate::case::{Case, bytes, code, file, named_file, piped};

pub fn cases() -> Vec<Case> {
    vec![
        file("program::main_module", "print(__name__, __import__('sys').modules['__main__'].__dict__ is globals())")
            .prints("__main__ True\n"),
        file("program::file_name", "import os\nprint(os.path.basename(__file__), os.path.isabs(__file__))")
            .prints("main.py True\n"),
        file("program::file_names_itself", "print(open(__file__).read().splitlines()[0][:5])").prints("print\n"),
        file("program::arguments", "import sys\nprint(sys.argv[1:])")
            .args(&["--", "one", "-x", "--two=2", "", "ü -- b"])
            .prints("['one', '-x', '--two=2', '', 'ü -- b']\n"),
        file("program::arguments_without_separator", "import sys\nprint(sys.argv)")
            .args(&["--json", "-c"])
            .prints("['main.py', '--json', '-c']\n"),
        file("program::path0_is_the_folder", "import os, sys\nprint(sys.path[0] == os.path.dirname(__file__))")
            .prints("True\n"),
        file("program::imports_a_neighbour", "import sys\nsys.path.insert(0, '/mods')\nimport near\nprint(near.here)")
            .grant(("mods", "/mods", "ro"), &[("near.py", "here = __name__")])
            .prints("near\n"),
        file("program::working_directory", "import os\nprint(os.getcwd(), os.listdir('.'))").prints_with("/work ["),
        file("program::dunder_names", "print(__doc__, __package__, __spec__, __builtins__.__name__)")
            .prints("None None None builtins\n"),
        file("program::loader", "print(type(__loader__).__name__)").prints("SourceFileLoader\n"),
        file("program::annotations", "x: int = 1\nprint(globals().keys() >= {'x'})").prints("True\n"),
        file("program::no_leftovers", "print(sorted(n for n in globals() if not n.startswith('__')))").prints("[]\n"),
        code("program::inline", "import sys\nprint(__name__, sys.argv, sys.path[0] == '', '__file__' in globals())")
            .args(&["a", "-b"])
            .prints("__main__ ['-c', 'a', '-b'] True False\n"),
        piped("program::from_stdin", "import sys\nprint(__name__, sys.argv[0], sys.stdin.read())")
            .prints_with("__main__ - "),
        named_file("program::name_with_spaces", "a b ü.py", "import os\nprint(os.path.basename(__file__))")
            .prints("a b ü.py\n"),
        named_file("program::name_without_ending", "script", "print(__name__)").prints("__main__\n"),
        bytes("program::byte_order_mark", b"\xef\xbb\xbfprint('\xc3\xa9')").prints("é\n"),
        bytes("program::declared_encoding", b"# -*- coding: latin-1 -*-\nprint('\xe9')").prints("é\n"),
        bytes("program::carriage_returns", b"x = 1\r\nprint(x)\r\n").prints("1\n"),
        file(
            "program::future_import",
            "from __future__ import annotations\ndef f(a: b): ...\nprint(f.__annotations__)",
        )
        .prints("{'a': 'b'}\n"),
        file("program::shebang", "#!/usr/bin/env python3\nprint('ran')").prints("ran\n"),
        code("program::pickles_its_own_classes", PICKLE).prints("7\n"),
        code("program::dataclass_in_main", DATACLASS).prints("P(x=1)\n"),
        code("program::version", "import sys\nprint(sys.version_info >= (3, 12), sys.platform)").prints("True wasi\n"),
        code("program::recursion_is_an_exception", RECURSION).prints("RecursionError\n"),
        code("program::warnings_go_to_stderr", "import warnings\nwarnings.warn('careful')\nprint('on')")
            .prints("on\n")
            .complains("UserWarning: careful"),
        code("program::exit_is_there", "print(callable(exit), callable(quit))").prints("True True\n"),
    ]
}

const PICKLE: &str = "import pickle
class C:
    def __init__(self): self.n = 7
print(pickle.loads(pickle.dumps(C())).n)";

const DATACLASS: &str = "from dataclasses import dataclass
@dataclass
class P:
    x: int
print(P(1))";

const RECURSION: &str = "def f(): f()
try:
    f()
except RecursionError as e:
    print(type(e).__name__)";
