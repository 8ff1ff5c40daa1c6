// HTTP exchanges, which the host performs: a request of fourteen bytes and its data, an answer whose first byte is its
// kind. A callback that waits for an exchange keeps the loop alive; an exchange without one does not. The number of
// concurrent exchanges is limited by the host; further ones wait for a slot.
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
const TIMEOUT = 2;
const FOREVER = 0xffffffff;
// Bit that marks the key of a wait for send space; the other bits are the exchange's number.
const WRITABLE = 0x80000000;

// Most bytes of a body that one request carries.
export const MAX_CHUNK = 1 << 20;

// Most exchanges that the host has at once.
const MAX_EXCHANGES = 64;

let granted = false;
export const isGranted = () => granted;
export function grant(is) {
  granted = is;
}

// Callbacks that wait for an exchange, by its number with or without WRITABLE.
let waiting = [];
export const awaited = () => waiting.length > 0;

// The exchanges that have slots, the number of slots that are assigned but not in use yet, and the callbacks that wait
// for one.
let open = new SafeSet();
let promised = 0;
let queue = [];

// Returns true if the program has to go on. Exchanges that are only read ahead count if they free a slot that the
// program waits for.
export const hasPending = () => waiting.length > 0 && (queue.length > 0 || waiting.some((each) => each.isWanted()));

export function begin() {
  waiting = [];
  open = new SafeSet();
  promised = 0;
  queue = [];
}

// Calls back with true when there is a slot, which the callback takes with `start`, and with false if there will be
// none. Returns a function that cancels the request.
export function acquireSlot(callback) {
  if (open.size + promised < MAX_EXCHANGES) {
    promised++;
    callback(true);
    return () => {};
  }
  push(queue, callback);
  return () => {
    queue = queue.filter((each) => each !== callback);
  };
}

function release(handle) {
  if (open.delete(handle)) call();
}

// Assigns a free slot to the callback that has waited longest.
function call() {
  const callback = shift(queue);
  if (callback === undefined) return;
  promised++;
  callback(true);
}

// Calls back with false for every request that waits for a slot, since no exchange makes progress any more. Returns
// true if there were any.
export function failQueued() {
  const starved = queue;
  queue = [];
  // Every program's end runs this, so it must not depend on iterators, which the program may have changed.
  for (let i = 0; i < starved.length; i++) starved[i](false);
  return starved.length > 0;
}

function put(bytes, at, word) {
  bytes[at] = word & 255;
  bytes[at + 1] = (word >>> 8) & 255;
  bytes[at + 2] = (word >>> 16) & 255;
  bytes[at + 3] = word >>> 24;
}

export const word = (bytes, at) => (bytes[at] | (bytes[at + 1] << 8) | (bytes[at + 2] << 16) | (bytes[at + 3] << 24)) >>> 0;

// A failure that the host reports: kind, errno and text.
export class NetFailure {
  constructor(failure) {
    this.failure = failure;
  }
}

// Returns the answer's bytes, or null if the time ran out.
export function perform(op, handle, number, wait, bytes) {
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
  if (answer[0] === TIMEOUT) return null;
  throw new NetFailure(parse(native.utf8Decode(part(answer, 1), false)));
}

export const NOTHING = new Uint8Array(0);

// Begins an exchange in the assigned slot, and returns its number.
export function start(head, body = NOTHING) {
  promised--;
  try {
    const text = native.utf8Encode(stringify(head));
    const bytes = new Uint8Array(text.length + body.length);
    setIn(bytes, text);
    setIn(bytes, body, text.length);
    const handle = word(perform(START, 0, text.length, -1, bytes), 0);
    open.add(handle);
    return handle;
  } catch (error) {
    call();
    throw error;
  }
}

// Sends more of a body; returns false if there is no space for it yet.
export const send = (handle, bytes, last) => perform(BODY, handle, last ? 1 : 0, 0, bytes) !== null;

export function abort(handle) {
  waiting = waiting.filter((each) => each.handle !== handle);
  perform(ABORT, handle, 0, 0, NOTHING);
  release(handle);
}

const always = () => true;

// Calls back once with the next event of the exchange: `{kind: 'h', bytes}`, 'd' or 'e', or a failure. `isWanted`
// returns true while the program waits for the event.
export function next(handle, callback, isWanted = always) {
  push(waiting, { handle, key: handle, callback, isWanted, stores: context.current });
}

// Calls back once when there is space for more of the body.
export function onWritable(handle, callback) {
  push(waiting, { handle, key: (handle | WRITABLE) >>> 0, callback, isWanted: always, stores: context.current });
}

function take(handle) {
  try {
    const answer = perform(NEXT, handle, 0, 0, NOTHING);
    if (answer === null) return null;
    const event = { kind: native.latin1Decode(part(answer, 0, 1)), bytes: part(answer, 1) };
    if (event.kind === 'e') release(handle);
    return event;
  } catch (error) {
    // The host knows its own failures, but not that the guest had no memory for an answer.
    if (error instanceof NetFailure) release(handle);
    else abort(handle);
    return { kind: 'f', error };
  }
}

// Waits for events, and returns those of the entries that wait for them. Each entry has the key of its event.
export function occurred(operation, entries, ms) {
  const keys = new Uint8Array(entries.length * 4);
  for (let i = 0; i < entries.length; i++) put(keys, i * 4, entries[i].key);
  const ready = perform(operation, 0, 0, ms < 0 ? -1 : Math.ceil(ms), keys);
  const found = [];
  if (ready === null) return found;
  for (let at = 0; at < ready.length; at += 4) {
    const key = word(ready, at);
    const entry = entries.find((each) => each.key === key && !found.includes(each));
    if (entry !== undefined) push(found, entry);
  }
  return found;
}

// Waits for the awaited events, and returns the callbacks to run.
export function wait(ms) {
  const calls = [];
  for (const entry of occurred(WAIT, waiting, ms)) {
    // The end of an exchange removes its other entry.
    if (!waiting.includes(entry)) continue;
    const { handle, key, callback, stores } = entry;
    const event = key === handle ? take(handle) : undefined;
    if (event === null) continue;
    waiting = waiting.filter((each) => each !== entry);
    push(calls, { run: () => callback(event), stores });
  }
  return calls;
}
