//! Waits for other threads. Without threads, an endless wait ends in an error that gives the reason; with threads,
//! another thread ends the wait.

use crate::case::{Case, code, file};
use crate::expect::{ExpectationBuilder as _, TierExpectations as _, expected};
use crate::program::program;

pub fn cases() -> Vec<Case> {
    vec![
        code("wait::event")
            .python(program("import threading\nprint(threading.Event().wait(0.01))").prints("False\n"))
            .scripts(program("console.log(Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10))").prints("timed-out\n")),
        file("wait::endless_await")
            .exits(13)
            .prints("before\n")
            .javascript(program("console.log('before')\nawait new Promise(() => {})\nconsole.log('after')").with_name("main.mjs").stderr_contains("unsettled top-level await"))
            .typescript(program("console.log('before')\nawait new Promise<void>(() => {})\nconsole.log('after')").with_name("main.mts").stderr_contains("unsettled top-level await")),
        code("wait::endless_promise")
            .prints("before\n")
            .scripts("(async () => { console.log('before'); await new Promise(() => {}); console.log('after') })()"),
        code("wait::queue")
            .prints("empty\n")
            .python("import queue\ntry:\n    queue.Queue().get(timeout=.01)\nexcept queue.Empty:\n    print('empty')"),
        code("wait::queue_put")
            .prints("full 1\n")
            .python("import queue\nq = queue.Queue(1)\nq.put(1)\ntry:\n    q.put(2, timeout=.01)\nexcept queue.Full:\n    print('full', q.get())"),
        code("wait::simple_queue")
            .prints("empty\nempty\n1 True\n'timeout' must be a non-negative number\nempty\n")
            .python("import queue\nq = queue.SimpleQueue()\nfor wait in (0, .01):\n    try:\n        q.get(timeout=wait)\n    except queue.Empty:\n        print('empty')\nq.put(1)\nprint(q.get(), q.empty())\ntry:\n    q.get(timeout=-1)\nexcept ValueError as e:\n    print(e)\ntry:\n    q.get_nowait()\nexcept queue.Empty:\n    print('empty')"),
        code("wait::lock")
            .stdout_contains("True True\nFalse True False False\nTrue\nFalse True\ncan't specify a timeout for a non-blocking call\ntimeout value must be ")
            .wasm(expected().prints("True True\nFalse True False False\nTrue\nFalse True\ncan't specify a timeout for a non-blocking call\ntimeout value must be a non-negative number\n"))
            .python("import threading, time\nl = threading.Lock()\nprint(l.acquire(timeout=1), l.locked())\nt = time.monotonic()\nprint(l.acquire(timeout=.02), time.monotonic() - t >= .02, l.acquire(False), l.acquire(timeout=0))\nl.release()\nwith l:\n    print(l.locked())\nprint(l.locked(), isinstance(l, type(threading.Lock())))\nfor a in ((False, 1), (True, -2)):\n    l.acquire()\n    try:\n        l.acquire(*a)\n    except ValueError as e:\n        print(e)\n    l.release()"),
        code("wait::condition")
            .prints("False False\n")
            .python("import threading\nc = threading.Condition()\nwith c:\n    print(c.wait(.01), c.wait_for(lambda: False, .01))\n    c.notify_all()"),
        code("wait::semaphore")
            .prints("False True\nbroken\n")
            .python("import threading\nprint(threading.Semaphore(0).acquire(timeout=.01), threading.Semaphore(1).acquire())\nb = threading.Barrier(2)\ntry:\n    b.wait(.01)\nexcept threading.BrokenBarrierError:\n    print('broken')"),
        code("wait::endless_lock")
            .wasm(expected().exits(1).prints("").stderr_contains("RuntimeError: deadlock: ").misses("thread"))
            .containers(expected().prints("ended\n"))
            .python(program("import threading\nl = threading.Lock()\nl.acquire()\nl.acquire()").in_containers("import threading\nl = threading.Lock()\nl.acquire()\nthreading.Timer(.05, l.release).start()\nl.acquire()\nprint('ended')")),
        code("wait::endless_with")
            .wasm(expected().exits(1).prints("").stderr_contains("RuntimeError: deadlock: ").misses("thread"))
            .containers(expected().prints("ended\n"))
            .python(program("import threading\nl = threading.Lock()\nwith l:\n    with l:\n        pass").in_containers("import threading\nl = threading.Lock()\nl.acquire()\nthreading.Timer(.05, l.release).start()\nwith l:\n    print('ended')")),
        code("wait::endless_queue")
            .wasm(expected().exits(1).prints("").stderr_contains("RuntimeError: deadlock: ").misses("thread"))
            .containers(expected().prints("ended\n"))
            .python(program("import queue\nqueue.Queue().get()").in_containers("import queue, threading\nq = queue.Queue()\nthreading.Timer(.05, q.put, ['ended']).start()\nprint(q.get())")),
        code("wait::endless_simple_queue")
            .wasm(expected().exits(1).prints("").stderr_contains("RuntimeError: deadlock: ").misses("thread"))
            .containers(expected().prints("ended\n"))
            .python(program("import queue\nqueue.SimpleQueue().get()").in_containers("import queue, threading\nq = queue.SimpleQueue()\nthreading.Timer(.05, q.put, ['ended']).start()\nprint(q.get())")),
        code("wait::endless_event")
            .wasm(expected().exits(1).prints("").stderr_contains("RuntimeError: deadlock: ").misses("thread"))
            .containers(expected().prints("ended\n"))
            .python(program("import threading\nthreading.Event().wait()").in_containers("import threading\ne = threading.Event()\nthreading.Timer(.05, e.set).start()\nif e.wait(): print('ended')")),
        code("wait::endless_condition")
            .wasm(expected().exits(1).prints("").stderr_contains("RuntimeError: deadlock: ").misses("thread"))
            .containers(expected().prints("ended\n"))
            .python(program("import threading\nc = threading.Condition()\nwith c:\n    c.wait()").in_containers("import threading\nc = threading.Condition()\ndef end():\n    with c: c.notify()\nwith c:\n    threading.Timer(.05, end).start()\n    if c.wait(): print('ended')")),
        code("wait::future")
            .prints("late\n")
            .python("from concurrent.futures import Future\ntry:\n    Future().result(.01)\nexcept TimeoutError:\n    print('late')"),
        code("wait::timeout_out_of_range")
            .prints("overflow\nnan\nTrue\n")
            .python("import threading\nl = threading.Lock()\nl.acquire()\ntry:\n    l.acquire(timeout=1e30)\nexcept OverflowError as e:\n    print('overflow')\ntry:\n    l.acquire(timeout=float('nan'))\nexcept ValueError as e:\n    print('nan')\nprint(threading.TIMEOUT_MAX > 1e6)"),
    ]
}
