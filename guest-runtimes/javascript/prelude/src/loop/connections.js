// Connections to granted hosts, which the host makes, as streams of bytes. A callback that waits for one keeps the loop alive.
import { native } from '../native.js';
import * as context from '../engine/context.js';
import { uncurry } from '../engine/uncurry.js';
import { NOTHING, occurred, perform, word } from './net.js';

const push = uncurry(Array.prototype.push);
const { stringify } = JSON;

const OPEN = 1;
const TLS = 2;
const SEND = 3;
const RECEIVE = 4;
const CLOSE = 5;
const POLL = 7;

// Most bytes that one operation carries.
const PIECE = 65536;

// Bit that marks the key of a wait for send space, as for exchanges.
const WRITABLE = 0x80000000;

let waiting = [];
export const awaited = () => waiting.length > 0;

export function begin() {
  waiting = [];
}

// Connects, and returns the handle of the connection; null if the time ran out. The program waits meanwhile.
export function open(host, port, ms) {
  const answer = perform(OPEN, 0, port, ms, native.utf8Encode(host));
  return answer === null ? null : word(answer, 0);
}

// Starts TLS; returns false if the time ran out.
export const startTls = (handle, name, ms) => perform(TLS, handle, 0, ms, native.utf8Encode(stringify({ name, alpn: ['http/1.1'] }))) !== null;

// Sends as many bytes as there is space for, and returns their number.
export function send(handle, bytes) {
  const piece = bytes.subarray(0, PIECE);
  const answer = perform(SEND, handle, 0, 0, piece);
  if (answer === null) return 0;
  return answer.length === 0 ? piece.length : word(answer, 0);
}

// Returns received bytes, none at the end; null if there are none yet.
export const receive = (handle) => perform(RECEIVE, handle, PIECE, 0, NOTHING);

export function close(handle) {
  waiting = waiting.filter((each) => each.handle !== handle);
  perform(CLOSE, handle, 0, 0, NOTHING);
}

// Calls back once when bytes can be received.
export function onReadable(handle, callback) {
  push(waiting, { handle, key: handle, callback, stores: context.current });
}

// Calls back once when bytes can be sent.
export function onWritable(handle, callback) {
  push(waiting, { handle, key: (handle | WRITABLE) >>> 0, callback, stores: context.current });
}

// Waits for the awaited events, and returns the callbacks to run.
export function wait(ms) {
  const calls = [];
  for (const entry of occurred(POLL, waiting, ms)) {
    waiting = waiting.filter((each) => each !== entry);
    push(calls, { run: entry.callback, stores: entry.stores });
  }
  return calls;
}
