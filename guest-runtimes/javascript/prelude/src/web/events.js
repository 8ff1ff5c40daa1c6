// Event, EventTarget and CustomEvent.
import { coded, invalidArgType } from '../node/errors.js';
import { inspect } from '../inspect/index.js';
import { hidden } from '../engine/uncurry.js';
import { native } from '../native.js';

let report = (error) => {
  throw error;
};
export const onUncaught = (fn) => {
  report = fn;
};

const state = new WeakMap();
const of = (event) => {
  const found = state.get(event);
  if (!found) throw coded(TypeError, 'ERR_INVALID_THIS', 'Value of "this" must be of type Event');
  return found;
};

export class Event {
  constructor(type, options = undefined) {
    if (arguments.length === 0) throw coded(TypeError, 'ERR_MISSING_ARGS', 'The "type" argument must be specified');
    if (options !== undefined && options !== null && typeof options !== 'object') throw invalidArgType('options', 'Object', options);
    state.set(this, {
      type: `${type}`,
      bubbles: !!options?.bubbles,
      cancelable: !!options?.cancelable,
      composed: !!options?.composed,
      prevented: false,
      stopped: false,
      target: null,
      current: null,
      dispatching: false,
      propagationStopped: false,
      time: native.clock(),
      trusted: false,
    });
  }
  get type() { return of(this).type; }
  get target() { return of(this).target; }
  get currentTarget() { return of(this).current; }
  get srcElement() { return of(this).target; }
  get bubbles() { return of(this).bubbles; }
  get cancelable() { return of(this).cancelable; }
  get composed() { return of(this).composed; }
  get defaultPrevented() { const s = of(this); return s.cancelable && s.prevented; }
  get returnValue() { const s = of(this); return !s.cancelable || !s.prevented; }
  get timeStamp() { return of(this).time; }
  get eventPhase() { return of(this).dispatching ? Event.AT_TARGET : Event.NONE; }
  get cancelBubble() { return of(this).propagationStopped; }
  set cancelBubble(value) { if (value) of(this).propagationStopped = true; }
  get isTrusted() { return of(this).trusted; }
  composedPath() { const s = of(this); return s.dispatching ? [s.current] : []; }
  preventDefault() { of(this).prevented = true; }
  stopPropagation() { of(this).propagationStopped = true; }
  stopImmediatePropagation() { of(this).stopped = true; }
  initEvent(type, bubbles = false, cancelable = false) {
    const s = of(this);
    if (!s.dispatching) Object.assign(s, { type: `${type}`, bubbles: !!bubbles, cancelable: !!cancelable });
  }
  [inspect.custom](depth, options) {
    const name = this.constructor.name;
    if (depth < 0) return name;
    return `${name} ${inspect(
      { type: this.type, defaultPrevented: this.defaultPrevented, cancelable: this.cancelable, timeStamp: this.timeStamp },
      { ...options, depth: options.depth === null ? null : options.depth - 1 },
    )}`;
  }
}
hidden(Event.prototype, inspect.custom, Event.prototype[inspect.custom]);
Object.defineProperty(Event.prototype, Symbol.toStringTag, { value: 'Event', configurable: true });
for (const name of ['type', 'target', 'currentTarget', 'srcElement', 'bubbles', 'cancelable', 'defaultPrevented', 'timeStamp', 'returnValue', 'composed', 'eventPhase']) {
  Object.defineProperty(Event.prototype, name, { enumerable: true });
}
for (const [name, value] of [['NONE', 0], ['CAPTURING_PHASE', 1], ['AT_TARGET', 2], ['BUBBLING_PHASE', 3]]) {
  Object.defineProperty(Event, name, { value, enumerable: true });
  Object.defineProperty(Event.prototype, name, { value, enumerable: true });
}

export class CustomEvent extends Event {
  #detail;
  constructor(type, options) {
    super(type, options);
    this.#detail = options?.detail ?? null;
  }
  get detail() { return this.#detail; }
}
Object.defineProperty(CustomEvent.prototype, Symbol.toStringTag, { value: 'CustomEvent', configurable: true });

export class MessageEvent extends Event {
  #given;
  constructor(type, options = {}) {
    super(type, options);
    this.#given = options;
  }
  get data() { return this.#given.data ?? null; }
  get origin() { return this.#given.origin ?? ''; }
  get lastEventId() { return this.#given.lastEventId ?? ''; }
  get source() { return this.#given.source ?? null; }
  get ports() { return this.#given.ports ?? []; }
}

export class CloseEvent extends Event {
  #given;
  constructor(type, options = {}) {
    super(type, options);
    this.#given = options;
  }
  get wasClean() { return this.#given.wasClean ?? false; }
  get code() { return this.#given.code ?? 0; }
  get reason() { return this.#given.reason ?? ''; }
}

export class ErrorEvent extends Event {
  #given;
  constructor(type, options = {}) {
    super(type, options);
    this.#given = options;
  }
  get message() { return this.#given.message ?? ''; }
  get filename() { return this.#given.filename ?? ''; }
  get lineno() { return this.#given.lineno ?? 0; }
  get colno() { return this.#given.colno ?? 0; }
  get error() { return this.#given.error; }
}

const listenersOf = new WeakMap();
const tableOf = (target) => {
  let table = listenersOf.get(target);
  if (!table) {
    if (!(target instanceof EventTarget)) throw coded(TypeError, 'ERR_INVALID_THIS', 'Value of "this" must be of type EventTarget');
    listenersOf.set(target, (table = new Map()));
  }
  return table;
};
const wantsCapture = (options) => (typeof options === 'boolean' ? options : !!options?.capture);

// Method that is called when the number of listeners changes, for objects that keep the loop alive while they have
// listeners.
export const kListening = Symbol('kListening');

export class EventTarget {
  addEventListener(type, listener, options) {
    if (arguments.length < 2) throw coded(TypeError, 'ERR_MISSING_ARGS', 'The "type" and "listener" arguments must be specified');
    if (listener === null || listener === undefined) return;
    if (typeof listener !== 'function' && typeof listener !== 'object') throw invalidArgType('listener', 'EventListener', listener);
    const signal = options?.signal;
    if (signal?.aborted) return;
    const table = tableOf(this);
    type = `${type}`;
    const capture = wantsCapture(options);
    let list = table.get(type);
    if (!list) table.set(type, (list = []));
    if (list.some((entry) => entry.listener === listener && entry.capture === capture)) return;
    const entry = { listener, capture, once: !!options?.once, passive: !!options?.passive, removed: false };
    list.push(entry);
    signal?.addEventListener('abort', () => this.removeEventListener(type, listener, options), { once: true });
    this[kListening]?.(type, list.length);
  }
  removeEventListener(type, listener, options) {
    const table = tableOf(this);
    type = `${type}`;
    const list = table.get(type);
    if (!list) return;
    const capture = wantsCapture(options);
    const at = list.findIndex((entry) => entry.listener === listener && entry.capture === capture);
    if (at < 0) return;
    list[at].removed = true;
    list.splice(at, 1);
    if (list.length === 0) table.delete(type);
    this[kListening]?.(type, list.length);
  }
  dispatchEvent(event) {
    const table = tableOf(this);
    if (!(event instanceof Event)) throw invalidArgType('event', 'Event', event);
    const s = of(event);
    if (s.dispatching) throw coded(Error, 'ERR_EVENT_RECURSION', `The event "${s.type}" is already being dispatched`);
    s.dispatching = true;
    s.target = s.current = this;
    for (const entry of [...(table.get(s.type) ?? [])]) {
      if (s.stopped) break;
      if (entry.removed) continue;
      if (entry.once) this.removeEventListener(s.type, entry.listener, { capture: entry.capture });
      try {
        const { listener } = entry;
        const result = typeof listener === 'function' ? listener.call(this, event) : listener.handleEvent?.(event);
        if (result !== null && typeof result === 'object' && typeof result.then === 'function') {
          result.then(undefined, (error) => setLater(() => report(error)));
        }
      } catch (error) {
        setLater(() => report(error));
      }
    }
    s.dispatching = false;
    s.current = null;
    return !event.defaultPrevented;
  }
  _listenersOf(type) {
    return (listenersOf.get(this)?.get(type) ?? []).map((entry) => entry.listener);
  }
  [inspect.custom](depth, options) {
    const name = this.constructor.name;
    if (depth < 0) return name;
    return `${name} ${inspect({}, { ...options, depth: options.depth === null ? null : options.depth - 1 })}`;
  }
}
hidden(EventTarget.prototype, '_listenersOf', EventTarget.prototype._listenersOf);
hidden(EventTarget.prototype, inspect.custom, EventTarget.prototype[inspect.custom]);
Object.defineProperty(EventTarget.prototype, Symbol.toStringTag, { value: 'EventTarget', configurable: true });

let setLater = (fn) => fn();
export const useNextTick = (fn) => {
  setLater = fn;
};

// Defines the property `target.onname`, which many web interfaces have.
export function handlerProperty(holder, type) {
  const current = new WeakMap();
  Object.defineProperty(holder, `on${type}`, {
    get() {
      return current.get(this)?.handler ?? null;
    },
    set(handler) {
      const before = current.get(this);
      if (before) this.removeEventListener(type, before.listener);
      if (typeof handler === 'function') {
        const listener = (event) => handler.call(this, event);
        current.set(this, { handler, listener });
        this.addEventListener(type, listener);
      } else current.delete(this);
    },
    enumerable: true,
    configurable: true,
  });
}
