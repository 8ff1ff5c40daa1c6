//! Tracebacks, which name the user's file and lines and no internals of codebox.

use codebox_testkit::Report;

use crate::case::{Case, code, file, piped};
use crate::cases::look::{is_error, is_error_at};
use crate::expect::{Expecting as _, Tiered as _, expected};
use crate::program::program;
use crate::tier::{Tier, UNMAPPED};

pub fn cases() -> Vec<Case> {
    vec![
        file("tracebacks::file_and_line")
            .exits(1)
            .python(program("\n\ndef f():\n    return 1 / 0\n\nf()\n").complains("main.py\", line 6, in <module>\n    f()").complains("main.py\", line 4, in f\n    return 1 / 0"))
            .javascript(program("\n\nfunction f(a) {\n  return a.b.c\n}\nf({})\n").complains("main.js:4\n  return a.b.c\n").complains("at f (").complains("main.js:4:").complains("main.js:6:1"))
            .typescript(program("\n\nfunction f(a: Record<string, any>): number {\n  return a.b.c as number\n}\nf({})\n").complains("main.ts:4\n  return a.b.c as number\n").complains("at f (").complains("main.ts:4:").complains("main.ts:6:1"))
            .lua(program("\n\nlocal function f()\n  return nil + 1\nend\nf()\n").complains("main.lua:4: attempt to perform arithmetic on a nil value\nstack traceback:\n").complains("main.lua:4: in ").complains("'f'").complains("main.lua:6: in main chunk")),
        file("tracebacks::line_of_a_literal")
            .exits(1)
            .javascript(program("\nfunction f() {\n  return null.x\n}\nf()").complains("main.js:3\n  return null.x\n").complains("main.js:5:1").look(|report| is_error_at(report, "TypeError", 3)))
            .typescript(program("\nfunction f(): never {\n  return null!.x\n}\nf()").complains("main.ts:3\n  return null!.x\n").complains("main.ts:5:1").look(|report| is_error_at(report, "TypeError", 3))),
        file("tracebacks::lines_behind_types")
            .exits(1)
            .typescript(program("interface A {\n  a: number\n}\n\ntype B =\n  | A\n  | string\nenum E {\n  X,\n}\nfunction f(\n  b: B,\n  e?: E,\n): never {\n  throw new Error('v')\n}\nf('b')").complains("main.ts:15\n  throw new Error('v')\n").complains("main.ts:15:").complains("main.ts:17:1").look(|report| is_error(report, "Error", "v", 15))),
        file("tracebacks::nothing_else")
            .exits(1)
            .python(program("1/0").look(|report| {
                let frames = report.stderr().matches("  File \"").count();
                if frames == 1 { Ok(()) } else { Err(format!("{frames} frames")) }
            }).look(|report| {
                if report.stderr().starts_with("Traceback (most recent call last):\n  File \"") {
                    return Ok(());
                }
                Err("it does not begin as Python's".to_owned())
            }))
            .javascript(program("null.x").complains("main.js:1:").wasm(expected().look(|report| frames(report, "\n    at ", 1))))
            .typescript(program("(null as any).x").complains("main.ts:1:").wasm(expected().look(|report| frames(report, "\n    at ", 1))))
            .lua(program("error('no')").look(|report| frames(report, "in main chunk", 1)).look(|report| begins(report, "lua: /run/codebox/main.lua:1: no\nstack traceback:\n"))),
        file("tracebacks::reported")
            .exits(1)
            .python("\n1/0")
            .scripts("\nnull.x")
            .lua("\nerror('no')")
            .wasm(expected().look(as_printed))
            .containers(expected().look(part_of_what_was_printed)),
        file("tracebacks::in_a_module")
            .grant((".", "/work", "ro"), &[])
            .exits(1)
            .python(program("import near\nnear.f()").beside(".", &[("near.py", "def f():\n    1/0")]).complains("near.py\", line 2, in f").complains("main.py\", line 2, in <module>"))
            .javascript(program("const { f } = require('./near.js')\nf()").beside(".", &[("near.js", "exports.f = function f() {\n  null.x\n}")]).complains("near.js:2\n  null.x\n").complains("near.js:2:").complains("main.js:2:1"))
            .typescript(program("import { f } from './near.ts'\n\nf('a')").beside(".", &[("near.ts", "interface I {\n  x: string\n}\nexport function f(\n  a: string,\n): void {\n  (null as any as I).x\n}")]).complains("near.ts:7").complains("at f (").complains("main.ts:3:1"))
            .lua(program("local near = require('near')\nnear.f()").beside(".", &[("near.lua", "return { f = function()\n  error('no')\nend }")]).complains("near.lua:2: no").complains("main.lua:2: in main chunk")),
        file("tracebacks::chained")
            .exits(1)
            .complains("During handling of the above exception, another exception occurred:")
            .complains("line 2, in <module>")
            .complains("line 4, in <module>")
            .python(CHAIN),
        file("tracebacks::cause")
            .exits(1)
            .python(program("try:\n    1/0\nexcept Exception as e:\n    raise KeyError('k') from e").complains("The above exception was the direct cause of the following exception:"))
            .javascript(program("try {\n  null.x\n} catch (e) {\n  throw new Error('outer', { cause: e })\n}").complains("Error: outer\n").complains("[cause]: TypeError: ").complains("main.js:2:").complains("main.js:4:9"))
            .typescript(program("try {\n  (null as any).x\n} catch (e: unknown) {\n  throw new Error('outer', { cause: e })\n}").complains("Error: outer\n").complains("[cause]: TypeError: ").complains("main.ts:2:").complains("main.ts:4:9")),
        file("tracebacks::marks")
            .exits(1)
            .python(program("x = {'a': {}}\nprint(x['a']['b'])").complains("~~~~~~^^^^^"))
            .javascript(program("if (true) {\n\tthrow new Error('v')\n}").complains("main.js:2\n\tthrow new Error('v')\n\t^\n"))
            .typescript(program("if (true as boolean) {\n\tthrow new Error('v' satisfies string)\n}").complains("main.ts:2\n\tthrow new Error('v' satisfies string)\n\t^\n")),
        file("tracebacks::names_the_variable")
            .exits(1)
            .python(program("nothing + 1").complains("NameError: name 'nothing' is not defined"))
            .javascript(program("nothing + 1").complains("ReferenceError: nothing is not defined"))
            .typescript(program("declare const nothing: number\nnothing + 1").complains("ReferenceError: nothing is not defined").complains("main.ts:2:1"))
            .lua(program("local n = nothing + 1").complains("main.lua:1: attempt to perform arithmetic on a nil value (global 'nothing')")),
        file("tracebacks::notes")
            .exits(1)
            .python(program("e = ValueError('v')\ne.add_note('a note')\nraise e").complains("a note"))
            .scripts(program("throw Object.assign(new Error('v'), { code: 'E_NOTE', path: 'a note' })").complains("Error: v\n").complains("code: 'E_NOTE'").complains("path: 'a note'")),
        file("tracebacks::syntax")
            .exits(1)
            .python(program("x = (1,\n").complains("main.py\", line 1").complains("never closed"))
            .javascript(program("\nconst x = (1,\n").complains("main.js:").complains("SyntaxError: "))
            .typescript(program("\nconst x: number = (1,\n").complains("main.ts:").complains("SyntaxError"))
            .lua(program("\nlocal x = (1,\n").complains("main.lua:2: ')' expected near ','")),
        file("tracebacks::syntax_of_types")
            .exits(1)
            .typescript(program("let good: number = 1\nlet bad: = 2\n").complains("main.ts:2:10").complains("let bad: = 2\n").complains("^").look(|report| is_error_at(report, "SyntaxError", 2))),
        file("tracebacks::indentation")
            .exits(1)
            .complains("IndentationError")
            .python("if 1:\nx"),
        code("tracebacks::inline")
            .exits(1)
            .python(program("def f():\n    raise ValueError('v')\nf()").complains("File \"<string>\", line 3, in <module>").complains("File \"<string>\", line 2, in f"))
            .javascript(program("function f() {\n  throw new Error('v')\n}\nf()").complains("at f (<string>:2:9)").complains("at <string>:4:1"))
            .typescript(program("function f(): never {\n  throw new Error('v')\n}\nf()").complains("at f (<string>:2:9)").complains("at <string>:4:1").only_in(Tier::Wasm, UNMAPPED))
            .lua(program("local function f()\n  error('v')\nend\nf()").complains("lua: (command line):2: v\n").complains("(command line):4: in main chunk")),
        piped("tracebacks::from_stdin")
            .exits(1)
            .python(program("\n1/0").complains("File \"<stdin>\", line 2, in <module>"))
            .javascript(program("\nthrow new Error('v')").complains("<stdin>:2\nthrow new Error('v')\n^\n"))
            .typescript(program("type T = string\nthrow new Error('v' as T)").complains("<stdin>:2\nthrow new Error('v' as T)\n^\n").only_in(Tier::Wasm, UNMAPPED))
            .lua(program("\nerror('v')").complains("lua: stdin:2: v\n").complains("stdin:2: in main chunk")),
        code("tracebacks::in_the_library")
            .exits(1)
            .python(program("import json\njson.loads('{')").complains("json/decoder.py\", line").complains("JSONDecodeError"))
            .scripts(program("JSON.parse('{')").complains("SyntaxError: Expected property name or '}' in JSON at position 1").complains("at JSON.parse (<anonymous>)").complains("<string>:1:6").never_says("<input>"))
            .lua(program("string.rep()").complains("bad argument #1 to 'rep' (string expected, got no value)").complains("in function 'string.rep'")),
        code("tracebacks::in_asyncio")
            .exits(1)
            .python(program("import asyncio\nasync def f(): 1/0\nasyncio.run(f())").complains("line 2, in f"))
            .javascript(program("async function f() {\n  await null\n  null.x\n}\nf()").complains("at f (<string>:3:"))
            .typescript(program("async function f(): Promise<void> {\n  await null\n  ;(null as any).x\n}\nf()").complains("at f (<string>:3:"))
            .lua(program("local go = coroutine.wrap(function()\n  error('v')\nend)\ngo()").complains("(command line):2: v").complains("(command line):4: in main chunk")),
        code("tracebacks::in_a_timer")
            .exits(1)
            .prints("")
            .javascript(program("setTimeout(function late() {\n  null.x\n}, 1)\nsetTimeout(() => console.log('on'), 30)").complains("<string>:2:"))
            .typescript(program("setTimeout(function late(): void {\n  (null as any).x\n}, 1)\nsetTimeout(() => console.log('on'), 30)").complains("<string>:2:")),
        code("tracebacks::in_a_method")
            .exits(1)
            .python(program("class C:\n    def m(self): 1/0\nC().m()").complains("line 2, in m"))
            .javascript(program("class C {\n  m() { null.x }\n}\nnew C().m()").complains("m (<string>:2:"))
            .typescript(program("class C {\n  constructor(private readonly n: number | null) {}\n  m(): void { (this.n as any).x }\n}\nnew C(null).m()").complains("m (<string>:3:").only_in(Tier::Wasm, UNMAPPED))
            .lua(program("local C = {}\nfunction C:m() error('v') end\nC:m()").complains("(command line):2: in method 'm'")),
        code("tracebacks::printed_by_the_program")
            .python(program("import traceback\ntry:\n    1/0\nexcept Exception:\n    traceback.print_exc()").complains("line 3, in <module>"))
            .javascript(program("try {\n  null.x\n} catch (e) {\n  console.error(e)\n}").complains("<string>:2:"))
            .typescript(program("try {\n  (null as any).x\n} catch (e: unknown) {\n  console.error((e as Error).stack)\n}").complains("<string>:2:"))
            .lua(program("xpcall(function()\n  error('v')\nend, function(message) io.stderr:write(debug.traceback(message), '\\n') end)").complains("(command line):2: v\nstack traceback:\n").complains("in function <(command line):1>")),
        code("tracebacks::stack_has_only_the_program")
            .python(program("import traceback\nprint(len(traceback.extract_stack()))").prints("1\n"))
            .scripts(program("console.log(new Error('v').stack.split('\\n').length)").prints("2\n").only_in(Tier::Wasm, "Node shows its own frames below the program's"))
            .lua(program("local level, own = 1, 0\nwhile debug.getinfo(level) do\n  if debug.getinfo(level, 'S').what ~= 'C' then own = own + 1 end\n  level = level + 1\nend\nprint(own)").prints("1\n")),
        code("tracebacks::recursion")
            .exits(1)
            .python(program("def f(): f()\nf()").complains("RecursionError: maximum recursion depth exceeded").complains("[Previous line repeated"))
            .javascript(program("function f() { f() }\nf()").complains("RangeError: Maximum call stack size exceeded").complains("at f (<string>:1:"))
            .typescript(program("function f(): void { f() }\nf()").complains("RangeError: Maximum call stack size exceeded").complains("at f (<string>:1:").only_in(Tier::Wasm, UNMAPPED))
            .lua(program("local function f() return 1 + f() end\nf()").complains("stack overflow").complains("skipping")),
        file("tracebacks::does_not_leak_where_it_lies")
            .exits(1)
            .python("1/0")
            .scripts("null.x")
            .lua("error('no')")
            .never_says("codebox-test-"),
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

fn begins(report: &Report, with: &str) -> Result<(), String> {
    if report.stderr().starts_with(with) { Ok(()) } else { Err(format!("it does not begin with {with:?}")) }
}

/// Checks that standard error contains the reported traceback; an image's interpreter may print more.
fn part_of_what_was_printed(report: &Report) -> Result<(), String> {
    let told = report.at("/error/traceback").as_array().map(Vec::as_slice).unwrap_or_default();
    let told: Vec<&str> = told.iter().filter_map(|line| line.as_str()).collect();
    let stands = told.len() > 1 && report.stderr().contains(&told.join("\n"));
    if stands && report.at("/error/line") == 2 { Ok(()) } else { Err(format!("{} is told", report.at("/error"))) }
}

/// Checks that the reported traceback equals the printed one.
fn as_printed(report: &Report) -> Result<(), String> {
    let told = report.at("/error/traceback").as_array().map(Vec::as_slice).unwrap_or_default();
    let told: Vec<&str> = told.iter().filter_map(|line| line.as_str()).collect();
    let printed: Vec<&str> = report.stderr().lines().collect();
    if told == printed && report.at("/error/line") == 2 { Ok(()) } else { Err(format!("{told:?} is told")) }
}
