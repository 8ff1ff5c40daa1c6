// The web's crypto: random values, and subtle.digest by the hashes of node:crypto.
import { native } from '../native.js';
import { reportMissing } from '../missing.js';
import { subtle as subtleAbsent } from '../absent.json';
import { enqueue } from '../loop/loop.js';

const INTEGERS = new Set(['Int8Array', 'Uint8Array', 'Uint8ClampedArray', 'Int16Array', 'Uint16Array', 'Int32Array', 'Uint32Array', 'BigInt64Array', 'BigUint64Array']);

export function randomUUID() {
  const bytes = native.random(16);
  bytes[6] = (bytes[6] & 15) | 64;
  bytes[8] = (bytes[8] & 63) | 128;
  const hex = bytes.toHex();
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

let hashes;
export const useHashes = (get) => {
  hashes = get;
};

const ALGORITHMS = { 'SHA-1': 'sha1', 'SHA-256': 'sha256', 'SHA-384': 'sha384', 'SHA-512': 'sha512' };

export class SubtleCrypto {
  async digest(algorithm, data) {
    const name = `${typeof algorithm === 'string' ? algorithm : algorithm?.name}`.toUpperCase();
    if (!ALGORITHMS[name]) throw new DOMException('Unrecognized algorithm name', 'NotSupportedError');
    const bytes = ArrayBuffer.isView(data) ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength) : new Uint8Array(data);
    // The delay is that of a trip to Node's thread pool.
    await new Promise((resolve) => enqueue(resolve));
    const digest = hashes().createHash(ALGORITHMS[name]).update(bytes).digest();
    return digest.buffer.slice(digest.byteOffset, digest.byteOffset + digest.length);
  }
}
for (const name of subtleAbsent) {
  SubtleCrypto.prototype[name] = async () => {
    reportMissing(`api:crypto.subtle.${name}`);
    throw new DOMException(`crypto.subtle.${name} is not available in this sandbox`, 'NotSupportedError');
  };
}

export class Crypto {
  get subtle() { return subtle; }
  getRandomValues(array) {
    if (!ArrayBuffer.isView(array) || !INTEGERS.has(native.classOf(array))) {
      throw new DOMException('The data argument must be an integer-type TypedArray', 'TypeMismatchError');
    }
    if (array.byteLength > 65536) {
      throw new DOMException(`The requested length exceeds 65,536 bytes`, 'QuotaExceededError');
    }
    native.fillRandom(array);
    return array;
  }
  randomUUID() { return randomUUID(); }
}
Object.defineProperty(Crypto.prototype, Symbol.toStringTag, { value: 'Crypto', configurable: true });

const subtle = new SubtleCrypto();
export const crypto = new Crypto();
