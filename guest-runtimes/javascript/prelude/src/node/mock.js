// Functions and methods of node:test that record their calls.
import { invalidArgType, validateFunction } from './errors.js';

class MockContext {
  #calls = [];
  #implementation;
  #once = new Map();
  #restore;
  constructor(implementation, restore, times) {
    this.#implementation = implementation;
    this.#restore = restore;
    this.times = times;
    Object.defineProperty(this, 'times', { enumerable: false });
  }
  get calls() { return this.#calls.slice(); }
  callCount() { return this.#calls.length; }
  resetCalls() { this.#calls = []; }
  mockImplementation(implementation) {
    validateFunction(implementation, 'implementation');
    this.#implementation = implementation;
  }
  mockImplementationOnce(implementation, onCall) {
    validateFunction(implementation, 'implementation');
    this.#once.set(onCall ?? this.#calls.length, implementation);
  }
  restore() { this.#restore(); }
  next(original) {
    const at = this.#calls.length;
    const once = this.#once.get(at);
    this.#once.delete(at);
    return once ?? (at >= this.times ? original : this.#implementation);
  }
  record(call) { this.#calls.push(call); }
}

function mocked(original, implementation, restore, times = Infinity) {
  let context;
  const call = (self, target, args) => {
    const fn = context.next(original);
    const one = { arguments: args, error: undefined, result: undefined, stack: new Error(), target, this: self };
    try {
      one.result = target === undefined ? Reflect.apply(fn, self, args) : Reflect.construct(fn, args, target);
      if (target !== undefined) one.this = one.result;
      return one.result;
    } catch (error) {
      one.error = error;
      throw error;
    } finally {
      context.record(one);
    }
  };
  const proxy = new Proxy(original, {
    apply: (_, self, args) => call(self, undefined, args),
    construct: (_, args, target) => call(undefined, target === proxy ? original : target, args),
    get: (target, key, receiver) => (key === 'mock' ? context : Reflect.get(target, key, receiver)),
  });
  context = new MockContext(implementation, restore, times);
  return [proxy, context];
}

export class MockTracker {
  #contexts = [];
  #add([proxy, context]) {
    this.#contexts.push(context);
    return proxy;
  }
  fn(original, implementation, options) {
    if (original !== undefined && typeof original === 'object') [original, options] = [undefined, original];
    if (implementation !== undefined && typeof implementation === 'object') [implementation, options] = [undefined, implementation];
    const base = original ?? function () {};
    let context;
    const made = mocked(base, implementation ?? base, () => context.mockImplementation(base), options?.times);
    [, context] = made;
    return this.#add(made);
  }
  method(object, name, implementation, options) {
    if (implementation !== undefined && typeof implementation === 'object') [implementation, options] = [undefined, implementation];
    let holder = object;
    while (holder !== null && holder !== undefined && !Object.hasOwn(holder, name)) holder = Object.getPrototypeOf(holder);
    const found = holder && Object.getOwnPropertyDescriptor(holder, name);
    const kind = options?.getter ? 'get' : options?.setter ? 'set' : 'value';
    const original = found?.[kind];
    if (typeof original !== 'function') throw invalidArgType('methodName', 'a method', original);
    const restore = () => (holder === object ? Object.defineProperty(object, name, found) : delete object[name]);
    const made = mocked(original, implementation ?? original, restore, options?.times);
    Object.defineProperty(object, name, { ...found, configurable: true, [kind]: made[0] });
    return this.#add(made);
  }
  getter(object, name, implementation, options) {
    return this.method(object, name, implementation, { ...options, getter: true });
  }
  setter(object, name, implementation, options) {
    return this.method(object, name, implementation, { ...options, setter: true });
  }
  restoreAll() { this.#contexts.forEach((context) => context.restore()); }
  reset() {
    this.restoreAll();
    this.#contexts = [];
  }
}

export const mock = new MockTracker();
