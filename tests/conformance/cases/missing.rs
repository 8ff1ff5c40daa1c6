//! Features that need an operating system. They work in a container; in WebAssembly, they fail immediately with the
//! error that programs expect, and the report names the feature.

use codebox_testkit::Report;

use crate::case::{Case, code};
use crate::expect::{ExpectationBuilder as _, TierExpectations as _, expected};
use crate::program::program;
use crate::tier::Tier;

/// Reason why programs that a shell would serve are tested only in WebAssembly.
const HAS_SHELL: &str = "an image can have a shell";

pub fn cases() -> Vec<Case> {
    [threads_and_processes(), sockets(), modules()].into_iter().flatten().collect()
}

/// Returns the cases of threads and processes.
fn threads_and_processes() -> Vec<Case> {
    vec![
        code("missing::thread")
            .wasm(expected().exits(1).misses("thread"))
            .containers(expected().prints("7\n"))
            .python(program("import threading\nthreading.Thread(target=print, args=(7,)).start()").wasm(expected().stderr_contains("RuntimeError: can't start new thread")))
            .javascript(program("new (require('worker_threads').Worker)('console.log(7)', { eval: true })").wasm(expected().stderr_contains("threads are not available in this sandbox")))
            .typescript(program("import { Worker } from 'worker_threads'\nconst worker: Worker = new Worker('console.log(7)', { eval: true })").wasm(expected().stderr_contains("threads are not available in this sandbox"))),
        code("missing::thread_caught")
            .wasm(expected().misses("thread"))
            .containers(expected().prints("on\n"))
            .python(program("import threading\ntry:\n    threading.Thread(target=print, args=('on',)).start()\nexcept RuntimeError as e:\n    print(e)").wasm(expected().prints("can't start new thread\n")))
            .javascript(program("try { new (require('worker_threads').Worker)('console.log(\"on\")', { eval: true }) } catch (e) { console.log(e instanceof Error, e.code) }").wasm(expected().prints("true ENOSYS\n")))
            .typescript(program("import { Worker } from 'worker_threads'\ntry { new Worker('console.log(\"on\")', { eval: true }) } catch (e: unknown) { console.log(e instanceof Error, (e as NodeJS.ErrnoException).code) }").wasm(expected().prints("true ENOSYS\n"))),
        code("missing::thread_pool")
            .wasm(expected().exits(1).stderr_contains("RuntimeError: can't start new thread").misses("thread"))
            .containers(expected().prints("[1, 4, 9]\n"))
            .python("from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor() as p:\n    print(list(p.map(lambda n: n * n, (1, 2, 3))))"),
        code("missing::subprocess")
            .wasm(expected().exits(1).misses("process"))
            .containers(expected().prints("ran\n"))
            .python(program("import subprocess\nsubprocess.run(['ls'])").wasm(expected().stderr_contains("OSError")).in_containers("import subprocess\nprint(subprocess.run(['echo', 'ran'], capture_output=True, text=True).stdout, end='')"))
            .javascript(program("process.stdout.write(require('child_process').execFileSync('echo', ['ran']))").wasm(expected().stderr_contains("code: 'ENOSYS'")))
            .typescript(program("import { execFileSync } from 'child_process'\nconst out: string = execFileSync('echo', ['ran'], { encoding: 'utf8' })\nprocess.stdout.write(out)").wasm(expected().stderr_contains("code: 'ENOSYS'")))
            .lua(program("local pipe = assert(io.popen('ls'))").stderr_contains("popen").only_in(Tier::Wasm, HAS_SHELL)),
        code("missing::os_system")
            .wasm(expected().exits(1).misses("process"))
            .containers(expected().prints("made\nTrue\n").creates(&["/work/made"]))
            .python(program("import os\nos.system('touch made; ls')\nprint(os.path.exists('made'))").wasm(expected().stderr_contains("OSError")))
            .scripts(program("process.stdout.write(require('child_process').execSync('touch made; ls'))\nconsole.log(require('fs').existsSync('made') ? 'True' : 'False')").wasm(expected().stderr_contains("processes cannot be started in this sandbox")))
            .lua(program("assert(os.execute('ls'))").stderr_contains("lua: ").only_in(Tier::Wasm, HAS_SHELL)),
        code("missing::process_caught")
            .wasm(expected().prints("no\non\n").misses("process"))
            .containers(expected().prints("ran\non\n"))
            .python(program("import subprocess\ntry:\n    subprocess.run(['ls'])\nexcept OSError:\n    print('no')\nprint('on')").in_containers("import subprocess\ntry:\n    subprocess.run(['echo', 'ran'])\nexcept OSError:\n    print('no')\nprint('on')"))
            .javascript(program("require('child_process').spawn('ls').on('error', e => { console.log(e.code === 'ENOSYS' && e.path === 'ls' ? 'no' : e); console.log('on') })").in_containers("require('child_process').spawn('echo', ['ran'], { stdio: 'inherit' }).on('error', e => console.log('no')).on('close', () => console.log('on'))"))
            .typescript(program("import { exec } from 'child_process'\nimport { promisify } from 'util'\ntry { await promisify(exec)('ls') } catch (e: unknown) { console.log((e as NodeJS.ErrnoException).code === 'ENOSYS' ? 'no' : e) }\nconsole.log('on')").in_containers("import { exec } from 'child_process'\nimport { promisify } from 'util'\ntry { process.stdout.write((await promisify(exec)('echo ran')).stdout as string) } catch (e: unknown) { console.log('no') }\nconsole.log('on')"))
            .lua(program("print(pcall(io.popen, 'ls') and io.popen('ls') and 'yes' or 'no')\nprint(os.execute('ls') and 'off' or 'on')").only_in(Tier::Wasm, HAS_SHELL)),
        code("missing::process_without_throwing")
            .wasm(expected().prints("ENOSYS null null\n").misses("process"))
            .containers(expected().prints("undefined 3 ran\n"))
            .javascript(program("const { error, status, stdout } = require('child_process').spawnSync('ls')\nconsole.log(error.code, status, stdout)").in_containers("const { error, status, stdout } = require('child_process').spawnSync('sh', ['-c', 'printf ran; exit 3'])\nconsole.log(error, status, String(stdout))"))
            .typescript(program("import { spawnSync, type SpawnSyncReturns } from 'child_process'\nconst { error, status, stdout }: SpawnSyncReturns<Buffer> = spawnSync('ls')\nconsole.log((error as NodeJS.ErrnoException).code, status, stdout)").in_containers("import { spawnSync, type SpawnSyncReturns } from 'child_process'\nconst { error, status, stdout }: SpawnSyncReturns<Buffer> = spawnSync('sh', ['-c', 'printf ran; exit 3'])\nconsole.log(error, status, String(stdout))")),
        code("missing::nonexistent_program")
            .wasm(expected().misses("process"))
            .prints("no\n")
            .python("import subprocess\ntry:\n    subprocess.run(['nosuchprogram'])\nexcept OSError:\n    print('no')")
            .scripts("try { require('child_process').execFileSync('nosuchprogram') } catch { console.log('no') }"),
        code("missing::shell_query_is_not_reported")
            .prints("false\n")
            .lua(program("print(os.execute())").only_in(Tier::Wasm, HAS_SHELL)),
        code("missing::fork")
            .wasm(expected().exits(1).misses("process"))
            .containers(expected().prints("born\n"))
            .python(program("import os\nos.fork()").wasm(expected().stderr_contains("OSError")).in_containers("import os\nif os.fork() == 0:\n    os.write(1, b'born\\n')\n    os._exit(0)\nassert os.wait()[1] == 0"))
            .scripts(program("require('child_process').fork('x')").wasm(expected().stderr_contains("ENOSYS")).in_containers("require('fs').writeFileSync('kid.js', \"process.send('born')\")\nrequire('child_process').fork('kid.js').on('message', text => console.log(text))")),
        code("missing::multiprocessing")
            .wasm(expected().exits(1).misses("process"))
            .containers(expected().prints("born\n"))
            .python(program("import multiprocessing\nmultiprocessing.Process(target=print).start()").in_containers("import multiprocessing\nkid = multiprocessing.Process(target=print, args=('born',))\nkid.start()\nkid.join()"))
            .scripts(program("require('cluster').fork()").in_containers("require('fs').writeFileSync('kid.js', \"process.send('born', () => process.exit())\")\nconst cluster = require('cluster')\ncluster.setupPrimary({ exec: 'kid.js', execArgv: [] })\ncluster.fork().on('message', text => console.log(text))")),
        code("missing::kill")
            .wasm(expected().exits(1).misses("process"))
            .containers(expected().prints("null SIGTERM\n"))
            .javascript(program("process.kill(1)").in_containers("const kid = require('child_process').spawn('sleep', ['60'])\nkid.on('exit', (status, signal) => console.log(status, signal)).on('spawn', () => process.kill(kid.pid))"))
            .typescript(program("const id: number = 1\nprocess.kill(id, 'SIGTERM')").in_containers("import { spawn, type ChildProcess } from 'child_process'\nconst kid: ChildProcess = spawn('sleep', ['60'])\nkid.on('exit', (status: number | null, signal: string | null) => console.log(status, signal)).on('spawn', (): boolean => process.kill(kid.pid!, 'SIGTERM'))")),
        code("missing::first_process_cannot_be_killed")
            .only_in(Tier::Container, "WebAssembly has no processes to kill; missing::kill covers it")
            .prints("on\n")
            .python("import os, signal\ntry:\n    os.kill(1, signal.SIGKILL)\nexcept PermissionError:\n    pass\nprint('on')")
            .scripts("try { process.kill(1, 'SIGKILL') } catch {}\nsetTimeout(() => console.log('on'), 50)"),
        code("missing::signature")
            .wasm(expected().exits(1).misses("Node's crypto.createSign").stderr_contains("crypto.createSign is not available in this sandbox"))
            .containers(expected().prints("function\n"))
            .scripts("const name = 'createSign'\nconst sign = require('crypto')[name]('SHA256')\nconsole.log(typeof sign.update('text').sign)"),
        code("missing::signals")
            .wasm(expected().exits(1).misses("signals"))
            .containers(expected().prints("rang\n"))
            .python(program("import signal\nsignal.signal(signal.SIGALRM, lambda *_: print('rang'))\nsignal.alarm(1)\nsignal.pause()").wasm(expected().stderr_contains("signals are not available in this sandbox"))),
        code("missing::scrypt")
            .wasm(expected().exits(1).misses("hashlib.scrypt"))
            .containers(expected().prints("64\n"))
            .python("import hashlib\nprint(len(hashlib.scrypt(b'x', salt=b'y', n=2, r=1, p=1)))"),
        code("missing::native_libraries")
            .wasm(expected().exits(1).misses("native libraries"))
            .containers(expected().prints("True\n"))
            .python("import ctypes\nprint(ctypes.CDLL(None).getpid() > 0)"),
        code("missing::platform_attributes")
            .wasm(expected().exits(1).misses("Python's os.mkfifo"))
            .containers(expected().prints("True\n"))
            .python(program("import os\nos.mkfifo('/tmp/pipe')\nprint(os.path.exists('/tmp/pipe'))").wasm(expected().stderr_contains("AttributeError"))),
        code("missing::imported_platform_attributes")
            .wasm(expected().exits(1).misses("processes"))
            .containers(expected().prints("True\n"))
            .python("from os import getppid\nprint(getppid() >= 0)"),
        code("missing::optional_attributes_are_not_reported")
            .prints("on 80\n")
            .verify(check_nothing_missing)
            .python("import os, shutil\ntry:\n    os.getloadavg\nexcept AttributeError:\n    pass\nprint('on', shutil.get_terminal_size().columns)"),
        code("missing::signal_handlers_of_a_loop")
            .wasm(expected().exits(1).misses("signals"))
            .containers(expected().prints("set\n"))
            .python("import asyncio, signal\nasync def main():\n    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, print)\n    print('set')\nasyncio.run(main())"),
        code("missing::terminal_size")
            .prints("ENOTTY\n")
            .python("import errno, os\ntry:\n    os.get_terminal_size()\nexcept OSError as e:\n    print(errno.errorcode[e.errno])"),
        code("missing::memory_maps")
            .wasm(expected().exits(1).misses("the module mmap"))
            .containers(expected().prints("10\n"))
            .python("import mmap\nprint(len(mmap.mmap(-1, 10)))"),
        code("missing::watchdog")
            .wasm(expected().exits(1).misses("threads"))
            .containers(expected().prints("on\n"))
            .python("import faulthandler\nfaulthandler.dump_traceback_later(100)\nprint('on')\nfaulthandler.cancel_dump_traceback_later()"),
        code("missing::fonts")
            .only_in(Tier::Wasm, "the image of a container has no Pillow")
            .exits(1)
            .misses("font rendering")
            .python("from PIL import ImageFont\nImageFont.truetype('/x.ttf')"),
        code("missing::library")
            .only_in(Tier::Wasm, "a container has the whole library")
            .exits(1)
            .verify(|report| match report.at("/missing/0/hint").as_str() {
                Some(hint) if hint.contains("--isolation container") && !hint.contains("--with") => Ok(()),
                hint => Err(format!("{hint:?}")),
            })
            .misses("the module syslog")
            .python("import syslog"),
        code("missing::image_codecs")
            .only_in(Tier::Wasm, "the image of a container has no Pillow")
            .exits(1)
            .misses("image codecs")
            .stderr_contains("encoder jpeg not available")
            .python("from PIL import Image\nImage.new('RGB', (4, 4)).save('x.jpg')"),
        code("missing::every_row_of_the_table")
            .only_in(Tier::Wasm, "a container has the modules in the table")
            .grant("table", "/table", "ro", &[("unsupported.py", include_str!("../../../guest-runtimes/python/prelude/unsupported.py"))])
            .misses("processes")
            .misses("signals")
            .misses("hashlib.scrypt")
            .verify(|report| {
                let hints = report.at("/missing").as_array().cloned().unwrap_or_default();
                let without_hint = |one: &&serde_json::Value| one["hint"].as_str().is_none_or(|hint| hint.contains("it is not supported in this tier"));
                match hints.iter().find(without_hint) {
                    Some(one) => Err(format!("{one} has no hint")),
                    None => Ok(()),
                }
            })
            .prints("[]\n")
            .python("import importlib, sys\nsys.path.append('/table')\nimport unsupported\nwrong = []\nfor module, names, what in unsupported.FUNCTIONS:\n    kind, number, text = unsupported.ERRORS[what]\n    for name in names.split():\n        try: getattr(importlib.import_module(module), name)()\n        except kind as e:\n            if text not in str(e): wrong.append(name)\n        else: wrong.append(name)\nprint(wrong)"),
        code("missing::attributes_are_those_of_linux")
            .grant("table", "/table", "ro", &[("unsupported.py", include_str!("../../../guest-runtimes/python/prelude/unsupported.py"))])
            .prints("[]\n")
            .python("import importlib, sys\nsys.path.append('/table')\nimport unsupported\nthere = sys.platform == 'linux'\nrows = [(importlib.import_module(module), names) for module, names, _ in unsupported.ATTRIBUTES]\nprint([name for module, names in rows for name in names.split() if hasattr(module, name) != there])"),
        code("missing::file_owners")
            .wasm(expected().exits(1).misses("the module pwd"))
            .containers(expected().prints("True\n"))
            .python("import pathlib\nprint(pathlib.Path('/').owner() != '')"),
        code("missing::types_of_native_libraries")
            .wasm(expected().exits(1).misses("native libraries"))
            .containers(expected().prints("8\n"))
            .python("import ctypes\nprint(ctypes.sizeof(ctypes.py_object))"),
        code("missing::unknown_attributes_are_not_reported")
            .wasm(expected().exits(1).verify(check_nothing_missing))
            .containers(expected().exits(1))
            .python("import os, signal\nos.WINDOWS if hasattr(os, 'WINDOWS') else signal.SIGKIL"),
        code("missing::unknown_submodules_are_not_reported")
            .only_in(Tier::Wasm, "only our runtime adds the hints")
            .exits(1)
            .verify(check_nothing_missing)
            .python("import os.nosuchpart"),
        code("missing::modules_of_other_platforms")
            .only_in(Tier::Wasm, "only our runtime adds the hints")
            .exits(1)
            .verify(check_nothing_missing)
            .python("import winreg"),
        code("missing::modules_removed_from_python")
            .only_in(Tier::Wasm, "only our runtime adds the hints")
            .exits(1)
            .misses("the module cgi")
            .verify(|report| match report.at("/missing/0/hint").as_str() {
                Some(hint) if hint.contains("was removed from Python") => Ok(()),
                hint => Err(format!("{hint:?}")),
            })
            .python("import cgi"),
        code("missing::errors_in_groups_and_exit_causes")
            .wasm(expected().exits(2).misses("Python's os.mkfifo"))
            .containers(expected().exits(2))
            .python("import os, sys\ntry:\n    raise ExceptionGroup('two', [ValueError(), AttributeError(name='mkfifo', obj=os)])\nexcept ExceptionGroup as e:\n    raise SystemExit(2) from e"),
        code("missing::hostile_errors_keep_their_own_report")
            .only_in(Tier::Wasm, "only our runtime reports the error")
            .exits(1)
            .verify(|report| match report.at("/error/value").as_str() {
                Some("mine") => Ok(()),
                value => Err(format!("{value:?}")),
            })
            .python("import types\nmodule = types.ModuleType('os')\ndel module.__name__\nraise AttributeError('mine', obj=module, name='mkfifo')"),
        code("missing::long_chains_of_errors")
            .only_in(Tier::Wasm, "only our runtime reports the error")
            .exits(1)
            .stderr_contains("ValueError: at 0")
            .verify(|report| match report.at("/error/value").as_str() {
                Some("at 0") => Ok(()),
                value => Err(format!("{value:?}")),
            })
            .python("error = KeyError('first')\nfor n in range(5000):\n    error, error.__cause__ = ValueError(f'at {4999 - n}'), error\nimport sys\nsys.tracebacklimit = 0\nraise error"),
        code("missing::each_has_a_hint")
            .only_in(Tier::Wasm, "a container lacks no feature that a hint could name")
            .exits(1)
            .verify(|report| {
                let hint = report.at("/missing/0/hint").as_str().unwrap_or_default();
                if hint.is_empty() || hint.contains('\n') { Err(format!("hint {hint:?}")) } else { Ok(()) }
            })
            .python(program("import threading\nthreading.Thread(target=print).start()").misses("thread"))
            .scripts(program("require('child_process').execSync('ls')").misses("process"))
            .lua(program("assert(os.execute('ls'))").misses("process")),
    ]
}

/// Fails if the report lists a missing feature.
fn check_nothing_missing(report: &Report) -> Result<(), String> {
    let missing = report.at("/missing");
    if missing.as_array().is_none_or(Vec::is_empty) { Ok(()) } else { Err(missing.to_string()) }
}

/// Returns the cases of sockets. A container allows those within its own loopback.
fn sockets() -> Vec<Case> {
    vec![
        code("missing::socket")
            .wasm(expected().exits(1).misses("socket"))
            .containers(expected().prints("hello\n"))
            .python(program("import socket\nsocket.socket()").wasm(expected().stderr_contains("PermissionError")).in_containers(LOOPBACK))
            .javascript(program("require('net').connect(1, '127.0.0.1')").wasm(expected().stderr_contains("EACCES")).in_containers(JS_LOOPBACK))
            .typescript(program("import { connect, type Socket } from 'net'\nconst socket: Socket = connect(1, '127.0.0.1')").wasm(expected().stderr_contains("EACCES")).in_containers(TS_LOOPBACK)),
        code("missing::outside_hosts_are_unreachable")
            .only_in(Tier::Container, "WebAssembly has no sockets; missing::socket covers it")
            .prints("ENETUNREACH\n")
            .python("import errno, socket\ntry:\n    socket.create_connection(('192.0.2.1', 80), 5)\nexcept OSError as e:\n    print(errno.errorcode.get(e.errno))")
            .javascript("require('net').connect(80, '192.0.2.1').on('error', e => console.log(e.code))")
            .typescript("import { connect } from 'net'\nconnect(80, '192.0.2.1').on('error', (e: NodeJS.ErrnoException): void => console.log(e.code))"),
        code("missing::outside_names_do_not_resolve")
            .only_in(Tier::Container, "WebAssembly has no name lookup; missing::name_lookup covers it")
            .prints("unknown\n")
            .python("import socket\ntry:\n    print(socket.getaddrinfo('example.com', 80))\nexcept socket.gaierror:\n    print('unknown')")
            .javascript("require('dns').lookup('example.com', (e, found) => console.log(e ? 'unknown' : found))")
            .typescript("import { lookup } from 'dns/promises'\nconsole.log(await lookup('example.com').catch((e: Error): string => 'unknown'))"),
        code("missing::listening")
            .wasm(expected().prints("refused\n").misses("socket"))
            .containers(expected().prints("listens\n"))
            .javascript("const server = require('http').createServer()\nserver.on('error', () => console.log('refused')).listen(0, () => { console.log('listens'); server.close() })")
            .typescript("import { createServer, type Server } from 'net'\nconst server: Server = createServer()\nserver.on('error', (e: Error): void => console.log('refused')).listen(0, (): void => { console.log('listens'); server.close() })"),
        code("missing::datagrams")
            .wasm(expected().exits(1).misses("socket"))
            .containers(expected().prints("hello\n"))
            .python(program("import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM)").in_containers("import socket\na, b = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in 'ab')\na.bind(('127.0.0.1', 0))\nb.sendto(b'hello', a.getsockname())\nprint(a.recv(9).decode())"))
            .scripts(program("require('dgram').createSocket('udp4').send('x', 1, '127.0.0.1')").in_containers("const { createSocket } = require('dgram')\nconst a = createSocket('udp4'), b = createSocket('udp4')\na.on('message', text => { console.log(String(text)); a.close(); b.close() })\na.bind(0, '127.0.0.1', () => b.send('hello', a.address().port, '127.0.0.1'))")),
        code("missing::socket_caught_as_oserror")
            .prints("refused\n")
            .wasm(expected().misses("socket"))
            .python("import socket\ntry:\n    socket.create_connection(('127.0.0.1', 1))\nexcept OSError:\n    print('refused')")
            .javascript("require('net').connect(1, '127.0.0.1').on('error', () => console.log('refused'))")
            .typescript(program("import * as net from 'net'\nnet.connect({ port: 1, host: '127.0.0.1' }).once('error', (e: NodeJS.ErrnoException): void => console.log(e.code === 'EACCES' ? 'refused' : e))").in_containers("import * as net from 'net'\nnet.connect({ port: 1, host: '127.0.0.1' }).once('error', (e: NodeJS.ErrnoException): void => console.log(e.code === 'ECONNREFUSED' ? 'refused' : e))")),
        code("missing::name_lookup")
            .wasm(expected().prints("refused\n").misses("socket"))
            .containers(expected().prints("found\n"))
            .python("import socket\ntry:\n    socket.getaddrinfo('localhost', 80)\n    print('found')\nexcept socket.gaierror:\n    print('refused')")
            .javascript("require('dns').lookup('localhost', e => console.log(e ? 'refused' : 'found'))")
            .typescript("import { lookup } from 'dns/promises'\nlookup('localhost').then((): void => console.log('found')).catch((e: Error): void => console.log('refused'))"),
        code("missing::urlopen")
            .wasm(expected().misses("socket"))
            .python(program("import urllib.request\ntry:\n    urllib.request.urlopen('http://127.0.0.1:1/')\nexcept OSError as e:\n    print(type(e).__name__)").prints("URLError\n"))
            .javascript(program("fetch('http://127.0.0.1:1/').catch(e => console.log(e.name, e.message))").prints("TypeError fetch failed\n"))
            .typescript(program("const answer: Response | string = await fetch('http://127.0.0.1:1/').catch((e: Error) => `${e.name} ${e.message}`)\nconsole.log(answer)").prints("TypeError fetch failed\n")),
        code("missing::http_request")
            .wasm(expected().prints("EACCES\n").misses("socket"))
            .containers(expected().prints("ECONNREFUSED\n"))
            .javascript("require('http').get('http://127.0.0.1:1/').on('error', e => console.log(e.code))")
            .typescript("import { get } from 'https'\nget('https://127.0.0.1:1/').on('error', (e: NodeJS.ErrnoException): void => console.log(e.code))"),
    ]
}

/// Returns the cases of modules. Only codebox's own runtimes report the name of the missing module.
fn modules() -> Vec<Case> {
    vec![
        code("missing::module")
            .exits(1)
            .misses("nosuchmodule")
            .python(program("import nosuchmodule").stderr_contains("ModuleNotFoundError: No module named 'nosuchmodule'"))
            .javascript(program("require('nosuchmodule')").stderr_contains("Error: Cannot find module 'nosuchmodule'").stderr_contains("code: 'MODULE_NOT_FOUND'"))
            .typescript(program("import { x } from 'nosuchmodule'\nconsole.log(x as number)").stderr_contains("Cannot find package 'nosuchmodule'").stderr_contains("code: 'ERR_MODULE_NOT_FOUND'"))
            .lua(program("require('nosuchmodule')").stderr_contains("module 'nosuchmodule' not found")),
        code("missing::module_caught")
            .prints("without\n")
            .python("try:\n    import nosuchmodule\nexcept ImportError:\n    print('without')")
            .javascript("try { require('nosuchmodule') } catch { console.log('without') }")
            .typescript("try { await import('nosuchmodule' as string) } catch (e: unknown) { console.log('without') }")
            .lua(program("if not pcall(require, 'nosuchmodule') then print('without') end").misses("nosuchmodule").only_in(Tier::Wasm, "the interpreter of an image reports only the error that ends the program")),
        code("missing::own_module_is_not_reported")
            .exits(1)
            .scripts(program("require('./nothing.js')").stderr_contains("Cannot find module './nothing.js'"))
            .lua(program("dofile('nothing.lua')").stderr_contains("cannot open nothing.lua")),
        code("missing::native_module")
            .python(program("import ssl\nprint(ssl.OPENSSL_VERSION_INFO >= (1, 1))").wasm(expected().exits(1).stderr_contains("ModuleNotFoundError").misses("ssl")).containers(expected().exits(0).prints("True\n")))
            .exits(1)
            .scripts(program("require('better-sqlite3')").stderr_contains("Cannot find module 'better-sqlite3'").misses("better-sqlite3"))
            .lua(program("require('lfs')").stderr_contains("module 'lfs' not found").misses("lfs")),
        code("missing::nothing_is_reported_when_unused")
            .prints("on\n")
            .python("import threading, subprocess, socket\nprint('on')")
            .javascript("require('child_process'), require('net'), require('worker_threads'), require('http'), require('cluster')\nconsole.log('on')")
            .typescript("import * as processes from 'child_process'\nimport type { Socket } from 'net'\nimport 'https'\nconsole.log(typeof processes.exec === 'function' ? 'on' : 'off')")
            .lua("local parts = { io.popen, os.execute, package.loadlib }\nprint('on')"),
    ]
}

const LOOPBACK: &str = "import socket, threading
server = socket.create_server(('127.0.0.1', 0))
def serve():
    with server.accept()[0] as peer:
        peer.sendall(b'hello')
threading.Thread(target=serve).start()
with socket.create_connection(server.getsockname()) as own:
    print(own.makefile().read())";

const JS_LOOPBACK: &str = "const net = require('net')
const server = net.createServer(peer => { peer.end('hello'); server.close() })
server.listen(0, '127.0.0.1', () => net.connect(server.address().port, '127.0.0.1').on('data', part => console.log(String(part))))";

const TS_LOOPBACK: &str = "import { connect, createServer, type AddressInfo, type Server } from 'net'
const server: Server = createServer(peer => { peer.end('hello'); server.close() })
server.listen(0, '127.0.0.1', (): void => {
  const { port } = server.address() as AddressInfo
  connect(port, '127.0.0.1').on('data', (part: Buffer): void => console.log(String(part)))
})";
