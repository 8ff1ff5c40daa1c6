//! Explicit exits of programs, and the resulting status.

use crate::case::{Case, code};
use crate::expect::ExpectationBuilder as _;
use crate::program::program;

pub fn cases() -> Vec<Case> {
    vec![
        code("ends::exit_number")
            .exits(7)
            .python("import sys\nsys.exit(7)")
            .javascript("process.exit(7)")
            .typescript("const status: number = 7\nprocess.exit(status)")
            .lua("os.exit(7)"),
        code("ends::exit_zero")
            .exits(0)
            .python("raise SystemExit(0)")
            .javascript("process.exit(0)")
            .typescript("process.exit(0 as const)")
            .lua("os.exit(0)"),
        code("ends::exit_none")
            .exits(0)
            .python("raise SystemExit")
            .scripts("process.exit()")
            .lua("os.exit()"),
        code("ends::exit_explicit_none")
            .exits(0)
            .python("raise SystemExit(None)")
            .javascript("process.exit(undefined)")
            .typescript("process.exit(undefined satisfies number | undefined)")
            .lua("os.exit(nil)"),
        code("ends::exit_true")
            .exits(1)
            .python("raise SystemExit(True)")
            .javascript(program("process.exit(true)").stderr_contains("ERR_INVALID_ARG_TYPE"))
            .typescript(program("process.exit(true as any)").stderr_contains("ERR_INVALID_ARG_TYPE"))
            .lua(program("os.exit(true)").exits(0)),
        code("ends::exit_false")
            .exits(0)
            .python("raise SystemExit(False)")
            .javascript(program("process.exit(false)").exits(1).stderr_contains("ERR_INVALID_ARG_TYPE"))
            .typescript(program("process.exit(<any>false)").exits(1).stderr_contains("ERR_INVALID_ARG_TYPE"))
            .lua(program("os.exit(false)").exits(1)),
        code("ends::exit_text")
            .exits(1)
            .python(program("import sys\nsys.exit('no such thing')").stderr_contains("no such thing\n"))
            .javascript(program("process.exit('no such thing')").stderr_contains("ERR_INVALID_ARG_TYPE").stderr_contains("'no such thing'"))
            .typescript(program("process.exit('no such thing' as never)").stderr_contains("ERR_INVALID_ARG_TYPE").stderr_contains("'no such thing'"))
            .lua(program("os.exit('no such thing')").stderr_contains("bad argument #1 to 'exit' (number expected, got string)")),
        code("ends::exit_text_of_a_number")
            .exits(3)
            .javascript("process.exit('3')")
            .typescript("process.exit('3' as unknown as number)")
            .lua("os.exit('3')"),
        code("ends::exit_tuple")
            .exits(1)
            .python(program("import sys\nsys.exit((1, 2))").stderr_contains("(1, 2)\n"))
            .javascript(program("process.exit([1, 2])").stderr_contains("Received an instance of Array"))
            .typescript(program("process.exit([1, 2] as any)").stderr_contains("Received an instance of Array"))
            .lua(program("os.exit({1, 2})").stderr_contains("number expected, got table")),
        code("ends::exit_empty_tuple")
            .exits(1)
            .python(program("raise SystemExit(())").stderr_contains("()\n"))
            .scripts(program("process.exit({})").stderr_contains("Received an instance of Object"))
            .lua(program("os.exit({})").stderr_contains("number expected, got table")),
        code("ends::exit_two_arguments")
            .exits(1)
            .python(program("raise SystemExit(1, 2)").stderr_contains("(1, 2)\n"))
            .javascript("process.exit(1, 2)")
            .typescript("(process.exit as (...statuses: number[]) => never)(1, 2)")
            .lua("os.exit(1, 2)"),
        code("ends::exit_float")
            .python(program("raise SystemExit(2.0)").exits(1).stderr_contains("2.0\n"))
            .scripts(program("process.exit(2.0)").exits(2))
            .lua(program("os.exit(2.0)").exits(2)),
        code("ends::exit_fraction")
            .exits(1)
            .python(program("raise SystemExit(2.5)").stderr_contains("2.5\n"))
            .scripts(program("process.exit(2.5)").stderr_contains("ERR_OUT_OF_RANGE"))
            .lua(program("os.exit(2.5)").stderr_contains("number has no integer representation")),
        code("ends::exit_wraps")
            .exits(3)
            .python("raise SystemExit(256 + 3)")
            .scripts("process.exit(256 + 3)")
            .lua("os.exit(256 + 3)"),
        code("ends::exit_negative")
            .exits(255)
            .python("raise SystemExit(-1)")
            .scripts("process.exit(-1)")
            .lua("os.exit(-1)"),
        code("ends::exit_is_not_an_error")
            .exits(3)
            .stderr_omits("Traceback")
            .verify(|report| {
                if report.at("/error").is_null() { Ok(()) } else { Err(format!("error {}", report.at("/error"))) }
            })
            .python("import sys\nsys.exit(3)")
            .javascript("process.exit(3)")
            .typescript("const leave = (status: number): never => process.exit(status)\nleave(3)")
            .lua(program("os.exit(3)").stderr_omits("stack traceback")),
        code("ends::exit_property")
            .exits(4)
            .prints("on\n")
            .javascript("process.exitCode = 4\nconsole.log('on')")
            .typescript("process.exitCode = 4 as number\nconsole.log('on')"),
        code("ends::exit_property_is_overridden")
            .exits(5)
            .scripts("process.exitCode = 4\nprocess.exit(5)"),
        code("ends::exit_property_from_a_timer")
            .exits(6)
            .javascript("setTimeout(() => { process.exitCode = 6 }, 5)")
            .typescript("setTimeout((): void => { process.exitCode = 6 }, 5)"),
        code("ends::exit_builtin")
            .exits(4)
            .python("exit(4)"),
        code("ends::quit_builtin")
            .exits(0)
            .python("quit()"),
        code("ends::os_exit")
            .exits(5)
            .prints("kept\n")
            .python("import os, sys\nprint('kept', flush=True)\nos._exit(5)")
            .scripts("console.log('kept')\nprocess.reallyExit(5)")
            .lua("io.write('kept\\n')\nos.exit(5, false)"),
        code("ends::exit_in_a_function")
            .exits(6)
            .prints("tidied\n")
            .python("def f(): raise SystemExit(6)\ntry:\n    f()\nfinally:\n    print('tidied')")
            .javascript(program("function f() { process.exit(6) }\ntry { f() } finally { console.log('tidied') }").prints(""))
            .typescript(program("function f(): never { return process.exit(6) }\ntry { f() } finally { console.log('tidied') }").prints(""))
            .lua("local tidy <close> = setmetatable({}, { __close = function() print('tidied') end })\nlocal function f() os.exit(6, true) end\nf()"),
        code("ends::exit_cannot_be_caught")
            .exits(6)
            .prints("")
            .javascript("try { [2, 1].sort(() => process.exit(6)) } catch { console.log('caught') } finally { console.log('tidied') }")
            .typescript("try { [2, 1].sort((): never => process.exit(6)) } catch (e: unknown) { console.log('caught') }")
            .lua("pcall(function() table.sort({ 2, 1 }, function() os.exit(6) end) end)\nprint('caught')"),
        code("ends::exit_in_a_callback")
            .exits(6)
            .prints("one\n")
            .scripts("setTimeout(() => { console.log('one'); process.exit(6) }, 1)\nsetTimeout(() => console.log('two'), 30)"),
        code("ends::exit_in_a_promise")
            .exits(6)
            .prints("one\n")
            .javascript("Promise.resolve().then(() => { console.log('one'); process.exit(6) }).finally(() => console.log('two'))")
            .typescript("(async (): Promise<void> => { console.log('one'); process.exit(6) })().finally(() => console.log('two'))"),
        code("ends::exit_in_a_coroutine")
            .exits(6)
            .prints("one\n")
            .lua("coroutine.wrap(function() print('one') os.exit(6) end)()\nprint('two')"),
    ]
}
