//! Stack frames that are visible to programs: their own and the library's.

use crate::case::{Case, code, file};
use crate::expect::{ExpectationBuilder as _, TierExpectations as _};
use crate::tier::Tier;

pub fn cases() -> Vec<Case> {
    vec![
        file("frames::program_is_outermost")
            .prints("None\ncall stack is not deep enough\nNone\n['<module>', 'f']\n1\n['f', '<module>']\n")
            .python("import inspect, sys, traceback\nprint(sys._getframe(0).f_back)\ntry: sys._getframe(1)\nexcept ValueError as e: print(e)\nprint(getattr(sys, '_getframemodulename', lambda depth: None)(1))\ndef f():\n    print([frame.name for frame in traceback.extract_stack()])\nf()\nprint(len(inspect.stack()))\ndef f():\n    print([frame.f_code.co_name for frame, _ in traceback.walk_stack(sys._getframe(0))])\nf()"),
        file("frames::warnings_above_the_program")
            .stderr_contains("main.py:3: UserWarning: here")
            .prints("sys\n")
            .python("import sys, warnings\ndef f(level): warnings.warn('here', stacklevel=level)\nf(2)\nwarnings.showwarning = lambda message, category, filename, line, *more: print(filename.strip('<>'))\nf(3)"),
        file("frames::logging_finds_the_program")
            .prints("main.py 3 f\nmain.py 5 <module>\n")
            .python("import logging, sys\nlogging.basicConfig(stream=sys.stdout, format='%(filename)s %(lineno)d %(funcName)s')\ndef f(level=1): logging.warning('x', stacklevel=level)\nf()\nf(2)"),
        file("frames::refused_calls_hide_internals")
            .only_in(Tier::Wasm, "a container has threads")
            .misses("thread")
            .prints("True\n")
            .python("import sys, threading, traceback\ntry: threading.Thread(target=print).start()\nexcept RuntimeError as e:\n    text, names, tb = traceback.format_exc(), [], e.__traceback__\n    while tb: names.append(tb.tb_frame.f_code.co_filename); tb = tb.tb_next\nprint('<codebox' not in text and not [name for name in names if name.startswith('<codebox')])"),
        file("frames::fault_handler")
            .stderr_contains("line 2 in f\n")
            .stderr_contains("line 3 in <module>\n")
            .prints("done\n")
            .python("import faulthandler, sys\ndef f(): faulthandler.dump_traceback()\nf()\nprint('done')"),
        code("names::internal_modules_are_hidden")
            .prints("[] True\n")
            .python("import sys\nours = [name for name in sys.modules if 'codebox' in name]\ntry:\n    import _codebox\nexcept ModuleNotFoundError: print(ours, True)"),
        code("names::replacements_keep_library_names")
            .prints("[]\n[]\n")
            .python("import inspect, os, signal, socket, subprocess, sys, threading, traceback, warnings\nwrong = []\nfor module in (inspect, os, signal, socket, subprocess, sys, threading, traceback, warnings):\n    for name in getattr(module, '__all__', dir(module)):\n        value = getattr(module, name)\n        if 'codebox' in str(getattr(value, '__module__', '')): wrong.append(name)\nprint(wrong)\nprint([name for name in ('dup', 'dup2', 'pipe', 'umask', 'fork', 'kill') if getattr(os, name).__module__ != 'posix' or getattr(os, name).__name__ != name or name not in os.__all__])"),
    ]
}
