//! asyncio, promises, timers and coroutines, including in tiers without sockets and threads.

use crate::case::{Case, code, file};
use crate::expect::{ExpectationBuilder as _, TierExpectations as _, expected};
use crate::program::program;

pub fn cases() -> Vec<Case> {
    vec![
        code("async::run")
            .python(program("import asyncio\nasync def f(): return 3\nprint(asyncio.run(f()))").prints("3\n"))
            .javascript(program("async function f() { return 3 }\nf().then(console.log)").prints("3\n"))
            .typescript(program("async function f(): Promise<number> { return 3 }\nconst n: number = await f()\nconsole.log(n)").prints("3\n"))
            .lua(program("local f = coroutine.wrap(function() return 3 end)\nprint(f())").prints("3\n")),
        code("async::sleep")
            .python(program(SLEEP).prints("True\n"))
            .javascript(program("const start = performance.now()\nsetTimeout(() => { const ms = performance.now() - start; console.log(ms > 90 && ms < 5000) }, 100)").prints("true\n"))
            .typescript(program("import { setTimeout as sleep } from 'timers/promises'\nconst start: number = performance.now()\nawait sleep(100)\nconst ms: number = performance.now() - start\nconsole.log(ms > 90 && ms < 5000)").prints("true\n")),
        code("async::gather")
            .python(program(GATHER).prints("['c', 'a', 'b'] ['a', 'b', 'c']\n"))
            .javascript(program(JS_GATHER).prints("[ 'c', 'a', 'b' ] [ 'a', 'b', 'c' ]\n"))
            .typescript(program(TS_GATHER).prints("[ 'c', 'a', 'b' ] [ 'a', 'b', 'c' ]\n")),
        code("async::combinators")
            .prints("b one AggregateError rejected,fulfilled\n")
            .scripts(COMBINATORS),
        code("async::order")
            .prints("sync tick job job2 timer immediate\n")
            .scripts(ORDER),
        file("async::order_in_a_module")
            .prints("sync job tick\n")
            .javascript(program("const events = ['sync']\nprocess.nextTick(() => events.push('tick'))\nPromise.resolve().then(() => events.push('job'))\nprocess.on('exit', () => console.log(events.join(' ')))").with_name("main.mjs"))
            .typescript(program("const events: string[] = ['sync']\nprocess.nextTick(() => events.push('tick'))\nPromise.resolve().then(() => events.push('job'))\nprocess.on('exit', () => console.log(events.join(' ')))\nexport {}").with_name("main.mts")),
        code("async::timers_fire_in_time_order")
            .prints("1 2 3 4\n")
            .javascript("const events = []\nfor (const [ms, n] of [[40, 4], [5, 1], [30, 3], [20, 2]]) setTimeout(n => events.push(n), ms, n)\nprocess.on('exit', () => console.log(events.join(' ')))")
            .typescript("const events: number[] = []\nfor (const [ms, n] of [[40, 4], [5, 1], [30, 3], [20, 2]] as const) setTimeout((n: number): void => { events.push(n) }, ms, n)\nprocess.on('exit', () => console.log(events.join(' ')))"),
        code("async::cancelled_timers")
            .prints("1\n2\n3\nend\n")
            .javascript("let n = 0\nconst often = setInterval(() => { console.log(++n); if (n === 3) clearInterval(often) }, 2)\nclearTimeout(setTimeout(() => console.log('never'), 1))\nclearImmediate(setImmediate(() => console.log('never')))\nprocess.on('exit', () => console.log('end'))")
            .typescript("let n: number = 0\nconst often: NodeJS.Timeout = setInterval(() => { console.log(++n); if (n === 3) clearInterval(often) }, 2)\nclearTimeout(setTimeout(() => console.log('never'), 1))\nprocess.on('exit', () => console.log('end'))"),
        code("async::unref_timer")
            .prints("end\n")
            .scripts("setTimeout(() => console.log('never'), 50).unref()\nsetInterval(() => {}, 50).unref()\nconsole.log('end')"),
        code("async::nested_timers")
            .prints("0 1 2 3\n")
            .scripts("const events = []\nfunction again(n) { events.push(n); if (n < 3) setTimeout(again, 1, n + 1); else console.log(events.join(' ')) }\nagain(0)"),
        code("async::timeout")
            .python(program(TIMEOUT).prints("TimeoutError\nTimeoutError\n"))
            .javascript(program("const { setTimeout: sleep } = require('timers/promises')\nconst late = (p, ms) => Promise.race([p, sleep(ms).then(() => { throw new Error('late') })])\nlate(new Promise(() => {}), 20).catch(e => console.log(e.message))").prints("late\n"))
            .typescript(program("import { setTimeout as sleep } from 'timers/promises'\ntry { await sleep(30_000, undefined, { signal: AbortSignal.timeout(20) }) } catch (e: unknown) { console.log((e as Error).name, ((e as Error).cause as Error).name) }").prints("AbortError TimeoutError\n")),
        code("async::queue")
            .python(program(QUEUE).prints("[0, 1, 2, 3, 4]\n"))
            .scripts(program(JS_QUEUE).prints("[ 0, 1, 2, 3, 4 ]\n"))
            .lua(program("local produce = coroutine.create(function() for n = 0, 4 do coroutine.yield(n) end end)\nlocal got = {}\nwhile true do\n  local ok, n = coroutine.resume(produce)\n  if n == nil then break end\n  got[#got + 1] = n\nend\nprint(table.concat(got, ' '), coroutine.status(produce))").prints("0 1 2 3 4\tdead\n")),
        code("async::task_group")
            .prints("1 2\nValueError\n")
            .python(GROUP),
        code("async::cancel")
            .python(program(CANCEL).prints("tidied\nCancelledError\n"))
            .javascript(program("const { setTimeout: sleep } = require('timers/promises')\nconst stop = new AbortController()\nasync function work() { try { await sleep(30000, null, { signal: stop.signal }) } finally { console.log('tidied') } }\nwork().catch(e => console.log(e.name, e.code))\nstop.abort()").prints("tidied\nAbortError ABORT_ERR\n"))
            .typescript(program("import { setTimeout as sleep } from 'timers/promises'\nconst stop: AbortController = new AbortController()\nasync function work(): Promise<void> { try { await sleep(30_000, null, { signal: stop.signal }) } finally { console.log('tidied') } }\nqueueMicrotask((): void => stop.abort())\nawait work().catch((e: Error) => console.log(e.name))").prints("tidied\nAbortError\n"))
            .lua(program("local task = coroutine.create(function()\n  local tidy <close> = setmetatable({}, { __close = function() print('tidied') end })\n  coroutine.yield()\nend)\ncoroutine.resume(task)\nprint(coroutine.close(task), coroutine.status(task))").prints("tidied\ntrue\tdead\n")),
        code("async::events")
            .prints("one 1\nonce 2\none 2\n")
            .javascript("const { EventEmitter, once } = require('events')\nconst it = new EventEmitter()\nit.on('x', n => console.log('one', n))\nit.emit('x', 1)\nit.prependOnceListener('x', n => console.log('once', n))\nonce(it, 'x').then(([n]) => it.emit('y', n))\nit.emit('x', 2)")
            .typescript("import { EventEmitter } from 'events'\nclass It extends EventEmitter<{ x: [n: number] }> {}\nconst it = new It()\nit.on('x', (n: number) => console.log('one', n))\nit.emit('x', 1)\nit.prependOnceListener('x', n => console.log('once', n))\nit.emit('x', 2)"),
        code("async::event_target")
            .prints("ping 7 true\n")
            .scripts("const it = new EventTarget()\nit.addEventListener('ping', e => console.log(e.type, e.detail, e.target === it), { once: true })\nit.dispatchEvent(new CustomEvent('ping', { detail: 7 }))\nit.dispatchEvent(new CustomEvent('ping', { detail: 8 }))"),
        code("async::locks_and_events")
            .prints("['lock', 'event', 'semaphore']\n")
            .python(LOCKS),
        code("async::runner")
            .prints("5\n")
            .python("import asyncio\nwith asyncio.Runner() as r:\n    print(r.run(asyncio.sleep(0, 5)))"),
        code("async::new_event_loop")
            .prints("1\n")
            .python("import asyncio\nloop = asyncio.new_event_loop()\nprint(loop.run_until_complete(asyncio.sleep(0, 1)))\nloop.close()"),
        code("async::two_event_loops")
            .prints("0\n1\n")
            .python("import asyncio\nfor n in range(2): print(asyncio.run(asyncio.sleep(0, n)))")
            .scripts("(async () => { for (let n = 0; n < 2; n++) console.log(await new Promise(done => setTimeout(done, 1, n))) })()")
            .lua("for n = 0, 1 do print(coroutine.wrap(function() return n end)()) end"),
        code("async::generators")
            .python(program("import asyncio\nasync def g():\n    for n in range(3):\n        await asyncio.sleep(0)\n        yield n\nasync def main(): return [n async for n in g()]\nprint(asyncio.run(main()))").prints("[0, 1, 2]\n"))
            .javascript(program("async function* g() { for (let n = 0; n < 3; n++) { await null; yield n } }\n(async () => { const all = []; for await (const n of g()) all.push(n); console.log(all) })()").prints("[ 0, 1, 2 ]\n"))
            .typescript(program("async function* g(): AsyncGenerator<number, void> { for (let n = 0; n < 3; n++) { await null; yield n } }\nconst all: number[] = []\nfor await (const n of g()) all.push(n)\nconsole.log(all)\nexport {}").prints("[ 0, 1, 2 ]\n"))
            .lua(program("local g = coroutine.wrap(function() for n = 0, 2 do coroutine.yield(n) end end)\nfor n in g do io.write(n, ' ') end\nprint()").prints("0 1 2 \n")),
        code("async::scheduler")
            .prints("a1 b1 a2 b2 a3\n")
            .lua("local tasks, events = {}, {}\nfor name, count in pairs({ a = 3, b = 2 }) do\n  tasks[#tasks + 1] = { name = name, co = coroutine.create(function() for n = 1, count do coroutine.yield(name .. n) end end) }\nend\ntable.sort(tasks, function(x, y) return x.name < y.name end)\nwhile #tasks > 0 do\n  local left = {}\n  for _, task in ipairs(tasks) do\n    local _, value = coroutine.resume(task.co)\n    if value then events[#events + 1] = value left[#left + 1] = task end\n  end\n  tasks = left\nend\nprint(table.concat(events, ' '))"),
        code("async::wraps_errors")
            .prints("v\n")
            .python("import asyncio\nasync def f(): raise ValueError('v')\nasync def main():\n    try: await f()\n    except ValueError as e: print(e)\nasyncio.run(main())")
            .scripts("const f = async () => { throw new RangeError('v') }\n(async () => { try { await f() } catch (e) { console.log(e.message) } })()")
            .lua("local ok, message = coroutine.resume(coroutine.create(function() error('v', 0) end))\nprint(message)"),
        code("async::context")
            .prints("7 undefined\n")
            .javascript("const { AsyncLocalStorage } = require('async_hooks')\nconst held = new AsyncLocalStorage()\nheld.run(7, () => setTimeout(() => console.log(held.getStore(), outer), 1))\nconst outer = held.getStore()")
            .typescript("import { AsyncLocalStorage } from 'async_hooks'\nconst held = new AsyncLocalStorage<number>()\nheld.run(7, () => setTimeout(() => console.log(held.getStore(), outer), 1))\nconst outer: number | undefined = held.getStore()"),
        code("async::to_thread_reports_missing_threads")
            .wasm(expected().exits(1).stderr_contains("RuntimeError: can't start new thread").misses("thread"))
            .containers(expected().prints("7\n"))
            .python("import asyncio\nasyncio.run(asyncio.to_thread(print, 7))"),
        code("async::subprocess_exec")
            .wasm(expected().prints("58 [Errno 58] processes are not available in this sandbox\n").misses("process"))
            .containers(expected().prints("ran\n0\n"))
            .python("import asyncio\nasync def main():\n    try:\n        print(await (await asyncio.create_subprocess_exec('echo', 'ran')).wait())\n    except OSError as e:\n        print(e.errno, e)\nasyncio.run(main())"),
        code("async::subprocess_shell")
            .wasm(expected().exits(1).prints("").stderr_contains("processes are not available").misses("process"))
            .containers(expected().prints("b'ran\\n' 3\n"))
            .python(program("import asyncio\nasyncio.run(asyncio.create_subprocess_shell('ls'))").in_containers(SHELL)),
    ]
}

const SHELL: &str = "import asyncio
async def main():
    child = await asyncio.create_subprocess_shell('echo ran; exit 3', stdout=asyncio.subprocess.PIPE)
    print((await child.communicate())[0], child.returncode)
asyncio.run(main())";

const SLEEP: &str = "import asyncio, time
start = time.monotonic()
asyncio.run(asyncio.sleep(0.1))
print(0.09 < time.monotonic() - start < 5)";

const GATHER: &str = "import asyncio
order = []
async def f(name, delay):
    await asyncio.sleep(delay)
    order.append(name)
    return name
async def main():
    return await asyncio.gather(f('c', 0.09), f('a', 0.0), f('b', 0.04))
print(asyncio.run(main()), order)";

const TIMEOUT: &str = "import asyncio
async def main():
    try:
        await asyncio.wait_for(asyncio.sleep(30), 0.02)
    except TimeoutError as e:
        print(type(e).__name__)
    try:
        async with asyncio.timeout(0.02):
            await asyncio.Event().wait()
    except TimeoutError as e:
        print(type(e).__name__)
asyncio.run(main())";

const QUEUE: &str = "import asyncio
async def produce(q):
    for n in range(5):
        await q.put(n)
    await q.put(None)
async def main():
    q = asyncio.Queue(maxsize=2)
    task = asyncio.create_task(produce(q))
    got = []
    while (n := await q.get()) is not None:
        got.append(n)
    await task
    print(got)
asyncio.run(main())";

const GROUP: &str = "import asyncio
async def fail(): raise ValueError
async def main():
    async with asyncio.TaskGroup() as g:
        a, b = g.create_task(asyncio.sleep(0.01, 1)), g.create_task(asyncio.sleep(0, 2))
    print(a.result(), b.result())
    try:
        async with asyncio.TaskGroup() as g:
            g.create_task(fail())
            g.create_task(asyncio.sleep(30))
    except* ValueError as e:
        print(type(e.exceptions[0]).__name__)
asyncio.run(main())";

const CANCEL: &str = "import asyncio
async def work():
    try:
        await asyncio.sleep(30)
    finally:
        print('tidied')
async def main():
    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError as e:
        print(type(e).__name__)
asyncio.run(main())";

const LOCKS: &str = "import asyncio
async def main():
    done = []
    async with asyncio.Lock(): done.append('lock')
    event = asyncio.Event()
    asyncio.get_running_loop().call_later(0.01, event.set)
    await event.wait(); done.append('event')
    async with asyncio.Semaphore(1): done.append('semaphore')
    print(done)
asyncio.run(main())";

const JS_GATHER: &str = "const order = []
const f = (name, delay) => new Promise(done => setTimeout(() => { order.push(name); done(name) }, delay))
Promise.all([f('c', 90), f('a', 1), f('b', 40)]).then(all => console.log(all, order))";

const TS_GATHER: &str = "const order: string[] = []
const f = async (name: string, delay: number): Promise<string> => {
  await new Promise<void>(done => setTimeout(done, delay))
  order.push(name)
  return name
}
const all: readonly string[] = await Promise.all<string>([f('c', 90), f('a', 1), f('b', 40)])
console.log(all, order)";

const COMBINATORS: &str = "const after = (ms, value) => new Promise(done => setTimeout(done, ms, value));
(async () => {
  const first = await Promise.race([after(30, 'a'), after(1, 'b')])
  const any = await Promise.any([Promise.reject(1), after(1, 'one')])
  const none = await Promise.any([Promise.reject(1)]).catch(e => e.name)
  const settled = await Promise.allSettled([Promise.reject(1), 2])
  console.log(first, any, none, settled.map(s => s.status).join())
})()";

const ORDER: &str = "const events = []
setImmediate(() => events.push('immediate'))
setTimeout(() => { events.push('timer') }, 0)
Promise.resolve().then(() => events.push('job')).then(() => events.push('job2'))
process.nextTick(() => events.push('tick'))
events.push('sync')
const until = Date.now() + 5
while (Date.now() < until);
process.on('exit', () => console.log(events.join(' ')))";

const JS_QUEUE: &str = "class Queue {
  held = []; takers = []
  put(n) { const taker = this.takers.shift(); if (taker) taker(n); else this.held.push(n) }
  get() { return this.held.length ? Promise.resolve(this.held.shift()) : new Promise(done => this.takers.push(done)) }
}
const q = new Queue();
(async () => { for (let n = 0; n < 5; n++) { await null; q.put(n) } q.put(null) })();
(async () => { const got = []; for (let n; (n = await q.get()) !== null;) got.push(n); console.log(got) })()";
