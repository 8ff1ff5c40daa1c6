//! What this tier cannot give fails at once, with the error that programs expect, and the report names it.

use crate::case::{Case, code};
use crate::expect::Expecting as _;
use crate::program::program;

pub fn cases() -> Vec<Case> {
    vec![
        code("missing::thread")
            .exits(1)
            .misses("thread")
            .python(program("import threading\nthreading.Thread(target=print).start()").complains("RuntimeError: can't start new thread"))
            .javascript(program("new (require('worker_threads').Worker)('1', { eval: true })").complains("threads are not available in this sandbox"))
            .typescript(program("import { Worker } from 'worker_threads'\nconst worker: Worker = new Worker('1', { eval: true })").complains("threads are not available in this sandbox")),
        code("missing::thread_caught")
            .misses("thread")
            .python(program("import threading\ntry:\n    threading.Thread(target=print).start()\nexcept RuntimeError as e:\n    print(e)").prints("can't start new thread\n"))
            .javascript(program("try { new (require('worker_threads').Worker)('x') } catch (e) { console.log(e instanceof Error, e.code) }").prints("true ENOSYS\n"))
            .typescript(program("import { Worker } from 'worker_threads'\ntry { new Worker('x') } catch (e: unknown) { console.log(e instanceof Error, (e as NodeJS.ErrnoException).code) }").prints("true ENOSYS\n")),
        code("missing::thread_pool")
            .exits(1)
            .complains("RuntimeError: can't start new thread")
            .misses("thread")
            .python("from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor() as p:\n    p.submit(print).result()"),
        code("missing::subprocess")
            .exits(1)
            .misses("process")
            .python(program("import subprocess\nsubprocess.run(['ls'])").complains("OSError"))
            .javascript(program("require('child_process').execFileSync('ls')").complains("code: 'ENOSYS'"))
            .typescript(program("import { execFileSync } from 'child_process'\nconst out: string = execFileSync('ls', { encoding: 'utf8' })").complains("code: 'ENOSYS'"))
            .lua(program("local pipe = assert(io.popen('ls'))").complains("popen")),
        code("missing::os_system")
            .exits(1)
            .misses("process")
            .python(program("import os\nos.system('ls')").complains("OSError"))
            .scripts(program("require('child_process').execSync('ls')").complains("processes cannot be started in this sandbox"))
            .lua(program("assert(os.execute('ls'))").complains("lua: ")),
        code("missing::process_caught")
            .prints("no\non\n")
            .misses("process")
            .python("import subprocess\ntry:\n    subprocess.run(['ls'])\nexcept OSError:\n    print('no')\nprint('on')")
            .javascript("require('child_process').spawn('ls').on('error', e => { console.log(e.code === 'ENOSYS' && e.path === 'ls' ? 'no' : e); console.log('on') })")
            .typescript("import { exec } from 'child_process'\nimport { promisify } from 'util'\ntry { await promisify(exec)('ls') } catch (e: unknown) { console.log((e as NodeJS.ErrnoException).code === 'ENOSYS' ? 'no' : e) }\nconsole.log('on')")
            .lua("print(pcall(io.popen, 'ls') and io.popen('ls') and 'yes' or 'no')\nprint(os.execute('ls') and 'off' or 'on')"),
        code("missing::process_without_throwing")
            .prints("ENOSYS null null\n")
            .misses("process")
            .javascript("const { error, status, stdout } = require('child_process').spawnSync('ls')\nconsole.log(error.code, status, stdout)")
            .typescript("import { spawnSync, type SpawnSyncReturns } from 'child_process'\nconst { error, status, stdout }: SpawnSyncReturns<Buffer> = spawnSync('ls')\nconsole.log((error as NodeJS.ErrnoException).code, status, stdout)"),
        code("missing::asking_for_a_shell_is_not_missing")
            .prints("false\n")
            .lua("print(os.execute())"),
        code("missing::fork")
            .exits(1)
            .misses("process")
            .python(program("import os\nos.fork()").complains("OSError"))
            .scripts(program("require('child_process').fork('x')").complains("ENOSYS")),
        code("missing::multiprocessing")
            .exits(1)
            .misses("process")
            .python("import multiprocessing\nmultiprocessing.Process(target=print).start()")
            .scripts("require('cluster').fork()"),
        code("missing::kill")
            .exits(1)
            .misses("process")
            .javascript("process.kill(1)")
            .typescript("const id: number = 1\nprocess.kill(id, 'SIGTERM')"),
        code("missing::socket")
            .exits(1)
            .misses("socket")
            .python(program("import socket\nsocket.socket()").complains("PermissionError"))
            .javascript(program("require('net').connect(1, '127.0.0.1')").complains("EACCES"))
            .typescript(program("import { connect, type Socket } from 'net'\nconst socket: Socket = connect(1, '127.0.0.1')").complains("EACCES")),
        code("missing::listening")
            .prints("refused\n")
            .misses("socket")
            .javascript("require('http').createServer().on('error', () => console.log('refused')).listen(0)")
            .typescript("import { createServer } from 'net'\ncreateServer().on('error', (e: Error): void => console.log('refused')).listen(0)"),
        code("missing::datagrams")
            .exits(1)
            .misses("socket")
            .python("import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM)")
            .scripts("require('dgram').createSocket('udp4').send('x', 1, '127.0.0.1')"),
        code("missing::socket_caught_as_oserror")
            .prints("refused\n")
            .misses("socket")
            .python("import socket\ntry:\n    socket.create_connection(('127.0.0.1', 1))\nexcept OSError:\n    print('refused')")
            .javascript("require('net').connect(1, '127.0.0.1').on('error', () => console.log('refused'))")
            .typescript("import * as net from 'net'\nnet.connect({ port: 1, host: '127.0.0.1' }).once('error', (e: NodeJS.ErrnoException): void => console.log(e.code === 'EACCES' ? 'refused' : e))"),
        code("missing::name_lookup")
            .prints("refused\n")
            .misses("socket")
            .python("import socket\ntry:\n    socket.getaddrinfo('localhost', 80)\nexcept socket.gaierror:\n    print('refused')")
            .javascript("require('dns').lookup('localhost', e => console.log(e ? 'refused' : 'found'))")
            .typescript("import { lookup } from 'dns/promises'\nlookup('localhost').catch((e: Error): void => console.log('refused'))"),
        code("missing::urlopen")
            .misses("socket")
            .python(program("import urllib.request\ntry:\n    urllib.request.urlopen('http://127.0.0.1:1/')\nexcept OSError as e:\n    print(type(e).__name__)").prints("URLError\n"))
            .javascript(program("fetch('http://127.0.0.1:1/').catch(e => console.log(e.name, e.message))").prints("TypeError fetch failed\n"))
            .typescript(program("const answer: Response | string = await fetch('http://127.0.0.1:1/').catch((e: Error) => `${e.name} ${e.message}`)\nconsole.log(answer)").prints("TypeError fetch failed\n")),
        code("missing::http_request")
            .prints("EACCES\n")
            .misses("socket")
            .javascript("require('http').get('http://127.0.0.1:1/').on('error', e => console.log(e.code))")
            .typescript("import { get } from 'https'\nget('https://127.0.0.1:1/').on('error', (e: NodeJS.ErrnoException): void => console.log(e.code))"),
        code("missing::module")
            .exits(1)
            .misses("nosuchmodule")
            .python(program("import nosuchmodule").complains("ModuleNotFoundError: No module named 'nosuchmodule'"))
            .javascript(program("require('nosuchmodule')").complains("Error: Cannot find module 'nosuchmodule'").complains("code: 'MODULE_NOT_FOUND'"))
            .typescript(program("import { x } from 'nosuchmodule'\nconsole.log(x as number)").complains("Cannot find package 'nosuchmodule'").complains("code: 'ERR_MODULE_NOT_FOUND'"))
            .lua(program("require('nosuchmodule')").complains("module 'nosuchmodule' not found")),
        code("missing::module_caught")
            .prints("without\n")
            .python("try:\n    import nosuchmodule\nexcept ImportError:\n    print('without')")
            .javascript("try { require('nosuchmodule') } catch { console.log('without') }")
            .typescript("try { await import('nosuchmodule' as string) } catch (e: unknown) { console.log('without') }")
            .lua(program("if not pcall(require, 'nosuchmodule') then print('without') end").misses("nosuchmodule")),
        code("missing::own_module_is_no_power")
            .exits(1)
            .scripts(program("require('./nothing.js')").complains("Cannot find module './nothing.js'"))
            .lua(program("dofile('nothing.lua')").complains("cannot open nothing.lua")),
        code("missing::native_module")
            .python(program("import ssl").exits(1).complains("ModuleNotFoundError").misses("ssl"))
            .exits(1)
            .scripts(program("require('better-sqlite3')").complains("Cannot find module 'better-sqlite3'").misses("better-sqlite3"))
            .lua(program("require('lfs')").complains("module 'lfs' not found").misses("lfs")),
        code("missing::nothing_when_nothing_is")
            .prints("on\n")
            .python("import threading, subprocess, socket\nprint('on')")
            .javascript("require('child_process'), require('net'), require('worker_threads'), require('http'), require('cluster')\nconsole.log('on')")
            .typescript("import * as processes from 'child_process'\nimport type { Socket } from 'net'\nimport 'https'\nconsole.log(typeof processes.exec === 'function' ? 'on' : 'off')")
            .lua("local parts = { io.popen, os.execute, package.loadlib }\nprint('on')"),
        code("missing::each_has_a_hint")
            .exits(1)
            .look(|report| {
                let hint = report.at("/missing/0/hint").as_str().unwrap_or_default();
                if hint.is_empty() || hint.contains('\n') { Err(format!("hint {hint:?}")) } else { Ok(()) }
            })
            .python(program("import threading\nthreading.Thread(target=print).start()").misses("thread"))
            .scripts(program("require('child_process').execSync('ls')").misses("process"))
            .lua(program("assert(os.execute('ls'))").misses("process")),
        code("missing::pipe")
            .prints("pipes are not available in this sandbox\n")
            .python("import os\ntry:\n    os.pipe()\nexcept OSError as e:\n    print(e.strerror)"),
    ]
}
