//! Programs whose needs appear only at run time and not in their text.

/// Program that fails in WebAssembly, and its result in a container.
#[derive(Debug, Clone, Copy)]
pub struct FailingProgram {
    pub name: &'static str,
    pub language: &'static str,
    /// Missing feature, as named in reports.
    pub lacks: &'static str,
    pub code: &'static str,
    /// Complete output in a container.
    pub expected_stdout: &'static str,
}

pub const THREAD: FailingProgram = FailingProgram {
    name: "python_thread",
    language: "python",
    lacks: "threads",
    code: "\
print('before', flush=True)
made = getattr(__import__('thr' + 'eading'), 'Thread')(target=print, args=('in a thread',))
made.start()
made.join()
print('after')
raise SystemExit(7)
",
    expected_stdout: "before\nin a thread\nafter\n",
};

const PROCESS: FailingProgram = FailingProgram {
    name: "python_process",
    language: "python",
    lacks: "processes",
    code: "\
print('before', flush=True)
getattr(__import__('sub' + 'process'), 'run')(['echo', 'in a process'], check=True)
raise SystemExit(7)
",
    expected_stdout: "before\nin a process\n",
};

const SOCKET: FailingProgram = FailingProgram {
    name: "python_socket",
    language: "python",
    lacks: "network sockets",
    code: "\
print('before')
one, two = getattr(__import__('sock' + 'et'), 'socket' + 'pair')()
one.send(b'through a socket')
print(two.recv(99).decode())
raise SystemExit(7)
",
    expected_stdout: "before\nthrough a socket\n",
};

const MODULE: FailingProgram = FailingProgram {
    name: "python_native_module",
    language: "python",
    lacks: "the module ssl",
    code: "\
print('before')
print(__import__('s' + 'sl').OPENSSL_VERSION.split()[0])
raise SystemExit(7)
",
    expected_stdout: "before\nOpenSSL\n",
};

const JS_PROCESS: FailingProgram = FailingProgram {
    name: "javascript_process",
    language: "js",
    lacks: "processes",
    code: "\
console.log('before');
process.stdout.write(require('child_' + 'process').execSync('echo in a process'));
process.exit(7);
",
    expected_stdout: "before\nin a process\n",
};

const JS_THREAD: FailingProgram = FailingProgram {
    name: "javascript_thread",
    language: "js",
    lacks: "threads",
    code: "\
console.log('before');
const made = new (require('worker_' + 'threads').Worker)('require(\"worker_threads\").parentPort.postMessage(\"in a thread\")', { eval: true });
made.on('message', (message) => { console.log(message); process.exit(7); });
",
    expected_stdout: "before\nin a thread\n",
};

const TS_PROCESS: FailingProgram = FailingProgram {
    name: "typescript_process",
    language: "ts",
    lacks: "processes",
    code: "\
enum Word { Before = 'before' }
console.log(Word.Before);
const output: string = require('child_' + 'process').execSync('echo in a process').toString();
console.log(output.trim() as string);
process.exit(7);
",
    expected_stdout: "before\nin a process\n",
};

const TS_THREAD: FailingProgram = FailingProgram {
    name: "typescript_thread",
    language: "ts",
    lacks: "threads",
    code: "\
interface Message { word: string }
console.log('before');
const text = 'require(\"worker_threads\").parentPort.postMessage({ word: \"in a thread\" })';
const made = new (require('worker_' + 'threads').Worker)(text, { eval: true });
made.on('message', (message: Message) => { console.log(message.word); process.exit(7); });
",
    expected_stdout: "before\nin a thread\n",
};

/// Programs of every language and feature.
pub const ALL: [FailingProgram; 8] = [THREAD, PROCESS, SOCKET, MODULE, JS_PROCESS, JS_THREAD, TS_PROCESS, TS_THREAD];

/// Code that starts a thread in a form that the analysis does not recognise, and has no effect if threads are
/// available.
pub const STARTS_THREAD: &str = "getattr(__import__('thr' + 'eading'), 'Thread')(target=int).start()\n";
