// The built-ins as they were when the image was made, for code that has to work whatever a program has changed.
import { defineProperty, getOwnPropertyDescriptor, getPrototypeOf } from './uncurry.js';

const { ownKeys, deleteProperty } = Reflect;
const { setPrototypeOf } = Object;

const TYPES = [
  'Object', 'Function', 'Array', 'String', 'Number', 'Boolean', 'Symbol', 'BigInt', 'Promise', 'RegExp', 'Date', 'Map', 'Set', 'WeakMap', 'WeakSet',
  'WeakRef', 'ArrayBuffer', 'DataView', 'Uint8Array', 'Proxy', 'Error', 'TypeError', 'RangeError', 'SyntaxError', 'ReferenceError', 'EvalError', 'URIError',
  'AggregateError', 'URL',
];
const SPACES = ['JSON', 'Math', 'Reflect'];

// Objects, with the names and descriptors of their properties, in groups of three.
const kept = [];
// The prototypes that all objects of the program and of the prelude inherit from.
let shared;

function saveProperties(object, include) {
  const keys = ownKeys(object);
  const values = [];
  const names = [];
  for (let i = 0; i < keys.length; i++) {
    const found = getOwnPropertyDescriptor(object, keys[i]);
    if (!found.configurable && !found.writable) continue;
    if (include && !include(keys[i], found)) continue;
    names.push(keys[i]);
    values.push({ __proto__: null, ...found });
  }
  kept.push(object, names, values);
}

// Records the built-ins, when all that programs find is in place.
export function learn() {
  const objects = new Set();
  for (const name of TYPES) {
    objects.add(globalThis[name]);
    if (globalThis[name].prototype) objects.add(globalThis[name].prototype);
  }
  for (const name of SPACES) objects.add(globalThis[name]);
  const typed = getPrototypeOf(Uint8Array);
  objects.add(typed).add(typed.prototype);
  const generator = getPrototypeOf(function* () {}).prototype;
  for (const iterator of [[].values(), new Map().keys(), new Set().keys(), ''[Symbol.iterator](), 'x'.matchAll(/x/g)]) objects.add(getPrototypeOf(iterator));
  for (let proto = generator; proto && proto !== Object.prototype; proto = getPrototypeOf(proto)) objects.add(proto);
  for (const object of objects) saveProperties(object);
  // Other parts of the globals are created on first access.
  saveProperties(globalThis, (name, found) => typeof found.value === 'function' || objects.has(found.value));
  shared = [Object.prototype, Array.prototype, Function.prototype, String.prototype];
}

const same = (a, b) => a !== undefined && a.value === b.value && a.get === b.get && a.set === b.set;

function restoreProperty(object, name, descriptor) {
  try {
    if (descriptor === undefined) deleteProperty(object, name);
    else defineProperty(object, name, descriptor);
  } catch {
    // Properties that a program has frozen stay.
  }
}

function without(descriptor) {
  return descriptor === undefined ? undefined : setPrototypeOf(descriptor, null);
}

// Returns true if the property is the program's name or message of an error, which is kept even here.
function isOwnWord(object, name, now) {
  if (now === undefined || !('value' in now)) return false;
  return (name === 'name' || name === 'message') && 'stack' in object;
}

function restore(changes, more) {
  const note = (object, name, now, then) => {
    defineProperty(changes, changes.length, { __proto__: null, value: [object, name, now], configurable: true, writable: true, enumerable: true });
    restoreProperty(object, name, then);
  };
  for (let i = 0; i < kept.length; i += 3) {
    const object = kept[i];
    const names = kept[i + 1];
    const values = kept[i + 2];
    for (let j = 0; j < names.length; j++) {
      const now = without(getOwnPropertyDescriptor(object, names[j]));
      if (same(now, values[j]) || (!more && isOwnWord(object, names[j], now))) continue;
      note(object, names[j], now, values[j]);
    }
  }
  if (!more) return;
  for (let i = 0; i < shared.length; i++) {
    const object = shared[i];
    const keys = ownKeys(object);
    for (let j = 0; j < keys.length; j++) if (!known(object, keys[j])) note(object, keys[j], without(getOwnPropertyDescriptor(object, keys[j])), undefined);
  }
}

function known(object, name) {
  for (let i = 0; i < kept.length; i += 3) {
    if (kept[i] !== object) continue;
    const names = kept[i + 1];
    for (let j = 0; j < names.length; j++) if (names[j] === name) return true;
  }
  return !getOwnPropertyDescriptor(object, name).configurable;
}

let depth = 0;

// Runs a function with the original built-ins, and restores the program's afterwards. With `more`, properties that the
// program has added to the prototypes of all objects are removed as well, so that none of its accessors interferes.
export function pristinely(run, more = false) {
  if (depth > 0 && !more) return run();
  const changes = [];
  depth++;
  try {
    restore(changes, more);
    return run();
  } finally {
    depth--;
    for (let i = changes.length - 1; i >= 0; i--) restoreProperty(changes[i][0], changes[i][1], changes[i][2]);
  }
}

// Runs a function in the same way and always returns a result: `plain` uses no built-in that a program could have
// changed.
export function withFallback(run, plain) {
  try {
    return pristinely(run);
  } catch {
    // Tries again with fewer of the program's changes.
  }
  try {
    return pristinely(run, true);
  } catch {
    return plain();
  }
}
