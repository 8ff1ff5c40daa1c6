//! Environment of a program at its start, as with `python FILE`, `node FILE` and `lua FILE`, with `-c` and with `-`.

use crate::case::{Case, bare_file, code, file, named_file, stdin};
use crate::expect::{ExpectationBuilder as _, TierExpectations as _, expected};
use crate::program::program;

pub fn cases() -> Vec<Case> {
    vec![
        file("program::main_module")
            .python(program("print(__name__, __import__('sys').modules['__main__'].__dict__ is globals())").prints("__main__ True\n"))
            .scripts(program("console.log(require.main === module)").prints("true\n"))
            .lua(program("print(#arg, debug.getinfo(1, 'S').what, select('#', ...))").prints("0\tmain\t0\n")),
        file("program::empty")
            .prints("")
            .python("")
            .scripts("")
            .lua(""),
        file("program::file_name")
            .python(program("import os\nprint(os.path.basename(__file__), os.path.isabs(__file__))").prints("main.py True\n"))
            .javascript(program("const path = require('path')\nconsole.log(path.basename(__filename), path.isAbsolute(__filename))").prints("main.js true\n"))
            .typescript(program("import path = require('path')\nconst name: string = path.basename(__filename)\nconsole.log(name, path.isAbsolute(__filename) as boolean)").prints("main.ts true\n"))
            .lua(program("print(arg[0]:match('[^/]*$'), debug.getinfo(1, 'S').short_src:match('[^/]*$'))").prints("main.lua\tmain.lua\n")),
        file("program::reads_its_own_file")
            .python(program("print(open(__file__).read().splitlines()[0][:5])").prints("print\n"))
            .javascript(program("console.log(require('fs').readFileSync(__filename, 'utf8').slice(0, 11))").prints("console.log\n"))
            .typescript(program("const text: string = require('fs').readFileSync(__filename, 'utf8')\nconsole.log(text.slice(0, 18))").prints("const text: string\n"))
            .lua(program("print(io.open(arg[0]):read('a'):sub(1, 5))").prints("print\n")),
        file("program::arguments")
            .args(&["--", "one", "-x", "--two=2", "", "ü -- b"])
            .python(program("import sys\nprint(sys.argv[1:])").prints("['one', '-x', '--two=2', '', 'ü -- b']\n"))
            .javascript(program("console.log(JSON.stringify(process.argv.slice(2)))").prints("[\"one\",\"-x\",\"--two=2\",\"\",\"ü -- b\"]\n"))
            .typescript(program("const [, , ...rest]: string[] = process.argv\nconsole.log(JSON.stringify(rest satisfies string[]))").prints("[\"one\",\"-x\",\"--two=2\",\"\",\"ü -- b\"]\n"))
            .lua(program("for _, a in ipairs(arg) do io.write('[', a, ']') end\nprint(select('#', ...), (...))").prints("[one][-x][--two=2][][ü -- b]5\tone\n")),
        file("program::arguments_without_separator")
            .args(&["--json", "-c"])
            .python(program("import os, sys\nprint(os.path.samefile(sys.argv[0], __file__), os.path.basename(sys.argv[0]), sys.argv[1:])").prints("True main.py ['--json', '-c']\n"))
            .javascript(program("const [, name, ...rest] = process.argv\nconsole.log(name.split('/').pop(), rest.join())").prints("main.js --json,-c\n"))
            .typescript(program("const [, name, ...rest]: string[] = process.argv\nconsole.log(name!.split('/').pop(), rest.join())").prints("main.ts --json,-c\n"))
            .lua(program("print(arg[0]:match('[^/]*$'), arg[1], arg[2], #arg)").prints("main.lua\t--json\t-c\t2\n")),
        file("program::path0_is_the_script_directory")
            .python(program("import os, sys\nprint(sys.path[0] == os.path.dirname(__file__))").prints("True\n"))
            .scripts(program("const path = require('path')\nconsole.log(__dirname === path.dirname(__filename), require.resolve.paths('x')[0] === path.join(__dirname, 'node_modules'))").prints("true true\n"))
            .lua(program("print(package.path:find('./?.lua', 1, true) ~= nil)").prints("true\n")),
        file("program::imports_from_a_granted_directory")
            .grant("mods", "/mods", "ro", &[("near.py", "here = __name__")])
            .prints("near\n")
            .python("import sys\nsys.path.insert(0, '/mods')\nimport near\nprint(near.here)")
            .javascript(program("console.log(require('/mods/near.js').here)").with_files("mods", &[("near.js", "exports.here = 'near'")]))
            .typescript(program("import { here } from '/mods/near.ts'\nconsole.log(here)").with_files("mods", &[("near.ts", "type Name = 'near' | 'far'\nexport const here: Name = 'near'")]))
            .lua(program("package.path = '/mods/?.lua;' .. package.path\nprint(require('near').here)").with_files("mods", &[("near.lua", "return { here = ... }")])),
        file("program::imports_from_its_own_directory")
            .grant(".", "/work", "ro", &[])
            .prints("near\n")
            .python(program("import near\nprint(near.here)").with_files(".", &[("near.py", "here = __name__")]))
            .javascript(program("console.log(require('./near').here)").with_files(".", &[("near.js", "exports.here = 'near'")]))
            .typescript(program("import { type Name, here } from './near.ts'\nconst name: Name = here\nconsole.log(name)").with_files(".", &[("near.ts", "export type Name = string\nexport const here: Name = 'near'")]))
            .lua(program("print(require('near').here, package.loaded.near ~= nil)").with_files(".", &[("near.lua", "local name = ...\nreturn { here = name }")]).prints("near\ttrue\n")),
        file("program::imports_a_package")
            .grant(".", "/work", "ro", &[])
            .prints("whole part\n")
            .python(program("import pack, pack.part\nprint(pack.name, pack.part.name)").with_files(".", &[("pack/__init__.py", "name = 'whole'"), ("pack/part.py", "name = 'part'")]))
            .scripts(program("console.log(require('pack').name, require('pack/part').name)").with_files(".", &[("node_modules/pack/package.json", "{\"main\": \"whole.js\"}"), ("node_modules/pack/whole.js", "exports.name = 'whole'"), ("node_modules/pack/part.js", "exports.name = 'part'")]))
            .lua(program("print(require('pack').name .. ' ' .. require('pack.part').name)").with_files(".", &[("pack/init.lua", "return { name = 'whole' }"), ("pack/part.lua", "return { name = 'part' }")])),
        file("program::imports_once")
            .grant(".", "/work", "ro", &[])
            .prints("loaded\nTrue\n")
            .python(program("import near as a\nimport near as b\nprint(a is b)").with_files(".", &[("near.py", "print('loaded')")]))
            .javascript(program("console.log(require('./near') === require('./near.js'))").with_files(".", &[("near.js", "console.log('loaded')")]).prints("loaded\ntrue\n"))
            .typescript(program("import * as a from './near.ts'\nimport * as b from './near.ts'\nconsole.log(a.it === b.it)").with_files(".", &[("near.ts", "console.log('loaded')\nexport const it: object = {}")]).prints("loaded\ntrue\n"))
            .lua(program("print(require('near') == require('near'))").with_files(".", &[("near.lua", "print('loaded')\nreturn {}")]).prints("loaded\ntrue\n")),
        file("program::working_directory")
            .python(program("import os\nprint(os.getcwd(), os.listdir('.'))").prints("/work []\n"))
            .javascript(program("console.log(process.cwd(), require('fs').readdirSync('.'))").prints("/work []\n"))
            .typescript(program("import { readdirSync } from 'fs'\nconst names: readonly string[] = readdirSync('.')\nconsole.log(process.cwd(), names)").prints("/work []\n"))
            .lua(program("io.open('f', 'w'):close()\nprint(io.open('/work/f') ~= nil, io.open('main.lua') == nil)").prints("true\ttrue\n")),
        file("program::file_path_is_consistent")
            .python(program("import inspect, os, sys, traceback\nhere = os.path.dirname(os.path.abspath(sys.argv[0]))\nprint(here == os.path.dirname(__file__) == sys.path[0], os.path.exists(__file__), here != os.getcwd())\nprint(traceback.extract_stack()[-1].filename == __file__, inspect.getsource(sys.modules['__main__'])[:6])").prints("True True True\nTrue import\n"))
            .javascript(program("const fs = require('fs'), path = require('path')\nconsole.log(process.argv[1] === __filename, fs.existsSync(__filename), __dirname !== process.cwd(), new Error().stack.includes(__filename))").prints("true true true true\n"))
            .typescript(program("import fs from 'fs'\nimport path from 'path'\nconst here: string = import.meta.filename!\nconsole.log(process.argv[1] === here, fs.existsSync(here), path.dirname(here) !== process.cwd(), new Error().stack!.includes(here))").prints("true true true true\n"))
            .lua(program("local file = debug.getinfo(1, 'S').source:sub(2)\nprint(file == arg[0], io.open(file) ~= nil, file:find('^/work/') == nil)").prints("true\ttrue\ttrue\n")),
        file("program::dunder_names")
            .prints("None None None builtins\n")
            .python("print(__doc__, __package__, __spec__, __builtins__.__name__)"),
        file("program::loader")
            .prints("SourceFileLoader\n")
            .python("print(type(__loader__).__name__)"),
        file("program::annotations")
            .prints("True\n")
            .python("x: int = 1\nprint(globals().keys() >= {'x'})"),
        file("program::no_extra_globals")
            .python(program("print(sorted(n for n in globals() if not n.startswith('__')))").prints("[]\n"))
            .scripts(program(GLOBALS).prints("[]\n"))
            .lua(program(LUA_GLOBALS).wasm(expected().prints("codebox\n")).containers(expected().prints(""))),
        code("program::inline")
            .args(&["a", "-b"])
            .python(program("import sys\nprint(__name__, sys.argv, sys.path[0] == '', '__file__' in globals())").prints("__main__ ['-c', 'a', '-b'] True False\n"))
            .scripts(program("console.log(JSON.stringify(process.argv.slice(1)), typeof require)").prints("[\"a\",\"-b\"] function\n"))
            .lua(program("print(arg[1], arg[2], #arg)").prints("a\t-b\t2\n")),
        stdin("program::from_stdin")
            .python(program("import sys\nprint(__name__, sys.argv[0], sys.stdin.read())").stdout_contains("__main__ - "))
            .scripts(program("console.log(process.argv[1], JSON.stringify(require('fs').readFileSync(0, 'utf8')))").prints("- \"\"\n"))
            .lua(program("print(arg[0], #io.read('a'))").prints("-\t0\n")),
        named_file("program::name_with_spaces", "a b ü")
            .python(program("import os\nprint(os.path.basename(__file__))").prints("a b ü.py\n"))
            .javascript(program("console.log(require('path').basename(__filename))").prints("a b ü.js\n"))
            .typescript(program("import { basename } from 'path'\nconsole.log(basename(import.meta.filename!) as string)").prints("a b ü.ts\n"))
            .lua(program("print((arg[0]:match('[^/]*$')))").prints("a b ü.lua\n")),
        bare_file("program::name_without_extension", "script")
            .python(program("print(__name__)").prints("__main__\n"))
            .javascript(program("const own = 1;\nconsole.log(own);").prints("1\n")),
        file("program::byte_order_mark")
            .prints("é\n")
            .python(b"\xef\xbb\xbfprint('\xc3\xa9')")
            .javascript(b"\xef\xbb\xbfconsole.log('\xc3\xa9')")
            .typescript(b"\xef\xbb\xbfconst text: string = '\xc3\xa9'\nconsole.log(text)")
            .lua(b"\xef\xbb\xbfprint('\xc3\xa9')"),
        file("program::declared_encoding")
            .prints("é\n")
            .python(b"# -*- coding: latin-1 -*-\nprint('\xe9')"),
        file("program::carriage_returns")
            .prints("1\n")
            .python(b"x = 1\r\nprint(x)\r\n")
            .javascript(b"var x = 1\r\nconsole.log(x)\r\n")
            .typescript(b"var x: number =\r\n  1\r\nconsole.log(x)\r\n")
            .lua(b"x = 1\r\nprint(x)\r\n"),
        file("program::future_import")
            .prints("{'a': 'b'}\n")
            .python("from __future__ import annotations\ndef f(a: b): ...\nprint(f.__annotations__)"),
        file("program::shebang")
            .prints("ran\n")
            .python("#!/usr/bin/env python3\nprint('ran')")
            .javascript("#!/usr/bin/env node\nconsole.log('ran')")
            .typescript("#!/usr/bin/env tsx\nconst text: string = 'ran'\nconsole.log(text)")
            .lua("#!/usr/bin/env lua\nprint('ran')"),
        bare_file("program::shebang_selects_the_language", "script")
            .prints("ran\n")
            .python("#!/usr/bin/env python3\nprint('ran')")
            .javascript("#!/usr/bin/env node\nconsole.log('ran')")
            .typescript("#!/usr/bin/env tsx\nconst text: string = 'ran'\nconsole.log(text)")
            .lua("#!/usr/bin/env lua\nprint('ran')"),
        file("program::strict_directive")
            .prints("ReferenceError\n")
            .javascript("'use strict'\ntry { undeclared = 1 } catch (e) { console.log(e.name) }")
            .typescript("'use strict'\n// @ts-expect-error\ntry { undeclared = 1 } catch (e: unknown) { console.log((e as Error).name) }"),
        file("program::commonjs_names")
            .prints("object true function true\n")
            .javascript("console.log(typeof module, this === exports, typeof require, module.exports === exports)")
            .typescript("const own: NodeModule = module\nconsole.log(typeof own, this === exports, typeof require, own.exports === exports)"),
        file("program::module_names")
            .prints("true undefined undefined\n")
            .javascript(program("import { basename } from 'path'\nconsole.log(import.meta.url.startsWith('file:///') && basename(import.meta.filename) === 'main.mjs', typeof require, typeof this)").with_name("main.mjs"))
            .typescript(program("import { basename } from 'path'\nconst url: string = import.meta.url\nconsole.log(url.startsWith('file:///') && basename(import.meta.filename!) === 'main.mts', typeof require, typeof this)").with_name("main.mts")),
        file("program::commonjs_by_extension")
            .prints("object\n")
            .javascript(program("console.log(typeof module)").with_name("main.cjs"))
            .typescript(program("const kind: string = typeof module\nconsole.log(kind)").with_name("main.cts")),
        file("program::module_by_syntax")
            .prints("sep\n")
            .javascript("import * as path from 'path'\nconst found = await Promise.resolve('sep')\nconsole.log(found in path ? found : 'none')")
            .typescript("import * as path from 'path'\nconst found: string = await Promise.resolve('sep')\nconsole.log(found in path ? found : 'none')"),
        file("program::imports_json")
            .grant(".", "/work", "ro", &[("data.json", "{\"n\": 7}")])
            .prints("7 7\n")
            .javascript(program("import data from './data.json' with { type: 'json' }\nimport { createRequire } from 'module'\nconsole.log(data.n, createRequire(import.meta.url)('./data.json').n)").with_name("main.mjs"))
            .typescript(program("import data from './data.json' with { type: 'json' }\nimport { createRequire } from 'module'\ninterface Held { n: number }\nconsole.log((data as Held).n, (createRequire(import.meta.url)('./data.json') as Held).n)").with_name("main.mts")),
        file("program::imports_at_run_time")
            .grant(".", "/work", "ro", &[])
            .prints("near 7\n")
            .python(program("import importlib\nnear = importlib.import_module('near')\nprint(near.here, near.n)").with_files(".", &[("near.py", "here, n = __name__, 7")]))
            .javascript(program("import('./near.mjs').then(near => console.log(near.here, near.default))").with_files(".", &[("near.mjs", "export const here = 'near'\nexport default 7")]))
            .typescript(program("const name: string = './near.ts'\nimport(name).then((near: typeof import('./near.ts')) => console.log(near.here, near.default))").with_files(".", &[("near.ts", "export const here: string = 'near'\nexport default 7 as number")]))
            .lua(program("local near = dofile('near.lua')\nprint(near.here .. ' ' .. near.n)").with_files(".", &[("near.lua", "return { here = 'near', n = 7 }")])),
        code("program::evaluates_text")
            .prints("3 ok\n")
            .python("exec('x = 1 + 2')\nprint(x, 'ok')")
            .scripts("var x = (0, eval)('1 + 2')\nconsole.log(x, new Function('return \"ok\"')())")
            .lua("local x = load('return 1 + 2')()\nprint(x .. ' ' .. (load('x =') and 'bad' or 'ok'))"),
        code("program::pickles_its_own_classes")
            .prints("7\n")
            .python(PICKLE),
        code("program::dataclass_in_main")
            .prints("P(x=1)\n")
            .python(DATACLASS),
        code("program::version")
            .python(program("import sys\nprint(sys.version_info >= (3, 12), sys.platform)").wasm(expected().prints("True wasi\n")).in_containers("import sys\nprint(sys.version_info >= (3, 9), sys.platform)").containers(expected().prints("True linux\n")))
            .scripts(program("console.log(Number(process.versions.node.split('.')[0]) >= 22, process.platform)").prints("true linux\n"))
            .lua(program("print(_VERSION)").prints("Lua 5.4\n")),
        code("program::recursion_is_an_exception")
            .python(program(RECURSION).prints("RecursionError\n"))
            .javascript(program("function f() { f() }\ntry { f() } catch (e) { console.log(e instanceof RangeError, e.message) }").prints("true Maximum call stack size exceeded\n"))
            .typescript(program("function f(): never { return f() as never }\ntry { f() } catch (e: unknown) { console.log(e instanceof RangeError, (e as RangeError).message) }").prints("true Maximum call stack size exceeded\n"))
            .lua(program("local function f() return 1 + f() end\nlocal ok, message = pcall(f)\nprint(ok, message:match('stack overflow'))").prints("false\tstack overflow\n")),
        code("program::warnings_go_to_stderr")
            .prints("on\n")
            .python(program("import warnings\nwarnings.warn('careful')\nprint('on')").stderr_contains("UserWarning: careful"))
            .scripts(program("process.emitWarning('careful')\nconsole.log('on')").stderr_contains("Warning: careful"))
            .lua(program("warn('@on')\nwarn('care', 'ful')\nprint('on')").stderr_contains("Lua warning: careful\n")),
        code("program::exit_is_available")
            .python(program("print(callable(exit), callable(quit))").prints("True True\n"))
            .scripts(program("console.log(typeof process.exit, typeof process.abort)").prints("function function\n"))
            .lua(program("print(type(os.exit))").prints("function\n")),
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

/// Program that prints all global names except those of Node.
const GLOBALS: &str = "const known = ['global', 'clearImmediate', 'setImmediate', 'clearInterval', 'clearTimeout', 'setInterval', 'setTimeout',
  'queueMicrotask', 'structuredClone', 'atob', 'btoa', 'performance', 'fetch', 'navigator', 'crypto']
console.log(Object.keys(globalThis).filter(name => !known.includes(name)))";

/// Program that prints all global names except those of the manual.
const LUA_GLOBALS: &str = "local known = {}
for name in ([[_G _VERSION arg assert collectgarbage coroutine debug dofile error getmetatable io ipairs load loadfile math next
os package pairs pcall print rawequal rawget rawlen rawset require select setmetatable string table tonumber tostring type utf8
warn xpcall]]):gmatch('%S+') do known[name] = true end
for name in pairs(_G) do if not known[name] then print(name) end end";
