import { uncurry } from './uncurry.js';

// Names of the engine's own functions as V8 shows them in stacks: `Array.map`, `JSON.parse`, `new Promise`.
const names = new Map();
const getFrom = uncurry(Map.prototype.get);

const HOLDERS = [
  'Array', 'Object', 'String', 'Number', 'Boolean', 'Symbol', 'BigInt', 'Function', 'Promise', 'RegExp', 'Date', 'Map', 'Set', 'WeakMap',
  'WeakSet', 'Iterator', 'ArrayBuffer', 'DataView', 'Error',
];
const SPACES = ['JSON', 'Math', 'Reflect', 'Atomics'];
const STATIC = {
  Array: ['from', 'of', 'fromAsync'],
  Object: ['assign', 'create', 'defineProperty', 'defineProperties', 'entries', 'keys', 'values', 'freeze', 'fromEntries', 'getPrototypeOf',
    'setPrototypeOf', 'groupBy', 'getOwnPropertyDescriptor', 'getOwnPropertyNames'],
  Promise: ['all', 'allSettled', 'any', 'race', 'resolve', 'reject', 'withResolvers', 'try'],
  Map: ['groupBy'],
  String: ['fromCodePoint', 'raw'],
};

// Records the built-ins before programs can change them, and again after the prelude has replaced some of them.
export function learnBuiltins() {
  const add = (holder, label, list) => {
    for (const key of list) {
      const value = Object.getOwnPropertyDescriptor(holder, key)?.value;
      if (typeof value === 'function' && typeof key === 'string' && key !== 'constructor' && !names.has(value)) {
        names.set(value, `${label}.${key}`);
      }
    }
  };
  for (const name of HOLDERS) {
    const holder = globalThis[name];
    if (typeof holder !== 'function') continue;
    names.set(holder, `new ${name}`);
    add(holder.prototype, name, Reflect.ownKeys(holder.prototype));
    add(holder, name === 'Object' || name === 'Array' || name === 'Promise' || name === 'String' ? 'Function' : name, STATIC[name] ?? []);
  }
  const typed = Object.getPrototypeOf(Uint8Array);
  add(typed.prototype, 'TypedArray', Reflect.ownKeys(typed.prototype));
  for (const space of SPACES) add(globalThis[space], space, Reflect.ownKeys(globalThis[space]));
  for (const name of ['Uint8Array', 'Float64Array', 'Int32Array', 'Proxy']) names.set(globalThis[name], `new ${name}`);
  for (const name of ['decodeURI', 'decodeURIComponent', 'encodeURI', 'encodeURIComponent', 'eval', 'parseInt', 'parseFloat']) {
    names.set(globalThis[name], name);
  }
}

export const nameOfBuiltin = (fn) => getFrom(names, fn);
