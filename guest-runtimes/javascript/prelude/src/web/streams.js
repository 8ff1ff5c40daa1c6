// Streams that are read: the Streams Standard's, without byte readers and without the writing side.
import { inspect } from '../inspect/index.js';
import { hidden } from '../engine/uncurry.js';
import { coded, invalidArgType } from '../node/errors.js';

const inner = new WeakMap();
const readers = new WeakMap();
let making = null;

const illegal = () => coded(TypeError, 'ERR_ILLEGAL_CONSTRUCTOR', 'Illegal constructor');
const invalidState = (text) => coded(TypeError, 'ERR_INVALID_STATE', `Invalid state: ${text}`);

function deferred() {
  const made = Promise.withResolvers();
  made.promise.catch(() => {});
  return made;
}

export class ReadableStreamDefaultController {
  #stream;
  constructor() {
    if (making === null) throw illegal();
    this.#stream = making;
  }
  get desiredSize() {
    const s = inner.get(this.#stream);
    return s.state === 'errored' ? null : s.state === 'closed' ? 0 : s.mark - s.size;
  }
  enqueue(chunk) {
    const s = inner.get(this.#stream);
    if (s.closing || s.state !== 'readable') throw invalidState('Controller is already closed');
    const waiting = s.wanted.shift();
    if (waiting) waiting.resolve({ value: chunk, done: false });
    else {
      const size = s.measure(chunk);
      s.queue.push({ chunk, size });
      s.size += size;
    }
    pull(s);
  }
  close() {
    const s = inner.get(this.#stream);
    if (s.closing || s.state !== 'readable') throw invalidState('Controller is already closed');
    s.closing = true;
    if (s.queue.length === 0) finish(s);
  }
  error(reason) { fail(inner.get(this.#stream), reason); }
}
Object.defineProperty(ReadableStreamDefaultController.prototype, Symbol.toStringTag, { value: 'ReadableStreamDefaultController', configurable: true });

function finish(s) {
  if (s.state !== 'readable') return;
  s.state = 'closed';
  for (const waiting of s.wanted.splice(0)) waiting.resolve({ value: undefined, done: true });
  s.reader?.closed.resolve(undefined);
}

function fail(s, reason) {
  if (s.state !== 'readable') return;
  s.state = 'errored';
  s.reason = reason;
  s.queue = [];
  s.size = 0;
  for (const waiting of s.wanted.splice(0)) waiting.reject(reason);
  s.reader?.closed.reject(reason);
}

function pull(s) {
  if (!s.started || s.closing || s.state !== 'readable' || !(s.wanted.length > 0 || s.mark - s.size > 0)) return;
  if (s.pulling) {
    s.again = true;
    return;
  }
  s.pulling = true;
  Promise.resolve()
    .then(() => s.pull(s.controller))
    .then(
      () => {
        s.pulling = false;
        if (s.again) {
          s.again = false;
          pull(s);
        }
      },
      (reason) => fail(s, reason),
    );
}

function read(s) {
  s.disturbed = true;
  if (s.state === 'errored') return Promise.reject(s.reason);
  if (s.queue.length > 0) {
    const { chunk, size } = s.queue.shift();
    s.size -= size;
    if (s.closing && s.queue.length === 0) finish(s);
    else pull(s);
    return Promise.resolve({ value: chunk, done: false });
  }
  if (s.state === 'closed') return Promise.resolve({ value: undefined, done: true });
  const waiting = Promise.withResolvers();
  s.wanted.push(waiting);
  pull(s);
  return waiting.promise;
}

async function cancel(s, reason) {
  s.disturbed = true;
  if (s.state === 'closed') return;
  if (s.state === 'errored') throw s.reason;
  s.queue = [];
  s.size = 0;
  finish(s);
  await s.cancel(reason);
}

export class ReadableStreamDefaultReader {
  constructor(stream) {
    const s = inner.get(stream);
    if (s === undefined) throw invalidArgType('stream', 'ReadableStream', stream);
    if (s.reader) throw invalidState('ReadableStream is locked');
    const own = { s, closed: deferred() };
    s.reader = own;
    if (s.state === 'closed') own.closed.resolve(undefined);
    else if (s.state === 'errored') own.closed.reject(s.reason);
    readers.set(this, own);
  }
  get closed() { return readers.get(this).closed.promise; }
  async read() {
    const { s } = readers.get(this);
    if (s === null) throw invalidState('The reader is not attached to a stream');
    return read(s);
  }
  async cancel(reason) {
    const { s } = readers.get(this);
    if (s === null) throw invalidState('The reader is not attached to a stream');
    return cancel(s, reason);
  }
  releaseLock() {
    const own = readers.get(this);
    if (own.s === null) return;
    const released = invalidState('Releasing reader');
    for (const waiting of own.s.wanted.splice(0)) waiting.reject(released);
    own.s.reader = null;
    own.s = null;
    own.closed.reject(released);
  }
}
Object.defineProperty(ReadableStreamDefaultReader.prototype, Symbol.toStringTag, { value: 'ReadableStreamDefaultReader', configurable: true });

const one = () => 1;

export class ReadableStream {
  constructor(source = {}, strategy = {}) {
    if (source === null || typeof source !== 'object') throw invalidArgType('source', 'Object', source);
    if (source.type !== undefined && source.type !== 'bytes') throw coded(TypeError, 'ERR_INVALID_ARG_VALUE', `The property 'source.type' is invalid. Received ${inspect(source.type)}`);
    const mark = Number(strategy?.highWaterMark ?? (source.type === 'bytes' ? 0 : 1));
    const measure = strategy?.size ?? one;
    const s = {
      state: 'readable', reason: undefined, queue: [], size: 0, wanted: [], reader: null, mark, measure, closing: false, disturbed: false,
      pulling: false, again: false, started: false, pull: (c) => source.pull?.(c), cancel: (reason) => source.cancel?.(reason), controller: null,
    };
    inner.set(this, s);
    making = this;
    try {
      s.controller = new ReadableStreamDefaultController();
    } finally {
      making = null;
    }
    Promise.resolve(source.start?.(s.controller)).then(
      () => {
        s.started = true;
        pull(s);
      },
      (reason) => fail(s, reason),
    );
  }
  get locked() { return inner.get(this).reader !== null; }
  getReader(options = {}) {
    if (options?.mode !== undefined) throw coded(TypeError, 'ERR_INVALID_ARG_VALUE', `The property 'options.mode' is invalid. Received ${inspect(options.mode)}`);
    return new ReadableStreamDefaultReader(this);
  }
  async cancel(reason) {
    if (this.locked) throw invalidState('ReadableStream is locked');
    return cancel(inner.get(this), reason);
  }
  tee() {
    const reader = this.getReader();
    const controllers = [];
    const cancelled = [false, false];
    let reading = null;
    const pullBoth = () => {
      reading ??= reader.read().then(({ value, done }) => {
        reading = null;
        controllers.forEach((c, i) => {
          if (cancelled[i]) return;
          if (done) c.close();
          else c.enqueue(value instanceof Uint8Array && i === 1 ? value.slice() : value);
        });
      }, (reason) => controllers.forEach((c) => c.error(reason)));
      return reading;
    };
    return [0, 1].map((i) => new ReadableStream({
      start(c) { controllers[i] = c; },
      pull: pullBoth,
      cancel(reason) {
        cancelled[i] = true;
        return cancelled[1 - i] ? reader.cancel(reason) : undefined;
      },
    }, { highWaterMark: 0 }));
  }
  async *values({ preventCancel = false } = {}) {
    const reader = this.getReader();
    let ended = false;
    try {
      for (;;) {
        const { value, done } = await reader.read().catch((error) => {
          ended = true;
          throw error;
        });
        if (done) {
          ended = true;
          return;
        }
        yield value;
      }
    } finally {
      if (!ended && !preventCancel) await reader.cancel();
      reader.releaseLock();
    }
  }
  [Symbol.asyncIterator](options) { return this.values(options); }
  static from(iterable) {
    const iterator = iterable?.[Symbol.asyncIterator]?.() ?? iterable?.[Symbol.iterator]?.();
    if (iterator === undefined) throw coded(TypeError, 'ERR_ARG_NOT_ITERABLE', `${inspect(iterable)} is not iterable`);
    return new ReadableStream({
      async pull(c) {
        const { value, done } = await iterator.next();
        if (done) c.close();
        else c.enqueue(await value);
      },
      async cancel(reason) { await iterator.return?.(reason); },
    }, { highWaterMark: 0 });
  }
  [inspect.custom](depth, options) {
    const { state } = inner.get(this);
    return `ReadableStream ${inspect({ locked: this.locked, state, supportsBYOB: false }, { ...options, depth: options.depth === null ? null : depth - 1 })}`;
  }
}
hidden(ReadableStream.prototype, inspect.custom, ReadableStream.prototype[inspect.custom]);
Object.defineProperty(ReadableStream.prototype, Symbol.toStringTag, { value: 'ReadableStream', configurable: true });

// Whether anything of it was read or thrown away.
export const isDisturbed = (stream) => inner.get(stream).disturbed;
