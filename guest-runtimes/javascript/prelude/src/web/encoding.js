// TextEncoder and TextDecoder: UTF-8, UTF-16 in both orders, and windows-1252 under its many names.
import { native } from '../native.js';
import { coded, invalidArgType } from '../node/errors.js';
import { inspect } from '../inspect/index.js';
import { hidden } from '../engine/uncurry.js';

export class TextEncoder {
  get encoding() { return 'utf-8'; }
  encode(text = '') {
    return native.utf8Encode(`${text}`);
  }
  encodeInto(text, target) {
    if (!(target instanceof Uint8Array)) throw invalidArgType('dest', 'Uint8Array', target);
    const bytes = native.utf8Encode(`${text}`);
    let written = Math.min(bytes.length, target.length);
    while (written < bytes.length && written > 0 && (bytes[written] & 0xc0) === 0x80) written--;
    target.set(bytes.subarray(0, written));
    let read = text.length;
    if (written < bytes.length) read = native.utf8Decode(bytes.subarray(0, written), false).length;
    return { read, written };
  }
  [inspect.custom](depth, options) {
    if (depth < 0) return this;
    return `Object <${Object.getPrototypeOf(this)?.constructor?.name}> ${inspect({ encoding: 'utf-8' }, options)}`.replace('Object <TextEncoder> ', '');
  }
}
hidden(TextEncoder.prototype, inspect.custom, TextEncoder.prototype[inspect.custom]);
Object.defineProperty(TextEncoder.prototype, Symbol.toStringTag, { value: 'TextEncoder', configurable: true });

const LABELS = {
  __proto__: null,
  'utf-8': 'utf-8', utf8: 'utf-8', 'unicode-1-1-utf-8': 'utf-8', 'x-unicode20utf8': 'utf-8', unicode11utf8: 'utf-8', unicode20utf8: 'utf-8',
  'utf-16le': 'utf-16le', 'utf-16': 'utf-16le', 'ucs-2': 'utf-16le', unicode: 'utf-16le', csunicode: 'utf-16le', 'iso-10646-ucs-2': 'utf-16le', unicodefeff: 'utf-16le',
  'utf-16be': 'utf-16be', unicodefffe: 'utf-16be',
  latin1: 'windows-1252', 'iso-8859-1': 'windows-1252', 'iso8859-1': 'windows-1252', iso88591: 'windows-1252', ascii: 'windows-1252', 'us-ascii': 'windows-1252',
  'windows-1252': 'windows-1252', cp1252: 'windows-1252', 'x-cp1252': 'windows-1252', l1: 'windows-1252', cp819: 'windows-1252', ibm819: 'windows-1252',
  'iso-ir-100': 'windows-1252', 'iso_8859-1': 'windows-1252', csisolatin1: 'windows-1252', 'ansi_x3.4-1968': 'windows-1252', 'iso_8859-1:1987': 'windows-1252',
};

// Characters 0x80 to 0x9F, in which windows-1252 differs from latin1.
const HIGH = '\u20AC\x81\u201A\u0192\u201E\u2026\u2020\u2021\u02C6\u2030\u0160\u2039\u0152\x8D\u017D\x8F\x90\u2018\u2019\u201C\u201D\u2022\u2013\u2014\u02DC\u2122\u0161\u203A\u0153\x9D\u017E\u0178';

function bytesOf(input) {
  if (input === undefined) return new Uint8Array(0);
  if (ArrayBuffer.isView(input)) return new Uint8Array(input.buffer, input.byteOffset, input.byteLength);
  const kind = native.classOf(input);
  if (kind === 'ArrayBuffer' || kind === 'SharedArrayBuffer') return new Uint8Array(input);
  throw invalidArgType('list', ['SharedArrayBuffer', 'ArrayBuffer', 'ArrayBufferView'], input);
}

// Returns the number of bytes at the end that begin an incomplete UTF-8 sequence.
export function unfinished(bytes) {
  const end = bytes.length;
  for (let back = 1; back <= 3 && back <= end; back++) {
    const byte = bytes[end - back];
    if ((byte & 0xc0) === 0x80) continue;
    const wants = byte >= 0xf0 && byte < 0xf5 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc2 ? 2 : 1;
    return byte < 0xf5 && wants > back ? back : 0;
  }
  return 0;
}

export class TextDecoder {
  #encoding;
  #fatal;
  #ignoreBOM;
  #held = null;
  #started = false;
  constructor(label = 'utf-8', options = undefined) {
    const encoding = LABELS[`${label}`.trim().toLowerCase()];
    if (encoding === undefined) throw coded(RangeError, 'ERR_ENCODING_NOT_SUPPORTED', `The "${label}" encoding is not supported`);
    if (options !== undefined && options !== null && typeof options !== 'object') throw invalidArgType('options', 'Object', options);
    this.#encoding = encoding;
    this.#fatal = !!options?.fatal;
    this.#ignoreBOM = !!options?.ignoreBOM;
  }
  get encoding() { return this.#encoding; }
  get fatal() { return this.#fatal; }
  get ignoreBOM() { return this.#ignoreBOM; }
  decode(input = undefined, options = undefined) {
    let bytes = bytesOf(input);
    const stream = !!options?.stream;
    if (this.#held !== null) {
      const joined = new Uint8Array(this.#held.length + bytes.length);
      joined.set(this.#held);
      joined.set(bytes, this.#held.length);
      bytes = joined;
      this.#held = null;
    }
    let text;
    if (this.#encoding === 'utf-8') {
      if (stream) bytes = this.#hold(bytes, unfinished(bytes));
      text = native.utf8Decode(bytes, this.#fatal);
      if (text === null) throw this.#bad();
    } else if (this.#encoding === 'windows-1252') {
      text = native.latin1Decode(bytes).replace(/[\x80-\x9f]/g, (c) => HIGH[c.charCodeAt(0) - 128]);
    } else text = this.#utf16(bytes, stream);
    if (!this.#started && !this.#ignoreBOM && text.charCodeAt(0) === 0xfeff && this.#encoding !== 'windows-1252') text = text.slice(1);
    this.#started = stream && (this.#started || text.length > 0);
    return text;
  }
  #hold(bytes, count) {
    if (count === 0) return bytes;
    this.#held = bytes.slice(bytes.length - count);
    return bytes.subarray(0, bytes.length - count);
  }
  #utf16(bytes, stream) {
    const big = this.#encoding === 'utf-16be';
    let odd = bytes.length % 2;
    const unit = (i) => (big ? (bytes[i] << 8) | bytes[i + 1] : bytes[i] | (bytes[i + 1] << 8));
    if (stream) {
      // The first half of a surrogate pair is held back, even if no byte of the second half is present.
      const last = bytes.length - odd - 2;
      bytes = this.#hold(bytes, last >= 0 && (unit(last) & 0xfc00) === 0xd800 ? odd + 2 : odd);
      odd = 0;
    }
    let text = '';
    for (let i = 0; i + 1 < bytes.length; i += 2) text += String.fromCharCode(unit(i));
    if (odd) text += '\ufffd';
    if (this.#fatal && (odd || !text.isWellFormed())) throw this.#bad();
    return text.toWellFormed();
  }
  #bad() {
    this.#started = false;
    return coded(TypeError, 'ERR_ENCODING_INVALID_ENCODED_DATA', `The encoded data was not valid for encoding ${this.#encoding}`);
  }
}
Object.defineProperty(TextDecoder.prototype, Symbol.toStringTag, { value: 'TextDecoder', configurable: true });
for (const name of ['encoding', 'fatal', 'ignoreBOM']) Object.defineProperty(TextDecoder.prototype, name, { enumerable: true });
