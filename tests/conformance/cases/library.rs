//! Parts of the libraries that need more than arithmetic.

use crate::case::{Case, code, file};
use crate::expect::{ExpectationBuilder as _, TierExpectations as _};
use crate::program::program;
use crate::tier::Tier;

pub fn cases() -> Vec<Case> {
    vec![
        code("library::user_owns_its_files")
            .python(program("import os\nprint(os.getuid() == os.geteuid() == os.stat('/work').st_uid, os.getgid() in os.getgroups())").prints("True True\n"))
            .scripts(program("console.log(process.getuid() === require('fs').statSync('/work').uid)").prints("true\n")),
        code("library::chown_to_others_is_refused")
            .python(program("import os\nopen('/work/f', 'w').close()\nos.chown('/work/f', os.getuid(), -1)\nos.lchown('/work/f', -1, os.getgid())\nfor owner in (7, 12345):\n    try:\n        os.chown('/work/f', owner, -1)\n    except PermissionError:\n        print('refused')\ntry:\n    os.chown('/work/none', -1, -1)\nexcept FileNotFoundError:\n    print('not there')").prints("refused\nrefused\nnot there\n")),
        code("library::extracted_directories_keep_timestamps")
            .only_in(Tier::Wasm, "Python in a container is root without the right to change owners, and does not set the times either")
            .prints("tar 1000000000.0 1000000000.0\nfully_trusted 1000000000.0 1000000000.0\ndata 1000000000.0 1000000000.0\n")
            .python("import io, os, tarfile\nwith tarfile.open('a.tar', 'w') as tar:\n    for name in ('top', 'top/sub'):\n        entry = tarfile.TarInfo(name)\n        entry.type, entry.mode, entry.mtime, entry.uid = tarfile.DIRTYPE, 0o755, 10**9, 1000\n        tar.addfile(entry)\nfor kind in ('tar', 'fully_trusted', 'data'):\n    with tarfile.open('a.tar') as tar: tar.extractall(kind, filter=kind)\n    print(kind, os.stat(kind + '/top').st_mtime, os.stat(kind + '/top/sub').st_mtime)"),
        code("library::tqdm_does_not_warn")
            .only_in(Tier::Wasm, "our runtime has tqdm; an image may have other packages")
            .prints("3\n")
            .stderr_omits("Warning")
            .python("from tqdm import tqdm\nprint(sum(tqdm(range(3))))"),
        file("library::matplotlib")
            .only_in(Tier::Wasm, "our runtime has matplotlib; an image may have other packages")
            .creates(&["/work/plot.png", "/work/plot.svg"])
            .verify(|report| {
                let size = report.file("/work/plot.png").and_then(|file| file["size"].as_u64()).unwrap_or(0);
                if size > 1000 { Ok(()) } else { Err(format!("plot.png has {size} bytes")) }
            })
            .python(PLOT),
        code("library::numpy_and_pandas")
            .only_in(Tier::Wasm, "our runtime has numpy and pandas; an image may have other packages")
            .prints("10 1.5\n")
            .python("import numpy as np, pandas as pd\nprint(np.arange(5).sum(), pd.Series([1, 2]).mean())"),
        code("library::sqlite")
            .prints("[('a', 1)] True\n")
            .creates(&["/work/t.db"])
            .python(SQLITE),
        code("library::zoneinfo")
            .python(program(ZONE).prints("2024-07-01T14:00:00+02:00 True\n").only_in(Tier::Wasm, "our runtime has the time zones; an image may have none"))
            .scripts(program("const noon = new Date(Date.UTC(2024, 6, 1, 12))\nconsole.log(noon.toLocaleTimeString('en-GB', { timeZone: 'Europe/Berlin' }), noon.toISOString(), noon.getTimezoneOffset())").prints("14:00:00 2024-07-01T12:00:00.000Z 0\n"))
            .lua(program("print(os.date('!%Y-%m-%dT%H:%M:%S', 1719835200), os.date('%H:%M', 1719835200), os.time({ year = 2024, month = 7, day = 1, hour = 12 }))").prints("2024-07-01T12:00:00\t12:00\t1719835200\n")),
        code("library::tempfile")
            .python(program(TEMP).prints("b'x' True True\n"))
            .scripts(program("const fs = require('fs'), os = require('os'), path = require('path')\nconst d = fs.mkdtempSync(path.join(os.tmpdir(), 'x-'))\nfs.writeFileSync(path.join(d, 'f'), 'x')\nconsole.log(fs.readFileSync(path.join(d, 'f'), 'utf8'), d.startsWith('/tmp/x-'), os.tmpdir())").prints("x true /tmp\n"))
            .lua(program("local f = assert(io.tmpfile())\nf:write('x')\nf:seek('set')\nlocal name = os.tmpname()\nio.open(name, 'w'):close()\nprint(f:read('a'), name:find('/tmp/', 1, true) == 1, os.remove(name))").prints("x\ttrue\ttrue\n")),
        code("library::zipfile")
            .prints("['a.txt'] b'hello'\n")
            .python(ZIP),
        code("library::csv")
            .prints("[{'a': '1', 'b': 'x,y'}]\n")
            .python("import csv, io\nprint(list(csv.DictReader(io.StringIO('a,b\\n1,\"x,y\"\\n'))))"),
        code("library::decimal")
            .python(program("from decimal import Decimal, getcontext\ngetcontext().prec = 30\nprint(Decimal(1) / 7, Decimal('0.1') + Decimal('0.2'))").prints("0.142857142857142857142857142857 0.3\n"))
            .scripts(program("console.log(String(10n ** 30n / 7n), 0.1 + 0.2, (1.005).toFixed(2), 2n ** 64n)").prints("142857142857142857142857142857 0.30000000000000004 1.00 18446744073709551616n\n"))
            .lua(program("print(1 // 7, 0.1 + 0.2, 7 // -2, 7 % -2, 2^53 | 0, math.maxinteger + 1 == math.mininteger, 1e15, 3 | 4)").prints("0\t0.3\t-4\t-1\t9007199254740992\ttrue\t1e+15\t7\n")),
        code("library::json")
            .python(program("import json\nprint(json.dumps({'ü': [1, None, True]}, ensure_ascii=False))").prints("{\"ü\": [1, null, true]}\n"))
            .scripts(program("console.log(JSON.stringify({ ü: [1, null, true, undefined, NaN] }), JSON.parse('{\"a\": [1e3]}').a[0])").prints("{\"ü\":[1,null,true,null,null]} 1000\n")),
        code("library::hashes")
            .prints("e3b0c442 1998f3d3\n")
            .python("import hashlib\nprint(hashlib.sha256(b'').hexdigest()[:8], hashlib.pbkdf2_hmac('sha256', b'p', b's', 2).hex()[:8])")
            .scripts("const { createHash, pbkdf2Sync } = require('crypto')\nconsole.log(createHash('sha256').digest('hex').slice(0, 8), pbkdf2Sync('p', 's', 2, 32, 'sha256').toString('hex').slice(0, 8))"),
        code("library::cipher")
            .prints("16 secret\n")
            .scripts("const { createCipheriv, createDecipheriv } = require('crypto')\nconst [key, iv] = ['0123456789abcdef', 'fedcba9876543210']\nconst cipher = createCipheriv('aes-128-cbc', key, iv)\nconst text = Buffer.concat([cipher.update('secret'), cipher.final()])\nconst decipher = createDecipheriv('aes-128-cbc', key, iv)\nconsole.log(text.length, decipher.update(text, undefined, 'utf8') + decipher.final('utf8'))"),
        code("library::clock")
            .python(program("import time\nprint(time.time() > 1.7e9, time.localtime().tm_zone, time.perf_counter() >= 0)").prints("True UTC True\n"))
            .scripts(program("console.log(Date.now() > 1.7e12, Intl.DateTimeFormat().resolvedOptions().timeZone, performance.now() >= 0, process.hrtime.bigint() > 0n)").prints("true UTC true true\n"))
            .lua(program("print(os.time() > 1.7e9, os.clock() >= 0, os.date('%Z') ~= '', os.difftime(3, 1))").prints("true\ttrue\ttrue\t2.0\n")),
        code("library::randomness")
            .python(program("import random, secrets, uuid\nprint(len({random.random(), random.random()}), len(secrets.token_hex(4)), uuid.uuid4().version)").prints("2 8 4\n"))
            .scripts(program("const { randomBytes, randomUUID } = require('crypto')\nconsole.log(new Set([Math.random(), Math.random()]).size, randomBytes(4).toString('hex').length, randomUUID()[14], crypto.getRandomValues(new Uint8Array(3)).length)").prints("2 8 4 3\n"))
            .lua(program("local a, b = math.random(), math.random()\nlocal n = math.random(5)\nprint(a ~= b, a >= 0 and a < 1, n >= 1 and n <= 5)").prints("true\ttrue\ttrue\n")),
        code("library::seeded_randomness")
            .python(program("import random\nrandom.seed(1)\nprint(random.randrange(1000))").prints("137\n"))
            .lua(program("math.randomseed(1)\nlocal a = math.random(1000)\nmath.randomseed(1)\nprint(a == math.random(1000))").prints("true\n")),
        code("library::compression")
            .python(program("import bz2, gzip, lzma, zlib\nprint([m.decompress(m.compress(b'abc')) for m in (bz2, gzip, lzma, zlib)])").prints("[b'abc', b'abc', b'abc', b'abc']\n"))
            .scripts(program("const zlib = require('zlib')\nconst b = Buffer.from('abc')\nconsole.log([zlib.gunzipSync(zlib.gzipSync(b)), zlib.inflateSync(zlib.deflateSync(b)), zlib.inflateRawSync(zlib.deflateRawSync(b))].join())").prints("abc,abc,abc\n")),
        code("library::platform")
            .prints("on\n")
            .python("import platform\nplatform.platform(), platform.libc_ver()\nprint('on')")
            .scripts("const os = require('os')\nos.platform(), os.release(), os.cpus(), os.totalmem(), os.hostname(), os.EOL\nconsole.log('on')"),
        code("library::patterns")
            .prints("2024 7\n")
            .python("import re\nm = re.search(r'(?P<y>\\d+)-0?(\\d+)', 'on 2024-07-01')\nprint(m['y'], m[2])")
            .scripts("const m = /(?<y>\\d+)-0?(\\d+)/u.exec('on 2024-07-01')\nconsole.log(m.groups.y, m[2])")
            .lua("local y, m = ('on 2024-07-01'):match('(%d+)%-0?(%d+)')\nprint(y .. ' ' .. m)"),
        code("library::sorting")
            .prints("a1 b1 c0\n")
            .python("print(*sorted(['c0', 'a1', 'b1'], key=lambda s: (s[1] == '0', s)))")
            .scripts("console.log(['c0', 'a1', 'b1'].sort((a, b) => b[1] - a[1] || (a < b ? -1 : 1)).join(' '))")
            .lua("local t = { 'c0', 'a1', 'b1' }\ntable.sort(t, function(a, b)\n  local x, y = a:sub(2), b:sub(2)\n  if x ~= y then return x > y end\n  return a < b\nend)\nprint(table.concat(t, ' '))"),
        code("library::text")
            .prints("4 É ñ\n")
            .python("import unicodedata\nprint(len('日本ñé'), 'é'.upper(), unicodedata.normalize('NFC', 'n\\u0303'))")
            .scripts("console.log([...'日本ñé'].length, 'é'.toUpperCase(), 'n\\u0303'.normalize('NFC'))")
            .lua("local t = {}\nfor _, c in utf8.codes('日本ñé') do t[#t + 1] = c end\nprint(utf8.len('日本ñé') .. ' ' .. utf8.char(0xc9) .. ' ' .. utf8.char(t[3]))"),
        code("library::packing")
            .prints("01000200000061 2\n")
            .python("import struct\nb = struct.pack('<HIc', 1, 2, b'a')\nprint(b.hex(), struct.unpack('<HIc', b)[1])")
            .scripts("const b = Buffer.alloc(7)\nb.writeUInt16LE(1)\nb.writeUInt32LE(2, 2)\nb.write('a', 6)\nconsole.log(b.toString('hex'), new DataView(b.buffer, b.byteOffset).getUint32(2, true))")
            .lua("local b = ('<I2I4c1'):pack(1, 2, 'a')\nprint((b:gsub('.', function(c) return ('%02x'):format(c:byte()) end)) .. ' ' .. select(2, ('<I2I4c1'):unpack(b)))"),
        code("library::formatting")
            .prints("  3.14|ff|00042|x  |1.5e+10\n")
            .python("print(f'{3.14159:6.2f}|{255:x}|{42:05d}|{\"x\":3}|{1.5e10:.1e}')")
            .lua("print(('%6.2f|%x|%05d|%-3s|%.1e'):format(3.14159, 255, 42, 'x', 1.5e10))"),
        code("library::web_classes")
            .prints("q=a%20b /p ü 3\n")
            .javascript("const u = new URL('../p?q=a b#h', 'http://h/x/y')\nconsole.log(u.search.slice(1), u.pathname, new TextDecoder().decode(new TextEncoder().encode('ü')), structuredClone(new Map([[1, { a: 3 }]])).get(1).a)")
            .typescript("const u: URL = new URL('../p?q=a b#h', 'http://h/x/y')\nconst copy: Map<number, { a: number }> = structuredClone(new Map([[1, { a: 3 }]]))\nconsole.log(u.search.slice(1), u.pathname, new TextDecoder().decode(new TextEncoder().encode('ü')), copy.get(1)!.a)"),
        code("library::inspection")
            .prints("Map(1) { 'a' => Set(1) { 1 } } [ <1 empty item>, C { x: [Getter] } ] [Function: f] Symbol(s)\n")
            .scripts("class C { constructor() { Object.defineProperty(this, 'x', { get() { return 1 }, enumerable: true }) } }\nconsole.log(new Map([['a', new Set([1])]]), [, new C()], function f() {}, Symbol('s'))"),
        code("library::selectors")
            .prints("on\n")
            .python("import time\ntime.sleep(0.01)\nprint('on')"),
        code("library::yaml_and_lxml")
            .only_in(Tier::Wasm, "our runtime has yaml and lxml; an image may have other packages")
            .prints("{'a': [1]} a\n")
            .python("import yaml, lxml.etree\nprint(yaml.safe_load('a: [1]'), lxml.etree.fromstring('<a/>').tag)"),
        code("library::pathlib")
            .python(program("from pathlib import Path\np = Path('a/b')\np.mkdir(parents=True)\n(p / 'c.txt').write_text('é')\nprint(list(Path('.').rglob('*.txt')))").prints("[PosixPath('a/b/c.txt')]\n"))
            .scripts(program("const fs = require('fs'), path = require('path')\nconst at = path.join('a', 'b')\nfs.mkdirSync(at, { recursive: true })\nfs.writeFileSync(path.resolve(at, 'c.txt'), 'é')\nconsole.log(fs.readdirSync('.', { recursive: true }).filter(name => path.extname(name) === '.txt'))").prints("[ 'a/b/c.txt' ]\n")),
        code("library::tables")
            .prints("3 1,2,3 2 nil true\n")
            .lua("local t = table.pack(1, 2, 3)\ntable.insert(t, 2, 9)\ntable.remove(t, 2)\nlocal proxy = setmetatable({}, { __index = function(_, key) return key * 2 end, __len = function() return 7 end })\nprint(t.n .. ' ' .. table.concat(t, ',') .. ' ' .. proxy[1] .. ' ' .. tostring(next({})) .. ' ' .. tostring(#proxy == 7 and select('#', table.unpack({ 1, nil, 3 }, 1, 3)) == 3))"),
        code("library::collection")
            .prints("0 true\n")
            .lua("local weak = setmetatable({}, { __mode = 'v' })\nweak[1] = {}\nlocal before = collectgarbage('count')\ncollectgarbage()\nprint(#weak .. ' ' .. tostring(before > 0))"),
    ]
}

const PLOT: &str = "import matplotlib.pyplot as plt
import matplotlib
assert matplotlib.get_backend().lower() == 'agg', matplotlib.get_backend()
plt.plot([1, 3, 2])
plt.title('ü')
plt.savefig('/work/plot.png')
plt.savefig('plot.svg')";

const SQLITE: &str = "import os, sqlite3
db = sqlite3.connect('t.db')
db.execute('create table t(a text, b int)')
db.execute('insert into t values (?, ?)', ('a', 1))
db.commit()
print(sqlite3.connect('t.db').execute('select * from t').fetchall(), os.path.getsize('t.db') > 0)";

const ZONE: &str = "from datetime import datetime, timezone
import zoneinfo
noon = datetime(2024, 7, 1, 12, tzinfo=timezone.utc)
print(noon.astimezone(zoneinfo.ZoneInfo('Europe/Berlin')).isoformat(), 'Asia/Tokyo' in zoneinfo.available_timezones())";

const TEMP: &str = "import os, tempfile
with tempfile.TemporaryDirectory() as d:
    with tempfile.NamedTemporaryFile(dir=d) as f:
        f.write(b'x'); f.seek(0)
        print(f.read(), d.startswith('/tmp/'), tempfile.gettempdir() == '/tmp')";

const ZIP: &str = "import zipfile
with zipfile.ZipFile('z.zip', 'w', zipfile.ZIP_DEFLATED) as z:
    z.writestr('a.txt', 'hello')
with zipfile.ZipFile('z.zip') as z:
    print(z.namelist(), z.read('a.txt'))";
