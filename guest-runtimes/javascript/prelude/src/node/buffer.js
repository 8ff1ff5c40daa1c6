// node:buffer: Buffer over the engine's Uint8Array, with the shim's conversions.
import { native } from '../native.js';
import { coded, invalidArgType, invalidArgValue, outOfRange, received, validateInteger, validateNumber } from './errors.js';
import { inspect } from '../inspect/index.js';
import { isAnyArrayBuffer, isUint8Array } from '../inspect/types.js';
import { hidden } from '../engine/uncurry.js';

// Node's own limit; memory is exhausted long before.
const kMaxLength = 2 ** 32;
const kStringMaxLength = 2 ** 29 - 24;
export const constants = { MAX_LENGTH: kMaxLength, MAX_STRING_LENGTH: kStringMaxLength };
const custom = inspect.custom;

const ENCODINGS = {
  __proto__: null,
  utf8: 'utf8', 'utf-8': 'utf8', hex: 'hex', base64: 'base64', base64url: 'base64url', ascii: 'ascii', latin1: 'latin1', binary: 'latin1',
  ucs2: 'utf16le', 'ucs-2': 'utf16le', utf16le: 'utf16le', 'utf-16le': 'utf16le',
};

export function normalizeEncoding(encoding) {
  if (encoding === undefined || encoding === null || encoding === '') return 'utf8';
  return ENCODINGS[encoding] ?? ENCODINGS[`${encoding}`.toLowerCase()];
}

function encodingOf(encoding) {
  const normal = normalizeEncoding(encoding);
  if (normal === undefined) throw coded(TypeError, 'ERR_UNKNOWN_ENCODING', `Unknown encoding: ${encoding}`);
  return normal;
}

function utf16Encode(text) {
  const out = new Uint8Array(text.length * 2);
  for (let i = 0, at = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    out[at++] = code & 255;
    out[at++] = code >> 8;
  }
  return out;
}

export function utf16Decode(bytes) {
  let text = '';
  const end = bytes.length & ~1;
  for (let i = 0; i < end; i += 8192) {
    const codes = [];
    for (let j = i; j < end && j < i + 8192; j += 2) codes.push(bytes[j] | (bytes[j + 1] << 8));
    text += String.fromCharCode(...codes);
  }
  return text;
}

// Decodes the text up to the first pair that is not hexadecimal.
function hexEncode(text) {
  let length = text.length >> 1;
  const clean = text.slice(0, length * 2);
  const stop = clean.search(/[^0-9a-fA-F]/);
  if (stop >= 0) length = stop >> 1;
  return Uint8Array.fromHex(clean.slice(0, length * 2));
}

const CLEAN_BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;

// Decodes base64 like Node, which ignores invalid characters and accepts both alphabets.
function base64Encode(text) {
  if (text.length % 4 === 0 && CLEAN_BASE64.test(text)) return Uint8Array.fromBase64(text);
  const padding = text.indexOf('=');
  let clean = (padding < 0 ? text : text.slice(0, padding)).replace(/-/g, '+').replace(/_/g, '/').replace(/[^A-Za-z0-9+/]/g, '');
  if (clean.length % 4 === 1) clean = clean.slice(0, -1);
  const spare = clean.length % 4;
  // The unused bits of the last characters are dropped.
  return Uint8Array.fromBase64(spare === 0 ? clean : clean + '='.repeat(4 - spare), { lastChunkHandling: 'loose' });
}

export function encode(text, encoding) {
  switch (encoding) {
    case 'utf8': return native.utf8Encode(text);
    case 'latin1': case 'ascii': return native.latin1Encode(text);
    case 'utf16le': return utf16Encode(text);
    case 'hex': return hexEncode(text);
    default: return base64Encode(text);
  }
}

const plainView = (bytes) => new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length);
const toBase64 = Uint8Array.prototype.toBase64;
const toHex = Uint8Array.prototype.toHex;

export function decode(bytes, encoding) {
  switch (encoding) {
    case 'utf8': return native.utf8Decode(bytes, false);
    case 'latin1': return native.latin1Decode(bytes);
    case 'ascii': return native.latin1Decode(bytes.map((byte) => byte & 127));
    case 'utf16le': return utf16Decode(bytes);
    case 'hex': return toHex.call(plainView(bytes));
    case 'base64url': return toBase64.call(plainView(bytes), { alphabet: 'base64url', omitPadding: true });
    default: return toBase64.call(plainView(bytes));
  }
}

function FastBuffer(...args) {
  return Object.setPrototypeOf(new Uint8Array(...args), Buffer.prototype);
}

// Returns a Buffer over the same bytes.
export function wrap(bytes) {
  return Object.setPrototypeOf(bytes, Buffer.prototype);
}

export function Buffer(value, encodingOrOffset, length) {
  if (typeof value === 'number') {
    if (typeof encodingOrOffset === 'string') throw invalidArgType('string', 'string', value);
    return Buffer.alloc(value);
  }
  return Buffer.from(value, encodingOrOffset, length);
}
Object.setPrototypeOf(Buffer, Uint8Array);
Object.setPrototypeOf(Buffer.prototype, Uint8Array.prototype);
Object.defineProperty(Buffer, Symbol.species, { configurable: true, get: () => FastBuffer });
FastBuffer.prototype = Buffer.prototype;
Object.defineProperty(FastBuffer, 'name', { value: 'Buffer' });

function checkSize(size) {
  validateNumber(size, 'size', 0, kMaxLength);
}

const method = (holder, name, fn) => {
  Object.defineProperty(fn, 'name', { value: name, configurable: true });
  hidden(holder, name, fn);
};
const publish = (holder, methods) => {
  for (const [name, fn] of Object.entries(methods)) {
    Object.defineProperty(holder, name, { value: fn, writable: true, configurable: true, enumerable: true });
  }
};

publish(Buffer, {
  poolSize: 8192,
  from: function from(value, encodingOrOffset, length) {
    if (typeof value === 'string') return wrap(encode(value, encodingOf(encodingOrOffset)));
    if (typeof value === 'object' && value !== null) {
      if (isAnyArrayBuffer(value)) {
        const offset = encodingOrOffset === undefined ? 0 : +encodingOrOffset || 0;
        const most = value.byteLength - offset;
        if (most < 0) throw coded(RangeError, 'ERR_BUFFER_OUT_OF_BOUNDS', '"offset" is outside of buffer bounds');
        if (length === undefined) length = most;
        else {
          length = +length;
          if (!(length > 0)) length = 0;
          else if (length > most) throw coded(RangeError, 'ERR_BUFFER_OUT_OF_BOUNDS', '"length" is outside of buffer bounds');
        }
        return FastBuffer(value, offset, length);
      }
      const inner = value.valueOf && value.valueOf();
      if (inner != null && inner !== value && (typeof inner === 'string' || typeof inner === 'object')) return Buffer.from(inner, encodingOrOffset, length);
      if (ArrayBuffer.isView(value) || value.length !== undefined || isAnyArrayBuffer(value.buffer)) {
        return typeof value.length === 'number' ? FastBuffer(value) : FastBuffer(0);
      }
      if (value.type === 'Buffer' && Array.isArray(value.data)) return FastBuffer(value.data);
      if (typeof value[Symbol.toPrimitive] === 'function') {
        const primitive = value[Symbol.toPrimitive]('string');
        if (typeof primitive === 'string') return Buffer.from(primitive, encodingOrOffset);
      }
    }
    throw coded(
      TypeError,
      'ERR_INVALID_ARG_TYPE',
      `The first argument must be of type string or an instance of Buffer, ArrayBuffer, or Array or an Array-like Object.${received(value)}`,
    );
  },
  of: (...items) => FastBuffer(items),
  alloc(size, fill, encoding) {
    checkSize(size);
    const out = FastBuffer(size);
    return fill !== undefined && fill !== 0 && size > 0 ? out.fill(fill, encoding) : out;
  },
  allocUnsafe(size) {
    checkSize(size);
    return FastBuffer(size);
  },
  allocUnsafeSlow(size) {
    checkSize(size);
    return FastBuffer(size);
  },
  isBuffer: (value) => value instanceof Buffer,
  isEncoding: (encoding) => typeof encoding === 'string' && encoding !== '' && normalizeEncoding(encoding) !== undefined,
  byteLength(text, encoding) {
    if (typeof text !== 'string') {
      if (ArrayBuffer.isView(text) || isAnyArrayBuffer(text)) return text.byteLength;
      throw invalidArgType('string', ['string', 'Buffer', 'ArrayBuffer'], text);
    }
    switch (normalizeEncoding(encoding) ?? 'utf8') {
      case 'utf8': return native.utf8Length(text);
      case 'latin1': case 'ascii': return text.length;
      case 'utf16le': return text.length * 2;
      case 'hex': return text.length >>> 1;
      default: {
        let end = text.length;
        while (end > 0 && text[end - 1] === '=') end--;
        return (end * 3) >>> 2;
      }
    }
  },
  compare(a, b) {
    if (!isUint8Array(a)) throw invalidArgType('buf1', ['Buffer', 'Uint8Array'], a);
    if (!isUint8Array(b)) throw invalidArgType('buf2', ['Buffer', 'Uint8Array'], b);
    return native.compare(a, b);
  },
  concat(list, length) {
    if (!Array.isArray(list)) throw invalidArgType('list', 'Array', list);
    if (list.length === 0) return FastBuffer(0);
    if (length === undefined) {
      length = 0;
      for (const item of list) if (item.length) length += item.length;
    } else validateInteger(length, 'length', 0);
    const out = FastBuffer(length);
    let at = 0;
    for (let i = 0; i < list.length; i++) {
      const item = list[i];
      if (!isUint8Array(item)) throw invalidArgType(`list[${i}]`, ['Buffer', 'Uint8Array'], item);
      if (at + item.length > length) {
        out.set(item.subarray(0, length - at), at);
        at = length;
        break;
      }
      out.set(item, at);
      at += item.length;
    }
    return out;
  },
  copyBytesFrom(view, offset = 0, length) {
    const part = length === undefined ? view.subarray(offset) : view.subarray(offset, offset + length);
    return FastBuffer(part.slice().buffer);
  },
});

const proto = Buffer.prototype;
Object.defineProperty(proto, 'parent', { enumerable: true, get() { return this instanceof Buffer ? this.buffer : undefined; } });
Object.defineProperty(proto, 'offset', { enumerable: true, get() { return this instanceof Buffer ? this.byteOffset : undefined; } });

const toOffset = (value, otherwise, length) => {
  if (value === undefined) return otherwise;
  value = Math.trunc(+value) || 0;
  return value < 0 ? 0 : Math.min(value, length);
};

function range(buffer, start, end) {
  let from = start === undefined ? 0 : Math.trunc(+start) || 0;
  let to = end === undefined ? buffer.length : Math.trunc(+end) || 0;
  if (from < 0) from = Math.max(0, from + buffer.length);
  if (to < 0) to = Math.max(0, to + buffer.length);
  from = Math.min(from, buffer.length);
  to = Math.min(to, buffer.length);
  return [from, Math.max(0, to - from)];
}

function writeText(buffer, text, offset, length, encoding) {
  const space = buffer.length - offset;
  let most = length === undefined ? space : Math.min(length, space);
  let bytes = encode(text, encoding);
  if (bytes.length > most) {
    if (encoding === 'utf8') while (most > 0 && (bytes[most] & 0xc0) === 0x80) most--;
    else if (encoding === 'utf16le') most &= ~1;
    bytes = bytes.subarray(0, most);
  }
  buffer.set(bytes, offset);
  return bytes.length;
}

function search(buffer, value, offset, encoding, forward) {
  if (typeof offset === 'string') {
    encoding = offset;
    offset = undefined;
  }
  if (offset === undefined || Number.isNaN(+offset)) offset = forward ? 0 : buffer.length;
  offset = Math.trunc(+offset);
  if (offset < 0) offset += buffer.length;
  if (offset < 0) {
    if (!forward) return -1;
    offset = 0;
  }
  let needle;
  if (typeof value === 'number') needle = new Uint8Array([value & 255]);
  else if (typeof value === 'string') needle = encode(value, encodingOf(encoding));
  else if (isUint8Array(value)) needle = value;
  else throw invalidArgType('value', ['number', 'string', 'Buffer', 'Uint8Array'], value);
  if (needle.length === 0) return Math.min(offset, buffer.length);
  if (forward) return offset >= buffer.length ? -1 : native.indexOf(buffer, needle, offset);
  return native.lastIndexOf(buffer, needle, Math.min(offset, buffer.length - needle.length));
}

publish(proto, {
  toString(encoding, start, end) {
    if (arguments.length === 0) return native.utf8Decode(this, false);
    const from = toOffset(start, 0, this.length);
    const to = toOffset(end, this.length, this.length);
    if (to <= from) return '';
    const part = from === 0 && to === this.length ? this : new Uint8Array(this.buffer, this.byteOffset + from, to - from);
    return decode(part, encodingOf(encoding));
  },
  toLocaleString(...args) {
    return this.toString(...args);
  },
  toJSON() {
    return { type: 'Buffer', data: Array.from(this) };
  },
  equals(other) {
    if (!isUint8Array(other)) throw invalidArgType('otherBuffer', ['Buffer', 'Uint8Array'], other);
    return this === other || (this.length === other.length && native.compare(this, other) === 0);
  },
  compare(target, targetStart = 0, targetEnd = target.length, sourceStart = 0, sourceEnd = this.length) {
    if (!isUint8Array(target)) throw invalidArgType('target', ['Buffer', 'Uint8Array'], target);
    return native.compare(this.subarray(sourceStart, sourceEnd), target.subarray(targetStart, targetEnd));
  },
  copy(target, targetStart = 0, sourceStart = 0, sourceEnd = this.length) {
    if (!ArrayBuffer.isView(target)) throw invalidArgType('target', ['Buffer', 'Uint8Array'], target);
    targetStart = Math.trunc(+targetStart) || 0;
    sourceStart = Math.trunc(+sourceStart) || 0;
    sourceEnd = Math.trunc(+sourceEnd) || 0;
    if (targetStart < 0) throw outOfRange('targetStart', '>= 0', targetStart);
    if (sourceStart < 0 || sourceStart > this.length) throw outOfRange('sourceStart', `>= 0 && <= ${this.length}`, sourceStart);
    if (sourceEnd < 0) throw outOfRange('sourceEnd', '>= 0', sourceEnd);
    if (targetStart >= target.length || sourceStart >= sourceEnd) return 0;
    const count = Math.min(sourceEnd - sourceStart, target.length - targetStart, this.length - sourceStart);
    if (count <= 0) return 0;
    target.set(this.subarray(sourceStart, sourceStart + count), targetStart);
    return count;
  },
  slice(start, end) {
    return this.subarray(start, end);
  },
  subarray(start, end) {
    const [from, length] = range(this, start, end);
    return FastBuffer(this.buffer, this.byteOffset + from, length);
  },
  write(text, offset, length, encoding) {
    if (typeof text !== 'string') throw invalidArgType('argument', 'string', text);
    if (offset === undefined) return writeText(this, text, 0, undefined, 'utf8');
    if (typeof offset === 'string') return writeText(this, text, 0, undefined, encodingOf(offset));
    validateInteger(offset, 'offset', 0, this.length);
    if (typeof length === 'string') return writeText(this, text, offset, undefined, encodingOf(length));
    if (length !== undefined) validateInteger(length, 'length', 0, this.length - offset);
    return writeText(this, text, offset, length, encodingOf(encoding));
  },
  fill(value, offset, end, encoding) {
    if (typeof offset === 'string') {
      encoding = offset;
      offset = undefined;
    } else if (typeof end === 'string') {
      encoding = end;
      end = undefined;
    }
    const from = offset === undefined ? 0 : offset;
    const to = end === undefined ? this.length : end;
    validateInteger(from, 'offset', 0, this.length);
    validateInteger(to, 'end', 0, this.length);
    if (to <= from) return this;
    let bytes;
    if (typeof value === 'string') {
      bytes = encode(value, encodingOf(encoding));
      if (bytes.length === 0 && value.length > 0) throw invalidArgValue('value', value);
      if (bytes.length === 0) bytes = new Uint8Array(1);
    } else if (isUint8Array(value)) {
      if (value.length === 0) throw invalidArgValue('value', value);
      bytes = value;
    } else {
      Uint8Array.prototype.fill.call(this, typeof value === 'boolean' ? +value : value & 255, from, to);
      return this;
    }
    if (bytes.length === 1) Uint8Array.prototype.fill.call(this, bytes[0], from, to);
    else {
      // The filled part is copied behind itself, twice as much each time.
      const first = Math.min(bytes.length, to - from);
      Uint8Array.prototype.set.call(this, first < bytes.length ? bytes.subarray(0, first) : bytes, from);
      for (let done = first; done < to - from; done *= 2) this.copyWithin(from + done, from, from + Math.min(done, to - from - done));
    }
    return this;
  },
  indexOf(value, offset, encoding) {
    return search(this, value, offset, encoding, true);
  },
  lastIndexOf(value, offset, encoding) {
    return search(this, value, offset, encoding, false);
  },
  includes(value, offset, encoding) {
    return search(this, value, offset, encoding, true) !== -1;
  },
  swap16() {
    return swap(this, 2, '16-bits');
  },
  swap32() {
    return swap(this, 4, '32-bits');
  },
  swap64() {
    return swap(this, 8, '64-bits');
  },
});

function swap(buffer, size, name) {
  if (buffer.length % size !== 0) throw coded(RangeError, 'ERR_INVALID_BUFFER_SIZE', `Buffer size must be a multiple of ${name}`);
  for (let i = 0; i < buffer.length; i += size) plainView(buffer.subarray(i, i + size)).reverse();
  return buffer;
}

for (const encoding of ['ascii', 'base64', 'base64url', 'latin1', 'hex', 'ucs2', 'utf8']) {
  method(proto, `${encoding}Slice`, function (start, end) {
    return this.toString(encoding, start, end);
  });
  method(proto, `${encoding}Write`, function (text, offset = 0, length) {
    return writeText(this, text, offset, length, encodingOf(encoding));
  });
}

function boundsError(value, length) {
  if (Math.floor(value) !== value) return outOfRange('offset', 'an integer', value);
  if (length < 0) return coded(RangeError, 'ERR_BUFFER_OUT_OF_BOUNDS', 'Attempt to access memory outside buffer bounds');
  return outOfRange('offset', `>= 0 and <= ${length}`, value);
}

function viewAt(buffer, offset, size) {
  if (typeof offset !== 'number') throw invalidArgType('offset', 'number', offset);
  if (!(Number.isInteger(offset) && offset >= 0 && offset + size <= buffer.length)) throw boundsError(offset, buffer.length - size);
  return new DataView(buffer.buffer, buffer.byteOffset + offset, size);
}

function checkInt(value, min, max, size) {
  if (value > max || value < min) {
    const n = typeof min === 'bigint' ? 'n' : '';
    let limits;
    if (size > 4) {
      if (min === 0 || min === 0n) limits = `>= 0${n} and < 2${n} ** ${size * 8}${n}`;
      else limits = `>= -(2${n} ** ${size * 8 - 1}${n}) and < 2${n} ** ${size * 8 - 1}${n}`;
    } else limits = `>= ${min}${n} and <= ${max}${n}`;
    throw outOfRange('value', limits, value);
  }
}

// Accessors of every width, based on those of DataView.
for (const [name, kind, size, min, max] of [
  ['UInt8', 'Uint8', 1, 0, 255],
  ['Int8', 'Int8', 1, -128, 127],
  ['UInt16', 'Uint16', 2, 0, 65535],
  ['Int16', 'Int16', 2, -32768, 32767],
  ['UInt32', 'Uint32', 4, 0, 4294967295],
  ['Int32', 'Int32', 4, -2147483648, 2147483647],
  ['BigUInt64', 'BigUint64', 8, 0n, 2n ** 64n - 1n],
  ['BigInt64', 'BigInt64', 8, -(2n ** 63n), 2n ** 63n - 1n],
  ['Float', 'Float32', 4],
  ['Double', 'Float64', 8],
]) {
  for (const order of size === 1 ? [''] : ['LE', 'BE']) {
    const little = order !== 'BE';
    const get = `get${kind}`;
    const set = `set${kind}`;
    const read = function (offset = 0) {
      return viewAt(this, offset, size)[get](0, little);
    };
    const write = function (value, offset = 0) {
      if (min !== undefined) {
        if (typeof min !== 'bigint') value = +value;
        checkInt(value, min, max, size);
      }
      viewAt(this, offset, size)[set](0, value, little);
      return offset + size;
    };
    method(proto, `read${name}${order}`, read);
    method(proto, `write${name}${order}`, write);
    if (name.includes('UInt')) {
      method(proto, `read${name.replace('UInt', 'Uint')}${order}`, read);
      method(proto, `write${name.replace('UInt', 'Uint')}${order}`, write);
      method(proto, `read${name}${order}`, read);
      method(proto, `write${name}${order}`, write);
    }
  }
}

// Integers of one to six bytes.
for (const signed of [false, true]) {
  for (const little of [false, true]) {
    const name = `${signed ? '' : 'U'}Int${little ? 'LE' : 'BE'}`;
    const check = (buffer, offset, size) => {
      if (typeof size !== 'number') throw invalidArgType('byteLength', 'number', size);
      if (!Number.isInteger(size) || size < 1 || size > 6) throw outOfRange('byteLength', Number.isInteger(size) ? '>= 1 and <= 6' : 'an integer', size);
      return viewAt(buffer, offset, size);
    };
    const read = function (offset, size) {
      const view = check(this, offset, size);
      let value = 0;
      for (let i = 0; i < size; i++) value = value * 256 + view.getUint8(little ? size - 1 - i : i);
      return signed && value >= 2 ** (8 * size - 1) ? value - 2 ** (8 * size) : value;
    };
    const write = function (value, offset, size) {
      const view = check(this, offset, size);
      value = +value;
      checkInt(value, signed ? -(2 ** (8 * size - 1)) : 0, signed ? 2 ** (8 * size - 1) - 1 : 2 ** (8 * size) - 1, size);
      if (value < 0) value += 2 ** (8 * size);
      for (let i = 0; i < size; i++) {
        view.setUint8(little ? i : size - 1 - i, value % 256);
        value = Math.floor(value / 256);
      }
      return offset + size;
    };
    method(proto, `read${name}`, read);
    method(proto, `write${name}`, write);
    if (!signed) {
      method(proto, `read${name.replace('UInt', 'Uint')}`, read);
      method(proto, `write${name.replace('UInt', 'Uint')}`, write);
      method(proto, `read${name}`, read);
      method(proto, `write${name}`, write);
    }
  }
}

export let INSPECT_MAX_BYTES = 50;

method(proto, custom, function (depth, options) {
  const most = INSPECT_MAX_BYTES;
  const count = Math.min(most, this.length);
  const rest = this.length - most;
  let text = toHex.call(plainView(this.subarray(0, count))).replace(/(.{2})/g, '$1 ').trim();
  if (rest > 0) text += ` ... ${rest} more byte${rest > 1 ? 's' : ''}`;
  if (options) {
    const extras = { __proto__: null };
    let any = false;
    for (const key of native.ownKeys(this, !options.showHidden, true)) {
      any = true;
      extras[key] = this[key];
    }
    if (any) {
      if (this.length !== 0) text += ', ';
      text += inspect(extras, { ...options, breakLength: Infinity, compact: true }).slice(27, -2);
    }
  }
  return `<${this.constructor?.name ?? 'Buffer'} ${text}>`;
});
Object.defineProperty(proto[custom], 'name', { value: 'inspect' });
hidden(proto, 'inspect', proto[custom]);


function invalidCharacter() {
  return new DOMException('Invalid character', 'InvalidCharacterError');
}

export function btoa(text) {
  if (arguments.length === 0) throw coded(TypeError, 'ERR_MISSING_ARGS', 'The "input" argument must be specified');
  text = `${text}`;
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) > 255) throw invalidCharacter();
  return toBase64.call(native.latin1Encode(text));
}

export function atob(text) {
  if (arguments.length === 0) throw coded(TypeError, 'ERR_MISSING_ARGS', 'The "input" argument must be specified');
  let clean = `${text}`.replace(/[\t\n\f\r ]/g, '');
  if (clean.length % 4 === 0) clean = clean.replace(/==?$/, '');
  if (/[^A-Za-z0-9+/]/.test(clean)) throw invalidCharacter();
  if (clean.length % 4 === 1) throw new DOMException('The string to be decoded is not correctly encoded.', 'InvalidCharacterError');
  return native.latin1Decode(base64Encode(clean));
}

export const isUtf8 = (bytes) => native.utf8Decode(ArrayBuffer.isView(bytes) ? bytes : new Uint8Array(bytes), true) !== null;
export const isAscii = (bytes) => (ArrayBuffer.isView(bytes) ? plainView(bytes) : new Uint8Array(bytes)).every((byte) => byte < 128);
export const transcode = (source, from, to) => Buffer.from(decode(source, encodingOf(from)), to);
export const SlowBuffer = Buffer.allocUnsafeSlow;

export { kMaxLength, kStringMaxLength };
