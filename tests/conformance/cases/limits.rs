//! Limits: each ends the program that exceeds it, with a separate status and with the output so far.

use codebox_testkit::Report;

use crate::case::{Case, code};
use crate::expect::{ExpectationBuilder as _, TierExpectations as _, expected};
use crate::program::program;
use crate::tier::Tier;

pub fn cases() -> Vec<Case> {
    vec![
        code("limits::wall")
            .with(&["--timeout", "400ms"])
            .ends("timeout_wall", 124)
            .prints("on\n")
            .verify(|report| check_duration(report, 0.4, 3.0))
            .python("print('on', flush=True)\nwhile True: pass")
            .javascript("console.log('on')\nfor (;;);")
            .typescript("const on: string = 'on'\nconsole.log(on)\nwhile (true as boolean) {}")
            .lua("print('on')\nwhile true do end"),
        code("limits::wall_while_sleeping")
            .with(&["--timeout", "300ms"])
            .ends("timeout_wall", 124)
            .verify(|report| check_duration(report, 0.3, 2.0))
            .python("import time\ntime.sleep(1e9)")
            .javascript("setTimeout(() => {}, 1e9)")
            .typescript("import { setTimeout as sleep } from 'timers/promises'\nawait sleep<void>(1e9)"),
        code("limits::wall_while_blocking")
            .with(&["--timeout", "300ms"])
            .ends("timeout_wall", 124)
            .python("import select\nselect.select([], [], [], 1e6)")
            .scripts("Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)"),
        code("limits::wall_while_reading")
            .silent()
            .with(&["--timeout", "300ms"])
            .ends("timeout_wall", 124)
            .python("input()")
            .javascript("require('fs').readFileSync(0)")
            .typescript("for await (const part of process.stdin) console.log(part as Buffer)\nexport {}")
            .lua("io.read()"),
        code("limits::wall_while_listening")
            .silent()
            .with(&["--timeout", "300ms"])
            .ends("timeout_wall", 124)
            .prints("on\n")
            .python("import sys\nprint('on')\nfor line in sys.stdin: print(line)")
            .scripts("process.stdin.on('data', console.log)\nconsole.log('on')")
            .lua("print('on')\nfor line in io.lines() do print(line) end"),
        code("limits::wall_cannot_be_caught")
            .with(&["--timeout", "300ms"])
            .ends("timeout_wall", 124)
            .python("while True:\n    try:\n        while True: pass\n    except BaseException:\n        pass")
            .javascript("for (;;) try { for (;;); } catch {} finally { for (;;); }")
            .typescript("while (true as boolean) { try { while (true as boolean) {} } catch (e: unknown) {} finally { while (true as boolean) {} } }")
            .lua("while true do pcall(function() while true do end end) end"),
        code("limits::wall_of_endless_callbacks")
            .with(&["--timeout", "300ms"])
            .ends("timeout_wall", 124)
            .python("import asyncio\nasync def f():\n    while True: await asyncio.sleep(0)\nasyncio.run(f())")
            .javascript("const again = () => Promise.resolve().then(again)\nagain()")
            .typescript("function again(): void { process.nextTick(again) }\nagain()")
            .lua("local f = coroutine.wrap(function() while true do coroutine.yield() end end)\nwhile true do f() end"),
        code("limits::wall_in_the_library")
            .with(&["--timeout", "300ms"])
            .ends("timeout_wall", 124)
            .python("import re\nre.match('(a+)+$', 'a' * 40 + 'b')")
            .scripts("/(a+)+$/.test('a'.repeat(40) + 'b')")
            .lua("local s = ('a'):rep(10000)\ns:find(('.-'):rep(100) .. 'b')"),
        code("limits::wall_in_exit_handlers")
            .with(&["--timeout", "300ms"])
            .ends("timeout_wall", 124)
            .prints("on\n")
            .python("import atexit\natexit.register(lambda: exec('while True: pass'))\nprint('on', flush=True)")
            .scripts("process.on('exit', () => { for (;;); })\nconsole.log('on')")
            .lua("setmetatable({}, { __gc = function() while true do end end })\nprint('on')\nio.flush()"),
        code("limits::cpu")
            .with(&["--cpu-time", "300ms"])
            .ends("timeout_cpu", 124)
            .python("while True: pass")
            .javascript("for (;;);")
            .typescript("for (let n: bigint = 0n; ; n++);")
            .lua("repeat until false"),
        code("limits::cpu_does_not_count_sleep")
            .with(&["--cpu-time", "400ms"])
            .prints("on\n")
            .python("import time\ntime.sleep(0.6)\nprint('on')")
            .javascript("setTimeout(() => console.log('on'), 600)")
            .typescript("const done = new Promise<string>(resolve => setTimeout(resolve, 600, 'on'))\nconsole.log(await done)"),
        code("limits::memory")
            .with(&["--memory", "128M"])
            .ends("memory_limit", 137)
            .python("x = []\nwhile True: x.append(bytearray(1 << 20))")
            .javascript("const x = []\nfor (;;) x.push(new Uint8Array(1 << 20).fill(1))")
            .typescript("const x: Uint8Array[] = []\nwhile (true as boolean) x.push(new Uint8Array(1 << 20).fill(1))")
            .lua("local x = {}\nwhile true do x[#x + 1] = ('x'):rep(1 << 20) .. #x end"),
        code("limits::memory_of_small_objects")
            .with(&["--memory", "128M"])
            .ends("memory_limit", 137)
            .python("x = []\nwhile True: x.append([x])")
            .scripts("const x = []\nfor (;;) x.push({ x })")
            .lua("local x = {}\nwhile true do x[#x + 1] = { x } end"),
        code("limits::memory_in_one_allocation")
            .with(&["--memory", "128M"])
            .ends("memory_limit", 137)
            .python("bytearray(1 << 30)")
            .scripts("new Uint8Array(1 << 30).fill(1)")
            .lua(program("local x = ('x'):rep(1 << 30)").stderr_contains("lua: ").stderr_contains("not enough memory").only_in(Tier::Wasm, "the kernel kills the process instead of refusing memory")),
        code("limits::memory_error_can_be_handled")
            .only_in(Tier::Wasm, "the kernel kills the process instead of refusing memory")
            .with(&["--memory", "256M"])
            .prints("handled\n")
            .python("try:\n    bytearray(512 << 20)\nexcept MemoryError:\n    print('handled')")
            .javascript("try { new ArrayBuffer(512 << 20) } catch (e) { console.log('handled') }")
            .typescript("try { Buffer.alloc(512 << 20) } catch (e: unknown) { console.log(e instanceof Error ? 'handled' : e) }")
            .lua("local ok, message = pcall(string.rep, 'x', 512 << 20)\nprint(not ok and message == 'not enough memory' and 'handled')"),
        code("limits::memory_suffices")
            .with(&["--memory", "256M"])
            .prints("104857600\n")
            .python("x = bytearray(100 << 20)\nprint(len(x))")
            .javascript("const x = new Uint8Array(100 << 20).fill(1)\nconsole.log(x.length)")
            .typescript("const x: Buffer = Buffer.alloc(100 << 20, 1)\nconsole.log(x.length as number)")
            .lua("local x = ('x'):rep(100 << 20)\nprint(#x)"),
        code("limits::memory_is_released")
            .with(&["--memory", "256M"])
            .prints("on\n")
            .python("for n in range(40): x = bytearray(50 << 20)\nprint('on')")
            .scripts("for (let n = 0; n < 40; n++) new Uint8Array(50 << 20)\nconsole.log('on')")
            .lua("for n = 1, 40 do\n  local x = ('x'):rep(50 << 20)\n  x = nil\nend\nprint('on')"),
        code("limits::output")
            .with(&["--max-output", "64K"])
            .ends("output_limit", 122)
            .verify(|report| {
                let kept = report.stdout().len();
                let dropped = report.at("/stdout_truncated/dropped_bytes").as_u64().unwrap_or(0);
                if kept <= 66 << 10 && dropped > 0 { Ok(()) } else { Err(format!("kept {kept}, dropped {dropped}")) }
            })
            .python("while True: print('x' * 1000)")
            .javascript(program("for (;;) console.log('x'.repeat(1000))").in_containers("for (;;) require('fs').writeSync(1, 'x'.repeat(1000) + '\\n')"))
            .typescript(program("const line: string = 'x'.repeat(1000)\nwhile (true as boolean) console.log(line)").in_containers("import { writeSync } from 'fs'\nconst line: string = 'x'.repeat(1000) + '\\n'\nwhile (true as boolean) writeSync(1, line)"))
            .lua("while true do print(('x'):rep(1000)) end"),
        code("limits::output_of_stderr")
            .with(&["--max-output", "64K"])
            .ends("output_limit", 122)
            .python("import sys\nwhile True: print('x' * 1000, file=sys.stderr)")
            .scripts(program("for (;;) console.error('x'.repeat(1000))").in_containers("for (;;) require('fs').writeSync(2, 'x'.repeat(1000) + '\\n')"))
            .lua("while true do io.stderr:write(('x'):rep(1000), '\\n') end"),
        code("limits::disk")
            .with(&["--max-disk", "8M"])
            .ends("disk_limit", 122)
            .verify(|report| {
                let size = report.file("/work/x").and_then(|file| file["size"].as_u64()).unwrap_or(0);
                if size <= 8 << 20 { Ok(()) } else { Err(format!("{size} bytes were written")) }
            })
            .python("f = open('x', 'wb', buffering=0)\nwhile True:\n    f.write(bytes(1 << 20))")
            .javascript("const fs = require('fs'), f = fs.openSync('x', 'w')\nfor (;;) fs.writeSync(f, Buffer.alloc(1 << 20))")
            .typescript("import { openSync, writeSync } from 'fs'\nconst f: number = openSync('x', 'w'), part: Uint8Array = new Uint8Array(1 << 20)\nwhile (true as boolean) writeSync(f, part)")
            .lua("local f = io.open('x', 'wb')\nf:setvbuf('no')\nwhile true do assert(f:write(('\\0'):rep(1 << 20))) end"),
        code("limits::disk_can_be_handled")
            .with(&["--max-disk", "8M"])
            .python(program("try:\n    open('x', 'wb').write(bytes(9 << 20))\nexcept OSError as e:\n    print(e.errno is not None)").prints("True\n"))
            .javascript(program("try { require('fs').writeFileSync('x', Buffer.alloc(9 << 20)) } catch (e) { console.log(typeof e.errno, e.code) }").wasm(expected().prints("number EDQUOT\n")).containers(expected().prints("number EFBIG\n")))
            .typescript(program("import { writeFile } from 'fs/promises'\nconst failed: NodeJS.ErrnoException = await writeFile('x', Buffer.alloc(9 << 20)).then(() => null!, e => e)\nconsole.log(typeof failed.errno, failed.code)").wasm(expected().prints("number EDQUOT\n")).containers(expected().prints("number EFBIG\n")))
            .lua(program("local f = io.open('x', 'wb')\nlocal done, message, number = f:write(('\\0'):rep(9 << 20))\nprint(done, math.type(number))").prints("nil\tinteger\n").only_in(Tier::Wasm, "Lua does not ignore the signal for a file that is too large")),
        code("limits::files")
            .with(&["--max-files", "50"])
            .ends("disk_limit", 122)
            .wasm(expected().verify(|report| {
                let created = report.files("created").len();
                if created <= 50 { Ok(()) } else { Err(format!("{created} files")) }
            }))
            .python("n = 0\nwhile True:\n    open(str(n), 'w').close()\n    n += 1")
            .scripts("const fs = require('fs')\nfor (let n = 0; ; n++) fs.writeFileSync(String(n), '')")
            .lua("local n = 0\nwhile true do\n  local f <close> = assert(io.open(tostring(n), 'w'))\n  n = n + 1\nend"),
        code("limits::folders")
            .with(&["--max-files", "50"])
            .ends("disk_limit", 122)
            .python("import os\nn = 0\nwhile True:\n    os.mkdir(str(n))\n    n += 1")
            .scripts("const fs = require('fs')\nfor (let n = 0; ; n++) fs.mkdirSync(String(n))"),
        code("limits::open_files")
            .with(&["--max-open-files", "40"])
            .wasm(expected().ends("fd_limit", 122))
            .containers(expected().exits(1))
            .python(program("held = []\nwhile True: held.append(open('/work/x', 'w'))").containers(expected().stderr_contains("OSError: [Errno 24] Too many open files: '/work/x'")))
            .javascript(program("const fs = require('fs'), held = []\nfor (;;) held.push(fs.openSync('/work/x', 'w'))").containers(expected().stderr_contains("Error: EMFILE: too many open files, open '/work/x'")))
            .typescript(program("import { open, type FileHandle } from 'fs/promises'\nconst held: FileHandle[] = []\nwhile (true as boolean) held.push(await open('/work/x', 'w'))").containers(expected().stderr_contains("Error: EMFILE: too many open files, open '/work/x'")))
            .lua("local held = {}\nwhile true do held[#held + 1] = assert(io.open('/work/x', 'w')) end"),
        code("limits::open_files_can_be_handled")
            .with(&["--max-open-files", "40"])
            .python(program("held = []\ntry:\n    while True: held.append(open('/work/x', 'w'))\nexcept OSError:\n    n = len(held)\n    del held\n    print(n <= 40, open('/work/x').read() == '')").prints("True True\n"))
            .javascript(program("const fs = require('fs'), held = []\ntry { for (;;) held.push(fs.openSync('/work/x', 'w')) } catch (e) { console.log(e.code) }\nfor (const f of held) fs.closeSync(f)\nconsole.log(held.length <= 40, fs.readFileSync('/work/x').length)").prints("EMFILE\ntrue 0\n"))
            .typescript(program("import * as fs from 'fs'\nconst held: number[] = []\ntry { while (true as boolean) held.push(fs.openSync('/work/x', 'w')) } catch (e: unknown) { console.log((e as NodeJS.ErrnoException).code) }\nheld.forEach((f: number): void => fs.closeSync(f))\nconsole.log(held.length <= 40, fs.readFileSync('/work/x').length)").prints("EMFILE\ntrue 0\n"))
            .lua(program("local held = {}\nrepeat\n  local f, message, number = io.open('/work/x', 'w')\n  held[#held + 1] = f\nuntil not f\nfor _, f in ipairs(held) do f:close() end\nprint(#held <= 40, io.open('/work/x'):read('a') == '')").prints("true\ttrue\n")),
        code("limits::output_before_the_limit_is_kept")
            .with(&["--memory", "128M"])
            .ends("memory_limit", 137)
            .prints("on\n")
            .creates(&["/work/f"])
            .python("print('on')\nopen('f', 'w').close()\nx = bytearray(1 << 30)")
            .scripts("console.log('on')\nrequire('fs').writeFileSync('f', '')\nnew Uint8Array(1 << 30).fill(1)")
            .lua("print('on')\nio.open('f', 'w'):close()\nlocal x = ('x'):rep(1 << 30)"),
        code("limits::output_truncated_before_exit")
            .with(&["--max-output", "64K"])
            .exits(3)
            .verify(|report| {
                let kept = report.stdout().len();
                if kept == 64 << 10 && report.at("/stdout_truncated/dropped_bytes") == 136 << 10 { Ok(()) } else { Err(format!("kept {kept}")) }
            })
            .python("import sys\nsys.stdout.write('x' * (200 << 10))\nsys.exit(3)")
            .scripts(program("process.stdout.write('x'.repeat(200 << 10))\nprocess.exit(3)").in_containers("require('fs').writeSync(1, 'x'.repeat(200 << 10))\nprocess.exit(3)"))
            .lua("io.write(('x'):rep(200 << 10))\nos.exit(3)"),
    ]
}

fn check_duration(report: &Report, min: f64, max: f64) -> Result<(), String> {
    let seconds = report.at("/duration_ms").as_f64().unwrap_or(f64::MAX) / 1000.0;
    if (min..max).contains(&seconds) { Ok(()) } else { Err(format!("duration is {seconds} s")) }
}
