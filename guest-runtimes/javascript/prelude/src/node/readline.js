// node:readline and node:readline/promises for streams of text, without a terminal.
import { EventEmitter } from './events.js';
import { AbortError, coded, invalidArgType, invalidArgValue, validateFunction } from './errors.js';
import { emitKeypressEvents } from './keypress.js';
import { StringDecoder } from './string_decoder.js';
import { hidden } from '../engine/uncurry.js';
import { nextTick } from '../loop/ticks.js';

const kQuestion = Symbol('question');

export function Interface(input, output, completer, terminal) {
  if (!new.target) return new Interface(input, output, completer, terminal);
  const self = Reflect.construct(EventEmitter, [], new.target);
  let options = { output, completer, terminal };
  if (input?.input) {
    options = input;
    ({ input } = options);
  }
  if (input === undefined) throw new TypeError("Cannot read properties of undefined (reading 'on')");
  self.input = input;
  self.output = options.output;
  self.terminal = false;
  self.line = '';
  self.cursor = 0;
  self.history = options.history ?? [];
  self.historySize = options.historySize ?? 30;
  self.crlfDelay = options.crlfDelay ? Math.max(100, options.crlfDelay) : 100;
  self.closed = false;
  self.paused = false;
  const hide = (name, value) => hidden(self, name, value);
  hide('_prompt', options.prompt ?? '> ');
  hide(kQuestion, null);
  hide('_decoder', new StringDecoder('utf8'));
  hide('_rest', null);
  hide('_sawReturn', false);
  hide('_waiting', []);
  hide('_onData', (data) => take(self, typeof data === 'string' ? data : self._decoder.write(data)));
  hide('_onEnd', () => {
    const tail = self._decoder.end();
    if (tail) take(self, tail);
    if (typeof self._rest === 'string' && self._rest.length > 0) {
      const last = self._rest;
      self._rest = null;
      give(self, last);
    }
    self.close();
  });
  input.on('data', self._onData);
  input.on('end', self._onEnd);
  if (options.signal) {
    const onAbort = () => self.close();
    if (options.signal.aborted) nextTick(onAbort);
    else {
      options.signal.addEventListener('abort', onAbort, { once: true });
      self.once('close', () => options.signal.removeEventListener('abort', onAbort));
    }
  }
  input.resume?.();
  return self;
}
Object.setPrototypeOf(Interface.prototype, EventEmitter.prototype);
Object.setPrototypeOf(Interface, EventEmitter);

const BREAK = /\r\n|\n|\r(?!\n)|\u2028|\u2029/g;

function take(self, text) {
  if (text === '') return;
  if (self._sawReturn && text[0] === '\n') text = text.slice(1);
  self._sawReturn = text.endsWith('\r');
  if (self._rest !== null) text = self._rest + text;
  self._rest = null;
  let from = 0;
  BREAK.lastIndex = 0;
  const lines = [];
  for (let found = BREAK.exec(text); found !== null; found = BREAK.exec(text)) {
    lines.push(text.slice(from, found.index));
    from = found.index + found[0].length;
  }
  if (from < text.length) self._rest = text.slice(from);
  // Lines that arrived together are held while the program has paused the input.
  for (const line of lines) {
    if (self.paused) self._waiting.push(line);
    else give(self, line);
  }
}

function give(self, line) {
  if (self.closed && self[kQuestion] === null && self.listenerCount('line') === 0) return;
  const question = self[kQuestion];
  if (question !== null) {
    self[kQuestion] = null;
    self.setPrompt(question.before);
    question.callback(line);
  } else self.emit('line', line);
}

Object.assign(Interface.prototype, {
  getPrompt() { return this._prompt; },
  setPrompt(prompt) { this._prompt = `${prompt}`; },
  prompt() {
    if (this.paused) this.resume();
    if (this.output) this.output.write(this._prompt);
  },
  question(query, options, callback) {
    if (typeof options === 'function') {
      callback = options;
      options = undefined;
    }
    if (options?.signal?.aborted) return;
    if (typeof callback !== 'function') return;
    if (this.closed) throw coded(Error, 'ERR_USE_AFTER_CLOSE', 'readline was closed');
    if (this[kQuestion] !== null) {
      this.prompt();
      return;
    }
    const before = this._prompt;
    this.setPrompt(query);
    this[kQuestion] = { callback, before };
    if (options?.signal) {
      const onAbort = () => {
        this[kQuestion] = null;
        this.setPrompt(before);
      };
      options.signal.addEventListener('abort', onAbort, { once: true });
      this[kQuestion].callback = (line) => {
        options.signal.removeEventListener('abort', onAbort);
        callback(line);
      };
    }
    this.prompt();
  },
  pause() {
    if (this.paused) return this;
    this.input.pause();
    this.paused = true;
    this.emit('pause');
    return this;
  },
  resume() {
    if (!this.paused) return this;
    this.paused = false;
    this.emit('resume');
    while (!this.paused && this._waiting.length > 0) give(this, this._waiting.shift());
    if (!this.paused) this.input.resume();
    return this;
  },
  write(data) {
    if (this.closed) throw coded(Error, 'ERR_USE_AFTER_CLOSE', 'readline was closed');
    if (this.paused) this.resume();
    if (data !== null && data !== undefined) this._onData(data);
  },
  close() {
    if (this.closed) return;
    this.pause();
    this.input.removeListener('data', this._onData);
    this.input.removeListener('end', this._onEnd);
    this.closed = true;
    this.emit('close');
  },
  getCursorPos: () => ({ rows: 0, cols: 0 }),
  [Symbol.asyncIterator]() {
    const lines = [];
    let wake = null;
    let done = this.closed;
    const onLine = (line) => {
      lines.push(line);
      wake?.();
    };
    const onClose = () => {
      done = true;
      wake?.();
    };
    this.on('line', onLine);
    this.on('close', onClose);
    const finish = () => {
      this.removeListener('line', onLine);
      this.removeListener('close', onClose);
    };
    const self = this;
    return {
      async next() {
        for (;;) {
          if (lines.length > 0) return { value: lines.shift(), done: false };
          if (done) {
            finish();
            return { value: undefined, done: true };
          }
          await new Promise((resolve) => {
            wake = resolve;
          });
          wake = null;
        }
      },
      async return() {
        finish();
        self.close();
        return { value: undefined, done: true };
      },
      [Symbol.asyncIterator]() { return this; },
    };
  },
});
Interface.prototype.addHistory = () => {};
if (Symbol.dispose) Interface.prototype[Symbol.dispose] = function () { this.close(); };
for (const name of Object.keys(Interface.prototype)) Object.defineProperty(Interface.prototype, name, { enumerable: false });

const kPromisify = Symbol.for('nodejs.util.promisify.custom');
Object.defineProperty(Interface.prototype.question, kPromisify, {
  value(query, options) {
    return new Promise((resolve, reject) => {
      const signal = options?.signal;
      if (signal?.aborted) {
        reject(new AbortError(undefined, { cause: signal.reason }));
        return;
      }
      signal?.addEventListener('abort', () => reject(new AbortError(undefined, { cause: signal.reason })), { once: true });
      this.question(query, options ?? {}, resolve);
    });
  },
});

export const createInterface = (input, output, completer, terminal) => new Interface(input, output, completer, terminal);

// Writes a control sequence for the cursor, which is plain text here.
const csi = (stream, text, callback) => {
  if (stream === null || stream === undefined) {
    if (typeof callback === 'function') nextTick(callback, null);
    return true;
  }
  return stream.write(text, callback);
};
export function cursorTo(stream, x, y, callback) {
  if (typeof y === 'function') {
    callback = y;
    y = undefined;
  }
  if (callback !== undefined) validateFunction(callback, 'callback');
  if (typeof x !== 'number') throw invalidArgType('x', 'number', x);
  if (Number.isNaN(x)) throw invalidArgValue('x', x);
  return csi(stream, typeof y !== 'number' ? `\x1b[${x + 1}G` : `\x1b[${y + 1};${x + 1}H`, callback);
}
export function moveCursor(stream, dx, dy, callback) {
  let text = '';
  if (dx < 0) text += `\x1b[${-dx}D`;
  else if (dx > 0) text += `\x1b[${dx}C`;
  if (dy < 0) text += `\x1b[${-dy}A`;
  else if (dy > 0) text += `\x1b[${dy}B`;
  return csi(stream, text, callback);
}
export const clearLine = (stream, direction, callback) => csi(stream, direction < 0 ? '\x1b[1K' : direction > 0 ? '\x1b[0K' : '\x1b[2K', callback);
export const clearScreenDown = (stream, callback) => csi(stream, '\x1b[0J', callback);
export { emitKeypressEvents };

function PromisesInterface(...args) {
  const self = Reflect.construct(Interface, args, new.target ?? PromisesInterface);
  return self;
}
Object.setPrototypeOf(PromisesInterface.prototype, Interface.prototype);
Object.setPrototypeOf(PromisesInterface, Interface);
Object.defineProperty(PromisesInterface, 'name', { value: 'Interface' });
hidden(PromisesInterface.prototype, 'question', function question(query, options = {}) {
  return new Promise((resolve, reject) => {
    const { signal } = options;
    if (signal?.aborted) {
      reject(new AbortError(undefined, { cause: signal.reason }));
      return;
    }
    signal?.addEventListener('abort', () => reject(new AbortError(undefined, { cause: signal.reason })), { once: true });
    try {
      Interface.prototype.question.call(this, query, options, resolve);
    } catch (error) {
      reject(error);
    }
  });
});

class Readline {
  #stream;
  #todo = [];
  #auto;
  constructor(stream, { autoCommit = false } = {}) {
    this.#stream = stream;
    this.#auto = autoCommit;
  }
  #add(run) {
    if (this.#auto) run();
    else this.#todo.push(run);
    return this;
  }
  cursorTo(x, y) { return this.#add(() => cursorTo(this.#stream, x, y)); }
  moveCursor(dx, dy) { return this.#add(() => moveCursor(this.#stream, dx, dy)); }
  clearLine(direction) { return this.#add(() => clearLine(this.#stream, direction)); }
  clearScreenDown() { return this.#add(() => clearScreenDown(this.#stream)); }
  async commit() { for (const run of this.#todo.splice(0)) run(); }
  rollback() {
    this.#todo = [];
    return this;
  }
}

export const promises = { Interface: PromisesInterface, Readline, createInterface: (...args) => new PromisesInterface(...args) };
export default { Interface, clearLine, clearScreenDown, createInterface, cursorTo, emitKeypressEvents, moveCursor, promises };
