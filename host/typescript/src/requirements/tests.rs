use crate::{Certainty, Facility, MAX_TEXT_LEN, StripError, requirements};

/// Returns the needs of a text as `facility line: words`, with a question mark for uncertain ones.
fn shown(file: &str, text: &str) -> Vec<String> {
    let requirements = requirements(file, text).expect("the text is analysed");
    let shown = |requirement: crate::Requirement| {
        let facility = match requirement.facility {
            Facility::Threads => "threads",
            Facility::Processes => "processes",
            Facility::Sockets => "sockets",
            Facility::Module(_) => "module",
        };
        let mark = if requirement.certainty == Certainty::Possible { "?" } else { "" };
        format!("{facility}{mark} {}: {}", requirement.line, requirement.words)
    };
    requirements.into_iter().map(shown).collect()
}

#[test]
fn finds_requirements_of_calls() {
    for (text, found) in [
        ("import { Worker } from 'node:worker_threads';\nnew Worker('./w.js')", "threads 2: worker_threads.Worker"),
        ("import * as wt from 'worker_threads'; new wt.Worker(x)", "threads 1: worker_threads.Worker"),
        ("new Worker('./w.js')", "threads 1: Worker"),
        (
            "import { Worker } from 'worker_threads'; class W extends Worker {}\nnew W()",
            "threads 2: worker_threads.Worker",
        ),
        ("const cp = require('child_process')\ncp.execSync('ls')", "processes 2: child_process.execSync"),
        ("const { spawn: start } = require('node:child_process');\nstart('ls')", "processes 2: child_process.spawn"),
        ("const { exec = 1 } = require('child_process');\nexec('ls')", "processes 2: child_process.exec"),
        ("require('child_process').exec('ls')", "processes 1: child_process.exec"),
        ("const exec = require('child_process').exec;\nexec('ls')", "processes 2: child_process.exec"),
        ("import cp from 'child_process';\nconst p = cp.fork;\np('x')", "processes 3: child_process.fork"),
        ("const cp = await import('node:child_process')\ncp.spawn('ls')", "processes 2: child_process.spawn"),
        ("(await import('child_process')).default.spawn('ls')", "processes 1: child_process.spawn"),
        (
            "import { exec } from 'child_process'; import { promisify } from 'util';\nconst run = promisify(exec);",
            "processes 2: child_process.exec",
        ),
        ("import cluster from 'cluster';\nif (cluster.isPrimary) cluster.fork()", "processes 2: cluster.fork"),
        ("const r = await fetch('http://x')", "sockets 1: fetch"),
        ("globalThis.fetch('http://x')", "sockets 1: fetch"),
        ("new WebSocket('ws://x')", "sockets 1: WebSocket"),
        ("import http from 'http';\nhttp.createServer(f).listen(1)", "sockets 2: http.createServer"),
        ("import { get } from 'node:https';\nget('x')", "sockets 2: https.get"),
        ("import net from 'net';\nnew net.Socket()", "sockets 2: net.Socket"),
        ("import { promises as dns } from 'dns';\nawait dns.resolve4('x')", "sockets 2: dns.promises.resolve4"),
        ("import { lookup } from 'dns/promises';\nawait lookup('x')", "sockets 2: dns/promises.lookup"),
        ("require('dgram').createSocket('udp4')", "sockets 1: dgram.createSocket"),
        ("const m = await WebAssembly.compile(b)", "module 1: WebAssembly"),
        ("import crypto from 'node:crypto';\ncrypto.createSign('SHA256')", "module 2: crypto.createSign"),
        (
            "const { brotliCompressSync } = require('zlib');\nbrotliCompressSync('x')",
            "module 2: zlib.brotliCompressSync",
        ),
        ("import { Session } from 'inspector/promises';\nnew Session()", "module 2: inspector/promises.Session"),
        ("await crypto.subtle.importKey('raw', k)", "module 1: crypto.subtle.importKey"),
        ("import fs from 'fs';\nfs.watch('.')", "module 2: fs.watch"),
        (
            "import { createRequire } from 'module'; const require = createRequire(import.meta.url);\nrequire('child_process').exec('x')",
            "processes 2: child_process.exec",
        ),
        (
            "import { spawn } from 'child_process';\nfunction f() { spawn('ls') }\nf()",
            "processes 2: child_process.spawn",
        ),
        ("import { spawn } from 'child_process';\nspawn?.('ls')", "processes 2: child_process.spawn"),
    ] {
        assert_eq!(shown("main.js", text), [found], "{text}");
    }
}

#[test]
fn finds_requirements_of_imports() {
    for (text, found) in [
        ("import sharp from 'sharp'", "module 1: import sharp"),
        ("const Database = require('better-sqlite3')", "module 1: import better-sqlite3"),
        ("import x from '@tensorflow/tfjs-node/dist/x.js'", "module 1: import @tensorflow/tfjs-node"),
        ("import { DatabaseSync } from 'node:sqlite'", "module 1: import node:sqlite"),
        ("import 'node:test/reporters'", "module 1: import node:test/reporters"),
        ("require('./build/addon.node')", "module 1: import a .node file"),
        ("export * from 'canvas'", "module 1: import canvas"),
        ("import express from 'express'", "sockets 1: import express"),
        ("await import('bcrypt')", "module 1: import bcrypt"),
    ] {
        assert_eq!(shown("main.mjs", text), [found], "{text}");
    }
}

#[test]
fn ignores_supported_features() {
    for text in [
        "import fs from 'fs'; fs.readFileSync('x')",
        "import { isIP } from 'net'; isIP('::1')",
        "import http from 'http'; http.STATUS_CODES[200]",
        "import { isMainThread } from 'worker_threads'; isMainThread",
        "import cp from 'child_process'",
        "const fetch = (x) => x; fetch(1)",
        "function Worker() {}\nnew Worker()",
        "import { spawn } from 'child_process'; { const spawn = f; spawn() }",
        "import { spawn } from './child_process.js'; spawn()",
        "function require(x) { return x }\nrequire('sharp').x()",
        "import sqlite3 from './sqlite3'",
        "const text = \"require('sharp')\"; // fetch()",
        "client.fetch(); this.connect(); http.get()",
        "const WebAssembly = {}; WebAssembly.compile()",
        "1 + 1",
    ] {
        assert_eq!(shown("main.js", text), [""; 0], "{text}");
    }
}

#[test]
fn caught_and_unreachable_requirements_are_uncertain() {
    for (text, found) in [
        ("try { require('sharp') } catch {}", "module? 1: import sharp"),
        ("try { require('sharp') } catch (e) { throw e }", "module 1: import sharp"),
        ("try { require('sharp') } catch (e) { process.exit(1) }", "module 1: import sharp"),
        ("try { require('sharp') } finally {}", "module 1: import sharp"),
        ("try { f() } catch { await fetch('x') }", "sockets? 1: fetch"),
        ("function f() { fetch('x') }", "sockets? 1: fetch"),
        ("export function f() { fetch('x') }", "sockets? 1: fetch"),
        ("const f = async () => { await fetch('x') }", "sockets? 1: fetch"),
        ("const f = async () => { await fetch('x') }\nf()", "sockets 1: fetch"),
        ("class A { m() { fetch('x') } }", "sockets? 1: fetch"),
        ("class A { m() { fetch('x') } }\nnew A().m()", "sockets 1: fetch"),
        ("(() => { fetch('x') })()", "sockets 1: fetch"),
        ("function f() { fetch('x') }\nfetch('y')", "sockets 2: fetch"),
    ] {
        assert_eq!(shown("main.js", text), [found], "{text}");
    }
}

#[test]
fn ignores_type_only_references() {
    let text = "import type { Worker } from 'worker_threads';\nimport cp = require('child_process');\n\
                const run = (cmd: string): Buffer => cp.execSync(cmd) as Buffer;\nrun('ls');\n\
                import type S from 'sharp';\nlet s: import('canvas').Canvas;\n(fetch as any)('x');";
    let found = ["processes 3: child_process.execSync", "sockets 7: fetch"];
    assert_eq!(shown("main.ts", text), found);
    assert_eq!(shown("main.mts", text), found);
    assert_eq!(shown("main.cts", text), found);
}

#[test]
fn bounds_work_on_hostile_texts() {
    let long = format!("fetch('x')\n{}", " ".repeat(MAX_TEXT_LEN));
    assert!(matches!(requirements("a.js", &long), Err(StripError::Long { .. })));
    let huge = format!("fetch('x')\n{}", " ".repeat(16 << 20));
    assert!(matches!(requirements("a.js", &huge), Err(StripError::Long { .. })));
    let names: String = (0..20_000).map(|n| format!("const a{} = a{n}.x;", n + 1)).collect();
    assert_eq!(shown("a.js", &format!("import * as a0 from 'net';{names}")), [""; 0]);
    let calls = "function f() { fetch('x') }\n".repeat(10_000);
    assert_eq!(shown("a.js", &calls).len(), 1);
}
