//! How programs end, and the status that follows.

use crate::case::{Case, code, file};

pub fn cases() -> Vec<Case> {
    vec![
        code("ends::by_itself", "pass").prints(""),
        code("ends::exit_number", "import sys\nsys.exit(7)").exits(7),
        code("ends::exit_zero", "raise SystemExit(0)").exits(0),
        code("ends::exit_none", "raise SystemExit").exits(0),
        code("ends::exit_explicit_none", "raise SystemExit(None)").exits(0),
        code("ends::exit_true", "raise SystemExit(True)").exits(1),
        code("ends::exit_false", "raise SystemExit(False)").exits(0),
        code("ends::exit_text", "import sys\nsys.exit('no such thing')").exits(1).complains("no such thing\n"),
        code("ends::exit_tuple", "import sys\nsys.exit((1, 2))").exits(1).complains("(1, 2)\n"),
        code("ends::exit_empty_tuple", "raise SystemExit(())").exits(1).complains("()\n"),
        code("ends::exit_two_arguments", "raise SystemExit(1, 2)").exits(1).complains("(1, 2)\n"),
        code("ends::exit_float", "raise SystemExit(2.0)").exits(1).complains("2.0\n"),
        code("ends::exit_wraps", "raise SystemExit(256 + 3)").exits(3),
        code("ends::exit_negative", "raise SystemExit(-1)").exits(255),
        code("ends::exit_is_no_error", "import sys\nsys.exit(3)").exits(3).never_says("Traceback").look(|report| {
            if report.at("/error").is_null() { Ok(()) } else { Err(format!("error {}", report.at("/error"))) }
        }),
        code("ends::exit_builtin", "exit(4)").exits(4),
        code("ends::quit_builtin", "quit()").exits(0),
        code("ends::os_exit", "import os, sys\nprint('kept', flush=True)\nos._exit(5)").exits(5).prints("kept\n"),
        code("ends::exit_in_a_function", "def f(): raise SystemExit(6)\ntry:\n    f()\nfinally:\n    print('tidied')")
            .exits(6)
            .prints("tidied\n"),
        code("ends::uncaught", "1 / 0").exits(1).complains("ZeroDivisionError: division by zero").look(|report| {
            let error = report.at("/error");
            if error["name"] == "ZeroDivisionError" && error["value"] == "division by zero" && error["line"] == 1 {
                return Ok(());
            }
            Err(format!("error is {error}"))
        }),
        code("ends::keyboard_interrupt", "raise KeyboardInterrupt").exits(130).complains("KeyboardInterrupt"),
        file("ends::syntax_error", "def f(:\n    pass\n").exits(1).complains("SyntaxError: ").complains("main.py"),
        file("ends::null_byte", "x = 1\0\n").exits(1).complains("SyntaxError"),
        code("ends::atexit_order", ATEXIT).prints("end\nsecond\nfirst\n"),
        code("ends::atexit_after_error", "import atexit\natexit.register(print, 'bye')\n1/0").exits(1).prints("bye\n"),
        code("ends::atexit_after_exit", "import atexit, sys\natexit.register(print, 'bye')\nsys.exit(3)")
            .exits(3)
            .prints("bye\n"),
        code("ends::atexit_raises", "import atexit\natexit.register(lambda: 1/0)\nprint('on')")
            .exits(0)
            .prints("on\n")
            .complains("ZeroDivisionError"),
        code("ends::excepthook", HOOK).exits(1).prints("hooked ValueError\n").never_says("Traceback"),
        code("ends::unraisable", "class C:\n    def __del__(self): 1/0\nC()\nprint('on')")
            .prints("on\n")
            .complains("ZeroDivisionError"),
        code("ends::closed_stdout", "import sys\nprint('kept')\nsys.stdout.close()").prints("kept\n"),
        code("ends::assertion", "assert 1 == 2, 'not equal'").exits(1).complains("AssertionError: not equal"),
        code("ends::exception_group", "raise ExceptionGroup('g', [ValueError(1), TypeError(2)])")
            .exits(1)
            .complains("ExceptionGroup: g (2 sub-exceptions)"),
        code("ends::abort_is_a_trap", "import os\nprint('on', flush=True)\nos.abort()")
            .ends("guest_error", 134)
            .prints("on\n"),
    ]
}

const ATEXIT: &str = "import atexit
atexit.register(print, 'first')
atexit.register(print, 'second')
print('end')";

const HOOK: &str = "import sys
sys.excepthook = lambda kind, value, tb: print('hooked', kind.__name__)
raise ValueError";
