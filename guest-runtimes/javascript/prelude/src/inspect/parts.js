// Parts of the inspect package that guess what only an engine knows, replaced by ones that query this engine. The
// numbers are those of the package's modules in the pinned version; build.mjs checks them.
import { native } from '../native.js';
import { SafeMap, SafeSet, SafeWeakMap, SafeWeakSet, uncurry } from '../engine/uncurry.js';
import * as types from './types.js';

const functionText = uncurry(Function.prototype.toString);
// Returns the text of a function. The prelude's own functions have no text; its classes are still shown as classes.
function textOfFunction(fn) {
  const text = functionText(fn);
  return native.functionKind(fn) === 'class' && !text.startsWith('class') ? 'class {}' : text;
}

const kPending = Symbol('kPending');
const kRejected = Symbol('kRejected');

const binding = {
  constants: { kPending, kRejected, kFulfilled: Symbol('kFulfilled'), ALL_PROPERTIES: 0, ONLY_ENUMERABLE: 2 },
  getOwnNonIndexProperties: (value, filter = 2) => native.ownKeys(value, filter === 2, true),
  getPromiseDetails(promise) {
    const [state, value] = native.promiseState(promise);
    return state === 'pending' ? [kPending, undefined] : [state === 'rejected' ? kRejected : binding.constants.kFulfilled, value];
  },
  getProxyDetails(value, both = true) {
    if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return undefined;
    const details = native.proxyDetails(value);
    if (details === undefined) return undefined;
    return both ? details : details[0];
  },
  Proxy,
  previewEntries(value, isIterator) {
    const found = native.previewEntries(value) ?? [[], false];
    return isIterator ? [found[1] ? found[0].flat() : found[0], found[1]] : found[0];
  },
  getConstructorName(value) {
    if (typeof value.constructor === 'function' && value.constructor.name) return value.constructor.name;
    return native.classOf(value) ?? 'Object';
  },
  getExternalValue: () => 0n,
};

// The package names its built-ins like ArrayPrototypePush; only those that it names are created.
const SPECIAL = {
  internalBinding: (name) => {
    if (name === 'config') return { hasIntl: false };
    throw new Error(`no binding ${name}`);
  },
  TypedArray: Object.getPrototypeOf(Uint8Array),
  TypedArrayPrototype: Object.getPrototypeOf(Uint8Array).prototype,
  SafeMap,
  SafeSet,
  SafeWeakMap,
  SafeWeakSet,
  SafeStringIterator: class SafeStringIterator {
    constructor(text) {
      this.inner = text[Symbol.iterator]();
    }
    next() {
      return this.inner.next();
    }
    [Symbol.iterator]() {
      return this.inner;
    }
  },
  SafeArrayPrototypePushApply: (array, items) => {
    for (let i = 0; i < items.length; i++) array.push(items[i]);
    return array.length;
  },
  ArrayPrototypePushApply: (array, items) => {
    for (let i = 0; i < items.length; i++) array.push(items[i]);
    return array.length;
  },
  uncurryThis: uncurry,
  FunctionPrototypeToString: textOfFunction,
};

const HOLDERS = [
  'TypedArray', 'ArrayBuffer', 'Array', 'BigInt', 'Boolean', 'Date', 'Error', 'AggregateError', 'Function', 'JSON', 'Map', 'Math', 'Number', 'Object',
  'Promise', 'RangeError', 'RegExp', 'Reflect', 'Set', 'String', 'Symbol', 'TypeError', 'Uint8Array', 'WeakMap', 'WeakSet', 'DataView',
  'Proxy', 'FinalizationRegistry',
];

function member(holder, name) {
  let key = name[0].toLowerCase() + name.slice(1);
  if (/^Symbol[A-Z]/.test(name)) key = Symbol[name[6].toLowerCase() + name.slice(7)];
  const found = (k) => Object.getOwnPropertyDescriptor(holder, k);
  return found(key) ?? found(name);
}

function primordial(name) {
  if (name in SPECIAL) return SPECIAL[name];
  if (name in globalThis) return globalThis[name];
  for (const holderName of HOLDERS) {
    if (!name.startsWith(holderName)) continue;
    const holder = holderName === 'TypedArray' ? SPECIAL.TypedArray : globalThis[holderName];
    if (holder === undefined) continue;
    const rest = name.slice(holderName.length);
    if (rest === 'Prototype') return holder.prototype;
    if (rest.startsWith('Prototype')) {
      const inner = rest.slice(9);
      if (inner.startsWith('Get')) {
        const got = member(holder.prototype, inner.slice(3));
        if (got?.get) return uncurry(got.get);
      }
      const own = member(holder.prototype, inner);
      if (own) return typeof own.value === 'function' ? uncurry(own.value) : own.value;
      continue;
    }
    const own = member(holder, rest);
    if (own) return own.value;
  }
  return undefined;
}

const primordials = new Proxy({ __proto__: null }, { get: (_, name) => primordial(name), has: () => true });

const COMMONJS = (exports) => (module) => {
  module.exports = exports();
};

export const replaced = {
  499: COMMONJS(() => types),
  683: COMMONJS(() => primordials),
  727: COMMONJS(() => binding),
  878: COMMONJS(() => globalThis.URL),
};
