//! Resolution of bare specifiers by the guest's loader, compared with Node's own.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use tempfile::TempDir;

use super::guest_runner::{GuestRunner, ProgramOutput, has_node, run_in_node};
use super::{Shared, completion, shared_value, unavailable};

/// Files of packages, and a program.
struct Case {
    name: &'static str,
    files: &'static [(&'static str, &'static str)],
    program: (&'static str, &'static str),
}

const CASES: &[Case] = &[
    Case {
        name: "main_and_index",
        files: &[
            ("main/package.json", r#"{"main": "./lib/start"}"#),
            ("main/lib/start.js", "module.exports = 'main'; exports.x = 1"),
            ("folder/package.json", r#"{"main": "lib"}"#),
            ("folder/lib/index.js", "module.exports = 'folder'"),
            ("index/index.js", "module.exports = 'index'"),
            ("lost/package.json", r#"{"main": "nowhere.js"}"#),
            ("lost/index.js", "module.exports = 'lost'"),
            ("typed/package.json", r#"{"main": "./lib/start.js"}"#),
            ("typed/lib/start.js", "module.exports = 'typed'"),
            ("typed/index.ts", "module.exports = 'not the main file'"),
            ("data/package.json", r#"{"main": "data.json"}"#),
            ("data/data.json", r#"{"n": 1}"#),
            ("@s/p/package.json", r#"{"main": "p.js", "module": "p.mjs"}"#),
            ("@s/p/p.js", "module.exports = 'scoped'"),
            ("@s/p/sub/x.js", "module.exports = 'sub'"),
            ("@s/p/sub/index.js", "module.exports = 'sub index'"),
        ],
        program: (
            "a.cjs",
            "for (const name of ['main', 'folder', 'index', 'lost', 'typed', 'typed/', 'data', 'data/data.json', '@s/p', '@s/p/sub/x', '@s/p/sub', 'main/lib/start.js', 'main/', '@s/p/package.json', './x', '@s', '@s/none', 'main/none', '']) {
               try { console.log(name, require(name)); } catch (error) { console.log(name, error.code, error.message.split('\\n')[0]); }
             }
             console.log(require.resolve('main'). replace(/.*node_modules/, ''));",
        ),
    },
    Case {
        name: "main_and_index_from_esm",
        files: &[
            ("main/package.json", r#"{"main": "./lib/start"}"#),
            ("main/lib/start.js", "module.exports = 'main'"),
            ("index/index.js", "module.exports = 'index'"),
            ("with-module/package.json", r#"{"main": "m.js", "module": "m.mjs"}"#),
            ("with-module/m.js", "module.exports = 'the main one'"),
            ("with-module/m.mjs", "export default 'the other'"),
            ("@s/p/package.json", r#"{"main": "p.js"}"#),
            ("@s/p/p.js", "exports.name = 'scoped'; exports.__esModule = true; exports.default = 'inner'"),
            ("@s/p/sub/x.js", "module.exports = 'sub'"),
        ],
        program: (
            "a.mjs",
            "for (const name of ['main', 'index', 'with-module', '@s/p', '@s/p/sub/x.js', '@s/p/sub/x', '@s/p/sub', 'main/lib/start', 'none', '@s/none', 'main/none.js']) {
               try { console.log(name, { ...(await import(name)) }); } catch (error) { console.log(name, error.code); }
             }
             console.log(import.meta.resolve('main').replace(/.*node_modules/, ''));",
        ),
    },
    Case {
        name: "exports_maps",
        files: &[
            (
                "p/package.json",
                r##"{"name": "p", "main": "unused.js", "imports": {"#inner": {"import": "./inner.mjs", "require": "./inner.cjs"}, "#deep/*": "./deep/*.cjs", "#other": "q"},
                   "exports": {".": {"browser": "./no.js", "node": {"import": "./node.mjs", "default": "./node.cjs"}, "default": "./no.js"},
                   "./features/*": "./src/*.cjs", "./features/*.js": "./src/*.cjs", "./features/private/*": null, "./list": ["not-valid", "./src/list.cjs"],
                   "./gone": "./none.cjs", "./up": "./../x.js", "./cond": {"worker": "./no.js"}, "./package.json": "./package.json", "./data": "./data.json", "./self": "./self.cjs"}}"##,
            ),
            ("p/node.mjs", "export const kind = 'esm'; import * as inner from '#inner'; export { inner }"),
            ("p/node.cjs", "exports.kind = 'cjs'; exports.inner = require('#inner'); exports.deep = require('#deep/a'); exports.other = require('#other')"),
            ("p/inner.mjs", "export default 'inner esm'"),
            ("p/inner.cjs", "module.exports = 'inner cjs'"),
            ("p/deep/a.cjs", "module.exports = 'deep a'"),
            ("p/src/a.cjs", "module.exports = 'feature a'"),
            ("p/src/b/c.cjs", "module.exports = 'feature b/c'"),
            ("p/src/private/x.cjs", "module.exports = 'secret'"),
            ("p/src/list.cjs", "module.exports = 'list'"),
            ("p/self.cjs", "exports.self = require('p').kind; try { require('p/hidden') } catch (error) { exports.code = error.code }"),
            ("p/hidden.js", "module.exports = 1"),
            ("p/data.json", r#"{"d": 1}"#),
            ("p/no.js", "throw new Error('not this one')"),
            ("q/index.js", "module.exports = 'q'"),
            ("sugar/package.json", r#"{"exports": "./s.js", "type": "module"}"#),
            ("sugar/s.js", "export default 'sugar'"),
            ("none/package.json", r#"{"exports": {"./x": "./x.js"}}"#),
            ("null/package.json", r#"{"exports": null, "main": "n.js"}"#),
            ("null/n.js", "module.exports = 'null'"),
        ],
        program: (
            "a.mjs",
            "import { createRequire } from 'node:module';
             const require = createRequire(import.meta.url);
             const names = ['p', 'p/features/a', 'p/features/a.js', 'p/features/b/c', 'p/features/private/x', 'p/list', 'p/gone', 'p/up', 'p/cond', 'p/hidden.js', 'p/package.json', 'p/data', 'p/self', 'none', 'null', 'p/'];
             for (const name of names) {
               try { const it = await import(name, name.endsWith('json') || name === 'p/data' ? { with: { type: 'json' } } : {}); console.log('import', name, name.endsWith('json') ? it.default.name : { ...it, inner: it.inner && { ...it.inner } }); } catch (error) { console.log('import', name, error.code); }
               try { const it = require(name); console.log('require', name, name.endsWith('json') ? it.name : it); } catch (error) { console.log('require', name, error.code); }
             }
             console.log((await import('sugar')).default);
             try { await import('#inner'); } catch (error) { console.log(error.code); }",
        ),
    },
    Case {
        name: "commonjs_names_in_esm",
        files: &[
            ("named/index.js", "exports.a = 1; const m = { b: 2 }; Object.defineProperty(exports, 'b', { enumerable: true, get: function () { return m.b; } }); module.exports.c = function () {}; exports['d'] = 4;"),
            ("star/index.js", "'use strict'; var __exportStar = (m, e) => { for (var p in m) if (p !== 'default') e[p] = m[p]; }; Object.defineProperty(exports, '__esModule', { value: true }); __exportStar(require('./more'), exports); exports.default = 'd';"),
            ("star/more.js", "exports.more = 1; exports.evenMore = 2;"),
            ("again/index.js", "module.exports = require('named');"),
            ("object/index.js", "const x = 1; module.exports = { x, y: 2, 'z': 3, ...{ hidden: 1 } };"),
            ("fn/index.js", "module.exports = function fn() { return 1; }; module.exports.extra = 5;"),
        ],
        program: (
            "a.mjs",
            "import { a, b, d } from 'named'; import star, { more, evenMore } from 'star'; import { c } from 'again'; import fn, { extra } from 'fn';
             console.log(a, b, d, star, more, evenMore, typeof c, fn(), extra);
             for (const name of ['named', 'star', 'again', 'object', 'fn']) console.log(name, Object.keys(await import(name)).filter((key) => key !== 'module.exports').sort());",
        ),
    },
    Case {
        name: "nested_packages",
        files: &[
            ("dep/index.js", "module.exports = 'dep 1'"),
            ("user/index.js", "exports.dep = require('dep'); exports.other = require('other')"),
            ("user/node_modules/dep/index.js", "module.exports = 'dep 2, with ' + require('other')"),
            ("other/index.js", "module.exports = 'other with ' + require('dep')"),
            ("circle-a/index.js", "exports.early = 1; exports.b = require('circle-b').name; exports.late = 2"),
            ("circle-b/index.js", "const a = require('circle-a'); exports.name = 'b sees ' + Object.keys(a)"),
            ("folder/package.json", r#"{"type": "module", "exports": {"./*": "./*"}}"#),
            ("folder/cjs/package.json", r#"{"type": "commonjs"}"#),
            ("folder/cjs/x.js", "module.exports = 'inner type'"),
            ("folder/x.js", "export default 'outer type'"),
        ],
        program: (
            "a.mjs",
            "import dep from 'dep'; import user from 'user'; import circle from 'circle-a'; import inner from 'folder/cjs/x.js'; import outer from 'folder/x.js';
             console.log(dep, user, circle, inner, outer);",
        ),
    },
    Case {
        name: "dual_packages",
        files: &[
            ("dual/package.json", r#"{"name": "dual", "type": "module", "main": "./d.cjs", "exports": {"import": "./d.js", "require": "./d.cjs"}}"#),
            ("dual/d.js", "export const kind = 'esm'; export default class Esm {}"),
            ("dual/d.cjs", "exports.kind = 'cjs'"),
            ("user/index.js", "exports.kind = require('dual').kind; exports.load = () => import('dual').then((it) => it.kind)"),
            ("wrapper/package.json", r#"{"exports": {"import": "./w.mjs", "default": "./w.cjs"}}"#),
            ("wrapper/w.cjs", "exports.state = { n: 0 }"),
            ("wrapper/w.mjs", "import cjs from './w.cjs'; export const state = cjs.state"),
        ],
        program: (
            "a.cjs",
            "const user = require('user'); const { state } = require('wrapper'); state.n = 7;
             console.log(user.kind); user.load().then((kind) => { console.log(kind); return import('wrapper'); }).then((it) => console.log(it.state.n));",
        ),
    },
];

/// Cases of Node 22 behaviour that the installed Node may lack, with their expected output.
const NODE_22_CASES: &[(Case, &str)] = &[(
    Case {
        name: "require_of_esm",
        files: &[
            ("esm/package.json", r#"{"type": "module", "exports": "./e.js"}"#),
            ("esm/e.js", "export const a = 1; export default 2"),
            ("waits/package.json", r#"{"type": "module", "main": "w.js"}"#),
            ("waits/w.js", "await 0; export default 1"),
        ],
        program: (
            "a.cjs",
            "console.log(require('esm').a, require('esm').default); try { require('waits'); } catch (error) { console.log(error.code); }",
        ),
    },
    "1 2\nERR_REQUIRE_ASYNC_MODULE\n",
)];

fn write_files(files: &[(&str, &str)], below: &Path) -> Result<()> {
    for (name, text) in files {
        let path = below.join(name);
        fs::create_dir_all(path.parent().unwrap_or(below))?;
        fs::write(path, text)?;
    }
    Ok(())
}

pub fn trials(guest_runner: &Shared<GuestRunner>) -> Result<Vec<Trial>> {
    let mut trials = Vec::new();
    for case in CASES {
        let guest_runner = guest_runner.clone();
        trials.push(Trial::ignorable_test(format!("loader::{}", case.name), move || {
            if !has_node() {
                return unavailable("node", "there is no node");
            }
            completion(shared_value(&guest_runner).and_then(|guest_runner| compare(case, guest_runner)))
        }));
    }
    for (case, expected) in NODE_22_CASES {
        let guest_runner = guest_runner.clone();
        trials.push(Trial::ignorable_test(format!("loader::{}", case.name), move || {
            completion(
                shared_value(&guest_runner)
                    .and_then(|guest_runner| check_output(&run_in_guest(case, guest_runner)?, expected)),
            )
        }));
    }
    let granted_runner = guest_runner.clone();
    trials.push(Trial::ignorable_test("loader::granted_node_modules_take_precedence", move || {
        completion(shared_value(&granted_runner).and_then(granted_node_modules_take_precedence))
    }));
    Ok(trials)
}

/// Lays out the packages in a directory named `node_modules`, because Node resolves dependencies from real paths.
fn modules(files: &[(&str, &str)]) -> Result<(TempDir, PathBuf)> {
    let dir = tempfile::tempdir()?;
    let modules = dir.path().join("node_modules");
    write_files(files, &modules)?;
    Ok((dir, modules))
}

fn run_in_guest(case: &Case, guest_runner: &GuestRunner) -> Result<ProgramOutput> {
    let (_dir, modules) = modules(case.files)?;
    guest_runner.run_in_guest(case.program.0, case.program.1, &modules, None)
}

fn compare(case: &Case, guest_runner: &GuestRunner) -> Result<()> {
    let (_dir, modules) = modules(case.files)?;
    let node = run_in_node(case.program.0, case.program.1, &modules)?;
    let guest = guest_runner.run_in_guest(case.program.0, case.program.1, &modules, None)?;
    ensure!(node.status == 0, "node itself failed: {}", node.stderr);
    ensure!(guest.status == 0, "{}", guest.stderr);
    ensure!(guest.stdout == node.stdout, "guest:\n{}\nnode:\n{}", guest.stdout, node.stdout);
    Ok(())
}

fn check_output(output: &ProgramOutput, expected: &str) -> Result<()> {
    ensure!(output.status == 0 && output.stdout == expected, "{output:?}");
    Ok(())
}

/// A granted directory's own packages take precedence over installed ones; the others come from the installed ones.
fn granted_node_modules_take_precedence(guest_runner: &GuestRunner) -> Result<()> {
    let files = [("p/index.js", "module.exports = 'installed'"), ("q/index.js", "module.exports = 'q'")];
    let ((_dir, modules), work) = (modules(&files)?, tempfile::tempdir()?);
    write_files(&[("node_modules/p/index.js", "module.exports = 'granted'")], work.path())?;
    let program = "import p from 'p'; import q from 'q'; import fs from 'node:fs';
        console.log(p, q, fs.existsSync('/node_modules/q'));
        try { fs.writeFileSync('/node_modules/p/index.js', 'x'); } catch (error) { console.log(error.code); }";
    let output = guest_runner.run_in_guest("a.mjs", program, &modules, Some(work.path()))?;
    let code = if output.stdout.contains("EROFS") { "EROFS" } else { "EPERM" };
    check_output(&output, &format!("granted q true\n{code}\n"))
}
