// Digests of the engine's own code, in the form of those of @noble/hashes.
import { pbkdf2 as pbkdf2OfLibrary } from '@noble/hashes/pbkdf2.js';
import { scrypt as scryptOfLibrary } from '@noble/hashes/scrypt.js';
import { native } from '../native.js';

class State {
  constructor(digest, bytes) {
    this.digest_ = digest;
    this.bytes = bytes;
    this.outputLen = digest.outputLen;
    this.blockLen = digest.blockLen;
  }
  update(data) {
    native.digestUpdate(this.digest_.algorithm, this.bytes, data);
    return this;
  }
  digestInto(out) {
    out.set(this.digest());
  }
  digest() {
    return native.digestEnd(this.digest_.algorithm, this.bytes);
  }
  clone() {
    return new State(this.digest_, this.bytes.slice());
  }
  _cloneInto(to) {
    if (to === undefined) return this.clone();
    to.bytes.set(this.bytes);
    return to;
  }
  destroy() {
    this.bytes.fill(0);
  }
}

let count = 0;
function digest(outputLen, blockLen) {
  const created = (data) => created.create().update(data).digest();
  created.algorithm = count++;
  created.outputLen = outputLen;
  created.blockLen = blockLen;
  created.create = () => new State(created, native.digestBegin(created.algorithm));
  return created;
}

// The order is that of digests.zig.
export const md5 = digest(16, 64);
export const sha1 = digest(20, 64);
export const sha224 = digest(28, 64);
export const sha256 = digest(32, 64);
export const sha384 = digest(48, 128);
export const sha512 = digest(64, 128);
export const sha512_256 = digest(32, 128);
export const sha3_224 = digest(28, 144);
export const sha3_256 = digest(32, 136);
export const sha3_384 = digest(48, 104);
export const sha3_512 = digest(64, 72);

// The library does what the engine does not, and words errors.
export function pbkdf2(hash, password, salt, options) {
  const { c, dkLen } = options;
  const isUsual = hash.algorithm !== undefined && Number.isSafeInteger(c) && c > 0 && c < 2 ** 32 && Number.isSafeInteger(dkLen) && dkLen > 0 && dkLen < 2 ** 30;
  return (isUsual && native.pbkdf2(hash.algorithm, password, salt, c, dkLen)) || pbkdf2OfLibrary(hash, password, salt, options);
}

export function scrypt(password, salt, options) {
  const { N, r, p, dkLen } = options;
  const cost = Math.log2(N);
  const isUsual = [cost, r, p, dkLen].every((each) => Number.isSafeInteger(each) && each > 0 && each < 2 ** 30) && 128 * r * (N + p + 2) <= options.maxmem && 128 * r * p < 2 ** 30;
  return (isUsual && native.scrypt(password, salt, cost, r, p, dkLen)) || scryptOfLibrary(password, salt, options);
}
