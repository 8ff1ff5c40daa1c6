// AbortController and AbortSignal.
import { Event, EventTarget, handlerProperty } from './events.js';
import { coded, invalidArgType, validateInteger } from '../node/errors.js';
import { inspect } from '../inspect/index.js';
import { hidden } from '../engine/uncurry.js';
import * as timers from '../loop/timers.js';

let allowed = false;
const inner = new WeakMap();

export class AbortSignal extends EventTarget {
  constructor() {
    if (!allowed) throw coded(TypeError, 'ERR_ILLEGAL_CONSTRUCTOR', 'Illegal constructor');
    super();
    inner.set(this, { aborted: false, reason: undefined, followers: [] });
  }
  get aborted() { return inner.get(this).aborted; }
  get reason() { return inner.get(this).reason; }
  throwIfAborted() {
    if (this.aborted) throw this.reason;
  }
  static abort(reason = new DOMException('This operation was aborted', 'AbortError')) {
    const signal = make();
    Object.assign(inner.get(signal), { aborted: true, reason });
    return signal;
  }
  static timeout(delay) {
    validateInteger(delay, 'delay', 0);
    const signal = make();
    timers.setTimeout(() => abort(signal, new DOMException('The operation was aborted due to timeout', 'TimeoutError')), delay).unref();
    return signal;
  }
  static any(signals) {
    const all = [...signals];
    all.forEach((signal, i) => {
      if (!(signal instanceof AbortSignal)) throw invalidArgType(`signals[${i}]`, 'AbortSignal', signal);
    });
    const signal = make();
    const done = all.find((each) => each.aborted);
    if (done) Object.assign(inner.get(signal), { aborted: true, reason: done.reason });
    else for (const each of all) inner.get(each).followers.push(signal);
    return signal;
  }
  [inspect.custom](depth, options) {
    if (depth < 0) return 'AbortSignal';
    return `AbortSignal ${inspect({ aborted: this.aborted }, options)}`;
  }
}
hidden(AbortSignal.prototype, inspect.custom, AbortSignal.prototype[inspect.custom]);
Object.defineProperty(AbortSignal.prototype, Symbol.toStringTag, { value: 'AbortSignal', configurable: true });
for (const name of ['aborted', 'reason']) Object.defineProperty(AbortSignal.prototype, name, { enumerable: true });
handlerProperty(AbortSignal.prototype, 'abort');

function make() {
  allowed = true;
  try {
    return new AbortSignal();
  } finally {
    allowed = false;
  }
}

function abort(signal, reason) {
  const s = inner.get(signal);
  if (s.aborted) return;
  s.aborted = true;
  s.reason = reason;
  signal.dispatchEvent(new Event('abort'));
  for (const follower of s.followers.splice(0)) abort(follower, reason);
}

export class AbortController {
  #signal = make();
  get signal() { return this.#signal; }
  abort(reason = new DOMException('This operation was aborted', 'AbortError')) {
    abort(this.#signal, reason);
  }
  [inspect.custom](depth, options) {
    if (depth < 0) return 'AbortController';
    return `AbortController ${inspect({ signal: this.signal }, options)}`;
  }
}
hidden(AbortController.prototype, inspect.custom, AbortController.prototype[inspect.custom]);
Object.defineProperty(AbortController.prototype, Symbol.toStringTag, { value: 'AbortController', configurable: true });
Object.defineProperty(AbortController.prototype, 'signal', { enumerable: true });
