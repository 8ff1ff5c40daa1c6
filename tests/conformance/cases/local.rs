//! Modules beside the program, and queries about the machine, which is hidden from the program.

use crate::case::{Case, code, file};
use crate::expect::{ExpectationBuilder as _, TierExpectations as _, expected};
use crate::program::program;

pub fn cases() -> Vec<Case> {
    vec![
        code("probe::uuid1")
            .prints("1 True\n")
            .python("import uuid\nu = uuid.uuid1()\nprint(u.version, uuid.getnode() > 0)"),
        code("probe::getfqdn")
            .prints("True\n")
            .python("import socket\nprint(bool(socket.getfqdn()))"),
        code("probe::gethostbyname")
            .prints("no\n")
            .wasm(expected().misses("access to a"))
            .python("import socket\ntry:\n    socket.gethostbyname('a')\nexcept OSError:\n    print('no')"),
        file("local::module")
            .grant(".", "/work", "rw", &[("random.py", "own = 'mine'"), ("notes.txt", "")])
            .python(program("import random, tempfile, json\nprint(random.own, json.dumps(1), random.__file__)").in_containers("import random, json\nprint(random.own, json.dumps(1), random.__file__)").prints("mine 1 /work/random.py\n"))
            .javascript(program("console.log(require('./util.js').own, require('util').own, require('node:util').inspect(1))").with_files(".", &[("util.js", "exports.own = 'mine'")]).prints("mine undefined 1\n"))
            .typescript(program("import { own } from './util.ts'\nimport * as util from 'util'\nconsole.log(own, (util as any).own, util.inspect(1))").with_files(".", &[("util.ts", "export const own: string = 'mine'")]).prints("mine undefined 1\n"))
            .lua(program("print(require('string') == string, require('near').own)").with_files(".", &[("string.lua", "error('not this one')"), ("near.lua", "return { own = 'mine' }")]).prints("true\tmine\n")),
        file("local::package")
            .grant(".", "/work", "rw", &[("asyncio/__init__.py", "own = 'mine'"), ("asyncio/events.py", "own = 'ev'")])
            .prints("mine ev\n")
            .python("import asyncio, asyncio.events\nprint(asyncio.own, asyncio.events.own)"),
        file("local::bare_directory")
            .grant(".", "/work", "rw", &[("json/a.txt", ""), ("html/index.html", "")])
            .prints("1 &lt;\n")
            .python("import json, html\nprint(json.loads('1'), html.escape('<'))"),
        file("local::does_not_shadow_loaded_modules")
            .grant(".", "/work", "rw", &[("os.py", "1/0"), ("time.py", "1/0"), ("io.py", "1/0"), ("_codebox.py", "1/0"), ("_codebox.host.py", "1/0"), ("os.path.py", "1/0")])
            .prints("/ True\n")
            .python("import os, sys, io, time\nprint(os.sep, time.time() > 0)"),
    ]
}
