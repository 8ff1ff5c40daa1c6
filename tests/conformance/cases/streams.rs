//! Standard streams: order, buffering, encoding and input.

use crate::case::{Case, code, file};
use crate::expect::ExpectationBuilder as _;
use crate::program::program;

pub fn cases() -> Vec<Case> {
    vec![
        code("streams::utf8")
            .prints("grüße 你好 🎉\n")
            .python("print('grüße 你好 🎉')")
            .javascript("console.log('grüße 你好 🎉')")
            .typescript("const text: string = 'grüße 你好 🎉'\nconsole.log(text)")
            .lua("print('grüße 你好 🎉')"),
        code("streams::encodings")
            .prints("utf-8 utf-8 utf-8 utf-8\n")
            .python("import sys\nprint(sys.stdin.encoding, sys.stdout.encoding, sys.stderr.encoding, sys.getfilesystemencoding())"),
        code("streams::default_encoding")
            .python(program("open('f', 'w').write('é')\nprint(open('f', 'rb').read())").prints("b'\\xc3\\xa9'\n"))
            .javascript(program("const fs = require('fs')\nfs.writeFileSync('f', 'é')\nconsole.log(fs.readFileSync('f'))").prints("<Buffer c3 a9>\n"))
            .typescript(program("import * as fs from 'fs'\nfs.writeFileSync('f', 'é')\nconst bytes: Buffer = fs.readFileSync('f')\nconsole.log(bytes)").prints("<Buffer c3 a9>\n"))
            .lua(program("local f <close> = io.open('f', 'w+')\nf:write('é')\nf:seek('set')\nprint(f:read('a'):byte(1, -1))").prints("195\t169\n")),
        code("streams::raw_bytes")
            .verify(|report| {
                let encoded = report.at("/stdout_base64").as_str().unwrap_or_default();
                if encoded == "/wBvaw==" { Ok(()) } else { Err(format!("base64 is {encoded:?}")) }
            })
            .python("import sys\nsys.stdout.buffer.write(b'\\xff\\x00ok')\nsys.stdout.flush()")
            .javascript("process.stdout.write(Buffer.from([0xff, 0, 0x6f, 0x6b]))")
            .typescript("const bytes: Uint8Array = Uint8Array.of(0xff, 0, 0x6f, 0x6b)\nprocess.stdout.write(bytes)")
            .lua("io.write('\\xff\\0ok')"),
        code("streams::unflushed_at_the_end")
            .prints("no newline")
            .python("import sys\nsys.stdout.write('no newline')")
            .javascript("process.stdout.write('no newline')")
            .typescript("const done: boolean = process.stdout.write('no newline')")
            .lua("io.write('no newline')"),
        code("streams::unflushed_at_an_exit")
            .exits(3)
            .prints("no newline")
            .python("import sys\nsys.stdout.write('no newline')\nsys.exit(3)")
            .scripts("process.stdout.write('no newline')\nprocess.exit(3)")
            .lua("io.write('no newline')\nos.exit(3)"),
        code("streams::text_and_bytes_in_order")
            .prints("one\ntwo\nthree\n")
            .python("import sys\nprint('one', flush=True)\nsys.stdout.buffer.write(b'two\\n')\nsys.stdout.buffer.flush()\nprint('three')")
            .javascript("console.log('one')\nrequire('fs').writeSync(1, Buffer.from('two\\n'))\nprocess.stdout.write('three\\n')")
            .typescript("import { writeSync } from 'fs'\nconsole.log('one')\nwriteSync(1, Buffer.from('two\\n') as Uint8Array)\nprocess.stdout.write('three\\n')")
            .lua("print('one')\nio.write('two\\n')\nio.stdout:write('three', '\\n')"),
        code("streams::both_streams_keep_their_order")
            .prints("1\n3\n")
            .stderr_contains("2\n4\n")
            .python("import sys\nfor n in range(1, 5): print(n, file=sys.stdout if n % 2 else sys.stderr)")
            .scripts("for (let n = 1; n < 5; n++) (n % 2 ? console.log : console.error)(n)")
            .lua("for n = 1, 4 do (n % 2 == 1 and io.stdout or io.stderr):write(n, '\\n') end"),
        code("streams::stderr")
            .prints("out\n")
            .stderr_contains("err\n")
            .python("import sys\nprint('out')\nprint('err', file=sys.stderr)")
            .javascript("console.log('out')\nconsole.error('err')")
            .typescript("const say: (text: string) => void = console.error\nconsole.log('out')\nsay('err')")
            .lua("print('out')\nio.stderr:write('err\\n')"),
        code("streams::console_methods")
            .prints("info\ndebug\n")
            .stderr_contains("warn\ntrace")
            .javascript("console.info('info')\nconsole.warn('warn')\nconsole.debug('debug')\nconsole.error('trace')")
            .typescript("type Method = 'info' | 'warn' | 'debug' | 'error'\nfor (const [name, text] of [['info', 'info'], ['warn', 'warn'], ['debug', 'debug'], ['error', 'trace']] as [Method, string][]) console[name](text)"),
        code("streams::input")
            .input("Ann\nBob\n")
            .prints("name? Ann Bob\n")
            .python("print(input('name? '), input())")
            .javascript("const lines = require('fs').readFileSync(0, 'utf8').split('\\n')\nprocess.stdout.write('name? ')\nconsole.log(lines[0], lines[1])")
            .typescript("import { readFileSync } from 'fs'\nconst [first, second]: string[] = readFileSync(0, 'utf8').split('\\n')\nprocess.stdout.write('name? ')\nconsole.log(first, second)")
            .lua("io.write('name? ')\nprint(io.read() .. ' ' .. io.read())"),
        code("streams::input_with_prompts")
            .input("Ann\nBob\n")
            .prints("name? and? Ann Bob\n")
            .python("a, b = input('name? '), input('and? ')\nprint(a, b)")
            .javascript("const ask = require('readline').createInterface({ input: process.stdin, output: process.stdout })\nask.question('name? ', a => ask.question('and? ', b => { console.log(a, b); ask.close() }))")
            .typescript("import { createInterface, type Interface } from 'readline'\nconst ask: Interface = createInterface({ input: process.stdin, output: process.stdout })\nask.question('name? ', (a: string): void => ask.question('and? ', (b: string): void => { console.log(a, b); ask.close() }))")
            .lua("io.write('name? ')\nlocal a = io.read('l')\nio.write('and? ')\nlocal b = io.read('l')\nprint(a .. ' ' .. b)"),
        code("streams::input_ends")
            .python(program("try:\n    input()\nexcept EOFError as e:\n    print('EOF', e)").prints("EOF EOF when reading a line\n"))
            .scripts(program("process.stdin.on('data', data => console.log('data', data)).on('end', () => console.log('end'))").prints("end\n"))
            .lua(program("print(io.read(), io.read('n'), io.read('a'), io.read('a'))").prints("nil\tnil\t\t\n")),
        code("streams::input_lines")
            .input("a\nb")
            .python(program("import sys\nprint([line for line in sys.stdin])").prints("['a\\n', 'b']\n"))
            .javascript(program("const lines = []\nrequire('readline').createInterface({ input: process.stdin }).on('line', line => lines.push(line)).on('close', () => console.log(lines))").prints("[ 'a', 'b' ]\n"))
            .typescript(program("import { createInterface } from 'readline'\nconst lines: string[] = []\nfor await (const line of createInterface({ input: process.stdin })) lines.push(line)\nconsole.log(lines)").prints("[ 'a', 'b' ]\n"))
            .lua(program("for line in io.lines() do io.write('[', line, ']') end\nprint()").prints("[a][b]\n")),
        code("streams::input_in_parts")
            .input("12 0x1f word\nrest of it\nmore")
            .prints("12 31 word|rest|more\n")
            .lua("local a, b = io.read('n', 'n')\nlocal word = io.read('l'):sub(2)\nlocal rest = io.read(4)\nio.read('L')\nprint(a .. ' ' .. b .. ' ' .. word .. '|' .. rest .. '|' .. io.read('a'))"),
        code("streams::input_bytes")
            .input("é\0\n")
            .prints("4\n")
            .python("import sys\nprint(len(sys.stdin.buffer.read()))")
            .javascript("let bytes = 0\nprocess.stdin.on('data', part => { bytes += part.length }).on('end', () => console.log(bytes))")
            .typescript("let bytes: number = 0\nfor await (const part of process.stdin) bytes += (part as Buffer).length\nconsole.log(bytes)\nexport {}")
            .lua("print(#io.read('a'))"),
        code("streams::input_is_no_terminal")
            .python(program("import sys\nprint(sys.stdin.isatty(), sys.stdout.isatty())").prints("False False\n"))
            .scripts(program("console.log(Boolean(process.stdin.isTTY), Boolean(process.stdout.isTTY), require('tty').isatty(2))").prints("false false false\n")),
        code("streams::unread_input")
            .input("unread input\n")
            .prints("on\n")
            .python("print('on')")
            .scripts("console.log('on')")
            .lua("print('on')"),
        file("streams::file_program_keeps_stdin")
            .input("abc")
            .prints("ABC\n")
            .python("import sys\nprint(sys.stdin.read().upper())")
            .javascript("process.stdout.write(require('fs').readFileSync('/dev/stdin', 'utf8').toUpperCase() + '\\n')")
            .typescript("let text: string = ''\nprocess.stdin.setEncoding('utf8').on('data', (part: string) => { text += part }).on('end', () => console.log(text.toUpperCase()))")
            .lua("print(io.read('a'):upper())"),
        code("streams::large_input")
            .input(&"x".repeat(3 << 20))
            .prints("3145728\n")
            .python("import sys\nprint(sum(len(line) for line in sys.stdin))")
            .javascript("let length = 0\nprocess.stdin.setEncoding('utf8').on('data', part => { length += part.length }).on('end', () => console.log(length))")
            .typescript("import { readFileSync } from 'fs'\nconst text: string = readFileSync(0, 'utf8')\nconsole.log(text.length)")
            .lua("local length = 0\nfor part in io.stdin:lines(4096) do length = length + #part end\nprint(length)"),
        code("streams::large_output")
            .verify(|report| {
                let length = report.stdout().len();
                if length == (1 << 20) + 1 { Ok(()) } else { Err(format!("{length} bytes")) }
            })
            .python("print('y' * (1 << 20))")
            .javascript("console.log('y'.repeat(1 << 20))")
            .typescript("const length: number = 1 << 20\nconsole.log('y'.repeat(length))")
            .lua("print(('y'):rep(1 << 20))"),
        code("streams::many_small_writes")
            .python("import sys\nfor n in range(20000): sys.stdout.write('ab')")
            .scripts("for (let n = 0; n < 20000; n++) process.stdout.write('ab')")
            .lua("for n = 1, 20000 do io.write('ab') end")
            .verify(|report| if report.stdout() == "ab".repeat(20000) { Ok(()) } else { Err(format!("{} bytes", report.stdout().len())) }),
        code("streams::flushed_before_a_trap")
            .python(program("import os\nprint('before')\nos.abort()").ends("guest_error", 134).prints("before\n"))
            .ends("guest_error", 134)
            .prints("before\n")
            .scripts("console.log('before')\nprocess.abort()"),
        code("streams::unbuffered")
            .exits(5)
            .prints("onetwo")
            .python("import os, sys\nsys.stdout.write('one')\nsys.stdout.flush()\nos.write(1, b'two')\nos._exit(5)")
            .scripts("process.stdout.write('one')\nrequire('fs').writeSync(1, 'two')\nprocess.reallyExit(5)")
            .lua("io.stdout:setvbuf('no')\nio.write('one')\nio.write('two')\nos.exit(5)"),
        code("streams::escaped_bytes_round_trip")
            .verify(|report| {
                let encoded = report.at("/stdout_base64").as_str().unwrap_or_default();
                if encoded == "gAo=" { Ok(()) } else { Err(format!("base64 is {encoded:?}")) }
            })
            .python("print('\\udc80')"),
        code("streams::lone_surrogates_are_an_error")
            .exits(1)
            .stderr_contains("UnicodeEncodeError")
            .python("print('\\ud800')"),
        code("streams::lone_surrogates_are_replaced")
            .prints("a\u{fffd}b\n")
            .scripts("console.log('a\\ud800b')"),
        code("streams::callback_after_writing")
            .prints("one\ntwo\n")
            .javascript("process.stdout.write('one\\n', () => console.log('two'))")
            .typescript("process.stdout.write('one\\n', (error?: Error | null): void => console.log(error ?? 'two'))"),
        code("streams::piped_through")
            .input("a\nb\n")
            .prints("A\nB\n")
            .javascript("const { Transform, pipeline } = require('stream')\npipeline(process.stdin, new Transform({ transform(part, _, done) { done(null, String(part).toUpperCase()) } }), process.stdout, () => {})")
            .typescript("import { Transform, type TransformCallback } from 'stream'\nconst louder = new Transform({ transform(part: Buffer, _: BufferEncoding, done: TransformCallback): void { done(null, String(part).toUpperCase()) } })\nprocess.stdin.pipe(louder).pipe(process.stdout)")
            .lua("for line in io.lines() do print(line:upper()) end"),
        code("streams::formats")
            .prints("a 1 { b: [ 2, { c: [Object] } ] } 3% \"x\" over\n")
            .scripts("console.log('%s %d %O %i%% %j', 'a', 1, { b: [2, { c: { d: { e: 1 } } }] }, 3.7, 'x', 'over')"),
        code("streams::stderr_escapes_surrogates")
            .python(program("import sys\nprint('\\udc80', file=sys.stderr)").stderr_contains("\\udc80"))
            .scripts(program("console.error('a\\udc80b')").stderr_contains("a\u{fffd}b\n")),
        code("streams::deleted_stdout")
            .prints("")
            .python("import sys\ndel sys.stdout")
            .scripts("delete process.stdout")
            .lua("io.stdout = nil"),
        code("streams::deleted_both")
            .prints("a\n")
            .python("import sys\nprint('a')\ndel sys.stdout, sys.stderr")
            .scripts("console.log('a')\ndelete process.stdout\ndelete process.stderr")
            .lua("print('a')\nio.stdout, io.stderr = nil, nil"),
        code("streams::deleted_originals")
            .prints("a\n")
            .python("import sys\nprint('a')\ndel sys.__stdout__, sys.__stderr__"),
    ]
}
