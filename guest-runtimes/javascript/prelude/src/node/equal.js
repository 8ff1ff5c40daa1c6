// Deep equality of assert and util, strict and loose.
import { native } from '../native.js';

const enumerableSymbols = (value) => Object.getOwnPropertySymbols(value).filter((key) => Object.prototype.propertyIsEnumerable.call(value, key));

function sameKeys(a, b, strict, memo, indices) {
  const keysA = indices ? native.ownKeys(a, true, true).filter((key) => typeof key === 'string') : Object.keys(a);
  const keysB = indices ? native.ownKeys(b, true, true).filter((key) => typeof key === 'string') : Object.keys(b);
  if (keysA.length !== keysB.length) return false;
  for (const key of keysA) if (!Object.prototype.propertyIsEnumerable.call(b, key)) return false;
  const keys = [...keysA];
  if (strict) {
    const symbolsA = enumerableSymbols(a);
    if (symbolsA.length !== enumerableSymbols(b).length) return false;
    for (const key of symbolsA) if (!Object.prototype.propertyIsEnumerable.call(b, key)) return false;
    keys.push(...symbolsA);
  }
  for (const key of keys) if (!equal(a[key], b[key], strict, memo)) return false;
  return true;
}

function sameItems(a, b, strict, memo) {
  for (let i = 0; i < a.length; i++) {
    const hasA = Object.hasOwn(a, i);
    if (strict ? hasA !== Object.hasOwn(b, i) : false) return false;
    if (!equal(a[i], b[i], strict, memo)) return false;
  }
  return true;
}

function sameSet(a, b, strict, memo) {
  if (a.size !== b.size) return false;
  const rest = [];
  for (const item of a) {
    if (b.has(item)) continue;
    if (strict && (typeof item !== 'object' || item === null)) return false;
    rest.push(item);
  }
  if (rest.length === 0) return true;
  const others = [...b].filter((item) => !a.has(item));
  for (const item of rest) {
    const at = others.findIndex((other) => equal(item, other, strict, memo));
    if (at < 0) return false;
    others.splice(at, 1);
  }
  return true;
}

function sameMap(a, b, strict, memo) {
  if (a.size !== b.size) return false;
  const rest = [];
  for (const [key, item] of a) {
    if (b.has(key)) {
      if (!equal(item, b.get(key), strict, memo)) return false;
    } else if (strict && (typeof key !== 'object' || key === null)) return false;
    else rest.push([key, item]);
  }
  if (rest.length === 0) return true;
  const others = [...b].filter(([key]) => !a.has(key));
  for (const [key, item] of rest) {
    const at = others.findIndex(([otherKey, other]) => equal(key, otherKey, strict, memo) && equal(item, other, strict, memo));
    if (at < 0) return false;
    others.splice(at, 1);
  }
  return true;
}

const BOXES = { Number, String, Boolean, BigInt, Symbol };

function equal(a, b, strict, memo) {
  if (a === b) return a !== 0 || !strict || Object.is(a, b);
  if (strict) {
    if (typeof a !== 'object') return typeof a === 'number' && Number.isNaN(a) && Number.isNaN(b);
    if (typeof b !== 'object' || a === null || b === null) return false;
    if (Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) return false;
  } else {
    if (a === null || typeof a !== 'object') {
      return (b === null || typeof b !== 'object') && (a == b || (Number.isNaN(a) && Number.isNaN(b)));
    }
    if (b === null || typeof b !== 'object') return false;
  }
  const kind = native.classOf(a);
  const other = native.classOf(b);
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  if (kind !== other && !(kind === 'Arguments' || other === 'Arguments')) {
    if (strict || (kind !== 'Object' && other !== 'Object')) return false;
    if (kind !== other && (BOXES[kind] || BOXES[other] || ['Map', 'Set', 'Date', 'RegExp', 'Error'].includes(kind) || ['Map', 'Set', 'Date', 'RegExp', 'Error'].includes(other))) return false;
  }
  if (Object.prototype.toString.call(a) !== Object.prototype.toString.call(b)) return false;
  switch (kind) {
    case 'Date': if (a.getTime() !== b.getTime() && !(Number.isNaN(a.getTime()) && Number.isNaN(b.getTime()))) return false; break;
    case 'RegExp': if (a.source !== b.source || a.flags !== b.flags || a.lastIndex !== b.lastIndex) return false; break;
    case 'Error':
      if (a.message !== b.message || a.name !== b.name) return false;
      if (Object.hasOwn(a, 'cause') !== Object.hasOwn(b, 'cause') || (Object.hasOwn(a, 'cause') && !equal(a.cause, b.cause, strict, memo))) return false;
      if (Object.hasOwn(a, 'errors') && !equal(a.errors, b.errors, strict, memo)) return false;
      break;
    case 'Number': case 'String': case 'Boolean': case 'BigInt': case 'Symbol':
      if (!Object.is(BOXES[kind].prototype.valueOf.call(a), BOXES[kind].prototype.valueOf.call(b))) return false;
      break;
    case 'ArrayBuffer': case 'SharedArrayBuffer':
      if (a.byteLength !== b.byteLength || native.compare(new Uint8Array(a), new Uint8Array(b)) !== 0) return false;
      break;
    case 'WeakMap': case 'WeakSet': case 'Promise': case 'WeakRef': return false;
  }
  if (ArrayBuffer.isView(a)) {
    if (!ArrayBuffer.isView(b) || a.byteLength !== b.byteLength) return false;
    if (kind === 'Float32Array' || kind === 'Float64Array') {
      for (let i = 0; i < a.length; i++) if (strict ? !Object.is(a[i], b[i]) : a[i] !== b[i] && !(Number.isNaN(a[i]) && Number.isNaN(b[i]))) return false;
    } else {
      const bytes = (view) => new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
      if (native.compare(bytes(a), bytes(b)) !== 0) return false;
    }
    return sameKeys(a, b, strict, memo, true);
  }
  // A pair that an outer call compares counts as equal, so that cycles end.
  const before = memo.get(a);
  if (before !== undefined) {
    if (before.has(b)) return true;
    before.add(b);
  } else memo.set(a, new Set([b]));
  let same;
  if (Array.isArray(a)) same = a.length === b.length && sameItems(a, b, strict, memo) && sameKeys(a, b, strict, memo, true);
  else if (kind === 'Set') same = sameSet(a, b, strict, memo) && sameKeys(a, b, strict, memo, false);
  else if (kind === 'Map') same = sameMap(a, b, strict, memo) && sameKeys(a, b, strict, memo, false);
  else same = sameKeys(a, b, strict, memo, false);
  memo.get(a).delete(b);
  return same;
}

export const isDeepStrictEqual = (a, b) => equal(a, b, true, new Map());
export const isDeepEqual = (a, b) => equal(a, b, false, new Map());
