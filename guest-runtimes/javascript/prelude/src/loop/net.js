// Exchanges of HTTP, which the host makes: a request of fourteen bytes and what goes with it, an answer that begins with a byte that
// says what it is. Whoever waits for an exchange holds the loop; one that nobody waits for does not. There are as many at once as the
// host has places for; who comes later waits for one.
import { native } from '../native.js';
import * as context from '../engine/context.js';
import { SafeSet, uncurry } from '../engine/uncurry.js';

const push = uncurry(Array.prototype.push);
const shift = uncurry(Array.prototype.shift);
const setIn = uncurry(Uint8Array.prototype.set);
const part = uncurry(Uint8Array.prototype.subarray);
const { parse, stringify } = JSON;

const MARK = 1;
const START = 16;
const BODY = 17;
const NEXT = 18;
const ABORT = 19;
const WAIT = 20;

const DONE = 0;
const LATE = 2;
const FOREVER = 0xffffffff;
// Stands for the wish to send more, beside an exchange's number.
const ROOM = 0x80000000;

// Bytes of a body that one request carries.
export const MOST = 1 << 20;

// Exchanges that the host has at once.
const PLACES = 64;

let granted = false;
export const isGranted = () => granted;
export function grant(is) {
  granted = is;
}

// Who waits for what: the exchange's number, with ROOM or without.
let waiting = [];
export const awaited = () => waiting.length > 0;

// The exchanges that have places, as many as are about to have one, and who waits for one.
let open = new SafeSet();
let promised = 0;
let queue = [];

// Whether the program cannot be over yet. What is only read ahead of it counts if that makes room for what it waits for.
export const holds = () => waiting.length > 0 && (queue.length > 0 || waiting.some((each) => each.isWanted()));

export function begin() {
  waiting = [];
  open = new SafeSet();
  promised = 0;
  queue = [];
}

// Calls back with true when there is a place, which is to be taken with `start`, and with false if there will be none. Returns what
// takes the wish back.
export function place(callback) {
  if (open.size + promised < PLACES) {
    promised++;
    callback(true);
    return () => {};
  }
  push(queue, callback);
  return () => {
    queue = queue.filter((each) => each !== callback);
  };
}

function leave(handle) {
  if (open.delete(handle)) call();
}

// Gives a place that is free to who has waited longest.
function call() {
  const callback = shift(queue);
  if (callback === undefined) return;
  promised++;
  callback(true);
}

// Nothing goes on any more: whoever waits for a place gets none. Returns whether there was anybody.
export function starve() {
  const starved = queue;
  queue = [];
  // Every program's end comes by here, whatever it has made of iterators.
  for (let i = 0; i < starved.length; i++) starved[i](false);
  return starved.length > 0;
}

function put(bytes, at, word) {
  bytes[at] = word & 255;
  bytes[at + 1] = (word >>> 8) & 255;
  bytes[at + 2] = (word >>> 16) & 255;
  bytes[at + 3] = word >>> 24;
}

const word = (bytes, at) => (bytes[at] | (bytes[at + 1] << 8) | (bytes[at + 2] << 16) | (bytes[at + 3] << 24)) >>> 0;

// What the host says of a failure: kind, errno and text.
export class NetFailure {
  constructor(told) {
    this.told = told;
  }
}

// The answer's bytes, or null if it was not done in time.
function ask(op, handle, number, wait, bytes) {
  const request = new Uint8Array(14 + bytes.length);
  request[0] = MARK;
  request[1] = op;
  put(request, 2, handle);
  put(request, 6, number);
  put(request, 10, wait < 0 ? FOREVER : wait);
  if (bytes.length > 0) setIn(request, bytes, 14);
  const answer = native.host(request);
  if (answer === null || answer.length === 0) return new Uint8Array(0);
  if (answer[0] === DONE) return part(answer, 1);
  if (answer[0] === LATE) return null;
  throw new NetFailure(parse(native.utf8Decode(part(answer, 1), false)));
}

const NOTHING = new Uint8Array(0);

// Begins an exchange in the place that was given, and returns its number.
export function start(head, body = NOTHING) {
  promised--;
  try {
    const text = native.utf8Encode(stringify(head));
    const bytes = new Uint8Array(text.length + body.length);
    setIn(bytes, text);
    setIn(bytes, body, text.length);
    const handle = word(ask(START, 0, text.length, -1, bytes), 0);
    open.add(handle);
    return handle;
  } catch (error) {
    call();
    throw error;
  }
}

// Gives more of a body; false if it has to wait for room.
export const give = (handle, bytes, last) => ask(BODY, handle, last ? 1 : 0, 0, bytes) !== null;

export function abort(handle) {
  waiting = waiting.filter((each) => each.handle !== handle);
  ask(ABORT, handle, 0, 0, NOTHING);
  leave(handle);
}

const always = () => true;

// Calls back once with what the exchange tells next: `{kind: 'h', bytes}`, 'd' or 'e', or a failure. `isWanted` says at any time
// whether the program waits for it.
export function next(handle, callback, isWanted = always) {
  push(waiting, { handle, key: handle, callback, isWanted, stores: context.current });
}

// Calls back once when there is room for more of the body.
export function room(handle, callback) {
  push(waiting, { handle, key: (handle | ROOM) >>> 0, callback, isWanted: always, stores: context.current });
}

function take(handle) {
  try {
    const answer = ask(NEXT, handle, 0, 0, NOTHING);
    if (answer === null) return null;
    const event = { kind: native.latin1Decode(part(answer, 0, 1)), bytes: part(answer, 1) };
    if (event.kind === 'e') leave(handle);
    return event;
  } catch (error) {
    // The host knows of its own failures; that there was no room for an answer it does not.
    if (error instanceof NetFailure) leave(handle);
    else abort(handle);
    return { kind: 'f', error };
  }
}

// Waits for what is awaited, and returns what is to be run for it.
export function wait(ms) {
  const keys = new Uint8Array(waiting.length * 4);
  for (let i = 0; i < waiting.length; i++) put(keys, i * 4, waiting[i].key);
  const ready = ask(WAIT, 0, 0, ms < 0 ? -1 : Math.ceil(ms), keys);
  const calls = [];
  if (ready === null) return calls;
  for (let at = 0; at < ready.length; at += 4) {
    const key = word(ready, at);
    const index = waiting.findIndex((each) => each.key === key);
    if (index < 0) continue;
    const { handle, callback, stores } = waiting[index];
    const event = key === handle ? take(handle) : undefined;
    if (event === null) continue;
    waiting.splice(index, 1);
    push(calls, { run: () => callback(event), stores });
  }
  return calls;
}
