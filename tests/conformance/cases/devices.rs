//! Devices, and descriptors that are duplicated, redirected or connected to a pipe.

use crate::case::{Case, code};
use crate::expect::{ExpectationBuilder as _, TierExpectations as _, expected};
use crate::program::program;
use crate::tier::Tier;

pub fn cases() -> Vec<Case> {
    [devices(), descriptors()].into_iter().flatten().collect()
}

fn devices() -> Vec<Case> {
    vec![
        code("devices::null")
            .prints("100000\n0\n")
            .with(&["--max-disk", "64k"])
            .python("import os\nwith open(os.devnull, 'w') as f: print(f.write('x' * 100000))\nprint(len(open('/dev/null', 'rb').read()))")
            .javascript("const fs = require('fs')\nconst text = 'x'.repeat(100000)\nfs.writeFileSync('/dev/null', text)\nfs.appendFileSync('/dev/null', text)\nconsole.log(text.length)\nconsole.log(fs.readFileSync('/dev/null').length)")
            .typescript("import * as fs from 'fs'\nconst text: string = 'x'.repeat(100000)\nfs.writeFileSync('/dev/null', text)\nconsole.log(text.length)\nconsole.log(fs.readFileSync('/dev/null').length)")
            .lua("local f = assert(io.open('/dev/null', 'w'))\nassert(f:write(('x'):rep(100000)))\nassert(f:close())\nprint(100000)\nprint(#assert(io.open('/dev/null')):read('a'))"),
        code("devices::modes")
            .prints("a True\nr+ True\nw+ True\nx FileExistsError\n")
            .python("for mode in ('a', 'r+', 'w+', 'x'):\n    try:\n        with open('/dev/null', mode) as f: print(mode, f.write('x') == 1)\n    except OSError as e: print(mode, type(e).__name__)"),
        code("devices::zero_and_random")
            .prints("16 0\n16 true\n")
            .python("print(16, sum(open('/dev/zero', 'rb').read(16)))\ndata = open('/dev/urandom', 'rb').read(16)\nprint(len(data), str(len(set(data)) > 1).lower())")
            .javascript("const fs = require('fs')\nconst read = path => { const fd = fs.openSync(path); const b = Buffer.alloc(16, 1); const n = fs.readSync(fd, b); fs.closeSync(fd); return [n, b] }\nconst [n, zeros] = read('/dev/zero')\nconsole.log(n, zeros.reduce((a, b) => a + b))\nconst [m, bytes] = read('/dev/urandom')\nconsole.log(m, new Set(bytes).size > 1)")
            .typescript("import * as fs from 'fs'\nconst read = (path: string): [number, Buffer] => { const fd = fs.openSync(path, 'r'); const b = Buffer.alloc(16, 1); const n = fs.readSync(fd, b); fs.closeSync(fd); return [n, b] }\nconst [n, zeros] = read('/dev/zero')\nconsole.log(n, zeros.reduce((a, b) => a + b))\nconst [m, bytes] = read('/dev/random')\nconsole.log(m, new Set(bytes).size > 1)")
            .lua("local zeros = assert(io.open('/dev/zero', 'rb')):read(16)\nprint(#zeros .. ' ' .. zeros:byte(1))\nlocal bytes, other = assert(io.open('/dev/urandom', 'rb')):read(16), false\nfor i = 2, 16 do other = other or bytes:byte(i) ~= bytes:byte(1) end\nprint(#bytes .. ' ' .. tostring(other))"),
        code("devices::full")
            .prints("OSError No space left on device\n")
            .python("import os\ntry:\n    os.write(os.open('/dev/full', os.O_WRONLY), b'x')\nexcept OSError as e: print(type(e).__name__, e.strerror)"),
        code("devices::streams")
            .input("Ann\nBob\n")
            .prints("AnnBob\n")
            .stderr_contains("err\n")
            .python("text = open('/dev/stdin').read().replace('\\n', '')\nwith open('/dev/stdout', 'w') as out: out.write(text + '\\n')\nwith open('/dev/stderr', 'w') as err: err.write('err\\n')")
            .javascript("const fs = require('fs')\nconst text = fs.readFileSync('/dev/stdin', 'utf8').replaceAll('\\n', '')\nfs.writeFileSync('/dev/stdout', text + '\\n')\nfs.writeFileSync('/dev/stderr', 'err\\n')")
            .typescript("import * as fs from 'fs'\nconst text: string = fs.readFileSync('/dev/stdin', 'utf8').replaceAll('\\n', '')\nfs.writeFileSync('/dev/stdout', text + '\\n')\nfs.writeFileSync('/dev/stderr', 'err\\n')")
            .lua("local text = assert(io.open('/dev/stdin')):read('a'):gsub('\\n', '')\nlocal out <close> = assert(io.open('/dev/stdout', 'w'))\nout:write(text, '\\n')\nlocal err <close> = assert(io.open('/dev/stderr', 'w'))\nerr:write('err\\n')"),
        code("devices::metadata")
            .prints("True True\nTrue True False\nTrue True\n")
            .python("import os, stat\nprint(stat.S_ISCHR(os.stat('/dev/null').st_mode), os.path.isdir('/dev/fd'))\nprint(os.path.exists('/dev/null'), os.path.exists('/dev/fd/1'), os.path.exists('/dev/fd/99'))\nprint({'null', 'zero', 'full', 'random', 'urandom', 'stdin', 'stdout', 'stderr', 'fd'} <= set(os.listdir('/dev')), {'0', '1', '2'} <= set(os.listdir('/dev/fd')))")
            .javascript(program("const fs = require('fs')\nconst say = b => b ? 'True' : 'False'\nconsole.log(say(fs.statSync('/dev/null').isCharacterDevice()), say(fs.statSync('/dev/fd').isDirectory()))\nconsole.log(say(fs.existsSync('/dev/null')), say(fs.existsSync('/dev/fd/1')), say(fs.existsSync('/dev/fd/99')))\nconsole.log(say(['null', 'zero', 'stdin', 'fd'].every(name => fs.readdirSync('/dev').includes(name))), say(['0', '1', '2'].every(name => fs.readdirSync('/dev/fd').includes(name))))")),
        code("devices::dev_cannot_be_changed")
            .only_in(Tier::Wasm, "root in a container can change its /dev")
            .prints("PermissionError\nPermissionError\nPermissionError\nPermissionError\nFileExistsError\nOSError\nIsADirectoryError\nNotADirectoryError\nFileNotFoundError\n")
            .python("import os\nopen('f', 'w').close()\ncalls = [lambda: open('/dev/new', 'w'), lambda: os.mkdir('/dev/new'), lambda: os.unlink('/dev/null'), lambda: os.rename('/dev/null', '/dev/zero'), lambda: os.mkdir('/dev/fd'), lambda: os.rename('f', '/dev/null'), lambda: open('/dev', 'w'), lambda: open('/dev/null/x'), lambda: open('/dev/fd/../../work/f')]\nfor call in calls:\n    try: print(call())\n    except OSError as e: print(type(e).__name__)"),
    ]
}

fn descriptors() -> Vec<Case> {
    vec![
        code("descriptors::dup")
            .prints("one\ntwo\n6\n")
            .python("import os\nfd = os.dup(1)\nos.write(fd, b'one\\n')\nos.close(fd)\nprint('two')\nf = os.open('f', os.O_RDWR | os.O_CREAT)\ng = os.dup(f)\nos.write(f, b'abc')\nos.write(g, b'def')\nos.close(f)\nprint(os.lseek(g, 0, os.SEEK_CUR))"),
        code("descriptors::dup2_redirects")
            .prints("'print\\nwritten\\n'\nback\n")
            .stderr_contains("to stderr\n")
            .python("import os, sys\nsaved = os.dup(1)\nwith open('f', 'w') as f:\n    os.dup2(f.fileno(), 1)\nprint('print', flush=True)\nos.write(1, b'written\\n')\nos.dup2(saved, 1)\nos.close(saved)\nprint(repr(open('f').read()))\nprint('back')\nos.dup2(2, 9)\nos.write(9, b'to stderr\\n')"),
        code("descriptors::closed")
            .prints("9 True\n9 True\n")
            .python("import errno, os\nfor call in (lambda: os.dup(77), lambda: os.dup2(77, 5)):\n    try: print(call())\n    except OSError as e: print(9, e.errno == errno.EBADF)"),
        code("descriptors::pipe")
            .prints("b'hello'\nb''\nBrokenPipeError\nBlockingIOError\n65536\n")
            .python("import os\nr, w = os.pipe()\nos.write(w, b'hello')\nprint(os.read(r, 100))\nos.close(w)\nprint(os.read(r, 100))\nos.close(r)\nr, w = os.pipe()\nos.close(r)\ntry: os.write(w, b'x')\nexcept OSError as e: print(type(e).__name__)\nos.close(w)\nr, w = os.pipe()\nos.set_blocking(r, False)\ntry: os.read(r, 1)\nexcept OSError as e: print(type(e).__name__)\nos.set_blocking(w, False)\nprint(os.write(w, b'x' * 100000))"),
        code("descriptors::poll_of_a_closed_descriptor")
            .prints("True\n")
            .python("import os, select\nr, w = os.pipe()\nos.close(r)\npoll = select.poll()\npoll.register(r, select.POLLIN)\nprint(poll.poll(10) == [(r, select.POLLNVAL)])"),
        code("descriptors::pipe_as_files")
            .prints("line\n[]\n[True]\n")
            .python("import os, selectors\nr, w = os.pipe()\nwith selectors.DefaultSelector() as s:\n    s.register(r, selectors.EVENT_READ)\n    empty = s.select(0)\n    with os.fdopen(w, 'w') as f: f.write('line\\n')\n    print(os.fdopen(os.dup(r)).read(), end='')\n    print(empty)\n    print([key.fd == r for key, _ in s.select(1)])"),
        code("descriptors::pipe_without_writer")
            .only_in(Tier::Wasm, "the native interpreter waits forever")
            .exits(1)
            .stderr_contains("Resource deadlock would occur")
            .python("import os\nr, w = os.pipe()\nos.read(r, 1)"),
        code("descriptors::umask")
            .prints("0o22 0o77\n")
            .python("import os\nprint(oct(os.umask(0o077)), oct(os.umask(0o022)))"),
        code("descriptors::count_as_open_files")
            .only_in(Tier::Wasm, "a container's limit counts memory differently")
            .with(&["--max-open-files", "8"])
            .wasm(expected().prints("8 True\nTrue\n"))
            .python("import errno, os\nheld = []\ntry:\n    while True: held.append(os.open('/dev/null', os.O_RDONLY) if len(held) % 2 else os.dup(1))\nexcept OSError as e: print(len(held), e.errno == errno.EMFILE)\nos.close(held.pop())\ntry: os.pipe()\nexcept OSError as e: print(e.errno == errno.EMFILE)"),
    ]
}
