// node:string_decoder: text from bytes that arrive in pieces.
import { Buffer, decode, normalizeEncoding } from './buffer.js';
import { coded, invalidArgType } from './errors.js';
import { unfinished } from '../web/encoding.js';

// Returns the number of bytes at the end that need those that follow.
function waiting(bytes, encoding) {
  switch (encoding) {
    case 'utf8': return unfinished(bytes);
    case 'base64': case 'base64url': return bytes.length % 3;
    case 'utf16le': {
      const odd = bytes.length % 2;
      const end = bytes.length - odd;
      // The first half of a pair needs the second.
      return end >= 2 && (bytes[end - 1] & 0xfc) === 0xd8 ? odd + 2 : odd;
    }
    default: return 0;
  }
}

export function StringDecoder(encoding) {
  this.encoding = normalizeEncoding(encoding);
  if (this.encoding === undefined) throw coded(TypeError, 'ERR_UNKNOWN_ENCODING', `Unknown encoding: ${encoding}`);
  Object.defineProperty(this, 'held', { value: Buffer.alloc(0), writable: true, enumerable: false });
}

StringDecoder.prototype.write = function write(chunk) {
  if (typeof chunk === 'string') return chunk;
  if (!ArrayBuffer.isView(chunk)) throw invalidArgType('buf', ['Buffer', 'TypedArray', 'DataView'], chunk);
  let bytes = new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength);
  if (this.held.length > 0) bytes = Buffer.concat([this.held, bytes]);
  const count = waiting(bytes, this.encoding);
  this.held = Buffer.from(bytes.subarray(bytes.length - count));
  return decode(bytes.subarray(0, bytes.length - count), this.encoding);
};

StringDecoder.prototype.end = function end(chunk) {
  let text = chunk === undefined ? '' : this.write(chunk);
  if (this.held.length > 0) {
    text += this.encoding === 'utf8' ? '\ufffd' : decode(this.held, this.encoding);
    this.held = Buffer.alloc(0);
  }
  return text;
};

StringDecoder.prototype.text = function text(chunk, offset) {
  this.held = Buffer.alloc(0);
  return this.write(chunk.subarray(offset));
};

for (const [name, get] of Object.entries({
  lastChar() { return this.held; },
  lastNeed() { return this.held.length === 0 ? 0 : this.lastTotal - this.held.length; },
  lastTotal() {
    if (this.held.length === 0) return 0;
    if (this.encoding === 'utf8') return this.held[0] >= 0xf0 ? 4 : this.held[0] >= 0xe0 ? 3 : 2;
    return this.encoding === 'utf16le' ? (this.held.length > 1 ? 4 : 2) : 3;
  },
})) Object.defineProperty(StringDecoder.prototype, name, { get, configurable: true, enumerable: true });

export default { StringDecoder };
