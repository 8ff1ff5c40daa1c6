//! Normal and erroneous ends of programs, and the resulting status.

use codebox_testkit::Report;

use crate::case::{Case, code, file};
use crate::cases::verify::{check_error, check_error_at};
use crate::expect::{ExpectationBuilder as _, TierExpectations as _, expected};
use crate::program::program;
use crate::tier::{Tier, UNMAPPED_POSITIONS};

pub fn cases() -> Vec<Case> {
    vec![
        code("ends::normal")
            .prints("")
            .python("pass")
            .scripts(";")
            .lua("return"),
        code("ends::uncaught")
            .exits(1)
            .python(program("1 / 0").stderr_contains("ZeroDivisionError: division by zero").verify(|report| check_error(report, "ZeroDivisionError", "division by zero", 1)))
            .scripts(program("throw new TypeError('not so')").stderr_contains("TypeError: not so").verify(|report| check_error(report, "TypeError", "not so", 1)))
            .lua(program("error('not so')").stderr_contains("lua: ").stderr_contains(":1: not so").verify(check_lua_error)),
        code("ends::uncaught_custom_error")
            .exits(1)
            .python(program("class Own(Exception): pass\nraise Own('mine')").stderr_contains("Own: mine\n").verify(|report| check_error(report, "Own", "mine", 2)))
            .javascript(program("class Own extends Error { name = 'Own' }\nthrow new Own('mine')").stderr_contains("Own: mine").verify(|report| check_error(report, "Own", "mine", 2)))
            .typescript(program("class Own extends Error { override name: string = 'Own' }\nthrow new Own('mine')").stderr_contains("Own: mine").verify(|report| check_error(report, "Own", "mine", 2)).only_in(Tier::Wasm, UNMAPPED_POSITIONS))
            .lua(program("error(setmetatable({}, { __tostring = function() return 'Own: mine' end }))").stderr_contains("lua: Own: mine\n")),
        code("ends::thrown_value")
            .exits(1)
            .javascript(program("throw 7").stderr_contains("7\n"))
            .typescript(program("throw 7 as unknown").stderr_contains("7\n"))
            .lua(program("error(7)").stderr_contains("lua: 7\n")),
        code("ends::thrown_object")
            .exits(1)
            .scripts(program("throw { odd: [1, 'a'] }").stderr_contains("{ odd: [ 1, 'a' ] }"))
            .lua(program("error({ odd = 1 })").stderr_contains("lua: (error object is a table value)\n")),
        code("ends::thrown_null")
            .exits(1)
            .python(program("raise None").stderr_contains("TypeError: exceptions must derive from BaseException"))
            .scripts(program("throw undefined").stderr_contains("undefined\n"))
            .lua(program("error()").stderr_contains("lua: (error object is a nil value)\n")),
        code("ends::keyboard_interrupt")
            .exits(130)
            .stderr_contains("KeyboardInterrupt")
            .python("raise KeyboardInterrupt"),
        file("ends::syntax_error")
            .exits(1)
            .python(program("def f(:\n    pass\n").stderr_contains("SyntaxError: ").stderr_contains("main.py"))
            .javascript(program("function f( {\n}\n").stderr_contains("SyntaxError: ").stderr_contains("main.js"))
            .typescript(program("const x: number = 1\nfunction f(a: string {\n}\n").stderr_contains("SyntaxError").stderr_contains("main.ts:2:").stderr_contains("^"))
            .lua(program("local x\nlocal function f(:\nend\n").stderr_contains("lua: ").stderr_contains("main.lua:2: ").stderr_contains("expected near ':'")),
        file("ends::null_byte")
            .exits(1)
            .python(program("x = 1\0\n").stderr_contains("SyntaxError").only_in(Tier::Wasm, "CPython before 3.12 reads a line up to a null byte, and an image may have one"))
            .javascript(program("x = 1\0\n").stderr_contains("SyntaxError"))
            .typescript(program("let x: number = 1\0\n").stderr_contains("SyntaxError").stderr_contains("main.ts:1:"))
            .lua(program("x = 1\0\n").stderr_contains("main.lua:1: unexpected symbol")),
        file("ends::syntax_error_prevents_execution")
            .exits(1)
            .prints("")
            .python("print('on')\nx = = 1")
            .javascript("console.log('on')\nlet x = = 1")
            .typescript("console.log('on')\nlet x: number = = 1")
            .lua("print('on')\nx = = 1"),
        code("ends::atexit_order")
            .python(program(ATEXIT).prints("end\nsecond\nfirst\n"))
            .javascript(program("process.on('exit', () => console.log('first'))\nprocess.on('exit', status => console.log('second', status))\nconsole.log('end')").prints("end\nfirst\nsecond 0\n"))
            .typescript(program("process.on('exit', (): void => console.log('first'))\nprocess.on('exit', (status: number): void => console.log('second', status))\nconsole.log('end')").prints("end\nfirst\nsecond 0\n"))
            .lua(program("for _, name in ipairs { 'first', 'second' } do\n  setmetatable({}, { __gc = function() print(name) end })\nend\nprint('end')").prints("end\nsecond\nfirst\n")),
        code("ends::atexit_after_error")
            .exits(1)
            .prints("bye\n")
            .python("import atexit\natexit.register(print, 'bye')\n1/0")
            .scripts("process.on('exit', () => console.log('bye'))\nnull.x")
            .lua("setmetatable({}, { __gc = function() print('bye') end })\nerror('x')"),
        code("ends::atexit_after_exit")
            .exits(3)
            .prints("bye\n")
            .python("import atexit, sys\natexit.register(print, 'bye')\nsys.exit(3)")
            .scripts("process.on('exit', () => console.log('bye'))\nprocess.exit(3)")
            .lua("setmetatable({}, { __gc = function() print('bye') end })\nos.exit(3, true)"),
        code("ends::atexit_skipped")
            .exits(3)
            .prints("")
            .python("import atexit, os\natexit.register(print, 'bye')\nos._exit(3)")
            .scripts("process.on('exit', () => console.log('bye'))\nprocess.reallyExit(3)")
            .lua("setmetatable({}, { __gc = function() print('bye') end })\nos.exit(3)"),
        code("ends::atexit_changes_the_status")
            .exits(9)
            .prints("0\n")
            .javascript("process.on('exit', status => { console.log(status); process.exitCode = 9 })")
            .typescript("process.on('exit', (status: number) => { console.log(status); process.exitCode = 9 })"),
        code("ends::atexit_raises")
            .exits(0)
            .prints("on\n")
            .python(program("import atexit\natexit.register(lambda: 1/0)\nprint('on')").stderr_contains("ZeroDivisionError"))
            .scripts(program("process.on('exit', () => { throw new Error('at the end') })\nconsole.log('on')").exits(1).stderr_contains("Error: at the end"))
            .lua(program("warn('@on')\nsetmetatable({}, { __gc = function() error('at the end') end })\nprint('on')").stderr_contains("Lua warning: error in __gc")),
        code("ends::before_exit_continues")
            .prints("more 1\nmore 2\nend\n")
            .javascript("let n = 0\nprocess.on('beforeExit', () => { if (n < 2) setTimeout(() => console.log('more', ++n), 1) })\nprocess.on('exit', () => console.log('end'))")
            .typescript("let n: number = 0\nprocess.on('beforeExit', (): void => { if (n < 2) setTimeout(() => console.log('more', ++n), 1) })\nprocess.on('exit', () => console.log('end'))"),
        code("ends::excepthook")
            .python(program(HOOK).exits(1).prints("hooked ValueError\n").stderr_omits("Traceback"))
            .javascript(program("process.on('uncaughtException', e => console.log('hooked', e.name))\nnull.x").exits(0).prints("hooked TypeError\n").stderr_omits("TypeError"))
            .typescript(program("process.on('uncaughtException', (e: Error): void => console.log('hooked', e.name))\n;(null as any).x").exits(0).prints("hooked TypeError\n").stderr_omits("TypeError")),
        code("ends::rejection")
            .exits(1)
            .prints("before\n")
            .javascript(program("setTimeout(() => console.log('after'), 20)\nPromise.reject(new TypeError('not so'))\nconsole.log('before')").stderr_contains("TypeError: not so").verify(|report| check_error(report, "TypeError", "not so", 2)))
            .typescript(program("setTimeout(() => console.log('after'), 20)\nconst fail = async (): Promise<never> => { throw new TypeError('not so') }\nfail()\nconsole.log('before')").stderr_contains("TypeError: not so").verify(|report| check_error(report, "TypeError", "not so", 2)).only_in(Tier::Wasm, UNMAPPED_POSITIONS)),
        code("ends::rejection_with_a_value")
            .exits(1)
            .scripts("Promise.reject(7)")
            .stderr_contains("The promise rejected with the reason \"7\""),
        code("ends::rejection_hook")
            .prints("hooked 7\n")
            .javascript("process.on('unhandledRejection', reason => console.log('hooked', reason))\nPromise.reject(7)")
            .typescript("process.on('unhandledRejection', (reason: unknown) => console.log('hooked', reason))\nvoid Promise.reject<number>(7)"),
        code("ends::rejection_handled_in_time")
            .prints("7\n")
            .scripts("const late = Promise.reject(7)\nprocess.nextTick(() => late.catch(console.log))"),
        code("ends::unraisable")
            .prints("on\n")
            .python(program("class C:\n    def __del__(self): 1/0\nC()\nprint('on')").stderr_contains("ZeroDivisionError"))
            .lua(program("warn('@on')\nsetmetatable({}, { __gc = function() error('v') end })\ncollectgarbage()\nprint('on')").stderr_contains("Lua warning: error in __gc")),
        code("ends::closed_stdout")
            .prints("kept\n")
            .python("import sys\nprint('kept')\nsys.stdout.close()")
            .javascript("console.log('kept')\nrequire('fs').closeSync(1)")
            .typescript("import { closeSync } from 'fs'\nconsole.log('kept')\ncloseSync(1 as number)")
            .lua("print('kept')\nio.stdout:close()"),
        code("ends::assertion")
            .exits(1)
            .containers(expected().verify(|report| check_error_at(report, "AssertionError", 1)))
            .python(program("assert 1 == 2, 'not equal'").stderr_contains("AssertionError: not equal"))
            .scripts(program("require('assert')(1 === 2, 'not equal')").stderr_contains("AssertionError [ERR_ASSERTION]: not equal"))
            .lua(program("assert(1 == 2, 'not equal')").stderr_contains("not equal\n").only_in(Tier::Wasm, "Lua errors have no type")),
        code("ends::exception_group")
            .exits(1)
            .python(program("raise ExceptionGroup('g', [ValueError(1), TypeError(2)])").stderr_contains("ExceptionGroup: g (2 sub-exceptions)"))
            .javascript(program("throw new AggregateError([new RangeError('one'), new TypeError('two')], 'g')").stderr_contains("AggregateError: g").stderr_contains("RangeError: one").stderr_contains("TypeError: two"))
            .typescript(program("const errors: Error[] = [new RangeError('one'), new TypeError('two')]\nthrow new AggregateError(errors, 'g')").stderr_contains("AggregateError: g").stderr_contains("RangeError: one").stderr_contains("TypeError: two")),
        code("ends::abort_is_a_trap")
            .ends("guest_error", 134)
            .prints("on\n")
            .python("import os\nprint('on', flush=True)\nos.abort()")
            .javascript("console.log('on')\nprocess.abort()")
            .typescript("console.log('on' as string)\nprocess.abort()"),
        code("hook::exits")
            .exits(7)
            .python(program("import sys\ndef h(*a):\n    print(sys.exc_info())\n    raise SystemExit(7)\nsys.excepthook = h\nraise ValueError('v')").prints("(None, None, None)\n"))
            .javascript(program("process.on('uncaughtException', () => process.exit(7))\nthrow new Error('v')").prints(""))
            .typescript(program("process.on('uncaughtException', (): never => process.exit(7))\nthrow new Error('v')").prints("")),
        code("hook::raises")
            .javascript(program("process.on('uncaughtException', () => { throw new RangeError('again') })\nthrow new Error('v')").exits(7).stderr_contains("RangeError: again"))
            .typescript(program("process.on('uncaughtException', (e: Error): never => { throw new RangeError('again', { cause: e }) })\nthrow new Error('v')").exits(7).stderr_contains("RangeError: again")),
    ]
}

const ATEXIT: &str = "import atexit
atexit.register(print, 'first')
atexit.register(print, 'second')
print('end')";

const HOOK: &str = "import sys
sys.excepthook = lambda kind, value, tb: print('hooked', kind.__name__)
raise ValueError";

fn check_lua_error(report: &Report) -> Result<(), String> {
    let error = report.at("/error");
    let has_message = error["value"].as_str().is_some_and(|value| value.contains("not so"));
    if has_message && error["line"] == 1 { Ok(()) } else { Err(format!("error is {error}")) }
}
