//! asyncio works without sockets and threads.

use crate::case::{Case, code};

pub fn cases() -> Vec<Case> {
    vec![
        code("asyncio::run", "import asyncio\nasync def f(): return 3\nprint(asyncio.run(f()))").prints("3\n"),
        code("asyncio::sleep", SLEEP).prints("True\n"),
        code("asyncio::gather", GATHER).prints("['c', 'a', 'b'] ['a', 'b', 'c']\n"),
        code("asyncio::timeout", TIMEOUT).prints("TimeoutError\nTimeoutError\n"),
        code("asyncio::queue", QUEUE).prints("[0, 1, 2, 3, 4]\n"),
        code("asyncio::task_group", GROUP).prints("1 2\nValueError\n"),
        code("asyncio::cancel", CANCEL).prints("tidied\nCancelledError\n"),
        code("asyncio::locks_and_events", LOCKS).prints("['lock', 'event', 'semaphore']\n"),
        code("asyncio::runner", "import asyncio\nwith asyncio.Runner() as r:\n    print(r.run(asyncio.sleep(0, 5)))").prints("5\n"),
        code("asyncio::new_event_loop", "import asyncio\nloop = asyncio.new_event_loop()\nprint(loop.run_until_complete(asyncio.sleep(0, 1)))\nloop.close()")
            .prints("1\n"),
        code("asyncio::twice", "import asyncio\nfor n in range(2): print(asyncio.run(asyncio.sleep(0, n)))").prints("0\n1\n"),
        code("asyncio::generators", "import asyncio\nasync def g():\n    for n in range(3):\n        await asyncio.sleep(0)\n        yield n\nasync def main(): return [n async for n in g()]\nprint(asyncio.run(main()))")
            .prints("[0, 1, 2]\n"),
        code("asyncio::to_thread_says_why", "import asyncio\nasyncio.run(asyncio.to_thread(print))")
            .exits(1)
            .complains("RuntimeError: can't start new thread")
            .misses("thread"),
    ]
}

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
