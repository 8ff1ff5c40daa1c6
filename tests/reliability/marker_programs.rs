//! Programs that plant a marker and search for it, in Python (first) and in JavaScript (second).

/// Program that plants a marker in objects, freed blocks, modules, files and the environment, at low cost.
pub const PLANT: [&str; 2] = [
    "import sys, os, builtins
marker = bytes.fromhex(sys.argv[1])
sys.planted = builtins.planted = kept = [bytes(bytearray(marker)) + bytes([n & 255]) for n in range(300)]
kept.append(bytearray(marker * 4000))
freed = [bytearray(marker * size) for size in (1, 8, 64, 512, 4096)]
del freed
os.environ['PLANTED'] = marker.hex()
open('/tmp/planted', 'wb').write(marker)
open('/work/planted', 'wb').write(marker)
print('planted')",
    "const fs = require('fs')
const marker = Buffer.from(process.argv.at(-1), 'hex')
const text = marker.toString('latin1')
const kept = Array.from({ length: 300 }, (_, n) => Buffer.concat([marker, Buffer.of(n & 255)]))
kept.push(Buffer.alloc(marker.length * 4000, marker), Array.from({ length: 300 }, (_, n) => text + n))
for (const size of [1, 8, 64, 512, 4096]) Buffer.alloc(marker.length * size, marker)
for (const where of [globalThis, Object.prototype, Math, process, fs, Map]) where.planted = kept
Symbol.for(text)
process.env.PLANTED = marker.toString('hex')
process.on('exit', () => kept)
fs.writeFileSync('/tmp/planted', marker)
fs.writeFileSync('/work/planted', marker)
console.log('planted')",
];

/// Program that searches uncleared memory for the marker's first bytes, and checks every name and file.
pub const SEARCH: [&str; 2] = [
    "import sys, os, io, gc, builtins
first = bytes.fromhex(sys.argv[1])[::-1]
class Peek(io.RawIOBase):
    def readable(self): return True
    def readinto(self, view):
        self.view = view
        return 0
held, found = [], []
for size in (512, 1000, 4096, 10000, 65536, 1 << 18):
    for _ in range(24):
        raw = Peek()
        reader = io.BufferedReader(raw, size)
        reader.peek(1)
        held.append(reader)
        if first in bytes(raw.view): found.append(size)
for item in gc.get_objects():
    if type(item) in (list, dict, tuple) and len(item) < 10000:
        for part in (item.values() if type(item) is dict else item):
            if type(part) in (bytes, bytearray) and part is not first and first in part: found.append(type(item))
if hasattr(sys, 'planted') or hasattr(builtins, 'planted'): found.append('name')
if 'PLANTED' in os.environ: found.append('environment')
if os.listdir('/tmp') or os.listdir('/work'): found.append('file')
print(found)",
    "const fs = require('fs')
const first = Buffer.from(process.argv.at(-1), 'hex').reverse()
const held = [], found = []
for (const size of [16, 512, 1000, 4096, 10000, 65536, 1 << 18]) {
  for (let n = 0; n < 24; n++) {
    held.push(Buffer.allocUnsafe(size), Buffer.allocUnsafeSlow(size))
    for (const { buffer } of held.slice(-2)) {
      if (buffer !== first.buffer && Buffer.from(buffer).indexOf(first) >= 0) found.push(size)
    }
  }
}
for (const where of [globalThis, {}, Math, process, fs, Map]) if ('planted' in where) found.push('name')
for (const where of [globalThis, process, console, fs]) {
  for (const key of Reflect.ownKeys(where)) if (String(key).includes(first.toString('latin1'))) found.push('key')
}
if ('PLANTED' in process.env || process.listenerCount('exit')) found.push('environment')
if (fs.readdirSync('/tmp').length || fs.readdirSync('/work').length) found.push('file')
console.log(found)",
];

/// Program that prints the digest of its reversed argument.
pub const DIGEST: [&str; 2] = [
    "import hashlib, sys\nprint(hashlib.sha256(bytes.fromhex(sys.argv[1])[::-1]).hexdigest())",
    "const bytes = Buffer.from(process.argv.at(-1), 'hex').reverse()
console.log(require('crypto').createHash('sha256').update(bytes).digest('hex'))",
];
