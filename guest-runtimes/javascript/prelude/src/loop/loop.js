// Event loop, one callback at a time: timers, finished operations and standard input, immediates.
import { native } from '../native.js';
import * as context from '../engine/context.js';
import * as connections from './connections.js';
import * as net from './net.js';
import * as timers from './timers.js';
import { uncurry } from '../engine/uncurry.js';

const push = uncurry(Array.prototype.push);
const shift = uncurry(Array.prototype.shift);

// Most milliseconds that a wait for the network delays the check of standard input.
const STDIN_POLL_MS = 20;
// Most milliseconds of a wait for one of the two kinds of network events while the other is awaited as well.
const OTHER_POLL_MS = 20;

let phase = 'timers';
let round = 0;
let operations = [];
let ready = [];
let entered = false;
// True once the poll phase of this round has taken events of the network.
let polled = false;

// Enqueues an operation on files, which runs in a later round. `poolOperations` is how often Node would use its thread
// pool for it.
export function enqueue(run, poolOperations = 1) {
  push(operations, { run, due: round + 1 + poolOperations, stores: context.current });
}

let stdin = null;
// Sets the callback that runs once when standard input can be read, or removes it.
export function awaitStdin(callback, holdsLoop = true) {
  stdin = callback === null ? null : { callback, holdsLoop, stores: context.current };
}

const busy = () =>
  timers.pendingTimers() > 0 || timers.pendingImmediates() > 0 || operations.length > 0 || ready.length > 0 || net.hasPending() || connections.awaited() || (stdin !== null && stdin.holdsLoop);

function run(operation) {
  try {
    context.setCurrent(operation.stores);
    operation.run();
  } finally {
    context.setCurrent(undefined);
  }
}

function pollStdin(wait) {
  const at = stdin;
  if (at === null || !native.pollStdin(wait)) return false;
  stdin = null;
  run({ run: at.callback, stores: at.stores });
  return true;
}

const isNetworkAwaited = () => net.awaited() || connections.awaited();

// Waits for events of the network, and returns the callbacks to run. The host waits for exchanges or for connections.
function waitForNetwork(ms) {
  if (!connections.awaited()) return net.wait(ms);
  if (!net.awaited()) return connections.wait(ms);
  const calls = connections.wait(0);
  for (const each of net.wait(calls.length > 0 ? 0 : ms < 0 || ms > OTHER_POLL_MS ? OTHER_POLL_MS : ms)) push(calls, each);
  return calls;
}

export function tick() {
  for (;;) {
    if (phase === 'timers') {
      if (!entered) {
        if (!busy()) return net.failQueued();
        round++;
        timers.beginTimers();
        entered = true;
      }
      if (timers.runTimer()) return true;
      phase = 'poll';
      entered = false;
    }
    if (phase === 'poll') {
      if (!entered) {
        entered = true;
        polled = false;
        if (operations.length > 0) {
          const waiting = [];
          for (let i = 0; i < operations.length; i++) push(operations[i].due <= round ? ready : waiting, operations[i]);
          if (ready.length > 0) operations = waiting;
        }
      }
      const operation = shift(ready);
      if (operation !== undefined) {
        run(operation);
        return true;
      }
      const idle = operations.length === 0 && timers.pendingImmediates() === 0 && busy();
      const wait = idle ? timers.untilNext() : 0;
      // Events are taken once per round, because peers that send faster than the program reads would delay timers forever.
      if (isNetworkAwaited() && !polled) {
        polled = true;
        if (stdin !== null && pollStdin(0)) return true;
        // The host waits for only one of the two, so both are checked in turn.
        const longest = stdin !== null && (wait < 0 || wait > STDIN_POLL_MS) ? STDIN_POLL_MS : wait;
        for (const each of waitForNetwork(longest)) push(ready, each);
        const event = shift(ready);
        if (event !== undefined) {
          run(event);
          return true;
        }
        phase = 'check';
        entered = false;
        continue;
      }
      phase = 'check';
      entered = false;
      if (polled) continue;
      if (stdin !== null) {
        if (pollStdin(wait)) return true;
      } else if (wait > 0) native.sleep(wait);
    }
    if (!entered) {
      timers.beginImmediates();
      entered = true;
    }
    if (timers.runImmediate()) return true;
    phase = 'timers';
    entered = false;
  }
}

export function begin() {
  phase = 'timers';
  round = 0;
  entered = false;
  net.begin();
  connections.begin();
  timers.begin();
}
