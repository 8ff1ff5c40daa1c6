// Frames of RFC 6455.
import { native } from '../native.js';

// Most bytes of a message.
const MOST_MESSAGE = 64 << 20;

const CONTINUATION = 0;
const LAST_DATA = 2;
const FIRST_CONTROL = 8;
const LAST_CONTROL = 10;

// Violation of the protocol by a server, with the code of the end.
export class ProtocolError extends Error {
  constructor(closeCode, message) {
    super(message);
    this.closeCode = closeCode;
  }
}

// Returns the bytes of several pieces.
export function join(parts) {
  if (parts.length === 1) return parts[0];
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

// Returns the frame of a message of a client.
export function frame(kind, bytes) {
  const { length } = bytes;
  const wide = length < 126 ? 0 : length < 65536 ? 2 : 8;
  const whole = new Uint8Array(2 + wide + 4 + length);
  whole[0] = 0x80 | kind;
  whole[1] = 0x80 | (wide === 0 ? length : wide === 2 ? 126 : 127);
  for (let i = 0, rest = length; i < wide; i++, rest = Math.floor(rest / 256)) whole[1 + wide - i] = rest % 256;
  const mask = native.random(4);
  whole.set(mask, 2 + wide);
  const start = 2 + wide + 4;
  for (let i = 0; i < length; i++) whole[start + i] = bytes[i] ^ mask[i & 3];
  return whole;
}

// Reader of the frames of a server, which joins those of one message.
export class FrameReader {
  #pieces = [];
  #available = 0;
  #parts = [];
  #size = 0;
  #kind = CONTINUATION;

  push(bytes) {
    this.#pieces.push(bytes.slice());
    this.#available += bytes.length;
  }

  // Returns the next message, or undefined if it is not complete.
  next() {
    for (;;) {
      const head = this.#head();
      if (head === undefined || this.#available < head.size + head.length) return undefined;
      this.#take(head.size);
      const bytes = this.#take(head.length);
      if (head.kind >= FIRST_CONTROL) return { kind: head.kind, bytes };
      if (head.kind !== CONTINUATION) this.#kind = head.kind;
      if (bytes.length > 0) this.#parts.push(bytes);
      this.#size += bytes.length;
      if (!head.isLast) continue;
      const message = { kind: this.#kind, bytes: join(this.#parts) };
      this.#parts = [];
      this.#size = 0;
      this.#kind = CONTINUATION;
      return message;
    }
  }

  #head() {
    if (this.#available < 2) return undefined;
    this.#gather(2);
    const [first, second] = this.#pieces[0];
    const kind = first & 15;
    const isLast = (first & 0x80) !== 0;
    const isControl = kind >= FIRST_CONTROL;
    if ((first & 0x70) !== 0 || (second & 0x80) !== 0 || kind > LAST_CONTROL || (kind > LAST_DATA && !isControl)) throw new ProtocolError(1002, 'Invalid frame');
    if (isControl ? !isLast || (second & 127) > 125 : (kind === CONTINUATION) !== (this.#kind !== CONTINUATION)) throw new ProtocolError(1002, 'Invalid frame');
    const wide = (second & 127) === 126 ? 2 : (second & 127) === 127 ? 8 : 0;
    if (this.#available < 2 + wide) return undefined;
    this.#gather(2 + wide);
    let length = second & 127;
    if (wide > 0) {
      length = 0;
      for (let i = 0; i < wide; i++) length = length * 256 + this.#pieces[0][2 + i];
    }
    if (length + this.#size > MOST_MESSAGE) throw new ProtocolError(1009, 'The message is too long');
    return { kind, isLast, size: 2 + wide, length };
  }

  // Makes the first bytes one piece.
  #gather(size) {
    while (this.#pieces[0].length < size) {
      this.#pieces.unshift(join(this.#pieces.splice(0, 2)));
    }
  }

  #take(size) {
    const parts = [];
    let missing = size;
    while (missing > 0) {
      const first = this.#pieces[0];
      const part = first.subarray(0, missing);
      parts.push(part);
      missing -= part.length;
      if (part.length === first.length) this.#pieces.shift();
      else this.#pieces[0] = first.subarray(part.length);
    }
    this.#available -= size;
    return join(parts);
  }
}

