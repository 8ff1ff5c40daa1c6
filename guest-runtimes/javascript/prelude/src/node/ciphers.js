// Ciphers of node:crypto: AES in the modes ECB, CBC, CTR and GCM, one block or more at a time.
import { unsafe } from '@noble/ciphers/aes.js';
import { ghash } from '@noble/ciphers/_polyval.js';
import { Buffer, wrap } from './buffer.js';
import { Transform } from './stream.js';
import { coded, invalidArgType, validateString } from './errors.js';
import { reportMissing } from '../missing.js';

const BLOCK = 16;
const NAME = /^(?:aes-?(128|192|256)-(ecb|cbc|ctr|gcm)|id-aes(128|192|256)-(gcm)|aes(128|192|256))$/;

export const CIPHERS = [128, 192, 256].flatMap((bits) => ['cbc', 'ctr', 'ecb', 'gcm'].map((mode) => `aes-${bits}-${mode}`));

function parse(name) {
  const found = NAME.exec(name.toLowerCase());
  return found === null ? undefined : { bits: +(found[1] ?? found[3] ?? found[5]), mode: found[2] ?? found[4] ?? 'cbc' };
}

function cipherOf(name) {
  validateString(name, 'cipher');
  const found = parse(name);
  if (found === undefined) {
    reportMissing(`api:cipher ${name}`);
    throw coded(Error, 'ERR_CRYPTO_UNKNOWN_CIPHER', 'Unknown cipher');
  }
  return found;
}

export function getCipherInfo(name, options = {}) {
  const parsed = parse(`${name}`);
  if (parsed === undefined) return undefined;
  const { bits, mode } = parsed;
  const ivLength = mode === 'ecb' ? undefined : mode === 'gcm' ? (options.ivLength ?? 12) : BLOCK;
  if (options.keyLength !== undefined && options.keyLength !== bits / 8) return undefined;
  if (options.ivLength !== undefined && mode !== 'gcm' && options.ivLength !== ivLength) return undefined;
  return {
    mode, name: mode === 'gcm' ? `id-aes${bits}-GCM` : `aes-${bits}-${mode}`, nid: 0, blockSize: mode === 'ctr' || mode === 'gcm' ? 1 : BLOCK, ...(ivLength === undefined ? {} : { ivLength }), keyLength: bits / 8,
  };
}

const u32 = (bytes) => new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength >> 2);

// One block through the cipher; the state is in place.
function encrypted(keys, block) {
  const words = u32(block);
  const { s0, s1, s2, s3 } = unsafe.encrypt(keys, words[0], words[1], words[2], words[3]);
  words.set([s0, s1, s2, s3]);
  return block;
}
function decrypted(keys, block) {
  const words = u32(block);
  const { s0, s1, s2, s3 } = unsafe.decrypt(keys, words[0], words[1], words[2], words[3]);
  words.set([s0, s1, s2, s3]);
  return block;
}

function increment(counter, bytes) {
  for (let at = BLOCK - 1; at >= BLOCK - bytes; at--) {
    counter[at] = (counter[at] + 1) & 255;
    if (counter[at] !== 0) return;
  }
}

// The block modes, with padding, over whole blocks.
class BlockMode {
  constructor(mode, key, iv, isEncryption) {
    this.keys = isEncryption ? unsafe.expandKeyLE(key) : unsafe.expandKeyDecLE(key);
    this.before = mode === 'cbc' ? Uint8Array.from(iv) : undefined;
    this.isEncryption = isEncryption;
    this.held = new Uint8Array(0);
    this.padding = true;
  }
  block(input) {
    const block = Uint8Array.from(input);
    const { before } = this;
    const mix = (with_) => {
      for (let i = 0; i < BLOCK; i++) block[i] ^= with_[i];
    };
    if (this.isEncryption) {
      if (before) mix(before);
      encrypted(this.keys, block);
      if (before) this.before = Uint8Array.from(block);
    } else {
      decrypted(this.keys, block);
      if (before) {
        mix(before);
        this.before = Uint8Array.from(input);
      }
    }
    return block;
  }
  update(data) {
    const all = new Uint8Array(this.held.length + data.length);
    all.set(this.held);
    all.set(data, this.held.length);
    // The last block of a padded text is known at the end alone.
    const keep = !this.isEncryption && this.padding && all.length > 0 && all.length % BLOCK === 0 ? BLOCK : all.length % BLOCK;
    const end = all.length - keep;
    const out = new Uint8Array(end);
    for (let at = 0; at < end; at += BLOCK) out.set(this.block(all.subarray(at, at + BLOCK)), at);
    this.held = all.slice(end);
    return out;
  }
  final() {
    const { held } = this;
    if (!this.padding) {
      if (held.length === 0) return held;
      throw Object.assign(coded(Error, 'ERR_OSSL_WRONG_FINAL_BLOCK_LENGTH', 'error:1C80006B:Provider routines::wrong final block length'), { library: 'Provider routines', reason: 'wrong final block length' });
    }
    if (this.isEncryption) {
      const block = new Uint8Array(BLOCK).fill(BLOCK - held.length);
      block.set(held);
      return this.block(block);
    }
    if (held.length !== BLOCK) {
      throw Object.assign(coded(Error, 'ERR_OSSL_WRONG_FINAL_BLOCK_LENGTH', 'error:1C80006B:Provider routines::wrong final block length'), { library: 'Provider routines', reason: 'wrong final block length' });
    }
    const block = this.block(held);
    const count = block[BLOCK - 1];
    if (count < 1 || count > BLOCK || block.subarray(BLOCK - count).some((byte) => byte !== count)) {
      throw Object.assign(coded(Error, 'ERR_OSSL_BAD_DECRYPT', 'error:1C800064:Provider routines::bad decrypt'), { library: 'Provider routines', reason: 'bad decrypt' });
    }
    return block.subarray(0, BLOCK - count);
  }
}

// A key stream, of which each byte is used once.
class CounterMode {
  constructor(key, counter, width) {
    this.keys = unsafe.expandKeyLE(key);
    this.counter = counter;
    this.width = width;
    this.stream = new Uint8Array(BLOCK);
    this.used = BLOCK;
  }
  update(data) {
    const out = new Uint8Array(data.length);
    for (let at = 0; at < data.length; at++) {
      if (this.used === BLOCK) {
        this.stream = encrypted(this.keys, Uint8Array.from(this.counter));
        increment(this.counter, this.width);
        this.used = 0;
      }
      out[at] = data[at] ^ this.stream[this.used];
      this.used += 1;
    }
    return out;
  }
  final() {
    return new Uint8Array(0);
  }
}

const lengths = (additional, text) => {
  const block = new Uint8Array(BLOCK);
  const view = new DataView(block.buffer);
  view.setBigUint64(0, BigInt(additional) * 8n);
  view.setBigUint64(8, BigInt(text) * 8n);
  return block;
};

class GaloisMode extends CounterMode {
  constructor(key, iv, isEncryption) {
    const keys = unsafe.expandKeyLE(key);
    const hashKey = encrypted(keys, new Uint8Array(BLOCK));
    const counter = new Uint8Array(BLOCK);
    if (iv.length === 12) {
      counter.set(iv);
      counter[BLOCK - 1] = 1;
    } else {
      // The hash fills the last block of each update with zeros.
      counter.set(ghash.create(hashKey).update(iv).update(lengths(0, iv.length)).digest());
    }
    const first = Uint8Array.from(counter);
    increment(counter, 4);
    super(key, counter, 4);
    this.mask = encrypted(keys, first);
    this.hash = ghash.create(hashKey);
    this.isEncryption = isEncryption;
    this.additional = 0;
    this.text = 0;
    this.pending = new Uint8Array(0);
  }
  // The hash takes whole blocks.
  absorb(data) {
    const all = new Uint8Array(this.pending.length + data.length);
    all.set(this.pending);
    all.set(data, this.pending.length);
    const end = all.length - (all.length % BLOCK);
    if (end > 0) this.hash.update(all.subarray(0, end));
    this.pending = all.slice(end);
  }
  flush() {
    if (this.pending.length > 0) {
      const block = new Uint8Array(BLOCK);
      block.set(this.pending);
      this.hash.update(block);
      this.pending = new Uint8Array(0);
    }
  }
  addition(data) {
    this.additional += data.length;
    this.absorb(data);
  }
  update(data) {
    if (this.text === 0) this.flush();
    this.text += data.length;
    if (!this.isEncryption) this.absorb(data);
    const out = super.update(data);
    if (this.isEncryption) this.absorb(out);
    return out;
  }
  tag() {
    this.flush();
    const tag = Uint8Array.from(this.hash.update(lengths(this.additional, this.text)).digest());
    for (let i = 0; i < BLOCK; i++) tag[i] ^= this.mask[i];
    return tag;
  }
}

const invalidState = (name) => coded(Error, 'ERR_CRYPTO_INVALID_STATE', `Invalid state for operation ${name}`);

function bytesOf(data, encoding, name) {
  if (typeof data === 'string') return Buffer.from(data, encoding);
  if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  if (data instanceof ArrayBuffer) return new Uint8Array(data);
  if (typeof data?.export === 'function') return data.export();
  throw invalidArgType(name, ['string', 'ArrayBuffer', 'Buffer', 'TypedArray', 'DataView'], data);
}

class CipherBase extends Transform {
  #mode;
  #state;
  #ended = false;
  #tag;
  #tagLength;
  #decoder;
  constructor(isEncryption, name, key, iv, options) {
    super(options);
    const { bits, mode } = cipherOf(name);
    const keyBytes = Uint8Array.from(bytesOf(key, undefined, 'key'));
    if (keyBytes.length !== bits / 8) throw coded(RangeError, 'ERR_CRYPTO_INVALID_KEYLEN', 'Invalid key length');
    const start = iv === null ? new Uint8Array(0) : Uint8Array.from(bytesOf(iv, undefined, 'iv'));
    const fits = mode === 'ecb' ? start.length === 0 : mode === 'gcm' ? start.length > 0 : start.length === BLOCK;
    if (!fits) throw coded(TypeError, 'ERR_CRYPTO_INVALID_IV', 'Invalid initialization vector');
    const length = options?.authTagLength;
    if (length !== undefined && mode === 'gcm' && !(length === 4 || length === 8 || (length >= 12 && length <= 16))) {
      throw coded(TypeError, 'ERR_CRYPTO_INVALID_AUTH_TAG', `Invalid authentication tag length: ${length}`);
    }
    this.#tagLength = length ?? BLOCK;
    this.#mode = { isEncryption, mode };
    if (mode === 'gcm') this.#state = new GaloisMode(keyBytes, start, isEncryption);
    else if (mode === 'ctr') this.#state = new CounterMode(keyBytes, start, BLOCK);
    else this.#state = new BlockMode(mode, keyBytes, start, isEncryption);
  }
  #out(bytes, encoding, isLast) {
    if (encoding === undefined || encoding === 'buffer') return wrap(bytes);
    if (this.#decoder === undefined) {
      const { StringDecoder } = require('./string_decoder.js').default;
      this.#decoder = new StringDecoder(encoding);
    }
    return isLast ? this.#decoder.end(wrap(bytes)) : this.#decoder.write(wrap(bytes));
  }
  update(data, inputEncoding, outputEncoding) {
    if (this.#ended) throw coded(Error, 'ERR_CRYPTO_INVALID_STATE', 'Unsupported state or unable to authenticate data');
    return this.#out(this.#state.update(bytesOf(data, inputEncoding, 'data')), outputEncoding, false);
  }
  final(outputEncoding) {
    if (this.#ended) throw coded(Error, 'ERR_CRYPTO_INVALID_STATE', 'Invalid state');
    this.#ended = true;
    const last = this.#state.final();
    if (this.#mode.mode === 'gcm') {
      const tag = this.#state.tag();
      if (this.#mode.isEncryption) this.#tag = tag.slice(0, this.#tagLength);
      else {
        const expected = this.#tag;
        let difference = expected === undefined ? 1 : 0;
        for (let i = 0; i < (expected?.length ?? 0); i++) difference |= tag[i] ^ expected[i];
        if (difference !== 0) throw new Error('Unsupported state or unable to authenticate data');
      }
    }
    return this.#out(last, outputEncoding, true);
  }
  setAutoPadding(on = true) {
    if (this.#ended) throw invalidState('setAutoPadding');
    if (this.#state instanceof BlockMode) this.#state.padding = Boolean(on);
    return this;
  }
  setAAD(data, options) {
    if (this.#ended || this.#mode.mode !== 'gcm') throw invalidState('setAAD');
    this.#state.addition(bytesOf(data, options?.encoding, 'buffer'));
    return this;
  }
  getAuthTag() {
    if (!this.#mode.isEncryption || !this.#ended || this.#tag === undefined) throw invalidState('getAuthTag');
    return wrap(this.#tag);
  }
  setAuthTag(tag, encoding) {
    if (this.#mode.isEncryption || this.#mode.mode !== 'gcm' || this.#ended) throw invalidState('setAuthTag');
    const bytes = Uint8Array.from(bytesOf(tag, encoding, 'buffer'));
    if (!(bytes.length === 4 || bytes.length === 8 || (bytes.length >= 12 && bytes.length <= 16))) {
      throw coded(TypeError, 'ERR_CRYPTO_INVALID_AUTH_TAG', `Invalid authentication tag length: ${bytes.length}`);
    }
    this.#tag = bytes;
    return this;
  }
  _transform(chunk, encoding, callback) {
    this.push(wrap(this.#state.update(bytesOf(chunk, encoding, 'data'))));
    callback();
  }
  _flush(callback) {
    try {
      this.push(this.final());
      callback();
    } catch (error) {
      callback(error);
    }
  }
}

export class Cipheriv extends CipherBase {
  constructor(cipher, key, iv, options) {
    super(true, cipher, key, iv, options);
  }
}
export class Decipheriv extends CipherBase {
  constructor(cipher, key, iv, options) {
    super(false, cipher, key, iv, options);
  }
}
