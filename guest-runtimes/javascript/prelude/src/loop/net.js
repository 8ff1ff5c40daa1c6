// Exchanges of HTTP, which the host makes: a request of fourteen bytes and what goes with it, an answer that begins with a byte that
// says what it is. Whoever waits for an exchange holds the loop; one that nobody waits for does not.
import { native } from '../native.js';
import * as context from '../engine/context.js';
import { uncurry } from '../engine/uncurry.js';

const push = uncurry(Array.prototype.push);
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

let granted = false;
export const isGranted = () => granted;
export function grant(is) {
  granted = is;
}

// Who waits for what: the exchange's number, with ROOM or without.
let waiting = [];
export const awaited = () => waiting.length > 0;
export function begin() {
  waiting = [];
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

// Begins an exchange and returns its number.
export function start(head, body = NOTHING) {
  const text = native.utf8Encode(stringify(head));
  const bytes = new Uint8Array(text.length + body.length);
  setIn(bytes, text);
  setIn(bytes, body, text.length);
  return word(ask(START, 0, text.length, -1, bytes), 0);
}

// Gives more of a body; false if it has to wait for room.
export const give = (handle, bytes, last) => ask(BODY, handle, last ? 1 : 0, 0, bytes) !== null;

export function abort(handle) {
  waiting = waiting.filter((each) => each.handle !== handle);
  ask(ABORT, handle, 0, 0, NOTHING);
}

// Calls back once with what the exchange tells next: `{kind: 'h', bytes}`, 'd' or 'e', or a failure.
export function next(handle, callback) {
  push(waiting, { handle, key: handle, callback, stores: context.current });
}

// Calls back once when there is room for more of the body.
export function room(handle, callback) {
  push(waiting, { handle, key: (handle | ROOM) >>> 0, callback, stores: context.current });
}

function take(handle) {
  try {
    const answer = ask(NEXT, handle, 0, 0, NOTHING);
    return answer === null ? null : { kind: native.latin1Decode(part(answer, 0, 1)), bytes: part(answer, 1) };
  } catch (error) {
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
