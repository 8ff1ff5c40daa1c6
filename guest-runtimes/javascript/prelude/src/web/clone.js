// structuredClone.
import { native } from '../native.js';
import { coded } from '../node/errors.js';
import { inspect } from '../inspect/index.js';

const ERRORS = { Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError };

function uncloneable(value) {
  let shown;
  try {
    shown = typeof value === 'function' ? `${value}` : typeof value === 'symbol' ? value.toString() : `#<${native.classOf(value) ?? 'Object'}>`;
  } catch {
    shown = inspect(value);
  }
  return new DOMException(`${shown} could not be cloned.`, 'DataCloneError');
}

function copyBuffer(buffer, memory, moved) {
  if (memory.has(buffer)) return memory.get(buffer);
  const copy = moved.has(buffer) ? buffer.transfer() : native.classOf(buffer) === 'SharedArrayBuffer' ? buffer : buffer.slice(0);
  memory.set(buffer, copy);
  return copy;
}

function copy(value, memory, moved) {
  switch (typeof value) {
    case 'symbol': throw uncloneable(value);
    case 'function': throw uncloneable(value);
    case 'object': break;
    default: return value;
  }
  if (value === null) return null;
  if (memory.has(value)) return memory.get(value);
  const remember = (made) => {
    memory.set(value, made);
    return made;
  };
  const kind = native.classOf(value);
  switch (kind) {
    case 'Boolean': return remember(Object(Boolean.prototype.valueOf.call(value)));
    case 'Number': return remember(Object(Number.prototype.valueOf.call(value)));
    case 'String': return remember(Object(String.prototype.valueOf.call(value)));
    case 'BigInt': return remember(Object(BigInt.prototype.valueOf.call(value)));
    case 'Date': return remember(new Date(Date.prototype.getTime.call(value)));
    case 'RegExp': return remember(new RegExp(value.source, value.flags));
    case 'ArrayBuffer': case 'SharedArrayBuffer': return copyBuffer(value, memory, moved);
    case 'Map': {
      const made = remember(new Map());
      for (const [key, item] of [...Map.prototype.entries.call(value)]) made.set(copy(key, memory, moved), copy(item, memory, moved));
      return made;
    }
    case 'Set': {
      const made = remember(new Set());
      for (const item of [...Set.prototype.values.call(value)]) made.add(copy(item, memory, moved));
      return made;
    }
    case 'Error': {
      const Base = Object.hasOwn(ERRORS, value.name) ? ERRORS[value.name] : Error;
      const error = new Base();
      remember(error);
      const message = Object.getOwnPropertyDescriptor(value, 'message');
      if (message && 'value' in message) Object.defineProperty(error, 'message', { value: `${message.value}`, writable: true, configurable: true });
      else delete error.message;
      const { stack } = value;
      if (typeof stack === 'string') error.stack = stack;
      if (Object.hasOwn(value, 'cause')) Object.defineProperty(error, 'cause', { value: copy(value.cause, memory, moved), writable: true, configurable: true });
      return error;
    }
    case 'WeakMap': case 'WeakSet': case 'WeakRef': case 'Promise': case 'Generator': case 'AsyncGenerator': case 'Symbol': case 'Module':
    case 'FinalizationRegistry': case 'Map Iterator': case 'Set Iterator': case 'Array Iterator':
      throw uncloneable(value);
  }
  if (ArrayBuffer.isView(value)) {
    const buffer = copyBuffer(value.buffer, memory, moved);
    if (kind === 'DataView') return remember(new DataView(buffer, value.byteOffset, value.byteLength));
    const Maker = globalThis[kind] ?? Uint8Array;
    return remember(new Maker(buffer, value.byteOffset, value.length));
  }
  if (value instanceof DOMException) return remember(new DOMException(value.message, value.name));
  const made = remember(Array.isArray(value) ? new Array(value.length) : {});
  for (const key of Object.keys(value)) {
    Object.defineProperty(made, key, { value: copy(value[key], memory, moved), writable: true, enumerable: true, configurable: true });
  }
  return made;
}

export function structuredClone(value, options) {
  if (arguments.length === 0) throw coded(TypeError, 'ERR_MISSING_ARGS', 'The value argument must be specified');
  const moved = new Set(options?.transfer ?? []);
  for (const item of moved) {
    if (native.classOf(item) !== 'ArrayBuffer') throw new DOMException('Value not transferable', 'DataCloneError');
    if (item.detached) throw new DOMException('An ArrayBuffer is detached and could not be cloned.', 'DataCloneError');
  }
  const memory = new Map();
  const result = copy(value, memory, moved);
  for (const item of moved) if (!memory.has(item)) item.transfer();
  return result;
}
