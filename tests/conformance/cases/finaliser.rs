//! Clean-up code at the end of an object, a block or a program.

use crate::case::{Case, code};
use crate::expect::{ExpectationBuilder as _, TierExpectations as _, expected};
use crate::program::program;

pub fn cases() -> Vec<Case> {
    vec![
        code("finaliser::of_a_global")
            .prints("end\nhelper\n")
            .python("def helper(): print('helper')\nclass A:\n    def __del__(self): helper()\na = A()\nprint('end')")
            .lua("local function near() print('helper') end\na = setmetatable({}, { __gc = near })\nprint('end')"),
        code("finaliser::of_a_global_referenced_by_a_library")
            .prints("gone\n")
            .python("import typing\ndef helper(): print('helper')\nclass A:\n    def __del__(self): print('gone')\na = A()\ntyping.Optional[A]"),
        code("finaliser::order")
            .python(program("class A:\n    def __init__(s, n): s.n = n\n    def __del__(s): print(s.n)\nx = A('x')\n_y = A('_y')\nz = A('z')\nimport atexit\natexit.register(print, 'exit')").prints("exit\nx\n_y\nz\n"))
            .lua(program("for _, name in ipairs { 'x', '_y', 'z' } do\n  _G[name] = setmetatable({}, { __gc = function() print(name) end })\nend\nprint('end')").prints("end\nz\n_y\nx\n")),
        code("finaliser::closes_at_the_end_of_its_block")
            .prints("in\ntidied\nout\n")
            .python("class C:\n    def __enter__(self): return self\n    def __exit__(self, *a): print('tidied')\nwith C():\n    print('in')\nprint('out')")
            .lua("do\n  local c <close> = setmetatable({}, { __close = function() print('tidied') end })\n  print('in')\nend\nprint('out')"),
        code("finaliser::closes_on_an_error")
            .exits(1)
            .prints("tidied\n")
            .python("try:\n    1/0\nfinally:\n    print('tidied')")
            .scripts("try { null.x } finally { console.log('tidied') }")
            .lua("local c <close> = setmetatable({}, { __close = function() print('tidied') end })\nerror('no')"),
        code("finaliser::generator")
            .python(program("def g():\n    try:\n        yield 1\n    finally:\n        print('tidied')\nit = g()\nnext(it)").prints("tidied\n"))
            .scripts(program("function* g() { try { yield 1 } finally { console.log('tidied') } }\nconst it = g()\nit.next()").prints("")),
        code("finaliser::loop_left_early")
            .prints("1\ntidied\n")
            .python("def g():\n    try:\n        yield 1\n        yield 2\n    finally:\n        print('tidied')\nfor n in g():\n    print(n)\n    break")
            .javascript("function* g() { try { yield 1; yield 2 } finally { console.log('tidied') } }\nfor (const n of g()) { console.log(n); break }")
            .typescript("function* g(): Generator<number> { try { yield 1; yield 2 } finally { console.log('tidied') } }\nfor (const n of g()) { console.log(n as number); break }")
            .lua("local function g()\n  return function(_, n) return n < 2 and n + 1 or nil end, nil, 0, setmetatable({}, { __close = function() print('tidied') end })\nend\nfor n in g() do\n  print(n)\n  break\nend"),
        code("finaliser::generator_of_a_raising_function")
            .grant("d", "/work", "rw", &[])
            .exits(1)
            .prints("")
            .leaves_file(("d", "o.txt", "hello"))
            .python("def g():\n    with open('o.txt', 'w') as f:\n        f.write('hello')\n        yield 1\ndef f():\n    it = g()\n    next(it)\n    1/0\nf()"),
        code("finaliser::raises")
            .prints("")
            .python(program("class A:\n    def __del__(self): raise ValueError('no')\na = A()").stderr_contains("Exception ignored"))
            .lua("a = setmetatable({}, { __gc = function() error('no') end })"),
        code("finaliser::exits")
            .python(program("class A:\n    def __del__(self): raise SystemExit(9)\na = A()").prints(""))
            .lua(program("a = setmetatable({}, { __gc = function() os.exit(9) end })").exits(9)),
        code("finaliser::keeps_the_status")
            .python(program("import sys\nclass A:\n    def __del__(self): sys.exit(9)\na = A()\nsys.exit(4)").exits(4).prints(""))
            .lua(program("a = setmetatable({}, { __gc = function() print('gone') end })\nos.exit(4, true)").exits(4).prints("gone\n")),
        code("finaliser::resurrects")
            .prints("once\n")
            .python("import sys\nclass A:\n    def __del__(self): sys.kept = self; print('once')\na = A()")
            .lua("a = setmetatable({}, { __gc = function(self) kept = self print('once') end })"),
        code("finaliser::prints_without_newline")
            .prints("x")
            .python("class A:\n    def __del__(self): print('x', end='')\na = A()")
            .lua("a = setmetatable({}, { __gc = function() io.write('x') end })"),
        code("finaliser::without_builtins")
            .exits(3)
            .prints("on\n")
            .python("import builtins, sys\nclass A:\n    def __del__(self): pass\na = A()\nbuiltins.print('on')\ndel builtins.hasattr, builtins.set, builtins.id\nsys.exit(3)"),
        code("finaliser::deleted_main")
            .prints("gone\n")
            .python("import sys\nclass A:\n    def __del__(self, out=print): out('gone')\na = A()\ndel sys.modules['__main__']"),
        code("finaliser::temporary_directory")
            .prints("True\n")
            .python("import tempfile, os\nd = tempfile.TemporaryDirectory()\nopen(d.name + '/x', 'w').write('1')\nimport atexit\natexit.register(lambda: print(os.path.exists(d.name)))"),
        code("finaliser::without_files")
            .prints("gone\n")
            .python("class A:\n    def __del__(self): print('gone')\nx = [A()]\ndef f(): x")
            .lua("x = { setmetatable({}, { __gc = function() print('gone') end }) }"),
        code("finaliser::hook_exits")
            .stdout_contains("end\n")
            .wasm(expected().prints("end\ngone\nhook\n"))
            .python("import sys\nclass A:\n    def __del__(self): print('gone')\nx = [A()]\nsys.unraisablehook = lambda u: print('hook')\nclass B:\n    def __del__(self): 1/0\ny = B()\nprint('end')"),
        code("finaliser::endless_creation")
            .prints("")
            .python("class A:\n    def __del__(self): A()\n")
            .lua("local function make() setmetatable({}, { __gc = make }) end\nmake()"),
        code("finaliser::creates_objects")
            .prints("")
            .python("class A:\n    def __del__(self):\n        global n\n        n += 1\n        globals()['k%d' % n] = A() if n < 1000 else None\nn = 0\na = A()"),
    ]
}
