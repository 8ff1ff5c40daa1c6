// Decompresses bytes as they arrive: the package inflates them; the headers and checksums around them are handled here
// as in zlib.
import { Inflate } from 'fflate/browser';
import { adler32, crc32 } from '../node/checksums.js';
import { badCheck, badHeader, truncatedInput, unpacked } from '../node/zlib-parts.js';

// Bytes that are decompressed at once: their output is passed on before the next ones are read.
const AT_ONCE = 16384;

const EMPTY = new Uint8Array(0);

const HEAD = 0;
const BODY = 1;
const CHECK = 2;
const OVER = 3;

const word = (bytes, at) => (bytes[at] | (bytes[at + 1] << 8) | (bytes[at + 2] << 16) | (bytes[at + 3] << 24)) >>> 0;

// Returns the number of bytes of a header, or -1 if it is incomplete.
function gzipHead(bytes) {
  for (const [at, byte] of [0x1f, 0x8b, 8].entries()) if (at < bytes.length && bytes[at] !== byte) throw badHeader();
  if (bytes.length < 10) return -1;
  const flags = bytes[3];
  let end = 10;
  if (flags & 4) end += bytes.length < 12 ? 2 : 2 + (bytes[10] | (bytes[11] << 8));
  // A name and a comment, each terminated by a zero.
  for (const flag of [8, 16]) {
    if (!(flags & flag)) continue;
    const zero = bytes.indexOf(0, end);
    if (zero < 0) return -1;
    end = zero + 1;
  }
  if (flags & 2) end += 2;
  return end <= bytes.length ? end : -1;
}

function zlibHead(bytes) {
  if (bytes.length < 2) return -1;
  if ((bytes[0] & 15) !== 8 || bytes[1] & 32 || ((bytes[0] << 8) | bytes[1]) % 31 !== 0) throw badHeader();
  return 2;
}

// By format: the header, the length of the trailer, the checksum of the output, and a function that compares the two.
const FORMATS = {
  gzip: {
    head: gzipHead, tail: 8, first: 0, sum: crc32,
    holds: (tail, sum, length) => word(tail, 0) === sum && word(tail, 4) === length % 2 ** 32,
  },
  deflate: {
    head: zlibHead, tail: 4, first: 1, sum: adler32,
    holds: (tail, sum) => ((tail[0] << 24) | (tail[1] << 16) | (tail[2] << 8) | tail[3]) >>> 0 === sum,
  },
  'deflate-raw': { head: () => 0, tail: 0, first: 0, sum: () => 0, holds: () => true },
};

function joined(one, other) {
  if (one.length === 0) return other;
  const both = new Uint8Array(one.length + other.length);
  both.set(one);
  both.set(other, one.length);
  return both;
}

export class Unpacker {
  #format;
  #give;
  #phase = HEAD;
  // Bytes of an incomplete header or trailer.
  #held = EMPTY;
  #inflate = null;
  #sum;
  #length;
  // Set if all members of the file that were started are complete.
  #isWhole = false;

  constructor(format, give) {
    this.#format = FORMATS[format];
    this.#give = give;
  }

  push(bytes) {
    for (let at = 0; at < bytes.length; at += AT_ONCE) {
      let left = bytes.subarray(at, at + AT_ONCE);
      while (left.length > 0) left = this.#step(left);
    }
  }

  end() {
    if (this.#phase !== OVER && !(this.#isWhole && this.#held.length === 0)) throw truncatedInput();
  }

  // Consumes the bytes that belong to the current part of the file, and returns the rest.
  #step(bytes) {
    switch (this.#phase) {
      case HEAD: return this.#head(bytes);
      case BODY: return this.#body(bytes);
      case CHECK: return this.#check(bytes);
      default: return EMPTY;
    }
  }

  #head(bytes) {
    // Padding after the last member.
    if (this.#isWhole && this.#held.length === 0 && bytes[0] === 0) {
      this.#phase = OVER;
      return EMPTY;
    }
    const all = joined(this.#held, bytes);
    const end = this.#format.head(all);
    if (end < 0) {
      this.#held = all.slice();
      return EMPTY;
    }
    this.#held = EMPTY;
    this.#sum = this.#format.first;
    this.#length = 0;
    this.#isWhole = false;
    this.#inflate = new Inflate((part) => {
      if (part.length === 0) return;
      this.#sum = this.#format.sum(part, this.#sum);
      this.#length += part.length;
      this.#give(part);
    });
    this.#phase = BODY;
    return all.subarray(end);
  }

  #body(bytes) {
    const inflate = this.#inflate;
    unpacked(() => inflate.push(bytes, false));
    // The final block was started, and no block is incomplete.
    if (!inflate.s.f || inflate.s.l) return EMPTY;
    const left = inflate.p.subarray(inflate.s.p > 0 ? 1 : 0);
    this.#inflate = null;
    this.#phase = CHECK;
    return this.#format.tail === 0 ? this.#check(left) : left;
  }

  #check(bytes) {
    const all = joined(this.#held, bytes);
    const { tail, holds, head } = this.#format;
    if (all.length < tail) {
      this.#held = all.slice();
      return EMPTY;
    }
    if (!holds(all, this.#sum, this.#length)) throw badCheck();
    this.#held = EMPTY;
    this.#isWhole = true;
    // A gzip file may have several members; after other formats, further bytes are ignored.
    this.#phase = head === gzipHead ? HEAD : OVER;
    return all.subarray(tail);
  }
}
