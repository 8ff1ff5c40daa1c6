// node:crypto and the web's crypto: hashes, keyed hashes, derived keys and random values.
import { ripemd160 } from '@noble/hashes/legacy.js';
import { hmac } from '@noble/hashes/hmac.js';
import { hkdf } from '@noble/hashes/hkdf.js';
import { md5, pbkdf2, scrypt, sha1, sha224, sha256, sha384, sha3_224, sha3_256, sha3_384, sha3_512, sha512, sha512_256 } from './digests.js';
import { native } from '../native.js';
import { Buffer, wrap } from './buffer.js';
import { Transform } from './stream.js';
import { enqueue } from '../loop/loop.js';
import { coded, invalidArgType, outOfRange, validateFunction, validateInteger, validateString } from './errors.js';
import { reportMissing } from '../missing.js';
import { isHash } from './absent.js';
import { CIPHERS, Cipheriv, Decipheriv, getCipherInfo } from './ciphers.js';
import { crypto as webcrypto, randomUUID } from '../web/crypto.js';

const HASHES = {
  __proto__: null, md5, ripemd160, rmd160: ripemd160, sha1, sha224, sha256, sha384, sha512, 'sha512-256': sha512_256, 'sha3-224': sha3_224, 'sha3-256': sha3_256, 'sha3-384': sha3_384,
  'sha3-512': sha3_512,
};
const NAMES = ['md5', 'ripemd160', 'sha1', 'sha224', 'sha256', 'sha3-224', 'sha3-256', 'sha3-384', 'sha3-512', 'sha384', 'sha512', 'sha512-256'];

function hashOf(name, missing) {
  validateString(name, 'algorithm');
  const found = HASHES[name.toLowerCase().replace(/^rsa-/, '').replace(/^sha-(?=\d)/, 'sha')];
  if (found === undefined) {
    if (isHash(name.toLowerCase())) reportMissing(`api:hash ${name}`);
    throw missing(name);
  }
  return found;
}
const unsupported = () => new Error('Digest method not supported');
const invalidDigest = (name) => coded(TypeError, 'ERR_CRYPTO_INVALID_DIGEST', `Invalid digest: ${name}`);

function bytesOf(data, encoding, name = 'data') {
  if (typeof data === 'string') return Buffer.from(data, encoding);
  if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  if (data instanceof ArrayBuffer) return new Uint8Array(data);
  if (data instanceof KeyObject) return data.export();
  throw invalidArgType(name, ['string', 'Buffer', 'TypedArray', 'DataView'], data);
}

const out = (bytes, encoding) => (encoding === undefined || encoding === 'buffer' ? wrap(bytes) : wrap(bytes).toString(encoding));

// Base class of Hash and Hmac, which are streams too.
class Digest extends Transform {
  constructor(state, options) {
    super(options);
    Object.defineProperty(this, 'state_', { value: state, writable: true, enumerable: false });
    Object.defineProperty(this, 'done_', { value: false, writable: true, enumerable: false });
  }
  update(data, encoding) {
    if (this.done_) throw coded(Error, 'ERR_CRYPTO_HASH_FINALIZED', 'Digest already called');
    this.state_.update(bytesOf(data, encoding));
    return this;
  }
  digest(encoding) {
    if (this.done_) throw coded(Error, 'ERR_CRYPTO_HASH_FINALIZED', 'Digest already called');
    this.done_ = true;
    return out(this.state_.digest(), encoding);
  }
  _transform(chunk, encoding, callback) {
    this.state_.update(bytesOf(chunk, encoding));
    callback();
  }
  _flush(callback) {
    this.push(this.digest());
    callback();
  }
}
export class Hash extends Digest {
  constructor(algorithm, options) {
    super(typeof algorithm === 'string' ? hashOf(algorithm, unsupported).create() : algorithm, options);
  }
  copy(options) {
    if (this.done_) throw coded(Error, 'ERR_CRYPTO_HASH_FINALIZED', 'Digest already called');
    return new Hash(this.state_.clone(), options);
  }
}
export class Hmac extends Digest {
  constructor(algorithm, key, options) {
    super(hmac.create(hashOf(algorithm, (name) => coded(Error, 'ERR_CRYPTO_INVALID_DIGEST', `Invalid digest: ${name}`)), bytesOf(key, undefined, 'key')), options);
  }
}

export class KeyObject {
  #bytes;
  constructor(type, bytes) {
    this.#bytes = bytes;
    Object.defineProperty(this, 'type', { value: type, enumerable: false });
  }
  get symmetricKeySize() { return this.#bytes.length; }
  export(options) { return options?.format === 'jwk' ? { kty: 'oct', k: Buffer.from(this.#bytes).toString('base64url') } : Buffer.from(this.#bytes); }
  equals(other) { return native.compare(this.#bytes, other.export()) === 0; }
}

const later = (run, callback) => {
  validateFunction(callback, 'callback');
  enqueue(() => {
    let result;
    try {
      result = run();
    } catch (error) {
      callback(error);
      return;
    }
    callback(null, result);
  });
};

function randomBytes(size, callback) {
  validateInteger(size, 'size', 0, 2 ** 31 - 1);
  if (callback === undefined) return wrap(native.random(size));
  return later(() => wrap(native.random(size)), callback);
}

function randomInt(min, max, callback) {
  if (max === undefined || typeof max === 'function') {
    callback = max;
    max = min;
    min = 0;
  }
  if (!Number.isSafeInteger(min)) throw invalidArgType('min', 'a safe integer', min);
  if (!Number.isSafeInteger(max)) throw invalidArgType('max', 'a safe integer', max);
  if (max <= min) throw outOfRange('max', `greater than the value of "min" (${min})`, max);
  const range = max - min;
  if (range > 2 ** 48 - 1) throw outOfRange('max - min', `<= ${2 ** 48 - 1}`, range);
  const pick = () => {
    const limit = 2 ** 48 - (2 ** 48 % range);
    for (;;) {
      const value = native.random(6).reduce((sum, byte) => sum * 256 + byte, 0);
      if (value < limit) return min + (value % range);
    }
  };
  return callback === undefined ? pick() : later(pick, callback);
}

function randomFillSync(buffer, offset = 0, size = buffer.byteLength - offset) {
  native.fillRandom(ArrayBuffer.isView(buffer) ? new Uint8Array(buffer.buffer, buffer.byteOffset + offset, size) : new Uint8Array(buffer, offset, size));
  return buffer;
}

function timingSafeEqual(a, b) {
  const left = bytesOf(a, undefined, 'buf1');
  const right = bytesOf(b, undefined, 'buf2');
  if (left.length !== right.length) throw coded(RangeError, 'ERR_CRYPTO_TIMING_SAFE_EQUAL_LENGTH', 'Input buffers must have the same byte length');
  let difference = 0;
  for (let i = 0; i < left.length; i++) difference |= left[i] ^ right[i];
  return difference === 0;
}

const pbkdf2Sync = (password, salt, iterations, length, digest) =>
  wrap(pbkdf2(hashOf(digest, invalidDigest), bytesOf(password, undefined, 'password'), bytesOf(salt, undefined, 'salt'), { c: iterations, dkLen: length }));
const scryptSync = (password, salt, length, options = {}) => {
  const { N = options.cost ?? 16384, r = options.blockSize ?? 8, p = options.parallelization ?? 1, maxmem = 32 * 1024 * 1024 } = options;
  return wrap(scrypt(bytesOf(password), bytesOf(salt), { N, r, p, dkLen: length, maxmem: Math.max(maxmem, 128 * N * r * 2) }));
};
const hkdfSync = (digest, key, salt, info, length) => {
  const bytes = hkdf(hashOf(digest, invalidDigest), bytesOf(key), bytesOf(salt), bytesOf(info), length);
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
};

const crypto = {
  createHash: (algorithm, options) => new Hash(algorithm, options),
  createHmac: (algorithm, key, options) => new Hmac(algorithm, key, options),
  hash: (algorithm, data, encoding = 'hex') => new Hash(algorithm).update(data).digest(encoding),
  getHashes: () => [...NAMES], getCiphers: () => [...CIPHERS], getCipherInfo,
  createCipheriv: (cipher, key, iv, options) => new Cipheriv(cipher, key, iv, options), createDecipheriv: (cipher, key, iv, options) => new Decipheriv(cipher, key, iv, options), Cipheriv, Decipheriv, getCurves: () => [],
  randomBytes, pseudoRandomBytes: randomBytes, randomInt, randomFillSync,
  randomFill(buffer, offset, size, callback) {
    callback = [offset, size, callback].find((each) => typeof each === 'function');
    later(() => randomFillSync(buffer, typeof offset === 'number' ? offset : 0, typeof size === 'number' ? size : undefined), callback);
  },
  randomUUID, timingSafeEqual,
  pbkdf2Sync, pbkdf2: (password, salt, iterations, length, digest, callback) => later(() => pbkdf2Sync(password, salt, iterations, length, digest), callback),
  scryptSync, scrypt: (password, salt, length, options, callback) => later(() => scryptSync(password, salt, length, typeof options === 'function' ? {} : options), typeof options === 'function' ? options : callback),
  hkdfSync, hkdf: (digest, key, salt, info, length, callback) => later(() => hkdfSync(digest, key, salt, info, length), callback),
  createSecretKey: (key, encoding) => new KeyObject('secret', bytesOf(key, encoding)),
  Hash, Hmac, KeyObject,
  getRandomValues: (array) => webcrypto.getRandomValues(array),
  webcrypto, subtle: webcrypto.subtle,
  constants: {}, getFips: () => 0, secureHeapUsed: () => undefined,
};
export default crypto;
