// node:async_hooks: AsyncLocalStorage and AsyncResource. There are no hooks.
import * as context from '../engine/context.js';
import { validateFunction } from './errors.js';

export class AsyncLocalStorage {
  #default;
  constructor(options) {
    this.#default = options?.defaultValue;
    this.name = options?.name ?? '';
    Object.defineProperty(this, 'name', { enumerable: false });
  }
  static bind(fn) {
    return AsyncResource.bind(fn);
  }
  static snapshot() {
    const stores = context.current;
    return (fn, ...args) => context.runWith(stores, fn, undefined, args);
  }
  run(store, fn, ...args) {
    validateFunction(fn, 'callback');
    const stores = new Map(context.current);
    stores.set(this, store);
    const before = context.current;
    context.setCurrent(stores);
    try {
      return fn(...args);
    } finally {
      context.setCurrent(before);
    }
  }
  exit(fn, ...args) {
    const stores = new Map(context.current);
    stores.delete(this);
    return context.runWith(stores, fn, undefined, args);
  }
  enterWith(store) {
    const stores = new Map(context.current);
    stores.set(this, store);
    context.setCurrent(stores);
  }
  disable() {
    if (context.current?.has(this)) {
      const stores = new Map(context.current);
      stores.delete(this);
      context.setCurrent(stores);
    }
  }
  getStore() {
    return context.current?.has(this) ? context.current.get(this) : this.#default;
  }
}

export class AsyncResource {
  #stores = context.current;
  constructor(type) {
    Object.defineProperty(this, 'type', { value: type, enumerable: false });
  }
  runInAsyncScope(fn, self, ...args) {
    return context.runWith(this.#stores, fn, self, args);
  }
  emitDestroy() { return this; }
  asyncId() { return 1; }
  triggerAsyncId() { return 0; }
  bind(fn) { return (...args) => this.runInAsyncScope(fn, undefined, ...args); }
  static bind(fn, type, self) {
    const resource = new AsyncResource(type ?? fn.name ?? 'bound-anonymous-fn');
    return function (...args) {
      return resource.runInAsyncScope(fn, self ?? this, ...args);
    };
  }
}

export default {
  AsyncLocalStorage, AsyncResource,
  createHook: () => ({ enable() { return this; }, disable() { return this; } }),
  executionAsyncId: () => 1,
  triggerAsyncId: () => 0,
  executionAsyncResource: () => ({}),
  asyncWrapProviders: { __proto__: null },
};
