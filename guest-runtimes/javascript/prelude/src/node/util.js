// node:util.
import { native } from '../native.js';
import { format, formatWithOptions, inspect, stripVTControlCharacters } from '../inspect/index.js';
import * as typeTests from '../inspect/types.js';
import { TextDecoder, TextEncoder } from '../web/encoding.js';
import { coded, invalidArgType, invalidArgValue, validateFunction, validateObject, validateString } from './errors.js';
import { isDeepEqual, isDeepStrictEqual } from './equal.js';
import { parseArgs } from './parseargs.js';
import { process } from '../process.js';
import { nextTick } from '../loop/ticks.js';

export const types = { ...typeTests };
delete types.isArrayBufferView;
types.isArrayBufferView = typeTests.isArrayBufferView;

const kCustomPromisify = Symbol.for('nodejs.util.promisify.custom');
const kCustomArgs = Symbol('customPromisifyArgs');
export const customPromisifyArgs = kCustomArgs;

export function promisify(original) {
  validateFunction(original, 'original');
  if (original[kCustomPromisify]) {
    const fn = original[kCustomPromisify];
    validateFunction(fn, 'util.promisify.custom');
    return Object.defineProperty(fn, kCustomPromisify, { value: fn, enumerable: false, writable: false, configurable: true });
  }
  const names = original[kCustomArgs];
  function fn(...args) {
    return new Promise((resolve, reject) => {
      Reflect.apply(original, this, [
        ...args,
        (error, ...values) => {
          if (error) return reject(error);
          if (names !== undefined && values.length > 1) {
            const object = {};
            names.forEach((name, i) => {
              object[name] = values[i];
            });
            return resolve(object);
          }
          return resolve(values[0]);
        },
      ]);
    });
  }
  Object.setPrototypeOf(fn, Object.getPrototypeOf(original));
  Object.defineProperty(fn, kCustomPromisify, { value: fn, enumerable: false, writable: false, configurable: true });
  const descriptors = Object.getOwnPropertyDescriptors(original);
  for (const key of Reflect.ownKeys(descriptors)) {
    if (key === 'arguments' || key === 'caller' || key === 'prototype') continue;
    Object.defineProperty(fn, key, descriptors[key]);
  }
  return fn;
}
promisify.custom = kCustomPromisify;

export function callbackify(original) {
  validateFunction(original, 'original');
  function callbackified(...args) {
    const callback = args.pop();
    validateFunction(callback, 'last argument');
    Reflect.apply(original, this, args).then(
      (value) => nextTick(callback, null, value),
      (reason) => {
        if (!reason) {
          const error = coded(Error, 'ERR_FALSY_VALUE_REJECTION', 'Promise was rejected with falsy value');
          error.reason = reason;
          reason = error;
        }
        nextTick(callback, reason);
      },
    );
  }
  Object.defineProperty(callbackified, 'name', { value: `${original.name}Callbackified`, configurable: true });
  Object.defineProperty(callbackified, 'length', { value: original.length + 1, configurable: true });
  return callbackified;
}

const warned = new Set();
export function deprecate(fn, message, code) {
  validateFunction(fn, 'fn');
  let reported = false;
  function deprecated(...args) {
    if (!reported) {
      reported = true;
      if (code === undefined || !warned.has(code)) {
        if (code !== undefined) warned.add(code);
        process.emitWarning(message, 'DeprecationWarning', code, deprecated);
      }
    }
    return new.target ? Reflect.construct(fn, args, new.target) : Reflect.apply(fn, this, args);
  }
  Object.setPrototypeOf(deprecated, fn);
  if (fn.prototype) deprecated.prototype = fn.prototype;
  return deprecated;
}

export function inherits(constructor, superConstructor) {
  if (constructor === undefined || constructor === null) throw invalidArgType('ctor', 'Function', constructor);
  if (superConstructor === undefined || superConstructor === null) throw invalidArgType('superCtor', 'Function', superConstructor);
  if (superConstructor.prototype === undefined) throw invalidArgType('superCtor.prototype', 'Object', superConstructor.prototype);
  Object.defineProperty(constructor, 'super_', { value: superConstructor, writable: true, configurable: true });
  Object.setPrototypeOf(constructor.prototype, superConstructor.prototype);
}

export function debuglog(set) {
  const name = `${set}`.toUpperCase();
  const on = () => new RegExp(`^(?:${(process.env.NODE_DEBUG ?? '').replace(/[|\\{}()[\]^$+?.]/g, '\\$&').replace(/\*/g, '.*').replace(/,/g, '|')})$`, 'i').test(name) && process.env.NODE_DEBUG !== undefined;
  const log = (...args) => {
    if (on()) native.write(2, `${name} ${process.pid}: ${format(...args)}\n`);
  };
  Object.defineProperty(log, 'enabled', { get: on, configurable: true, enumerable: true });
  return log;
}

// Formats a text with one or several named styles, if the stream shows styles.
export function styleText(style, text, { validateStream = true, stream } = {}) {
  validateString(text, 'text');
  const { FORCE_COLOR, NO_COLOR } = process.env;
  const plain = validateStream && (FORCE_COLOR === undefined ? !(stream ?? process.stdout).isTTY || NO_COLOR !== undefined : FORCE_COLOR === '0');
  let open = '';
  let close = '';
  for (const name of Array.isArray(style) ? style : [style]) {
    if (name === 'none') continue;
    const codes = inspect.colors[name];
    if (codes === undefined) throw invalidArgValue('style', name, `must be one of: ${Object.keys(inspect.colors).map((each) => `'${each}'`).join(', ')}`);
    open += `\u001b[${codes[0]}m`;
    close = `\u001b[${codes[1]}m${close}`;
  }
  return plain ? text : `${open}${text}${close}`;
}

export function toUSVString(text) {
  return `${text}`.toWellFormed();
}

export function parseEnv(content) {
  validateString(content, 'content');
  const out = {};
  const line = /^\s*(?:export\s+)?([\w.-]+)(?:\s*=\s*?|:\s+?)(\s*'(?:\\'|[^'])*'|\s*"(?:\\"|[^"])*"|\s*`(?:\\`|[^`])*`|[^#\r\n]*)?\s*(?:#.*)?$/gm;
  for (const found of content.replace(/\r\n?/g, '\n').matchAll(line)) {
    let value = (found[2] ?? '').trim();
    const quote = value[0];
    if (/^(['"`])[\s\S]*\1$/.test(value)) {
      value = value.slice(1, -1);
      if (quote === '"') value = value.replace(/\\n/g, '\n');
    }
    out[found[1]] = value;
  }
  return out;
}

const NUMBERS = {
  1: ['EPERM', 'operation not permitted'], 2: ['ENOENT', 'no such file or directory'], 5: ['EIO', 'i/o error'], 9: ['EBADF', 'bad file descriptor'],
  11: ['EAGAIN', 'resource temporarily unavailable'], 12: ['ENOMEM', 'not enough memory'], 13: ['EACCES', 'permission denied'], 17: ['EEXIST', 'file already exists'],
  18: ['EXDEV', 'cross-device link not permitted'], 20: ['ENOTDIR', 'not a directory'], 21: ['EISDIR', 'illegal operation on a directory'], 22: ['EINVAL', 'invalid argument'],
  24: ['EMFILE', 'too many open files'], 28: ['ENOSPC', 'no space left on device'], 30: ['EROFS', 'read-only file system'], 32: ['EPIPE', 'broken pipe'],
  38: ['ENOSYS', 'function not implemented'], 39: ['ENOTEMPTY', 'directory not empty'], 40: ['ELOOP', 'too many symbolic links encountered'],
  95: ['ENOTSUP', 'operation not supported on socket'], 98: ['EADDRINUSE', 'address already in use'], 104: ['ECONNRESET', 'connection reset by peer'],
  110: ['ETIMEDOUT', 'connection timed out'], 111: ['ECONNREFUSED', 'connection refused'],
};
export const getSystemErrorName = (number) => NUMBERS[-number]?.[0];
export const getSystemErrorMessage = (number) => NUMBERS[-number]?.[1];
export const getSystemErrorMap = () => new Map(Object.entries(NUMBERS).map(([number, pair]) => [-Number(number), pair]));

export class MIMEType {
  #type;
  #subtype;
  constructor(text) {
    const found = /^\s*([\w!#$%&'*+.^`|~-]+)\/([\w!#$%&'*+.^`|~-]+)\s*(?:;(.*))?$/.exec(`${text}`);
    if (!found) throw coded(TypeError, 'ERR_INVALID_MIME_SYNTAX', `The MIME syntax for a type in "${text}" is invalid`);
    this.#type = found[1].toLowerCase();
    this.#subtype = found[2].toLowerCase();
    this.params = new Map();
    for (const part of (found[3] ?? '').split(';')) {
      const [name, value] = part.split('=');
      if (value !== undefined) this.params.set(name.trim().toLowerCase(), value.trim().replace(/^"(.*)"$/, '$1'));
    }
  }
  get type() { return this.#type; }
  get subtype() { return this.#subtype; }
  get essence() { return `${this.#type}/${this.#subtype}`; }
  toString() {
    return [this.essence, ...[...this.params].map(([name, value]) => `${name}=${value}`)].join(';');
  }
}

export function aborted(signal, resource) {
  validateObject(resource, 'resource');
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}

export const getCallSites = (count = 8) => {
  const before = Error.prepareStackTrace;
  Error.prepareStackTrace = (_, sites) => sites;
  const sites = new Error().stack;
  Error.prepareStackTrace = before;
  return sites.slice(0, count).map((site) => ({
    functionName: site.getFunctionName() ?? '', scriptName: site.getFileName(), lineNumber: site.getLineNumber(), column: site.getColumnNumber(),
  }));
};

export const isArray = Array.isArray;
export const isError = (value) => typeTests.isNativeError(value) || value instanceof Error;
const kindOf = (name) => (value) => typeof value === name;

export default {
  format, formatWithOptions, inspect, stripVTControlCharacters, promisify, callbackify, deprecate, inherits, debuglog, debug: debuglog, types, TextDecoder, TextEncoder,
  isDeepStrictEqual, parseArgs, styleText, toUSVString, parseEnv, getSystemErrorName, getSystemErrorMessage, getSystemErrorMap, MIMEType, aborted, getCallSites,
  getCallSite: getCallSites,
  isArray, isBuffer: (value) => globalThis.Buffer.isBuffer(value), isError,
  isBoolean: kindOf('boolean'), isNull: (value) => value === null, isNullOrUndefined: (value) => value === null || value === undefined, isNumber: kindOf('number'),
  isString: kindOf('string'), isSymbol: kindOf('symbol'), isUndefined: kindOf('undefined'), isRegExp: typeTests.isRegExp,
  isObject: (value) => value !== null && typeof value === 'object', isDate: typeTests.isDate, isFunction: kindOf('function'),
  isPrimitive: (value) => value === null || (typeof value !== 'object' && typeof value !== 'function'),
  log: (...args) => console.log('%s - %s', new Date().toLocaleTimeString(), format(...args)),
  _extend: (target, source) => (source === null || typeof source !== 'object' ? target : Object.assign(target, source)),
};
export { isDeepEqual };
