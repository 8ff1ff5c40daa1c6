// Blob and File.
import { native } from '../native.js';
import { inspect } from '../inspect/index.js';
import { hidden } from '../engine/uncurry.js';
import { invalidArgType } from '../node/errors.js';
import { randomUUID } from './crypto.js';
import { bytesStream } from './streams.js';

const contents = new WeakMap();

// Returns the bytes of a part of a blob: another blob, a view, a buffer or a text.
export function bytesOf(part) {
  if (contents.has(part)) return contents.get(part);
  if (ArrayBuffer.isView(part)) return new Uint8Array(part.buffer, part.byteOffset, part.byteLength);
  if (native.classOf(part) === 'ArrayBuffer') return new Uint8Array(part);
  return native.utf8Encode(`${part}`);
}

export class Blob {
  #type;
  constructor(parts = [], options = {}) {
    if (parts === null || typeof parts !== 'object' || typeof parts[Symbol.iterator] !== 'function') throw invalidArgType('sources', 'a sequence', parts);
    const all = [...parts].map(bytesOf);
    const whole = new Uint8Array(all.reduce((sum, each) => sum + each.length, 0));
    let at = 0;
    for (const each of all) {
      whole.set(each, at);
      at += each.length;
    }
    contents.set(this, whole);
    const type = `${options?.type ?? ''}`;
    this.#type = /[^\x20-\x7e]/.test(type) ? '' : type.toLowerCase();
  }
  get size() { return contents.get(this).length; }
  get type() { return this.#type; }
  slice(start = 0, end = this.size, type = '') {
    return new Blob([contents.get(this).slice(start, end)], { type });
  }
  async arrayBuffer() { return contents.get(this).slice().buffer; }
  async bytes() { return contents.get(this).slice(); }
  async text() { return native.utf8Decode(contents.get(this), false); }
  stream() { return bytesStream(() => this.bytes()); }
  [inspect.custom](depth, options) {
    if (depth < 0) return this;
    return `${this.constructor.name} ${inspect({ size: this.size, type: this.type }, { ...options, depth: options.depth === null ? null : options.depth - 1 })}`;
  }
}
hidden(Blob.prototype, inspect.custom, Blob.prototype[inspect.custom]);
Object.defineProperty(Blob.prototype, Symbol.toStringTag, { value: 'Blob', configurable: true });
for (const name of ['size', 'type']) Object.defineProperty(Blob.prototype, name, { enumerable: true });

export class File extends Blob {
  #name;
  #modified;
  constructor(parts, name, options = {}) {
    super(parts, options);
    this.#name = `${name}`;
    this.#modified = options.lastModified ?? Math.floor(native.now());
  }
  get name() { return this.#name; }
  get lastModified() { return this.#modified; }
}
Object.defineProperty(File.prototype, Symbol.toStringTag, { value: 'File', configurable: true });

// Blobs with an object URL that the program has not revoked.
const addressed = new Map();

export const blobAt = (href) => addressed.get(href);

export function addressOf(blob) {
  if (!(blob instanceof Blob)) throw invalidArgType('obj', 'Blob', blob);
  const href = `blob:nodedata:${randomUUID()}`;
  addressed.set(href, blob);
  return href;
}

export const forget = (href) => void addressed.delete(`${href}`);
