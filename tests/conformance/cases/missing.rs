//! What this tier cannot give fails at once, with the error that programs expect, and the report names it.

use crate::case::{Case, code};

pub fn cases() -> Vec<Case> {
    vec![
        code("missing::thread", "import threading\nthreading.Thread(target=print).start()")
            .exits(1)
            .complains("RuntimeError: can't start new thread")
            .misses("thread"),
        code("missing::thread_caught", "import threading\ntry:\n    threading.Thread(target=print).start()\nexcept RuntimeError as e:\n    print(e)")
            .prints("can't start new thread\n")
            .misses("thread"),
        code("missing::thread_pool", "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor() as p:\n    p.submit(print).result()")
            .exits(1)
            .complains("RuntimeError: can't start new thread")
            .misses("thread"),
        code("missing::subprocess", "import subprocess\nsubprocess.run(['ls'])").exits(1).complains("OSError").misses("process"),
        code("missing::os_system", "import os\nos.system('ls')").exits(1).complains("OSError").misses("process"),
        code("missing::fork", "import os\nos.fork()").exits(1).complains("OSError").misses("process"),
        code("missing::multiprocessing", "import multiprocessing\nmultiprocessing.Process(target=print).start()")
            .exits(1)
            .misses("process"),
        code("missing::socket", "import socket\nsocket.socket()").exits(1).complains("PermissionError").misses("socket"),
        code("missing::socket_caught_as_oserror", "import socket\ntry:\n    socket.create_connection(('127.0.0.1', 1))\nexcept OSError:\n    print('refused')")
            .prints("refused\n")
            .misses("socket"),
        code("missing::name_lookup", "import socket\ntry:\n    socket.getaddrinfo('localhost', 80)\nexcept socket.gaierror:\n    print('refused')")
            .prints("refused\n")
            .misses("socket"),
        code("missing::urlopen", "import urllib.request\ntry:\n    urllib.request.urlopen('http://127.0.0.1:1/')\nexcept OSError as e:\n    print(type(e).__name__)")
            .prints("URLError\n")
            .misses("socket"),
        code("missing::module", "import nosuchmodule").exits(1).complains("ModuleNotFoundError: No module named 'nosuchmodule'")
            .misses("nosuchmodule"),
        code("missing::native_module", "import ssl").exits(1).complains("ModuleNotFoundError").misses("ssl"),
        code("missing::nothing_when_nothing_is", "import threading, subprocess, socket\nprint('on')").prints("on\n"),
        code("missing::each_has_a_hint", "import threading\nthreading.Thread(target=print).start()")
            .exits(1)
            .misses("thread")
            .look(|report| {
                let hint = report.at("/missing/0/hint").as_str().unwrap_or_default();
                if hint.is_empty() || hint.contains('\n') { Err(format!("hint {hint:?}")) } else { Ok(()) }
            }),
    ]
}
