//! Access to granted and to other resources.

use crate::case::{Case, code};
use crate::expect::{ExpectationBuilder as _, TierExpectations as _};
use crate::program::program;
use crate::tier::Tier;

pub fn cases() -> Vec<Case> {
    vec![
        code("grants::no_environment")
            .python(program("import os\nprint([n for n in os.environ if n.startswith(('CODEBOX', 'CARGO', 'SSH', 'USER'))])").prints("[]\n"))
            .javascript(program("console.log(Object.keys(process.env).filter(name => /^(CODEBOX|CARGO|SSH|USER)/.test(name)))").prints("[]\n"))
            .typescript(program("const names: string[] = Object.keys(process.env)\nconsole.log(names.filter((name: string): boolean => /^(CODEBOX|CARGO|SSH|USER)/.test(name)))").prints("[]\n"))
            .lua(program("for _, name in ipairs { 'CODEBOX_HOME', 'CARGO', 'CARGO_MANIFEST_DIR', 'SSH_AUTH_SOCK', 'USER' } do\n  if os.getenv(name) then print(name) end\nend").prints("")),
        code("grants::environment_value")
            .with(&["--env", "TOKEN=a=b ü", "--env", "EMPTY="])
            .python(program("import os\nprint(os.environ['TOKEN'], os.getenv('EMPTY') == '')").prints("a=b ü True\n"))
            .javascript(program("console.log(process.env.TOKEN, process.env.EMPTY === '')").prints("a=b ü true\n"))
            .typescript(program("const { TOKEN, EMPTY }: NodeJS.ProcessEnv = process.env\nconsole.log(TOKEN!, EMPTY === '')").prints("a=b ü true\n"))
            .lua(program("print(os.getenv('TOKEN') .. ' ' .. tostring(os.getenv('EMPTY') == ''), os.getenv('NONE'))").prints("a=b ü true\tnil\n")),
        code("grants::no_host_files")
            .prints("")
            .python(program("import os\nfor p in ('/etc/passwd', '/root', '/home', '/proc/self/environ', '/dev/kmsg'):\n    try:\n        os.stat(p)\n        print('there', p)\n    except OSError: pass").in_containers(PROBE_HOST))
            .javascript(program("const fs = require('fs')\nfor (const path of ['/etc/passwd', '/root', '/home', '/proc/self/environ', '/dev/kmsg']) if (fs.existsSync(path)) console.log('exists', path)").in_containers(JS_PROBE_HOST))
            .typescript(program("import { statSync } from 'fs'\nconst places: readonly string[] = ['/etc/passwd', '/root', '/home', '/proc/self/environ', '/dev/kmsg']\nfor (const place of places) try { statSync(place); console.log('there', place) } catch (e: unknown) {}").in_containers(JS_PROBE_HOST))
            .lua(program("for _, path in ipairs { '/etc/passwd', '/root', '/home', '/proc/self/environ', '/dev/kmsg' } do\n  if io.open(path) then print('exists', path) end\nend").only_in(Tier::Wasm, "an image has its own files")),
        code("grants::root_is_read_only")
            .prints("")
            .python("import os\nfor p in ('/x', '/usr/x', '/usr/local/lib/x'):\n    try:\n        open(p, 'w')\n        print('written', p)\n    except OSError: pass")
            .scripts("const fs = require('fs')\nfor (const path of ['/x', '/usr/x', '/usr/local/lib/x']) try { fs.writeFileSync(path, ''); console.log('written', path) } catch {}")
            .lua("for _, path in ipairs { '/x', '/usr/x', '/usr/local/lib/x' } do\n  if io.open(path, 'w') then print('written', path) end\nend"),
        code("grants::library_is_read_only")
            .prints("refused\n")
            .python("import json, os\ntry:\n    os.remove('/usr/local/lib/python315.zip')\nexcept OSError as e:\n    print('refused')"),
        code("grants::read_only_by_default")
            .grant("d", "/d", "ro", &[("f", "held")])
            .stdout_contains("held\n")
            .leaves_file(("d", "f", "held"))
            .python("print(open('/d/f').read())\ntry:\n    open('/d/g', 'w')\nexcept OSError as e:\n    print(type(e).__name__)")
            .javascript("const fs = require('fs')\nconsole.log(fs.readFileSync('/d/f', 'utf8'))\ntry { fs.writeFileSync('/d/g', '') } catch (e) { console.log(e.code) }")
            .typescript("import { readFileSync, writeFileSync } from 'fs'\nconst held: string = readFileSync('/d/f', 'utf8')\nconsole.log(held)\ntry { writeFileSync('/d/g', '') } catch (e: unknown) { console.log((e as NodeJS.ErrnoException).code) }")
            .lua("print(io.open('/d/f'):read('a'))\nprint(io.open('/d/g', 'w'))"),
        code("grants::read_only_is_enforced")
            .grant("d", "/d", "ro", &[("f", "held"), ("s/g", "too")])
            .leaves_file(("d", "f", "held"))
            .leaves_file(("d", "s/g", "too"))
            .python(program(READ_ONLY).prints("[]\n"))
            .javascript(program(JS_READ_ONLY).prints("[]\n"))
            .typescript(program(TS_READ_ONLY).prints("[]\n"))
            .lua(program(LUA_READ_ONLY).prints("")),
        code("grants::read_write")
            .grant("d", "/d", "rw", &[("f", "gone")])
            .leaves_file(("d", "g", "new"))
            .leaves_file(("d", "f", ""))
            .python("open('/d/g', 'w').write('new')\nimport os\nos.remove('/d/f')")
            .javascript("const fs = require('fs')\nfs.writeFileSync('/d/g', 'new')\nfs.unlinkSync('/d/f')")
            .typescript("import { unlink, writeFile } from 'fs/promises'\nawait Promise.all<void>([writeFile('/d/g', 'new'), unlink('/d/f')])")
            .lua("io.open('/d/g', 'w'):write('new')\nassert(os.remove('/d/f'))"),
        code("grants::two_directories")
            .grant("a", "/a", "ro", &[("x", "copied")])
            .grant("b", "/b", "rw", &[])
            .leaves_file(("b", "x", "copied"))
            .python("open('/b/x', 'w').write(open('/a/x').read())")
            .scripts("const fs = require('fs')\nfs.writeFileSync('/b/x', fs.readFileSync('/a/x'))")
            .lua("io.open('/b/x', 'w'):write(io.open('/a/x'):read('a'))"),
        code("grants::nested_mounts")
            .grant("outer", "/a", "ro", &[("x", "outer"), ("b/hidden", "h")])
            .grant("inner", "/a/b", "rw", &[("x", "inner")])
            .python(program("print(open('/a/x').read(), open('/a/b/x').read())\nimport os\nprint(sorted(os.listdir('/a/b')))").prints("outer inner\n['x']\n"))
            .scripts(program("const fs = require('fs')\nconsole.log(fs.readFileSync('/a/x', 'utf8'), fs.readFileSync('/a/b/x', 'utf8'))\nconsole.log(fs.readdirSync('/a/b'))").prints("outer inner\n[ 'x' ]\n"))
            .lua(program("print(io.open('/a/x'):read('a') .. ' ' .. io.open('/a/b/x'):read('a'))\nprint((io.open('/a/b/hidden')))").prints("outer inner\nnil\n")),
        code("grants::nested_read_only_in_writable")
            .grant("outer", "/a", "rw", &[("b/z", "z")])
            .grant("inner", "/a/b", "ro", &[("x", "inner")])
            .prints("refused\n")
            .leaves_file(("outer", "y", "1"))
            .leaves_file(("inner", "y", ""))
            .python("open('/a/y', 'w').write('1')\ntry:\n    open('/a/b/y', 'w')\nexcept OSError:\n    print('refused')")
            .scripts("const fs = require('fs')\nfs.writeFileSync('/a/y', '1')\ntry { fs.writeFileSync('/a/b/y', '') } catch { console.log('refused') }")
            .lua("io.open('/a/y', 'w'):write('1')\nif not io.open('/a/b/y', 'w') then print('refused') end"),
        code("grants::same_host_twice_stricter_wins")
            .grant("h", "/rw", "rw", &[("s/x", "kept")])
            .grant("h/s", "/ro", "ro", &[])
            .prints("refused\n")
            .leaves_file(("h", "s/x", "kept"))
            .python("try:\n    open('/rw/s/x', 'w')\nexcept OSError:\n    print('refused')")
            .scripts("try { require('fs').writeFileSync('/rw/s/x', '') } catch { console.log('refused') }")
            .lua("if not io.open('/rw/s/x', 'w') then print('refused') end"),
        code("grants::deep_guest_path")
            .grant("d", "/very/deep/place", "ro", &[("f", "x")])
            .python(program("import os\nprint(open('/very/deep/place/f').read())\nos.chdir('/very/deep/place')\nprint(open('f').read(), os.getcwd())").prints("x\nx /very/deep/place\n"))
            .scripts(program("const fs = require('fs')\nconsole.log(fs.readFileSync('/very/deep/place/f', 'utf8'))\nprocess.chdir('/very/deep/place')\nconsole.log(fs.readFileSync('f', 'utf8'), process.cwd())").prints("x\nx /very/deep/place\n"))
            .lua(program("print(io.open('/very/deep/place/f'):read('a'), (io.open('/very/deep/g')))").prints("x\tnil\n")),
        code("grants::listed_at_their_guest_paths")
            .grant("d", "/a/b/c", "ro", &[("f", "x")])
            .grant("e", "/work/in", "ro", &[("g", "x")])
            .python(program("import glob, os\nprint(os.listdir('/work'), sorted(set(os.listdir('/')) & {'a', 'work', 'tmp', 'usr'}), os.listdir('/a'), os.listdir('/a/b/c/..'))\nprint(glob.glob('/a/**/f', recursive=True), os.path.isdir('/a/b'), [d for d, _, f in os.walk('/work') if f])").prints("['in'] ['a', 'tmp', 'usr', 'work'] ['b'] ['c']\n['/a/b/c/f'] True ['/work/in']\n"))
            .javascript(program(JS_LIST_GRANTS).prints("[ 'in' ] [ 'a', 'tmp', 'usr', 'work' ] [ 'b' ] [ 'c' ]\n[ 'b', 'b/c', 'b/c/f' ] true [ 'in', 'in/g' ]\n"))
            .typescript(program(TS_LIST_GRANTS).prints("[ 'in' ] [ 'a', 'tmp', 'usr', 'work' ] [ 'b' ] [ 'c' ]\ntrue\n")),
        code("grants::names_with_spaces")
            .grant("my host data", "/my data", "ro", &[("a b", "x")])
            .prints("x\n")
            .python("print(open('/my data/a b').read())")
            .scripts("console.log(require('fs').readFileSync('/my data/a b', 'utf8'))")
            .lua("print(io.open('/my data/a b'):read('a'))"),
        code("grants::no_access_to_parent")
            .grant("g/d", "/d", "rw", &[("../secret", "canary")])
            .prints("refused\n")
            .python("import os\nos.chdir('/d')\ntry:\n    print(os.listdir('..'), open('../secret').read())\nexcept OSError as e:\n    print('refused')")
            .javascript("const fs = require('fs')\nprocess.chdir('/d')\ntry { console.log(fs.readdirSync('..'), fs.readFileSync('../secret', 'utf8')) } catch (e) { console.log('refused') }")
            .typescript("import * as fs from 'fs'\nprocess.chdir('/d')\nconst ways: string[] = ['../secret', '/d/../secret', './../d/../secret', '/d/../../secret']\nconsole.log(ways.some((way: string): boolean => fs.existsSync(way)) ? 'found' : 'refused')")
            .lua("local found = io.open('/d/../secret') or io.open('/d/../../secret') or io.open('../secret') or io.open('../d/../secret')\nprint(found and found:read('a') or 'refused')"),
        code("grants::host_path_is_hidden")
            .grant("d", "/d", "ro", &[])
            .prints("0\n")
            .python("import os, sys\nprint(repr((dict(os.environ), sys.argv, sys.path, os.getcwd())).count('codebox-test-'))")
            .scripts("console.log(JSON.stringify([process.env, process.argv, process.execPath, process.cwd(), require.resolve.paths('x'), __filename]).split('codebox-test-').length - 1)")
            .lua("local text = table.concat({ package.path, package.cpath, arg[0] or '', os.getenv('PWD') or '', debug.getinfo(1, 'S').source })\nprint(select(2, text:gsub('codebox%-test%-', '')))"),
        code("grants::rename_across_grants_is_refused")
            .grant("a", "/a", "rw", &[("x", "moved")])
            .grant("b", "/b", "rw", &[])
            .leaves_file(("b", "x", "moved"))
            .python(program("import os\ntry:\n    os.rename('/a/x', '/b/x')\nexcept OSError as e:\n    print(type(e).__name__, e.errno is not None)\nimport shutil\nshutil.move('/a/x', '/b/x')\nprint(os.listdir('/a'))").prints("OSError True\n[]\n"))
            .javascript(program("const fs = require('fs')\ntry { fs.renameSync('/a/x', '/b/x') } catch (e) { console.log(e.code) }\nfs.cpSync('/a/x', '/b/x')\nfs.rmSync('/a/x')\nconsole.log(fs.readdirSync('/a'))").prints("EXDEV\n[]\n"))
            .typescript(program("import * as fs from 'fs'\nconst [from, to] = ['/a/x', '/b/x'] as const\ntry { fs.renameSync(from, to) } catch (e: unknown) { console.log((e as NodeJS.ErrnoException).code) }\nfs.copyFileSync(from, to)\nfs.unlinkSync(from)\nconsole.log(fs.readdirSync('/a'))").prints("EXDEV\n[]\n"))
            .lua(program("local done, message, number = os.rename('/a/x', '/b/x')\nprint(done, math.type(number))\nlocal f <close> = io.open('/b/x', 'w')\nf:write(io.open('/a/x'):read('a'))\nassert(os.remove('/a/x'))\nprint((io.open('/a/x')))").prints("nil\tinteger\nnil\n")),
        code("grants::script_folder_is_not_granted")
            .python(program("import os\nprint(os.listdir('/work'))").prints("[]\n"))
            .scripts(program("console.log(require('fs').readdirSync('/work'))").prints("[]\n")),
        code("grants::modules_come_only_from_grants")
            .exits(1)
            .prints("")
            .misses("near")
            .grant("d", "/d", "ro", &[("near.py", ""), ("node_modules/near/index.js", ""), ("near.lua", "")])
            .python("import near\nprint('found')")
            .scripts("require('near')\nconsole.log('found')")
            .lua("require('near')\nprint('found')"),
    ]
}

/// Program that looks for the host's resources: a container has only its image's files at these paths, and no access to
/// the host.
const PROBE_HOST: &str = "import os
paths = ['/var/run/docker.sock', '/run/docker.sock', '/run/podman/podman.sock', '/run/containerd/containerd.sock',
         '/dev/mem', '/dev/kmsg', '/dev/sda', '/dev/vda', '/dev/kvm', '/dev/fuse', '/host', '/mnt/wsl']
print(*(path for path in paths if os.path.lexists(path)), sep='', end='')
for place in ('/home', '/root', '/mnt', '/media', '/srv', '/proc/1/root', '/proc/1/cwd'):
    try:
        if os.listdir(place): print('held', place)
    except OSError: pass
for environ in ('/proc/self/environ', '/proc/1/environ'):
    try:
        if b'CARGO' in open(environ, 'rb').read(): print('inherited', environ)
    except OSError: pass";

const JS_PROBE_HOST: &str = "const fs = require('fs')
const paths = ['/var/run/docker.sock', '/run/docker.sock', '/run/podman/podman.sock', '/run/containerd/containerd.sock',
  '/dev/mem', '/dev/kmsg', '/dev/sda', '/dev/vda', '/dev/kvm', '/dev/fuse', '/host', '/mnt/wsl']
for (const path of paths) if (fs.existsSync(path)) console.log('exists', path)
for (const place of ['/home', '/root', '/mnt', '/media', '/srv', '/proc/1/root', '/proc/1/cwd'])
  try { if (fs.readdirSync(place).length) console.log('held', place) } catch {}
for (const environ of ['/proc/self/environ', '/proc/1/environ'])
  try { if (fs.readFileSync(environ, 'utf8').includes('CARGO')) console.log('inherited', environ) } catch {}";

const READ_ONLY: &str = "import os
done = []
def attempt(name, what):
    try:
        what()
        done.append(name)
    except OSError:
        pass
attempt('write', lambda: open('/d/f', 'w'))
attempt('append', lambda: open('/d/f', 'a'))
attempt('update', lambda: open('/d/f', 'r+'))
attempt('create', lambda: open('/d/n', 'x'))
attempt('truncate', lambda: os.truncate('/d/f', 0))
attempt('remove', lambda: os.remove('/d/f'))
attempt('rename', lambda: os.rename('/d/f', '/d/n'))
attempt('rename out', lambda: os.rename('/d/f', '/work/n'))
attempt('link', lambda: os.link('/d/f', '/d/n'))
attempt('link out', lambda: os.link('/d/f', '/work/n'))
attempt('symlink', lambda: os.symlink('f', '/d/n'))
attempt('mkdir', lambda: os.mkdir('/d/n'))
attempt('rmdir', lambda: os.rmdir('/d/s'))
attempt('utime', lambda: os.utime('/d/f', (0, 0)))
print(done)";

const JS_READ_ONLY: &str = "const fs = require('fs')
const done = []
const attempt = (name, what) => { try { what(); done.push(name) } catch {} }
attempt('write', () => fs.writeFileSync('/d/f', ''))
attempt('append', () => fs.appendFileSync('/d/f', 'x'))
attempt('update', () => fs.openSync('/d/f', 'r+'))
attempt('create', () => fs.openSync('/d/n', 'wx'))
attempt('truncate', () => fs.truncateSync('/d/f', 0))
attempt('remove', () => fs.unlinkSync('/d/f'))
attempt('remove all', () => fs.rmSync('/d', { recursive: true }))
attempt('rename', () => fs.renameSync('/d/f', '/d/n'))
attempt('rename out', () => fs.renameSync('/d/f', '/work/n'))
attempt('copy', () => fs.copyFileSync('/d/f', '/d/n'))
attempt('link', () => fs.linkSync('/d/f', '/d/n'))
attempt('link out', () => fs.linkSync('/d/f', '/work/n'))
attempt('symlink', () => fs.symlinkSync('f', '/d/n'))
attempt('mkdir', () => fs.mkdirSync('/d/n'))
attempt('rmdir', () => fs.rmdirSync('/d/s'))
attempt('utimes', () => fs.utimesSync('/d/f', 0, 0))
console.log(done)";

const TS_READ_ONLY: &str = "import * as fs from 'fs/promises'
type Attempt = readonly [name: string, what: () => Promise<unknown>]
const attempts: Attempt[] = [
  ['write', () => fs.writeFile('/d/f', '')],
  ['append', () => fs.appendFile('/d/f', 'x')],
  ['update', () => fs.open('/d/f', 'r+')],
  ['create', () => fs.open('/d/n', 'wx')],
  ['truncate', () => fs.truncate('/d/f')],
  ['remove', () => fs.unlink('/d/f')],
  ['rename', () => fs.rename('/d/f', '/d/n')],
  ['link', () => fs.link('/d/f', '/d/n')],
  ['mkdir', () => fs.mkdir('/d/n')],
  ['rmdir', () => fs.rm('/d/s', { recursive: true })],
  ['utimes', () => fs.utimes('/d/f', 0, 0)],
]
const done: string[] = []
for (const [name, what] of attempts) await what().then(() => { done.push(name) }, (e: unknown): void => {})
console.log(done)";

const LUA_READ_ONLY: &str = "for _, mode in ipairs { 'w', 'a', 'r+', 'w+', 'a+' } do
  if io.open('/d/f', mode) then print(mode) end
end
if io.open('/d/n', 'w') then print('create') end
if os.remove('/d/f') then print('remove') end
if os.remove('/d/s') then print('remove a directory') end
if os.rename('/d/f', '/d/n') then print('rename') end
if os.rename('/d/f', '/work/n') then print('rename out') end
if os.rename('/d/s', '/d/t') then print('rename a directory') end";

const JS_LIST_GRANTS: &str = "const fs = require('fs')
const root = fs.readdirSync('/').filter(name => ['a', 'work', 'tmp', 'usr'].includes(name)).sort()
console.log(fs.readdirSync('/work'), root, fs.readdirSync('/a'), fs.readdirSync('/a/b/c/..'))
console.log(fs.readdirSync('/a', { recursive: true }).sort(), fs.statSync('/a/b').isDirectory(), fs.readdirSync('/work', { recursive: true }).sort())";

const TS_LIST_GRANTS: &str = "import { readdir, stat } from 'fs/promises'
const names = async (at: string): Promise<string[]> => (await readdir(at)).sort()
const root: string[] = (await names('/')).filter((name): boolean => ['a', 'work', 'tmp', 'usr'].includes(name))
console.log(await names('/work'), root, await names('/a'), await names('/a/b/c/..'))
console.log((await stat('/a/b')).isDirectory())";
