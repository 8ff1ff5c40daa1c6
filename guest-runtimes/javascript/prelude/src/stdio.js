// process.stdin, stdout and stderr.
import { native } from './native.js';
import { Readable, Writable } from './node/stream.js';
import { Buffer, wrap } from './node/buffer.js';
import { awaitStdin } from './loop/loop.js';
import { nextTick } from './loop/ticks.js';
import { setInterval } from './loop/timers.js';
import * as terminal from './terminal.js';

// Milliseconds between two looks at the size of the window.
const RESIZE_INTERVAL = 100;

class WriteStream extends Writable {
  constructor(fd) {
    super({ decodeStrings: false, emitClose: false, autoDestroy: false });
    this.fd = fd;
    this._type = 'fs';
    this._isStdio = true;
    Object.defineProperty(this, 'write', { value: this.#writeNow.bind(this), writable: true, configurable: true, enumerable: false });
    this.#plain = this.write;
  }
  #plain;
  // Writes text at once. Only chunks that need the stream's buffering use the stream.
  #writeNow(chunk, encoding, callback) {
    if (typeof chunk === 'string' && (encoding === undefined || encoding === 'utf8' || encoding === 'utf-8' || typeof encoding === 'function') && !this._writableState.corked && !this._writableState.ended) {
      native.write(this.fd, chunk);
      const done = typeof encoding === 'function' ? encoding : callback;
      if (typeof done === 'function') nextTick(done, null);
      return true;
    }
    return Writable.prototype.write.call(this, chunk, encoding, callback);
  }
  isReplaced() {
    return this.write !== this.#plain;
  }
  _write(chunk, encoding, callback) {
    native.write(this.fd, typeof chunk === 'string' ? Buffer.from(chunk, encoding) : chunk);
    callback();
  }
  // Standard streams stay open.
  _destroy(error, callback) {
    callback(error);
  }
  destroySoon() {
    this.destroy();
  }
  on(name, listener) {
    if (name === 'resize') this.#watchSize();
    return super.on(name, listener);
  }
  once(name, listener) {
    if (name === 'resize') this.#watchSize();
    return super.once(name, listener);
  }
  addListener(name, listener) {
    return this.on(name, listener);
  }
  prependListener(name, listener) {
    if (name === 'resize') this.#watchSize();
    return super.prependListener(name, listener);
  }
  prependOnceListener(name, listener) {
    if (name === 'resize') this.#watchSize();
    return super.prependOnceListener(name, listener);
  }
  #isWatched = false;
  // No signal says that the size of the window has changed.
  #watchSize() {
    if (this.#isWatched || !terminal.isTerminal(this.fd)) return;
    this.#isWatched = true;
    let before = `${this.getWindowSize()}`;
    const compare = () => {
      const size = `${this.getWindowSize()}`;
      if (size === before) return;
      before = size;
      this.emit('resize');
    };
    setInterval(compare, RESIZE_INTERVAL).unref();
  }
  get isTTY() { return terminal.isTerminal(this.fd) || undefined; }
  get columns() { return terminal.columns(); }
  get rows() { return terminal.rows(); }
  getWindowSize() { return [terminal.columns(), terminal.rows()]; }
  getColorDepth(env) { return terminal.isTerminal(this.fd) ? terminal.colorDepth(env) : 1; }
  hasColors(count, env) { return terminal.isTerminal(this.fd) && terminal.hasColors(count, env); }
  clearLine(direction, callback) { return this.#control(direction < 0 ? '\x1b[1K' : direction > 0 ? '\x1b[0K' : '\x1b[2K', callback); }
  clearScreenDown(callback) { return this.#control('\x1b[0J', callback); }
  cursorTo(x, y, callback) {
    if (typeof y === 'function') [y, callback] = [undefined, y];
    return this.#control(y === undefined ? `\x1b[${x + 1}G` : `\x1b[${y + 1};${x + 1}H`, callback);
  }
  moveCursor(dx, dy, callback) {
    const move = (count, plus, minus) => (count === 0 ? '' : `\x1b[${Math.abs(count)}${count > 0 ? plus : minus}`);
    return this.#control(move(dx, 'C', 'D') + move(dy, 'B', 'A'), callback);
  }
  #control(text, callback) {
    return this.write(text, callback);
  }
}
Object.defineProperty(WriteStream.prototype, 'isReplaced', { enumerable: false });

class ReadStream extends Readable {
  #waiting = false;
  #raw = false;
  constructor() {
    super({ highWaterMark: 65536 });
    this.fd = 0;
  }
  _read() {
    if (this.#waiting) return;
    this.#waiting = true;
    awaitStdin(() => {
      this.#waiting = false;
      let bytes;
      try {
        bytes = native.read(0, 65536);
      } catch (error) {
        this.destroy(error);
        return;
      }
      this.push(bytes.length === 0 ? null : wrap(bytes));
    });
  }
  pause() {
    const result = super.pause();
    // A paused program does not wait for input.
    if (this.#waiting) {
      this.#waiting = false;
      awaitStdin(null);
      this._readableState.reading = false;
      this._readableState.sync = false;
    }
    return result;
  }
  _destroy(error, callback) {
    if (this.#waiting) awaitStdin(null);
    callback(error);
  }
  get isTTY() { return terminal.isTerminal(0) || undefined; }
  get isRaw() { return this.isTTY && this.#raw; }
  setRawMode(raw) {
    if (!this.isTTY) return this;
    this.#raw = Boolean(raw);
    terminal.setKeys(this.#raw);
    return this;
  }
  ref() { return this; }
  unref() { return this; }
}

for (const [constructor, name] of [[ReadStream, 'ReadStream'], [WriteStream, 'WriteStream']]) Object.defineProperty(constructor, 'name', { value: name });

export const makeStdin = () => new ReadStream();
export const makeOutput = (fd) => new WriteStream(fd);
