//! Tracebacks, which name the user's file and lines and no internals of codebox.

use codebox_testkit::Report;

use crate::case::{Case, code, file, stdin};
use crate::cases::verify::{check_error, check_error_at};
use crate::expect::{ExpectationBuilder as _, TierExpectations as _, expected};
use crate::program::program;
use crate::tier::{Tier, UNMAPPED_POSITIONS};

pub fn cases() -> Vec<Case> {
    vec![
        file("tracebacks::file_and_line")
            .exits(1)
            .python(program("\n\ndef f():\n    return 1 / 0\n\nf()\n").stderr_contains("main.py\", line 6, in <module>\n    f()").stderr_contains("main.py\", line 4, in f\n    return 1 / 0"))
            .javascript(program("\n\nfunction f(a) {\n  return a.b.c\n}\nf({})\n").stderr_contains("main.js:4\n  return a.b.c\n").stderr_contains("at f (").stderr_contains("main.js:4:").stderr_contains("main.js:6:1"))
            .typescript(program("\n\nfunction f(a: Record<string, any>): number {\n  return a.b.c as number\n}\nf({})\n").stderr_contains("main.ts:4\n  return a.b.c as number\n").stderr_contains("at f (").stderr_contains("main.ts:4:").stderr_contains("main.ts:6:1"))
            .lua(program("\n\nlocal function f()\n  return nil + 1\nend\nf()\n").stderr_contains("main.lua:4: attempt to perform arithmetic on a nil value\nstack traceback:\n").stderr_contains("main.lua:4: in ").stderr_contains("'f'").stderr_contains("main.lua:6: in main chunk")),
        file("tracebacks::line_of_a_literal")
            .exits(1)
            .javascript(program("\nfunction f() {\n  return null.x\n}\nf()").stderr_contains("main.js:3\n  return null.x\n").stderr_contains("main.js:5:1").verify(|report| check_error_at(report, "TypeError", 3)))
            .typescript(program("\nfunction f(): never {\n  return null!.x\n}\nf()").stderr_contains("main.ts:3\n  return null!.x\n").stderr_contains("main.ts:5:1").verify(|report| check_error_at(report, "TypeError", 3))),
        file("tracebacks::lines_after_stripped_types")
            .exits(1)
            .typescript(program("interface A {\n  a: number\n}\n\ntype B =\n  | A\n  | string\nenum E {\n  X,\n}\nfunction f(\n  b: B,\n  e?: E,\n): never {\n  throw new Error('v')\n}\nf('b')").stderr_contains("main.ts:15\n  throw new Error('v')\n").stderr_contains("main.ts:15:").stderr_contains("main.ts:17:1").verify(|report| check_error(report, "Error", "v", 15))),
        file("tracebacks::only_program_frames")
            .exits(1)
            .python(program("1/0").verify(|report| {
                let frames = report.stderr().matches("  File \"").count();
                if frames == 1 { Ok(()) } else { Err(format!("{frames} frames")) }
            }).verify(|report| {
                if report.stderr().starts_with("Traceback (most recent call last):\n  File \"") {
                    return Ok(());
                }
                Err("traceback does not begin like Python's".to_owned())
            }))
            .javascript(program("null.x").stderr_contains("main.js:1:").wasm(expected().verify(|report| frames(report, "\n    at ", 1))))
            .typescript(program("(null as any).x").stderr_contains("main.ts:1:").wasm(expected().verify(|report| frames(report, "\n    at ", 1))))
            .lua(program("error('no')").verify(|report| frames(report, "in main chunk", 1)).verify(|report| check_stderr_prefix(report, "lua: /run/codebox/main.lua:1: no\nstack traceback:\n"))),
        file("tracebacks::reported")
            .exits(1)
            .python("\n1/0")
            .scripts("\nnull.x")
            .lua("\nerror('no')")
            .wasm(expected().verify(check_traceback_equals_stderr))
            .containers(expected().verify(check_traceback_in_stderr)),
        file("tracebacks::in_a_module")
            .grant(".", "/work", "ro", &[])
            .exits(1)
            .python(program("import near\nnear.f()").with_files(".", &[("near.py", "def f():\n    1/0")]).stderr_contains("near.py\", line 2, in f").stderr_contains("main.py\", line 2, in <module>"))
            .javascript(program("const { f } = require('./near.js')\nf()").with_files(".", &[("near.js", "exports.f = function f() {\n  null.x\n}")]).stderr_contains("near.js:2\n  null.x\n").stderr_contains("near.js:2:").stderr_contains("main.js:2:1"))
            .typescript(program("import { f } from './near.ts'\n\nf('a')").with_files(".", &[("near.ts", "interface I {\n  x: string\n}\nexport function f(\n  a: string,\n): void {\n  (null as any as I).x\n}")]).stderr_contains("near.ts:7").stderr_contains("at f (").stderr_contains("main.ts:3:1"))
            .lua(program("local near = require('near')\nnear.f()").with_files(".", &[("near.lua", "return { f = function()\n  error('no')\nend }")]).stderr_contains("near.lua:2: no").stderr_contains("main.lua:2: in main chunk")),
        file("tracebacks::chained")
            .exits(1)
            .stderr_contains("During handling of the above exception, another exception occurred:")
            .stderr_contains("line 2, in <module>")
            .stderr_contains("line 4, in <module>")
            .python(CHAIN),
        file("tracebacks::cause")
            .exits(1)
            .python(program("try:\n    1/0\nexcept Exception as e:\n    raise KeyError('k') from e").stderr_contains("The above exception was the direct cause of the following exception:"))
            .javascript(program("try {\n  null.x\n} catch (e) {\n  throw new Error('outer', { cause: e })\n}").stderr_contains("Error: outer\n").stderr_contains("[cause]: TypeError: ").stderr_contains("main.js:2:").stderr_contains("main.js:4:9"))
            .typescript(program("try {\n  (null as any).x\n} catch (e: unknown) {\n  throw new Error('outer', { cause: e })\n}").stderr_contains("Error: outer\n").stderr_contains("[cause]: TypeError: ").stderr_contains("main.ts:2:").stderr_contains("main.ts:4:9")),
        file("tracebacks::carets")
            .exits(1)
            .python(program("x = {'a': {}}\nprint(x['a']['b'])").stderr_contains("~~~~~~^^^^^"))
            .javascript(program("if (true) {\n\tthrow new Error('v')\n}").stderr_contains("main.js:2\n\tthrow new Error('v')\n\t^\n"))
            .typescript(program("if (true as boolean) {\n\tthrow new Error('v' satisfies string)\n}").stderr_contains("main.ts:2\n\tthrow new Error('v' satisfies string)\n\t^\n")),
        file("tracebacks::names_the_variable")
            .exits(1)
            .python(program("nothing + 1").stderr_contains("NameError: name 'nothing' is not defined"))
            .javascript(program("nothing + 1").stderr_contains("ReferenceError: nothing is not defined"))
            .typescript(program("declare const nothing: number\nnothing + 1").stderr_contains("ReferenceError: nothing is not defined").stderr_contains("main.ts:2:1"))
            .lua(program("local n = nothing + 1").stderr_contains("main.lua:1: attempt to perform arithmetic on a nil value (global 'nothing')")),
        file("tracebacks::notes")
            .exits(1)
            .python(program("e = ValueError('v')\ne.add_note('a note')\nraise e").stderr_contains("a note"))
            .scripts(program("throw Object.assign(new Error('v'), { code: 'E_NOTE', path: 'a note' })").stderr_contains("Error: v\n").stderr_contains("code: 'E_NOTE'").stderr_contains("path: 'a note'")),
        file("tracebacks::syntax")
            .exits(1)
            .python(program("x = (1,\n").stderr_contains("main.py\", line 1").stderr_contains("never closed"))
            .javascript(program("\nconst x = (1,\n").stderr_contains("main.js:").stderr_contains("SyntaxError: "))
            .typescript(program("\nconst x: number = (1,\n").stderr_contains("main.ts:").stderr_contains("SyntaxError"))
            .lua(program("\nlocal x = (1,\n").stderr_contains("main.lua:2: ')' expected near ','")),
        file("tracebacks::syntax_of_types")
            .exits(1)
            .typescript(program("let good: number = 1\nlet bad: = 2\n").stderr_contains("main.ts:2:10").stderr_contains("let bad: = 2\n").stderr_contains("^").verify(|report| check_error_at(report, "SyntaxError", 2))),
        file("tracebacks::indentation")
            .exits(1)
            .stderr_contains("IndentationError")
            .python("if 1:\nx"),
        code("tracebacks::inline")
            .exits(1)
            .python(program("def f():\n    raise ValueError('v')\nf()").stderr_contains("File \"<string>\", line 3, in <module>").stderr_contains("File \"<string>\", line 2, in f"))
            .javascript(program("function f() {\n  throw new Error('v')\n}\nf()").stderr_contains("at f (<string>:2:9)").stderr_contains("at <string>:4:1"))
            .typescript(program("function f(): never {\n  throw new Error('v')\n}\nf()").stderr_contains("at f (<string>:2:9)").stderr_contains("at <string>:4:1").only_in(Tier::Wasm, UNMAPPED_POSITIONS))
            .lua(program("local function f()\n  error('v')\nend\nf()").stderr_contains("lua: (command line):2: v\n").stderr_contains("(command line):4: in main chunk")),
        stdin("tracebacks::from_stdin")
            .exits(1)
            .python(program("\n1/0").stderr_contains("File \"<stdin>\", line 2, in <module>"))
            .javascript(program("\nthrow new Error('v')").stderr_contains("<stdin>:2\nthrow new Error('v')\n^\n"))
            .typescript(program("type T = string\nthrow new Error('v' as T)").stderr_contains("<stdin>:2\nthrow new Error('v' as T)\n^\n").only_in(Tier::Wasm, UNMAPPED_POSITIONS))
            .lua(program("\nerror('v')").stderr_contains("lua: stdin:2: v\n").stderr_contains("stdin:2: in main chunk")),
        code("tracebacks::in_the_library")
            .exits(1)
            .python(program("import json\njson.loads('{')").stderr_contains("json/decoder.py\", line").stderr_contains("JSONDecodeError"))
            .scripts(program("JSON.parse('{')").stderr_contains("SyntaxError: Expected property name or '}' in JSON at position 1").stderr_contains("at JSON.parse (<anonymous>)").stderr_contains("<string>:1:6").stderr_omits("<input>"))
            .lua(program("string.rep()").stderr_contains("bad argument #1 to 'rep' (string expected, got no value)").stderr_contains("in function 'string.rep'")),
        code("tracebacks::in_asyncio")
            .exits(1)
            .python(program("import asyncio\nasync def f(): 1/0\nasyncio.run(f())").stderr_contains("line 2, in f"))
            .javascript(program("async function f() {\n  await null\n  null.x\n}\nf()").stderr_contains("at f (<string>:3:"))
            .typescript(program("async function f(): Promise<void> {\n  await null\n  ;(null as any).x\n}\nf()").stderr_contains("at f (<string>:3:"))
            .lua(program("local go = coroutine.wrap(function()\n  error('v')\nend)\ngo()").stderr_contains("(command line):2: v").stderr_contains("(command line):4: in main chunk")),
        code("tracebacks::in_a_timer")
            .exits(1)
            .prints("")
            .javascript(program("setTimeout(function late() {\n  null.x\n}, 1)\nsetTimeout(() => console.log('on'), 30)").stderr_contains("<string>:2:"))
            .typescript(program("setTimeout(function late(): void {\n  (null as any).x\n}, 1)\nsetTimeout(() => console.log('on'), 30)").stderr_contains("<string>:2:")),
        code("tracebacks::in_a_method")
            .exits(1)
            .python(program("class C:\n    def m(self): 1/0\nC().m()").stderr_contains("line 2, in m"))
            .javascript(program("class C {\n  m() { null.x }\n}\nnew C().m()").stderr_contains("m (<string>:2:"))
            .typescript(program("class C {\n  constructor(private readonly n: number | null) {}\n  m(): void { (this.n as any).x }\n}\nnew C(null).m()").stderr_contains("m (<string>:3:").only_in(Tier::Wasm, UNMAPPED_POSITIONS))
            .lua(program("local C = {}\nfunction C:m() error('v') end\nC:m()").stderr_contains("(command line):2: in method 'm'")),
        code("tracebacks::printed_by_the_program")
            .python(program("import traceback\ntry:\n    1/0\nexcept Exception:\n    traceback.print_exc()").stderr_contains("line 3, in <module>"))
            .javascript(program("try {\n  null.x\n} catch (e) {\n  console.error(e)\n}").stderr_contains("<string>:2:"))
            .typescript(program("try {\n  (null as any).x\n} catch (e: unknown) {\n  console.error((e as Error).stack)\n}").stderr_contains("<string>:2:"))
            .lua(program("xpcall(function()\n  error('v')\nend, function(message) io.stderr:write(debug.traceback(message), '\\n') end)").stderr_contains("(command line):2: v\nstack traceback:\n").stderr_contains("in function <(command line):1>")),
        code("tracebacks::stack_has_only_the_program")
            .python(program("import traceback\nprint(len(traceback.extract_stack()))").prints("1\n"))
            .scripts(program("console.log(new Error('v').stack.split('\\n').length)").prints("2\n").only_in(Tier::Wasm, "Node shows its own frames below the program's"))
            .lua(program("local level, own = 1, 0\nwhile debug.getinfo(level) do\n  if debug.getinfo(level, 'S').what ~= 'C' then own = own + 1 end\n  level = level + 1\nend\nprint(own)").prints("1\n")),
        code("tracebacks::recursion")
            .exits(1)
            .python(program("def f(): f()\nf()").stderr_contains("RecursionError: maximum recursion depth exceeded").stderr_contains("[Previous line repeated"))
            .javascript(program("function f() { f() }\nf()").stderr_contains("RangeError: Maximum call stack size exceeded").stderr_contains("at f (<string>:1:"))
            .typescript(program("function f(): void { f() }\nf()").stderr_contains("RangeError: Maximum call stack size exceeded").stderr_contains("at f (<string>:1:").only_in(Tier::Wasm, UNMAPPED_POSITIONS))
            .lua(program("local function f() return 1 + f() end\nf()").stderr_contains("stack overflow").stderr_contains("skipping")),
        file("tracebacks::hides_host_path")
            .exits(1)
            .python("1/0")
            .scripts("null.x")
            .lua("error('no')")
            .stderr_omits("codebox-test-"),
    ]
}

const CHAIN: &str = "try:
    {}['k']
except KeyError:
    1 / 0";

fn frames(report: &Report, mark: &str, expected: usize) -> Result<(), String> {
    let frames = report.stderr().matches(mark).count();
    if frames == expected { Ok(()) } else { Err(format!("{frames} frames")) }
}

fn check_stderr_prefix(report: &Report, with: &str) -> Result<(), String> {
    if report.stderr().starts_with(with) { Ok(()) } else { Err(format!("stderr does not begin with {with:?}")) }
}

/// Checks that standard error contains the reported traceback; an image's interpreter may print more.
fn check_traceback_in_stderr(report: &Report) -> Result<(), String> {
    let traceback = report.at("/error/traceback").as_array().map(Vec::as_slice).unwrap_or_default();
    let traceback: Vec<&str> = traceback.iter().filter_map(|line| line.as_str()).collect();
    let is_contained = traceback.len() > 1 && report.stderr().contains(&traceback.join("\n"));
    if is_contained && report.at("/error/line") == 2 {
        Ok(())
    } else {
        Err(format!("reported error is {}", report.at("/error")))
    }
}

/// Checks that the reported traceback equals the printed one.
fn check_traceback_equals_stderr(report: &Report) -> Result<(), String> {
    let traceback = report.at("/error/traceback").as_array().map(Vec::as_slice).unwrap_or_default();
    let traceback: Vec<&str> = traceback.iter().filter_map(|line| line.as_str()).collect();
    let printed: Vec<&str> = report.stderr().lines().collect();
    if traceback == printed && report.at("/error/line") == 2 {
        Ok(())
    } else {
        Err(format!("traceback is {traceback:?}"))
    }
}
