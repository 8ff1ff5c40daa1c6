// Unpacks bytes as they come: the package inflates them; what is around that, and whether it holds, is looked at here as zlib does.
import { Inflate } from 'fflate/browser';
import { adler32, crc32 } from '../node/checksums.js';
import { badCheck, badHeader, cutShort, unpacked } from '../node/zlib-parts.js';

// Bytes that are unpacked at once: what a small part swells to is given away before the next.
const AT_ONCE = 16384;

const EMPTY = new Uint8Array(0);

const HEAD = 0;
const BODY = 1;
const CHECK = 2;
const OVER = 3;

const word = (bytes, at) => (bytes[at] | (bytes[at + 1] << 8) | (bytes[at + 2] << 16) | (bytes[at + 3] << 24)) >>> 0;

// How many bytes a header has, or -1 if there are to be more.
function gzipHead(bytes) {
  for (const [at, byte] of [0x1f, 0x8b, 8].entries()) if (at < bytes.length && bytes[at] !== byte) throw badHeader();
  if (bytes.length < 10) return -1;
  const flags = bytes[3];
  let end = 10;
  if (flags & 4) end += bytes.length < 12 ? 2 : 2 + (bytes[10] | (bytes[11] << 8));
  // A name and a comment, which end with a zero.
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

// By format: the header, the length of what is at the end, the sum of what was given, and whether both agree.
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
  // Of a header or of an end that is not whole yet.
  #held = EMPTY;
  #inflate = null;
  #sum;
  #length;
  // Whether all members of the file that have begun are over.
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
    if (this.#phase !== OVER && !(this.#isWhole && this.#held.length === 0)) throw cutShort();
  }

  // Takes what belongs to the part of the file that it is in, and returns the rest.
  #step(bytes) {
    switch (this.#phase) {
      case HEAD: return this.#head(bytes);
      case BODY: return this.#body(bytes);
      case CHECK: return this.#check(bytes);
      default: return EMPTY;
    }
  }

  #head(bytes) {
    // What fills a file up is no further member.
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
    // The last block has begun, and none is open.
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
    // Members of a gzip file may follow each other; after the others, nothing is looked at.
    this.#phase = head === gzipHead ? HEAD : OVER;
    return all.subarray(tail);
  }
}
