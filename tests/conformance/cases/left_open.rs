//! Files that a program leaves open at its end, which keep all written data.

use crate::case::{Case, code, file};
use crate::expect::{ExpectationBuilder as _, TierExpectations as _, expected};
use crate::program::program;
use crate::tier::Tier;

pub fn cases() -> Vec<Case> {
    vec![
        code("left_open::with_unusual_metaclass")
            .grant("d", "/work", "rw", &[])
            .prints("")
            .leaves_file(("d", "o.txt", "hello"))
            .python("class M(type):\n    def __getattr__(c, n): raise KeyError(n)\nclass A(metaclass=M): pass\na = A()\nf = open('o.txt', 'w')\nf.write('hello')"),
        code("left_open::global")
            .grant("d", "/work", "rw", &[])
            .prints("")
            .leaves_file(("d", "o.txt", "hello"))
            .python("f = open('o.txt', 'w')\nf.write('hello')")
            .scripts("const f = require('fs').createWriteStream('o.txt')\nf.write('hello')")
            .lua("f = io.open('o.txt', 'w')\nf:write('hello')"),
        code("left_open::global_used_by_a_function")
            .grant("d", "/work", "rw", &[])
            .prints("")
            .leaves_file(("d", "o.txt", "hello"))
            .python("f = open('o.txt', 'w')\ndef put(t): f.write(t)\nput('hello')")
            .javascript("const f = require('fs').createWriteStream('o.txt')\nfunction put(t) { f.write(t) }\nput('hel')\nput('lo')")
            .typescript("import { createWriteStream, type WriteStream } from 'fs'\nconst f: WriteStream = createWriteStream('o.txt')\nfunction put(t: string): void { f.write(t) }\nput('hel')\nput('lo')")
            .lua("f = io.open('o.txt', 'w')\nlocal function put(t) f:write(t) end\nput('hello')"),
        code("left_open::csv_writer")
            .grant("d", "/work", "rw", &[])
            .prints("")
            .leaves_file(("d", "o.csv", "1,2\r\n"))
            .python("import csv\nw = csv.writer(open('o.csv', 'w', newline=''))\nw.writerow([1, 2])"),
        code("left_open::local_of_a_raising_function")
            .grant("d", "/work", "rw", &[])
            .exits(1)
            .prints("")
            .leaves_file(("d", "o.txt", "hello"))
            .python(program("def f():\n    g = open('o.txt', 'w')\n    g.write('hello')\n    1/0\nf()").stderr_contains("ZeroDivisionError"))
            .javascript(program("const fs = require('fs')\nfunction f() {\n  const g = fs.openSync('o.txt', 'w')\n  fs.writeSync(g, 'hello')\n  null.x\n}\nf()").stderr_contains("TypeError"))
            .typescript(program("import * as fs from 'fs'\nfunction f(): never {\n  const g: number = fs.openSync('o.txt', 'w')\n  fs.writeSync(g, 'hello')\n  throw new TypeError('no')\n}\nf()").stderr_contains("TypeError: no"))
            .lua(program("local function f()\n  local g = io.open('o.txt', 'w')\n  g:write('hello')\n  error('no')\nend\nf()").stderr_contains("no")),
        code("left_open::local_of_an_exiting_function")
            .grant("d", "/work", "rw", &[])
            .exits(3)
            .prints("")
            .leaves_file(("d", "o.txt", "hello"))
            .python("def f():\n    g = open('o.txt', 'w')\n    g.write('hello')\n    raise SystemExit(3)\nf()")
            .javascript("const fs = require('fs')\nfunction f() {\n  const g = fs.openSync('o.txt', 'w')\n  fs.writeSync(g, 'hello')\n  process.exit(3)\n}\nf()")
            .typescript("import { openSync, writeSync } from 'fs'\nfunction f(status: number): never {\n  writeSync(openSync('o.txt', 'w'), 'hello')\n  process.exit(status)\n}\nf(3)")
            .lua("local function f()\n  local g = io.open('o.txt', 'w')\n  g:write('hello')\n  os.exit(3)\nend\nf()"),
        code("left_open::written_at_once")
            .grant("d", "/work", "rw", &[])
            .exits(3)
            .leaves_file(("d", "o.txt", "hello"))
            .python("import os\nos.write(os.open('o.txt', os.O_CREAT | os.O_WRONLY), b'hello')\nos._exit(3)")
            .javascript("const fs = require('fs')\nfs.writeSync(fs.openSync('o.txt', 'w'), 'hello')\nprocess.exit(3)")
            .typescript("import * as fs from 'fs'\nconst descriptor: number = fs.openSync('o.txt', 'w')\nfs.writeSync(descriptor, 'hello')\nprocess.exit(3)")
            .lua("local f = io.open('o.txt', 'w')\nf:setvbuf('no')\nf:write('hello')\nos.exit(3)"),
        code("left_open::pending_callback")
            .grant("d", "/work", "rw", &[])
            .prints("end\nwritten\n")
            .leaves_file(("d", "o.txt", "hello"))
            .javascript("require('fs').writeFile('o.txt', 'hello', e => console.log(e ?? 'written'))\nconsole.log('end')")
            .typescript("import { writeFile } from 'fs/promises'\nwriteFile('o.txt', 'hello').then((): void => console.log('written'))\nconsole.log('end')"),
        file("left_open::local_of_a_raising_function_in_a_module")
            .grant(".", "/work", "rw", &[("helper.py", "def f():\n    g = open('o.txt', 'w')\n    g.write('hello')\n    1/0\n")])
            .exits(1)
            .prints("")
            .leaves_file((".", "o.txt", "hello"))
            .python("import helper\nhelper.f()")
            .javascript(program("require('./near.js').f()").with_files(".", &[("near.js", "const fs = require('fs')\nexports.f = () => {\n  fs.writeSync(fs.openSync('o.txt', 'w'), 'hello')\n  null.x\n}")]))
            .typescript(program("import { f } from './near.ts'\nf()").with_files(".", &[("near.ts", "import * as fs from 'fs'\nexport function f(): never {\n  fs.writeSync(fs.openSync('o.txt', 'w'), 'hello')\n  throw new Error('no')\n}")]))
            .lua(program("require('near').f()").with_files(".", &[("near.lua", "return { f = function()\n  local g = io.open('o.txt', 'w')\n  g:write('hello')\n  error('no')\nend }")])),
        file("left_open::in_a_module")
            .grant(".", "/work", "rw", &[("helper.py", "f = open('o.txt', 'w')\ndef put(t): f.write(t)\n")])
            .prints("")
            .leaves_file((".", "o.txt", "hello"))
            .python("import helper\nhelper.put('hello')")
            .javascript(program("require('./near.js').put('hello')").with_files(".", &[("near.js", "const f = require('fs').createWriteStream('o.txt')\nexports.put = t => f.write(t)")]))
            .typescript(program("import { put } from './near.ts'\nput('hello')").with_files(".", &[("near.ts", "import { createWriteStream } from 'fs'\nconst f = createWriteStream('o.txt')\nexport const put = (t: string): boolean => f.write(t)")]))
            .lua(program("require('near')('hello')").with_files(".", &[("near.lua", "local f = io.open('o.txt', 'w')\nreturn function(t) f:write(t) end")])),
        file("left_open::in_a_package")
            .grant(".", "/work", "rw", &[("pack/__init__.py", ""), ("pack/sub.py", "f = open('o.txt', 'w')\nf.write('hello')\n")])
            .prints("")
            .leaves_file((".", "o.txt", "hello"))
            .python("from pack import sub"),
        code("left_open::in_a_cycle")
            .grant("d", "/work", "rw", &[])
            .prints("")
            .leaves_file(("d", "o.txt", "hello"))
            .python(program("a = {}\na['f'] = open('o.txt', 'w')\na['a'] = a\na['f'].write('hello')\ndel a").only_in(Tier::Wasm, "CPython loses the buffered data of a file in a reference cycle; our runtime writes it"))
            .javascript("{\n  const a = { f: require('fs').createWriteStream('o.txt') }\n  a.a = a\n  a.f.write('hello')\n}")
            .typescript("interface Ring { f: import('fs').WriteStream; a?: Ring }\n{\n  const a: Ring = { f: require('fs').createWriteStream('o.txt') }\n  a.a = a\n  a.f.write('hello')\n}")
            .lua("do\n  local a = { f = io.open('o.txt', 'w') }\n  a.a = a\n  a.f:write('hello')\nend"),
        code("left_open::referenced_by_a_library")
            .grant("d", "/work", "rw", &[])
            .prints("")
            .leaves_file(("d", "o.txt", "hello"))
            .python("import typing\nclass C:\n    def m(self): f\nf = open('o.txt', 'w')\nf.write('hello')\ntyping.Optional[C]"),
        code("left_open::used_by_a_hook")
            .grant("d", "/work", "rw", &[])
            .exits(1)
            .prints("")
            .leaves_file(("d", "o.txt", "hello"))
            .python("import sys\nf = open('o.txt', 'w')\nsys.excepthook = lambda *a: f.write('hello')\n1/0")
            .scripts(program("const fs = require('fs'), f = fs.openSync('o.txt', 'w')\nprocess.on('uncaughtException', () => { fs.writeSync(f, 'hello'); process.exitCode = 1 })\nnull.x")),
        code("left_open::used_at_exit")
            .grant("d", "/work", "rw", &[])
            .prints("")
            .leaves_file(("d", "o.txt", "hello"))
            .python("import atexit\nf = open('o.txt', 'w')\natexit.register(lambda: f.write('hello'))")
            .javascript("const fs = require('fs'), f = fs.openSync('o.txt', 'w')\nprocess.on('exit', () => fs.writeSync(f, 'hello'))")
            .typescript("import * as fs from 'fs'\nconst f: number = fs.openSync('o.txt', 'w')\nprocess.on('exit', (): void => { fs.writeSync(f, 'hello') })")
            .lua("local f = io.open('o.txt', 'w')\nkept = setmetatable({}, { __gc = function() f:write('hello') f:close() end })"),
        code("left_open::stdout_replaced")
            .grant("d", "/work", "rw", &[])
            .prints("")
            .leaves_file(("d", "o.txt", "hello"))
            .python("import sys\nsys.stdout = open('o.txt', 'w')\nprint('hello', end='')")
            .javascript("const out = require('fs').createWriteStream('o.txt')\nprocess.stdout.write = (...args) => out.write(...args)\nprocess.stdout.write('hello')")
            .typescript("import { createWriteStream } from 'fs'\nconst out = createWriteStream('o.txt')\nprocess.stdout.write = ((text: string): boolean => out.write(text)) as typeof process.stdout.write\nprocess.stdout.write('hello')")
            .lua("io.output('o.txt')\nio.write('hello')"),
        code("left_open::stdout_wrapped")
            .prints("a\nb\n")
            .python("import sys, io\nprint('a')\nsys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8')\nprint('b')")
            .scripts("console.log('a')\nconst own = new console.Console({ stdout: process.stdout })\nown.log('b')"),
        code("left_open::stdout_detached")
            .prints("a\nb\n")
            .python("import sys, io\nprint('a')\nsys.stdout = io.TextIOWrapper(sys.stdout.detach(), encoding='utf-8')\nprint('b')"),
        code("left_open::stdout_discarded")
            .prints("a")
            .python("import sys, io\nprint('a', end='')\nsys.stdout = io.StringIO()\nprint('b')")
            .scripts("process.stdout.write('a')\nprocess.stdout.write = () => true\nconsole.log('b')"),
        code("left_open::in_a_coroutine")
            .grant("d", "/work", "rw", &[])
            .leaves_file(("d", "o.txt", "hello"))
            .lua("kept = coroutine.create(function()\n  local f <close> = io.open('o.txt', 'w')\n  f:write('hello')\n  coroutine.yield()\nend)\ncoroutine.resume(kept)"),
        code("left_open::after_memory_error")
            .grant("d", "/work", "rw", &[])
            .prints("")
            .wasm(expected().exits(1).stderr_contains("MemoryError").leaves_file(("d", "o.txt", "hello")))
            .containers(expected().ends("memory_limit", 137).leaves_file(("d", "o.txt", "")))
            .python("f = open('o.txt', 'w')\nf.write('hello')\nbytearray(2**31 - 1)"),
        code("left_open::global_cycle")
            .grant("d", "/work", "rw", &[])
            .prints("")
            .leaves_file(("d", "o.txt", "hello"))
            .python("a = {}\na['f'] = open('o.txt', 'w')\na['a'] = a\na['f'].write('hello')"),
        code("left_open::temporary_file")
            .grant("d", "/work", "rw", &[])
            .prints("")
            .leaves_file(("d", "o.txt", "hello"))
            .python("import tempfile\nf = tempfile.NamedTemporaryFile('w', delete=False, dir='.', prefix='o')\ndef put(): f.write('hello')\nput()\nimport os\nos.rename(f.name, 'o.txt')"),
        code("left_open::in_a_dynamic_module")
            .grant("d", "/work", "rw", &[])
            .prints("")
            .leaves_file(("d", "o.txt", "hello"))
            .python("import sys, types\nm = sys.modules['made'] = types.ModuleType('made')\nm.f = open('o.txt', 'w')\nm.f.write('hello')"),
        code("left_open::with_numpy")
            .only_in(Tier::Wasm, "our runtime has numpy and lxml; an image may have other packages")
            .grant("d", "/work", "rw", &[])
            .prints("3 a\n")
            .leaves_file(("d", "o.txt", "hello"))
            .python("import numpy, lxml.etree, xml.etree.ElementTree\nf = open('o.txt', 'w')\ndef put(t): f.write(t)\nput('hello')\nclass A:\n    def __del__(self): print(numpy.arange(3).sum(), lxml.etree.fromstring('<a/>').tag)\na = A()"),
        code("left_open::with_pandas")
            .only_in(Tier::Wasm, "our runtime has pandas and matplotlib; an image may have other packages")
            .grant("d", "/work", "rw", &[])
            .prints("")
            .leaves_file(("d", "o.txt", "hello"))
            .python("import pandas, matplotlib.pyplot as p\nd = pandas.DataFrame({'a': [1]})\np.plot([1])\nf = open('o.txt', 'w')\ndef put(t): f.write(t)\nput('hello')"),
    ]
}
