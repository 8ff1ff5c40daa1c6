// node:events.
import { coded, invalidArgType, outOfRange, validateAbortSignal, validateFunction, AbortError } from './errors.js';
import { hidden } from '../engine/uncurry.js';

const kCapture = Symbol('kCapture');
const kShapeMode = Symbol('shapeMode');
const kRejection = Symbol.for('nodejs.rejection');
const errorMonitor = Symbol('events.errorMonitor');

const { apply } = Reflect;

function copyOf(list) {
  const copy = new List(list.length);
  for (let i = 0; i < list.length; i++) copy[i] = list[i];
  return copy;
}
const List = Array;

let defaultMaxListeners = 10;
let captureByDefault = false;
let inspectValue = (value) => String(value);
let warn = () => {};
let later = (fn) => queueMicrotask(fn);

export function connect(parts) {
  inspectValue = parts.inspect;
  warn = parts.warn;
  later = parts.nextTick;
}

function EventEmitter(options) {
  EventEmitter.init.call(this, options);
}

EventEmitter.init = function (options) {
  if (this._events === undefined || this._events === Object.getPrototypeOf(this)._events) {
    this._events = { __proto__: null };
    this._eventsCount = 0;
  }
  this._maxListeners = this._maxListeners || undefined;
  this[kShapeMode] = false;
  if (options?.captureRejections) this[kCapture] = Boolean(options.captureRejections);
  else this[kCapture] = captureByDefault;
};

const proto = EventEmitter.prototype;
proto._events = undefined;
proto._eventsCount = 0;
proto._maxListeners = undefined;
hidden(proto, kCapture, false);

const limitOf = (emitter) => (emitter._maxListeners === undefined ? defaultMaxListeners : emitter._maxListeners);

function add(emitter, type, listener, prepend) {
  validateFunction(listener, 'listener');
  let events = emitter._events;
  let existing;
  if (events === undefined) {
    events = emitter._events = { __proto__: null };
    emitter._eventsCount = 0;
  } else {
    if (events.newListener !== undefined) {
      emitter.emit('newListener', type, listener.listener ?? listener);
      events = emitter._events;
    }
    existing = events[type];
  }
  if (existing === undefined) {
    events[type] = listener;
    ++emitter._eventsCount;
    return emitter;
  }
  if (typeof existing === 'function') existing = events[type] = prepend ? [listener, existing] : [existing, listener];
  else if (prepend) existing.unshift(listener);
  else existing.push(listener);
  const most = limitOf(emitter);
  if (most > 0 && existing.length > most && !existing.warned) {
    existing.warned = true;
    const warning = new Error(
      `Possible EventEmitter memory leak detected. ${existing.length} ${String(type)} listeners added to ` +
        `${inspectValue(emitter, { depth: -1 })}. MaxListeners is ${most}. Use emitter.setMaxListeners() to increase limit`,
    );
    warning.name = 'MaxListenersExceededWarning';
    warning.emitter = emitter;
    warning.type = type;
    warning.count = existing.length;
    warn(warning);
  }
  return emitter;
}

function wrapOnce(emitter, type, listener) {
  validateFunction(listener, 'listener');
  let fired = false;
  function once(...args) {
    if (fired) return undefined;
    fired = true;
    emitter.removeListener(type, once);
    return listener.apply(emitter, args);
  }
  hidden(once, 'name', 'bound onceWrapper');
  once.listener = listener;
  return once;
}

function watchRejection(emitter, result, type, args) {
  try {
    const then = result.then;
    if (typeof then === 'function') {
      then.call(result, undefined, (error) => {
        later(() => {
          if (typeof emitter[kRejection] === 'function') emitter[kRejection](error, type, ...args);
          else {
            const before = emitter[kCapture];
            try {
              emitter[kCapture] = false;
              emitter.emit('error', error);
            } finally {
              emitter[kCapture] = before;
            }
          }
        });
      });
    }
  } catch (error) {
    emitter.emit('error', error);
  }
}

proto.emit = function emit(type, ...args) {
  const events = this._events;
  if (type === 'error') {
    if (events !== undefined && events[errorMonitor] !== undefined) this.emit(errorMonitor, ...args);
    if (events === undefined || events.error === undefined) {
      const error = args[0];
      if (error instanceof Error) throw error;
      let shown;
      try {
        shown = inspectValue(error);
      } catch {
        shown = error;
      }
      const unhandled = coded(Error, 'ERR_UNHANDLED_ERROR', `Unhandled error. (${shown})`);
      unhandled.context = error;
      throw unhandled;
    }
  } else if (events === undefined) return false;
  const handler = events[type];
  if (handler === undefined) return false;
  if (typeof handler === 'function') {
    const result = apply(handler, this, args);
    if (result !== undefined && result !== null && this[kCapture]) watchRejection(this, result, type, args);
    return true;
  }
  const listeners = copyOf(handler);
  for (let i = 0; i < listeners.length; i++) {
    const result = apply(listeners[i], this, args);
    if (result !== undefined && result !== null && this[kCapture]) watchRejection(this, result, type, args);
  }
  return true;
};

proto.addListener = function addListener(type, listener) {
  return add(this, type, listener, false);
};
proto.on = proto.addListener;
proto.prependListener = function prependListener(type, listener) {
  return add(this, type, listener, true);
};
proto.once = function once(type, listener) {
  this.on(type, wrapOnce(this, type, listener));
  return this;
};
proto.prependOnceListener = function prependOnceListener(type, listener) {
  this.prependListener(type, wrapOnce(this, type, listener));
  return this;
};

proto.removeListener = function removeListener(type, listener) {
  validateFunction(listener, 'listener');
  const events = this._events;
  const list = events?.[type];
  if (list === undefined) return this;
  if (list === listener || list.listener === listener) {
    this._eventsCount--;
    if (this._eventsCount === 0) this._events = { __proto__: null };
    else delete events[type];
    if (events.removeListener) this.emit('removeListener', type, list.listener ?? listener);
  } else if (typeof list !== 'function') {
    let at = list.length - 1;
    while (at >= 0 && list[at] !== listener && list[at].listener !== listener) at--;
    if (at < 0) return this;
    if (at === 0) list.shift();
    else list.splice(at, 1);
    if (list.length === 1) events[type] = list[0];
    if (events.removeListener !== undefined) this.emit('removeListener', type, listener);
  }
  return this;
};
proto.off = proto.removeListener;

proto.removeAllListeners = function removeAllListeners(type) {
  const events = this._events;
  if (events === undefined) return this;
  if (events.removeListener === undefined) {
    if (arguments.length === 0) {
      this._events = { __proto__: null };
      this._eventsCount = 0;
    } else if (events[type] !== undefined) {
      if (--this._eventsCount === 0) this._events = { __proto__: null };
      else delete events[type];
    }
    return this;
  }
  if (arguments.length === 0) {
    for (const key of Reflect.ownKeys(events)) if (key !== 'removeListener') this.removeAllListeners(key);
    this.removeAllListeners('removeListener');
    this._events = { __proto__: null };
    this._eventsCount = 0;
    return this;
  }
  const listeners = events[type];
  if (typeof listeners === 'function') this.removeListener(type, listeners);
  else if (listeners !== undefined) for (let i = listeners.length - 1; i >= 0; i--) this.removeListener(type, listeners[i]);
  return this;
};

function listenersOf(emitter, type, unwrap) {
  const found = emitter._events?.[type];
  if (found === undefined) return [];
  if (typeof found === 'function') return [unwrap ? found.listener ?? found : found];
  return unwrap ? found.map((item) => item.listener ?? item) : found.slice();
}

proto.listeners = function listeners(type) {
  return listenersOf(this, type, true);
};
proto.rawListeners = function rawListeners(type) {
  return listenersOf(this, type, false);
};
proto.listenerCount = function listenerCount(type, listener) {
  const found = this._events?.[type];
  if (found === undefined) return 0;
  if (listener !== undefined) return listenersOf(this, type, false).filter((item) => item === listener || item.listener === listener).length;
  return typeof found === 'function' ? 1 : found.length;
};
proto.eventNames = function eventNames() {
  return this._eventsCount > 0 ? Reflect.ownKeys(this._events) : [];
};
proto.setMaxListeners = function setMaxListeners(n) {
  checkLimit(n, 'setMaxListeners');
  this._maxListeners = n;
  return this;
};
proto.getMaxListeners = function getMaxListeners() {
  return limitOf(this);
};

function checkLimit(n, name) {
  if (typeof n !== 'number') throw invalidArgType(name, 'number', n);
  if (n < 0 || Number.isNaN(n)) throw outOfRange(name, '>= 0', n);
}

const isTarget = (emitter) => typeof emitter?.addEventListener === 'function' && typeof emitter.on !== 'function';

function subscribe(emitter, type, listener, once) {
  if (isTarget(emitter)) emitter.addEventListener(type, listener, { once });
  else if (typeof emitter?.on === 'function') once ? emitter.once(type, listener) : emitter.on(type, listener);
  else throw invalidArgType('emitter', 'EventEmitter', emitter);
}

function unsubscribe(emitter, type, listener) {
  if (isTarget(emitter)) emitter.removeEventListener(type, listener);
  else emitter.removeListener(type, listener);
}

export async function once(emitter, type, options = {}) {
  const { signal } = options;
  validateAbortSignal(signal, 'options.signal');
  if (signal?.aborted) throw new AbortError(undefined, { cause: signal.reason });
  return new Promise((resolve, reject) => {
    const failed = (error) => {
      unsubscribe(emitter, type, happened);
      signal?.removeEventListener('abort', aborted);
      reject(error);
    };
    const happened = (...args) => {
      if (type !== 'error' && !isTarget(emitter)) emitter.removeListener('error', failed);
      signal?.removeEventListener('abort', aborted);
      resolve(args);
    };
    const aborted = () => {
      unsubscribe(emitter, type, happened);
      if (type !== 'error' && !isTarget(emitter)) unsubscribe(emitter, 'error', failed);
      reject(new AbortError(undefined, { cause: signal.reason }));
    };
    subscribe(emitter, type, happened, true);
    if (type !== 'error' && !isTarget(emitter)) emitter.once('error', failed);
    signal?.addEventListener('abort', aborted, { once: true });
  });
}

export function on(emitter, type, options = {}) {
  const { signal } = options;
  validateAbortSignal(signal, 'options.signal');
  if (signal?.aborted) throw new AbortError(undefined, { cause: signal.reason });
  const ready = [];
  const waiting = [];
  let failure = null;
  let finished = false;
  const closing = options.close ?? [];
  const happened = (...args) => {
    if (waiting.length > 0) waiting.shift().resolve({ value: args, done: false });
    else ready.push(args);
  };
  const failed = (error) => {
    failure = error;
    if (waiting.length > 0) {
      failure = null;
      waiting.shift().reject(error);
    }
    iterator.return();
  };
  const aborted = () => failed(new AbortError(undefined, { cause: signal.reason }));
  const ended = () => iterator.return();
  const iterator = {
    next() {
      if (ready.length > 0) return Promise.resolve({ value: ready.shift(), done: false });
      if (failure) {
        const rejected = Promise.reject(failure);
        failure = null;
        return rejected;
      }
      if (finished) return Promise.resolve({ value: undefined, done: true });
      return new Promise((resolve, reject) => waiting.push({ resolve, reject }));
    },
    return() {
      unsubscribe(emitter, type, happened);
      if (type !== 'error' && !isTarget(emitter)) unsubscribe(emitter, 'error', failed);
      for (const name of closing) unsubscribe(emitter, name, ended);
      signal?.removeEventListener('abort', aborted);
      finished = true;
      for (const { resolve } of waiting.splice(0)) resolve({ value: undefined, done: true });
      return Promise.resolve({ value: undefined, done: true });
    },
    throw(error) {
      if (!(error instanceof Error)) throw invalidArgType('EventEmitter.AsyncIterator', 'Error', error);
      failed(error);
      return Promise.resolve({ value: undefined, done: true });
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
  subscribe(emitter, type, happened, false);
  if (type !== 'error' && !isTarget(emitter)) emitter.on('error', failed);
  for (const name of closing) subscribe(emitter, name, ended, true);
  signal?.addEventListener('abort', aborted, { once: true });
  return iterator;
}

export const getEventListeners = (emitter, type) =>
  typeof emitter.listeners === 'function' ? emitter.listeners(type) : emitter._listenersOf?.(type) ?? [];

export function setMaxListeners(n = defaultMaxListeners, ...targets) {
  checkLimit(n, 'n');
  if (targets.length === 0) defaultMaxListeners = n;
  for (const target of targets) if (typeof target.setMaxListeners === 'function') target.setMaxListeners(n);
}

export const getMaxListeners = (emitter) => (typeof emitter.getMaxListeners === 'function' ? emitter.getMaxListeners() : 0);
export const listenerCount = (emitter, type) => emitter.listenerCount(type);

export function addAbortListener(signal, listener) {
  validateFunction(listener, 'listener');
  if (signal.aborted) queueMicrotask(() => listener());
  else signal.addEventListener('abort', listener, { once: true });
  return { [Symbol.dispose ?? Symbol.for('dispose')]: () => signal.removeEventListener('abort', listener) };
}

Object.assign(EventEmitter, {
  once, on, getEventListeners, setMaxListeners, getMaxListeners, listenerCount, addAbortListener,
  EventEmitter, errorMonitor, captureRejectionSymbol: kRejection, usingDomains: false,
});
Object.defineProperty(EventEmitter, 'defaultMaxListeners', {
  get: () => defaultMaxListeners,
  set(n) {
    checkLimit(n, 'defaultMaxListeners');
    defaultMaxListeners = n;
  },
  enumerable: true,
  configurable: true,
});
Object.defineProperty(EventEmitter, 'captureRejections', {
  get: () => captureByDefault,
  set(value) {
    captureByDefault = Boolean(value);
  },
  enumerable: true,
  configurable: true,
});

export class EventEmitterAsyncResource extends EventEmitter {
  constructor(options) {
    super(options);
    this.asyncResource = { runInAsyncScope: (fn, self, ...args) => fn.apply(self, args) };
  }
}
EventEmitter.EventEmitterAsyncResource = EventEmitterAsyncResource;

export { EventEmitter, errorMonitor };
export default EventEmitter;
