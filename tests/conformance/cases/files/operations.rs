//! Longer programs with file operations.

pub const OPERATIONS: &str = "import os, shutil
os.mkdir('d')
with open('d/a', 'w') as f: f.write('hello')
os.rename('d/a', 'd/b')
shutil.copy('d/b', 'c')
with open('c', 'r+') as f:
    f.seek(2); f.write('LL'); f.truncate(4)
assert open('c').read() == 'heLL'
os.utime('c', (1, 2))
assert os.stat('c').st_mtime == 2
with open('c', 'a') as f: f.write('!')
assert os.path.getsize('c') == 5
os.link('c', 'hard')
os.symlink('c', 'soft')
assert os.readlink('soft') == 'c' and open('soft').read() == 'heLL!'
assert sorted(e.name for e in os.scandir('.')) == ['c', 'd', 'hard', 'soft']
os.chdir('d')
assert os.getcwd() == '/work/d' and open('b').read() == 'hello'
os.chdir('/')
shutil.rmtree('/work/d')
for bad, kind in (('/work/none', FileNotFoundError), ('/work/c/x', NotADirectoryError), ('/work', IsADirectoryError)):
    try: open(bad)
    except kind: pass
    else: raise AssertionError(bad)
print('ok')";

pub const JS_MANY: &str = "const fs = require('fs')
for (let n = 0; n < 6000; n++) fs.writeFileSync(String(n).padStart(5, '0'), '')
const [a, b] = [fs.readdirSync('.'), fs.readdirSync('.')]
console.log(a.length, a.join() === b.join(), a[5999])
const found = fs.opendirSync('.')
found.readSync()
fs.unlinkSync('03000')
found.closeSync()
console.log(fs.readdirSync('.', { withFileTypes: true }).filter(entry => entry.isFile()).length)";

pub const TS_MANY: &str = "import { opendir, readdir, writeFile } from 'fs/promises'
for (let n: number = 0; n < 6000; n++) await writeFile(`${n}`.padStart(5, '0'), '')
let count: number = 0
for await (const entry of await opendir('.')) count += entry.isFile() ? 1 : 0
console.log(count, (await readdir('.')).sort().at(-1)!)";

pub const JS_OPERATIONS: &str = "const fs = require('fs'), assert = require('assert')
fs.mkdirSync('d')
fs.writeFileSync('d/a', 'hello')
fs.renameSync('d/a', 'd/b')
fs.copyFileSync('d/b', 'c')
const f = fs.openSync('c', 'r+')
fs.writeSync(f, 'LL', 2)
fs.ftruncateSync(f, 4)
fs.closeSync(f)
assert.equal(fs.readFileSync('c', 'utf8'), 'heLL')
fs.utimesSync('c', 1, 2)
assert.equal(fs.statSync('c').mtimeMs, 2000)
fs.appendFileSync('c', '!')
assert.equal(fs.statSync('c').size, 5)
fs.linkSync('c', 'hard')
fs.symlinkSync('c', 'soft')
assert.equal(fs.readlinkSync('soft'), 'c')
assert.equal(fs.readFileSync('soft', 'utf8'), 'heLL!')
assert.deepEqual(fs.readdirSync('.').sort(), ['c', 'd', 'hard', 'soft'])
assert(fs.lstatSync('soft').isSymbolicLink() && fs.statSync('soft').isFile() && fs.existsSync('d'))
process.chdir('d')
assert.equal(process.cwd(), '/work/d')
assert.equal(fs.readFileSync('b', 'utf8'), 'hello')
process.chdir('/')
fs.rmSync('/work/d', { recursive: true })
for (const [bad, code] of [['/work/none', 'ENOENT'], ['/work/c/x', 'ENOTDIR'], ['/work', 'EISDIR']])
  assert.throws(() => fs.readFileSync(bad), { code }, bad)
console.log('ok')";

pub const TS_OPERATIONS: &str = "import * as fs from 'fs'
import * as path from 'path'
import { strict as assert } from 'assert'
interface Entry { readonly name: string; text: string }
enum Way { Read = 'r', Update = 'r+' }
class Folder {
  constructor(private readonly at: string) { fs.mkdirSync(at, { recursive: true }) }
  put({ name, text }: Entry): this { fs.writeFileSync(path.join(this.at, name), text); return this }
  get(name: string): Entry { return { name, text: fs.readFileSync(path.join(this.at, name), 'utf8') } }
  update(name: string, text: string, position: number): void {
    const descriptor: number = fs.openSync(path.join(this.at, name), Way.Update)
    fs.writeSync(descriptor, text, position)
    fs.closeSync(descriptor)
  }
  get names(): string[] { return fs.readdirSync(this.at).sort() }
}
const folder = new Folder('d').put({ name: 'a', text: 'hello' }).put({ name: 'b', text: 'b' })
folder.update('a', 'LL', 2)
assert.equal(folder.get('a').text, 'heLLo')
assert.deepEqual(folder.names, ['a', 'b'])
fs.renameSync('d/a', 'd/c')
const stats: fs.Stats = fs.statSync('d/c')
assert.ok(stats.isFile() && stats.size === 5)
for (const [bad, code] of [['none', 'ENOENT'], ['d/c/x', 'ENOTDIR'], ['d', 'EISDIR']] as const)
  assert.throws(() => fs.readFileSync(bad), (e: NodeJS.ErrnoException): boolean => e.code === code)
fs.rmSync('d', { recursive: true })
assert.equal(fs.existsSync('d'), false)
console.log('ok')";

pub const PROMISES: &str = "const fs = require('fs/promises');
(async () => {
  await fs.mkdir('d')
  await fs.writeFile('a', 'hello')
  await fs.appendFile('a', '!')
  await fs.rename('a', 'b')
  const held = await fs.open('b')
  const text = await held.readFile('utf8')
  await held.close()
  await fs.access('none').catch(e => { if (e.code !== 'ENOENT') throw e })
  console.log(text, await fs.readdir('.'))
})()";

pub const LUA_OPERATIONS: &str = "local f = assert(io.open('a', 'w'))
assert(f:write('hello') == f and f:seek() == 5 and io.type(f) == 'file')
assert(f:close() and io.type(f) == 'closed file')
assert(os.rename('a', 'b') and not io.open('a'))
f = assert(io.open('b', 'r+'))
assert(f:seek('set', 2) == 2 and f:write('LL') and f:seek('end') == 5)
assert(f:seek('cur', -2) == 3 and f:read('a') == 'Lo' and f:read('a') == '' and f:read(1) == nil)
f:close()
f = assert(io.open('b', 'a+'))
f:write('!')
f:seek('set')
assert(f:read('a') == 'heLLo!')
f:close()
assert(io.open('b', 'w')):close()
assert(io.open('b'):read('a') == '')
io.output('b')
io.write(1, ' ', 2.5, '\\n')
io.close()
io.input('b')
local one, more = io.read('n', 'n')
assert(one == 1 and more == 2.5)
io.input():close()
for _, bad in ipairs { '/work/none', '/work/b/x', '/none/x' } do
  local file, message, number = io.open(bad)
  assert(not file and message:find(bad, 1, true) == 1 and math.type(number) == 'integer', bad)
end
assert(not os.remove('none') and select(3, os.remove('none')) == select(3, io.open('none')))
assert(os.remove('b') and not io.open('b'))
assert(not pcall(io.open, 'b', 'odd mode') and not pcall(io.lines, 'b'))
print('ok')";
