use codebox_analysis::{Need, Weight, packages};
use proptest::prelude::*;

use crate::{python_needs, script_needs};

/// Returns the needs of a text as `word line`, with a question mark for optional ones.
fn needs(text: &str) -> Vec<String> {
    let shown = |need: &Need| {
        let mark = if need.weight == Weight::Optional { "?" } else { "" };
        format!("{}{mark} {} {}", need.power.report_name(), need.line, need.words)
    };
    python_needs(text).powers.iter().map(shown).collect()
}

#[test]
fn finds_needs_of_calls() {
    for (text, found) in [
        ("import threading\nthreading.Thread(target=f).start()", "threads 2 threading.Thread"),
        ("from threading import Thread as T, Lock\nt = T()", "threads 2 threading.Thread"),
        ("from threading import *\nTimer(1, f)", "threads 2 threading.Timer"),
        ("import _thread\n_thread.start_new_thread(f, ())", "threads 2 _thread.start_new_thread"),
        (
            "import concurrent.futures\nwith concurrent.futures.ThreadPoolExecutor() as p: pass",
            "threads 2 concurrent.futures.ThreadPoolExecutor",
        ),
        (
            "from concurrent import futures as cf\n\np = cf.ProcessPoolExecutor(4)",
            "processes 3 concurrent.futures.ProcessPoolExecutor",
        ),
        ("import asyncio\nasync def m(): await asyncio.to_thread(f)\nasyncio.run(m())", "threads 2 asyncio.to_thread"),
        ("import asyncio\nasyncio.get_event_loop().run_in_executor(None, f)", "threads 2 loop.run_in_executor"),
        ("from multiprocessing.pool import ThreadPool\nThreadPool(2)", "threads 2 multiprocessing.pool.ThreadPool"),
        ("import subprocess as sp\nprint(sp.run(['ls']))", "processes 2 subprocess.run"),
        (
            "from subprocess import check_output\nx = [check_output(c) for c in cs]",
            "processes 2 subprocess.check_output",
        ),
        ("import os\nif os.fork(): pass", "processes 2 os.fork"),
        ("import os\nos.execvp('ls', [])", "processes 2 os.execvp"),
        ("import os\nos.spawnlp(os.P_WAIT, 'ls')", "processes 2 os.spawnlp"),
        ("from os import system\nsystem('ls')", "processes 2 os.system"),
        ("import multiprocessing as mp\nmp.Pool()", "processes 2 multiprocessing.Pool"),
        (
            "import asyncio\nasyncio.run(asyncio.create_subprocess_exec('ls'))",
            "processes 2 asyncio.create_subprocess_exec",
        ),
        ("import socket\ns = socket.socket()", "sockets 2 socket.socket"),
        ("import urllib.request\nurllib.request.urlopen(u)", "sockets 2 urllib.request.urlopen"),
        ("from urllib import request\nrequest.urlopen(u)", "sockets 2 urllib.request.urlopen"),
        ("from http.server import HTTPServer\nHTTPServer(a, b)", "sockets 2 http.server.HTTPServer"),
        ("import socketserver\nsocketserver.TCPServer(a, b)", "sockets 2 socketserver.TCPServer"),
        ("__import__('subprocess').run('ls')", "processes 1 subprocess.run"),
        ("import importlib\nm = importlib.import_module('os')\nm.system('x')", "processes 3 os.system"),
        ("import subprocess\nrun = subprocess.run\nrun('ls')", "processes 3 subprocess.run"),
        ("import threading\nclass W(threading.Thread): pass\nW().start()", "threads 3 threading.Thread"),
        ("import subprocess\ndef f():\n    subprocess.run('ls')\nf()", "processes 3 subprocess.run"),
        ("import subprocess\nclass A:\n    def f(self): subprocess.run('ls')\nA().f()", "processes 3 subprocess.run"),
        ("def f():\n    import subprocess\n    subprocess.run('ls')\nf()", "processes 3 subprocess.run"),
        ("import subprocess\nsubprocess.run('a')\nsubprocess.run('b')", "processes 2 subprocess.run"),
        ("import ctypes\nctypes.CDLL('libc.so.6')", "module:ctypes 2 ctypes.CDLL"),
    ] {
        assert_eq!(needs(text), [found], "{text}");
    }
}

#[test]
fn finds_needs_of_imports() {
    for (text, found) in [
        ("import ssl", "module:ssl 1 import ssl"),
        ("import torch.nn as nn", "module:torch 1 import torch"),
        ("from PyQt5.QtWidgets import QApplication", "module:PyQt5 1 import PyQt5"),
        ("import os\nimport requests", "sockets 2 import requests"),
        ("from compression import zstd", "module:compression.zstd 1 import compression.zstd"),
        ("import dbm.gnu", "module:dbm.gnu 1 import dbm.gnu"),
        ("x = __import__('numba')", "module:numba 1 import numba"),
        ("import pexpect", "processes 1 import pexpect"),
    ] {
        assert_eq!(needs(text), [found], "{text}");
    }
}

#[test]
fn ignores_what_webassembly_supports() {
    // Modules that are compiled into the runtime, and modules that can be loaded and may be used in part.
    let has = "numpy pandas scipy sklearn statsmodels patsy formulaic sympy mpmath networkx narwhals joblib matplotlib \
               seaborn PIL contourpy fontTools openpyxl xlsxwriter xlrd pypdf reportlab lxml bs4 html5lib defusedxml \
               xmltodict yaml tomli_w jinja2 markupsafe tabulate regex charset_normalizer dateutil tzdata attrs \
               more_itertools toolz tqdm typing_extensions packaging wrapt cloudpickle threadpoolctl kiwisolver \
               ctypes sqlite3 dbm bz2 lzma zlib mmap select socket multiprocessing concurrent.futures subprocess \
               threading signal asyncio http.client http.server urllib.request smtplib socketserver hashlib decimal";
    for module in has.split_whitespace() {
        assert_eq!(needs(&format!("import {module}")), [""; 0], "{module}");
    }
    for text in [
        "import multiprocessing\nprint(multiprocessing.cpu_count())",
        "import threading\nlock = threading.Lock()\nthreading.current_thread()",
        "import asyncio\nasyncio.run(asyncio.sleep(0))",
        "import os\nos.path.join('system', 'fork')\nos.getcwd()",
        "import urllib.parse\nurllib.parse.quote('x')",
        "import subprocess\ntry: pass\nexcept subprocess.CalledProcessError: pass",
        "import socket\nsocket.AF_INET, socket.inet_aton('1.1.1.1')",
        "text = 'import subprocess; subprocess.run()'",
        "# import subprocess",
        "import subprocess",
    ] {
        assert_eq!(needs(text), [""; 0], "{text}");
    }
}

#[test]
fn ignores_shadowed_names() {
    for text in [
        "import subprocess\ndef run(): pass\nrun()",
        "from subprocess import run\ndef run(): pass\nrun()",
        "import subprocess\nsubprocess = Fake()\nsubprocess.run()",
        "import subprocess\ndef f(subprocess): subprocess.run()\nf(1)",
        "import subprocess\ng = lambda subprocess: subprocess.run()\ng(1)",
        "import subprocess\n[subprocess.run() for subprocess in fakes]",
        "import subprocess\nclass A:\n    run = 1\n    def run(self): pass\nA().run()",
        "from .subprocess import run\nimport os, threading\nrun()",
        "import threading\nclass C:\n    Thread = threading.Thread\ndef f(): Thread()\nf()",
        "from fake import *\nimport threading\nThread()",
        "import threading\nThread()",
    ] {
        assert_eq!(needs(text), [""; 0], "{text}");
    }
}

#[test]
fn caught_and_unreachable_needs_are_optional() {
    for (text, found) in [
        ("try:\n    import ssl\nexcept ImportError:\n    ssl = None", "module:ssl? 2 import ssl"),
        ("try: import ssl\nexcept (ValueError, ModuleNotFoundError): pass", "module:ssl? 1 import ssl"),
        ("try: import ssl\nexcept: pass", "module:ssl? 1 import ssl"),
        ("try: import ssl\nexcept ValueError: pass", "module:ssl 1 import ssl"),
        ("try: import ssl\nexcept ImportError: raise SystemExit(1)", "module:ssl 1 import ssl"),
        ("import sys\ntry: import ssl\nexcept ImportError: sys.exit('no')", "module:ssl 2 import ssl"),
        ("try: import json5\nexcept ImportError: import orjson", "module:orjson? 2 import orjson"),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch", "module:torch? 3 import torch"),
        ("import typing\nif typing.TYPE_CHECKING: import torch", "module:torch? 2 import torch"),
        ("from contextlib import suppress\nwith suppress(ImportError): import torch", "module:torch? 2 import torch"),
        ("import subprocess\ntry: subprocess.run('ls')\nexcept OSError: pass", "processes? 2 subprocess.run"),
        ("import subprocess\ntry: subprocess.run('ls')\nexcept ValueError: pass", "processes 2 subprocess.run"),
        ("import subprocess\ntry: subprocess.run('ls')\nexcept ImportError: pass", "processes 2 subprocess.run"),
        ("import threading\ntry: threading.Thread()\nexcept RuntimeError: pass", "threads? 2 threading.Thread"),
        ("import threading\ntry: threading.Thread()\nexcept OSError: pass", "threads 2 threading.Thread"),
        ("import socket\ntry: socket.socket()\nexcept Exception as e: print(e)", "sockets? 2 socket.socket"),
        ("import socket\ntry: pass\nexcept OSError: pass\nelse: socket.socket()", "sockets 4 socket.socket"),
        ("import subprocess\ndef f(): subprocess.run('ls')", "processes? 2 subprocess.run"),
        ("import subprocess\nclass A:\n    def f(self): subprocess.run('ls')\nA()", "processes? 3 subprocess.run"),
        ("import subprocess\nclass A(B):\n    def f(self): subprocess.run('ls')\nA()", "processes 3 subprocess.run"),
        ("import subprocess\n@app.command\ndef f(): subprocess.run('ls')", "processes 3 subprocess.run"),
        ("import subprocess\ntry:\n    def f(): subprocess.run('ls')\nexcept: pass\nf()", "processes 3 subprocess.run"),
        ("import subprocess\ndef f(): subprocess.run('a')\nsubprocess.run('b')", "processes 3 subprocess.run"),
    ] {
        assert_eq!(needs(text), [found], "{text}");
    }
    let fallback = "try:\n    from threading import Thread\nexcept ImportError:\n    Thread = None\nThread()";
    assert_eq!(needs(fallback), ["threads 5 threading.Thread"]);
}

#[test]
fn finds_needs_of_scripts() {
    let words = |file: &str, text: &str| {
        script_needs(file, text).powers.into_iter().map(|need| (need.words, need.weight)).collect::<Vec<_>>()
    };
    let text = "import { spawn } from 'child_process'\nspawn('ls')\ntry { await fetch('x') } catch {}";
    let found = [("child_process.spawn".to_owned(), Weight::Required), ("fetch".to_owned(), Weight::Optional)];
    assert_eq!(words("main.mjs", text), found);
    assert_eq!(words("main.ts", &format!("{text}\nlet a: number = 1")), found);
}

#[test]
fn bounds_work_on_hostile_texts() {
    let long = format!("import subprocess\nsubprocess.run('x')\n{}", "#".repeat(16 << 20));
    assert_eq!(needs(&long), [""; 0]);
    let many: String = (0..5_000).map(|n| format!("def f{n}(): subprocess.run()\n")).collect();
    assert_eq!(needs(&format!("import subprocess\n{many}")), ["processes? 2 subprocess.run"]);
    let stars = "from x import *\n".repeat(2_000) + "import os, threading\n" + &"Thread()\n".repeat(5_000);
    assert_eq!(needs(&stars), [""; 0]);
    let growing: String = (0..5_000).map(|n| format!("a{} = a{n}.x\n", n + 1)).collect();
    assert_eq!(needs(&format!("import threading as a0\n{growing}")), [""; 0]);
    let big = format!("import {} as a0\nimport threading\n", "x".repeat(100_000));
    let copies: String = (0..5_000).map(|n| format!("a{} = a{n}\n", n + 1)).collect();
    assert_eq!(needs(&format!("{big}{copies}")), [""; 0]);
    let natives: String = packages::NATIVE.iter().map(|name| format!("import {name}\n")).collect();
    assert_eq!(needs(&natives).len(), 32);
}

#[test]
fn visits_deep_trees_on_small_stack() {
    for (open, close) in [("[", "]"), ("f(", ")"), ("lambda: ", ""), ("(1 +", ")"), ("[x for x in ", "]")] {
        let depth = 120;
        let text = format!("import threading\nx = {}1{}\n", open.repeat(depth), close.repeat(depth));
        let small = std::thread::Builder::new().stack_size(512 << 10);
        let found = small.spawn(move || needs(&text)).expect("a thread").join().expect("no panic");
        assert_eq!(found, [""; 0], "{open}");
    }
}

proptest! {
    #[test]
    fn arbitrary_programs_do_not_panic(
        lines in prop::collection::vec(prop::sample::select(vec![
            "import threading", "from subprocess import *", "try:", "    run()", "except OSError:", "    pass", "def f():",
            "    global run", "    run = 1", "class A(B):", "    def f(self): self.x", "run()", "threading.Thread()", "if x:",
            "else:", "    import ssl", "with suppress(OSError):", "x = [a for a in b]", "lambda a: a()", "return", "\\",
        ]), 0..30),
    ) {
        let text = lines.join("\n");
        for need in python_needs(&text).powers {
            prop_assert!(need.line as usize <= lines.len());
        }
    }
}
