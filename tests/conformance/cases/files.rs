//! Working directory, and the report's lists of files.

mod operations;

use codebox_testkit::Report;

use crate::case::{Case, code};
use crate::expect::{ExpectationBuilder as _, TierExpectations as _, expected};
use crate::program::program;
use operations::{JS_MANY, JS_OPERATIONS, LUA_OPERATIONS, OPERATIONS, PROMISES, TS_MANY, TS_OPERATIONS};

pub fn cases() -> Vec<Case> {
    vec![
        code("files::many_in_one_directory")
            .python(program("import os\nfor n in range(6000):\n    open(f'{n:05}', 'w').close()\nnames = [sorted(os.listdir('.')) for _ in range(3)]\nprint(len(names[0]), names[0] == names[1] == names[2], names[0][5999])\nwith os.scandir('.') as found:\n    first = next(found)\n    os.remove('03000')\n    print(len({first.name, *(e.name for e in found if e.is_file())}) in (5999, 6000))\nprint(len(os.listdir('.')))").prints("6000 True 05999\nTrue\n5999\n"))
            .javascript(program(JS_MANY).prints("6000 true 05999\n5999\n"))
            .typescript(program(TS_MANY).prints("6000 05999\n")),
        code("files::failed_creations_do_not_count")
            .with(&["--max-files", "100"])
            .prints("made\n")
            .python("import os\nfor _ in range(300):\n    os.makedirs('d', exist_ok=True)\n    try: open('/usr/nope', 'x')\n    except OSError: pass\nopen('f', 'w').close()\nprint('made')")
            .javascript("const fs = require('fs')\nfor (let n = 0; n < 300; n++) {\n  fs.mkdirSync('d', { recursive: true })\n  try { fs.openSync('/usr/nope', 'wx') } catch {}\n}\nfs.writeFileSync('f', '')\nconsole.log('made')")
            .typescript("import { mkdirSync, openSync, writeFileSync } from 'fs'\nfor (let n: number = 0; n < 300; n++) {\n  const first: string | undefined = mkdirSync('d', { recursive: true })\n  try { openSync('/usr/nope', 'wx') } catch (e: unknown) {}\n}\nwriteFileSync('f', '')\nconsole.log('made')")
            .lua("for n = 1, 300 do\n  assert(not io.open('/usr/nope', 'w'))\n  io.open('g', 'w'):close()\nend\nio.open('f', 'w'):close()\nprint('made')"),
        code("files::standard_streams_can_be_closed")
            .prints("")
            .python(program("import os, sys\nos.close(1)\nfd = os.open('log', os.O_CREAT | os.O_WRONLY)\nos.write(fd, b'to file')\nos.close(fd)\nprint(open('log').read(), fd, file=sys.stderr)\nfor _ in range(600):\n    os.close(os.open('log', os.O_RDONLY))\nos._exit(0)").stderr_contains("to file 1"))
            .scripts(program("const fs = require('fs')\nfs.closeSync(1)\nconst fd = fs.openSync('log', 'w')\nfs.writeSync(fd, 'to file')\nfs.closeSync(fd)\nconsole.error(fs.readFileSync('log', 'utf8'))\nfor (let n = 0; n < 600; n++) fs.closeSync(fs.openSync('log', 'r'))\nprocess.reallyExit(0)").stderr_contains("to file\n")),
        code("files::opened_and_closed_often")
            .prints("600\n")
            .python("open('f', 'w').close()\nfor n in range(600): open('f').close()\nprint(n + 1)")
            .scripts("const fs = require('fs')\nlet n = 0\nfor (; n < 600; n++) fs.closeSync(fs.openSync('f', 'w'))\nconsole.log(n)")
            .lua("local count = 0\nfor n = 1, 600 do\n  local f <close> = io.open('f', 'w')\n  count = count + 1\nend\nprint(count)"),
        code("files::listed_with_size_and_digest")
            .creates(&["/work/a.txt"])
            .verify(|report| {
                let file = report.file("/work/a.txt").cloned().unwrap_or_default();
                let digest = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
                if file["size"] == 5 && file["sha256"] == digest && file["kind"] == "regular" { Ok(()) } else { Err(file.to_string()) }
            })
            .python("open('a.txt', 'w').write('hello')")
            .javascript("require('fs').writeFileSync('a.txt', 'hello')")
            .typescript("import { writeFile } from 'fs/promises'\nconst done: Promise<void> = writeFile('a.txt', 'hello')\nawait done")
            .lua("io.open('a.txt', 'w'):write('hello')"),
        code("files::in_folders")
            .creates(&["/work/b", "/work/d/e/f"])
            .python("import os\nos.makedirs('d/e')\nopen('d/e/f', 'w')\nopen('b', 'w')")
            .javascript("const fs = require('fs')\nfs.mkdirSync('d/e', { recursive: true })\nfs.writeFileSync('d/e/f', '')\nfs.writeFileSync('b', '')")
            .typescript("import fs from 'fs'\nconst folder = 'd/e' as const\nfs.mkdirSync(folder, { recursive: true })\nfor (const name of [`${folder}/f`, 'b'] satisfies string[]) fs.writeFileSync(name, '')"),
        code("files::removed_is_not_listed")
            .creates(&[])
            .python("import os\nopen('x', 'w')\nos.remove('x')")
            .scripts("const fs = require('fs')\nfs.writeFileSync('x', '')\nfs.unlinkSync('x')")
            .lua("io.open('x', 'w'):close()\nassert(os.remove('x'))"),
        code("files::renamed_is_listed_by_final_name")
            .creates(&["/work/y"])
            .python("import os\nopen('x', 'w').close()\nos.rename('x', 'y')")
            .scripts("const fs = require('fs')\nfs.writeFileSync('x', '')\nfs.renameSync('x', 'y')")
            .lua("io.open('x', 'w'):close()\nassert(os.rename('x', 'y'))"),
        code("files::tmp_is_not_listed")
            .creates(&[])
            .python("open('/tmp/x', 'w')")
            .scripts("require('fs').writeFileSync('/tmp/x', '')")
            .lua("assert(io.open('/tmp/x', 'w')):close()"),
        code("files::none")
            .creates(&[])
            .python("print(1)")
            .scripts("console.log(1)")
            .lua("print(1)"),
        code("files::listed_after_an_error")
            .exits(1)
            .creates(&["/work/x"])
            .python("open('x', 'w').write('y')\n1/0")
            .scripts("require('fs').writeFileSync('x', 'y')\nnull.x")
            .lua("io.open('x', 'w'):write('y')\nerror('no')"),
        code("files::listed_after_a_timeout")
            .with(&["--timeout", "500ms"])
            .ends("timeout_wall", 124)
            .creates(&["/work/x"])
            .python("open('x', 'w').close()\nwhile 1: pass")
            .javascript("require('fs').writeFileSync('x', '')\nfor (;;);")
            .typescript("import * as fs from 'fs'\nfs.writeFileSync('x', '' as string)\nwhile (true as boolean) {}")
            .lua("io.open('x', 'w'):close()\nwhile true do end"),
        code("files::link_is_listed_as_a_link")
            .verify(|report| {
                let listed = listed(report, "/work/l");
                if listed["kind"] == "symlink" && listed["sha256"].is_null() { Ok(()) } else { Err(listed.to_string()) }
            })
            .python("import os\nopen('a', 'w')\nos.symlink('a', 'l')")
            .javascript("const fs = require('fs')\nfs.writeFileSync('a', '')\nfs.symlinkSync('a', 'l')")
            .typescript("import * as fs from 'fs'\nfs.writeFileSync('a', '')\nfs.symlinkSync('a', 'l', 'file' satisfies fs.symlink.Type)"),
        code("files::out")
            .out()
            .leaves_file(("out", "d/a.txt", "hello"))
            .leaves_file(("out", "ü b", "x"))
            .verify(|report| {
                let host = listed(report, "/work/d/a.txt")["host_path"].as_str().unwrap_or_default().to_owned();
                if host.ends_with("/out/d/a.txt") { Ok(()) } else { Err(format!("host path {host:?}")) }
            })
            .python("import os\nos.mkdir('d')\nopen('d/a.txt', 'w').write('hello')\nopen('ü b', 'wb').write(b'x')")
            .javascript("const fs = require('fs')\nfs.mkdirSync('d')\nfs.writeFileSync('d/a.txt', 'hello')\nfs.writeFileSync('ü b', Buffer.from('x'))")
            .typescript("import { promises as fs } from 'fs'\nawait fs.mkdir('d')\nconst files: Record<string, string> = { 'd/a.txt': 'hello', 'ü b': 'x' }\nfor (const [name, text] of Object.entries<string>(files)) await fs.writeFile(name, text)"),
        code("files::out_of_one_directory")
            .out()
            .creates(&["/work/a.txt", "/work/ü b"])
            .leaves_file(("out", "a.txt", "hello"))
            .leaves_file(("out", "ü b", "x"))
            .python("open('a.txt', 'w').write('hello')\nopen('ü b', 'w').write('x')")
            .scripts("const fs = require('fs')\nfs.writeFileSync('a.txt', 'hello')\nfs.writeFileSync('ü b', 'x')")
            .lua("io.open('a.txt', 'w'):write('hello')\nio.open('ü b', 'w'):write('x')"),
        code("files::out_skips_links")
            .out()
            .leaves_file(("out", "a", "b"))
            .verify(|report| if report.json().to_string().contains("links") { Ok(()) } else { Err("the link is not named as skipped".into()) })
            .python("import os\nos.symlink('nothing', 'l')\nopen('a', 'w').write('b')")
            .scripts("const fs = require('fs')\nfs.symlinkSync('nothing', 'l')\nfs.writeFileSync('a', 'b')"),
        code("files::out_after_an_error")
            .out()
            .exits(2)
            .leaves_file(("out", "a", "kept"))
            .python("open('a', 'w').write('kept')\nraise SystemExit(2)")
            .scripts("require('fs').writeFileSync('a', 'kept')\nprocess.exit(2)")
            .lua("local f <close> = io.open('a', 'w')\nf:write('kept')\nos.exit(2, true)"),
        code("files::granted_working_directory")
            .grant("w", "/work", "rw", &[("old", "o"), ("same", "s")])
            .prints("s\n")
            .leaves_file(("w", "new", "n"))
            .leaves_file(("w", "old", "o+"))
            .verify(|report| {
                let listed: Vec<&str> = [report.files("created"), report.files("modified")].concat();
                let right = listed.contains(&"/work/new") && listed.contains(&"/work/old") && !listed.contains(&"/work/same");
                if right { Ok(()) } else { Err(format!("listed files are {listed:?}")) }
            })
            .python("open('new', 'w').write('n')\nopen('old', 'a').write('+')\nprint(open('same').read())")
            .javascript("const fs = require('fs')\nfs.writeFileSync('new', 'n')\nfs.appendFileSync('old', '+')\nconsole.log(fs.readFileSync('same', 'utf8'))")
            .typescript("import { appendFileSync, readFileSync, writeFileSync } from 'fs'\nwriteFileSync('new', 'n')\nappendFileSync('old', '+')\nconst same: string = readFileSync('same', { encoding: 'utf8' })\nconsole.log(same)")
            .lua("io.open('new', 'w'):write('n')\nio.open('old', 'a'):write('+')\nprint(io.open('same'):read('a'))"),
        code("files::one_large_write_and_read")
            .python(program("n = open('f', 'wb').write(bytes(40 << 20))\nprint(n, len(open('f', 'rb').read()), len(open('f', 'rb', buffering=0).read()))").prints("41943040 41943040 41943040\n"))
            .javascript(program("const fs = require('fs')\nfs.writeFileSync('f', Buffer.alloc(40 << 20))\nconsole.log(fs.readFileSync('f').length, fs.statSync('f').size)").prints("41943040 41943040\n"))
            .typescript(program("import * as fs from 'fs'\nconst size: number = 40 << 20\nfs.writeFileSync('f', new Uint8Array(size))\nconst held: Buffer = fs.readFileSync('f')\nconsole.log(held.length === size, held.byteLength)").prints("true 41943040\n"))
            .lua(program("do\n  local f <close> = io.open('f', 'wb')\n  f:write(('\\0'):rep(40 << 20))\nend\nlocal f <close> = io.open('f', 'rb')\nprint(#f:read('a'), f:seek('end'))").prints("41943040\t41943040\n")),
        code("files::operations")
            .prints("ok\n")
            .python(OPERATIONS)
            .javascript(JS_OPERATIONS)
            .typescript(TS_OPERATIONS)
            .lua(LUA_OPERATIONS),
        code("files::promises")
            .prints("hello! [ 'b', 'd' ]\n")
            .scripts(PROMISES),
        code("files::streams")
            .prints("100000 5\n")
            .creates(&["/work/f", "/work/g"])
            .javascript("const fs = require('fs')\nconst out = fs.createWriteStream('f')\nfor (let n = 0; n < 1000; n++) out.write('x'.repeat(100))\nout.end(() => fs.createReadStream('f').pipe(fs.createWriteStream('g')).on('finish', () => {\n  let part = 0\n  fs.createReadStream('g', { start: 10, end: 14 }).on('data', data => { part += data.length }).on('close', () => console.log(fs.statSync('g').size, part))\n}))")
            .typescript("import * as fs from 'fs'\nimport { pipeline } from 'stream/promises'\nasync function* parts(): AsyncGenerator<string> { for (let n = 0; n < 1000; n++) yield 'x'.repeat(100) }\nawait pipeline(parts, fs.createWriteStream('f'))\nawait pipeline(fs.createReadStream('f'), fs.createWriteStream('g'))\nlet part: number = 0\nfor await (const data of fs.createReadStream('g', { start: 10, end: 14 })) part += (data as Buffer).length\nconsole.log(fs.statSync('g').size, part)"),
        code("files::lines")
            .prints("1 a\n2 \n3 c\n")
            .python("open('f', 'w').write('a\\n\\nc')\nfor n, line in enumerate(open('f'), 1): print(n, line.rstrip('\\n'))")
            .javascript("const fs = require('fs')\nfs.writeFileSync('f', 'a\\n\\nc')\nlet n = 0\nrequire('readline').createInterface({ input: fs.createReadStream('f') }).on('line', line => console.log(`${++n} ${line}`))")
            .typescript("import { open, writeFile } from 'fs/promises'\nawait writeFile('f', 'a\\n\\nc')\nlet n: number = 0\nconst held = await open('f')\nfor await (const line of held.readLines()) console.log(`${++n} ${line as string}`)")
            .lua("local f = io.open('f', 'w')\nf:write('a\\n\\nc')\nf:close()\nlocal n = 0\nfor line in io.lines('f') do\n  n = n + 1\n  print(n .. ' ' .. line)\nend"),
        code("files::errors_name_the_file")
            .exits(1)
            .python(program("open('nothing')").stderr_contains("FileNotFoundError: ").stderr_contains(" No such file or directory: 'nothing'").wasm(expected().stderr_contains("[Errno 44]")).containers(expected().stderr_contains("[Errno 2]")))
            .scripts(program("require('fs').readFileSync('nothing')").stderr_contains("Error: ENOENT: no such file or directory, open 'nothing'").stderr_contains("errno: -2").stderr_contains("path: 'nothing'"))
            .lua(program("assert(io.open('nothing'))").stderr_contains("nothing: No such file or directory")),
        code("files::unusual_names")
            .python(program("for n in ['a b', 'ü', '🎉', '-x', 'a\\nb', '$V', '~', 'CON']:\n    open(n, 'w').write('1')\nimport os\nprint(len(os.listdir()))").prints("8\n"))
            .scripts(program("const fs = require('fs')\nfor (const name of ['a b', 'ü', '🎉', '-x', 'a\\nb', '$V', '~', 'CON']) fs.writeFileSync(name, '1')\nconsole.log(fs.readdirSync('.').length)").prints("8\n"))
            .lua(program("local names = { 'a b', 'ü', '🎉', '-x', 'a\\nb', '$V', '~', 'CON' }\nfor _, name in ipairs(names) do io.open(name, 'w'):write('1') end\ncollectgarbage()\nlocal sum = 0\nfor _, name in ipairs(names) do sum = sum + io.open(name):read('n') end\nprint(sum)").prints("8\n")),
        code("files::many")
            .prints("300\n")
            .python("import os\nfor n in range(300): open(str(n), 'w').close()\nprint(len(os.listdir()))")
            .javascript("const fs = require('fs')\nfor (let n = 0; n < 300; n++) fs.writeFileSync(String(n), '')\nconsole.log(fs.readdirSync('.').length)")
            .typescript("import { readdirSync, writeFileSync } from 'fs'\nfor (let n: number = 0; n < 300; n++) writeFileSync(`${n}`, '')\nconst names: string[] = readdirSync('.')\nconsole.log(names.length)")
            .lua("for n = 1, 300 do io.open(tostring(n), 'w'):close() end\nlocal count = 0\nfor n = 1, 300 do\n  local f <close> = io.open(tostring(n))\n  if f then count = count + 1 end\nend\nprint(count)"),
        code("files::private_between_runs")
            .python(program("import os\nprint(os.listdir('/work'), os.listdir('/tmp'))").prints("[] []\n"))
            .scripts(program("const fs = require('fs')\nconsole.log(fs.readdirSync('/work'), fs.readdirSync('/tmp'))").prints("[] []\n")),
    ]
}

fn listed(report: &Report, guest: &str) -> serde_json::Value {
    report.file(guest).cloned().unwrap_or_default()
}
