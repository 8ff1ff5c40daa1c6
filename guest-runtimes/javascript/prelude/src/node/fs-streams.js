// fs.createReadStream and fs.createWriteStream.
import { Readable, Writable, finished } from './stream.js';
import * as core from './fs-core.js';
import { Buffer } from './buffer.js';
import { enqueue } from '../loop/loop.js';
import { outOfRange, validateInteger } from './errors.js';

const asOptions = (options) => (typeof options === 'string' ? { encoding: options } : { ...options });

function ReadStream(path, options) {
  if (!(this instanceof ReadStream)) return new ReadStream(path, options);
  const given = asOptions(options);
  given.highWaterMark ??= 64 * 1024;
  given.autoDestroy ??= true;
  Readable.call(this, { highWaterMark: given.highWaterMark, encoding: given.encoding, objectMode: false, emitClose: given.emitClose, signal: given.signal, autoDestroy: given.autoClose !== false });
  this.fd = given.fd === undefined ? null : typeof given.fd === 'number' ? given.fd : given.fd.fd;
  this.path = this.fd === null ? core.given(path) : path;
  this.flags = given.flags ?? 'r';
  this.mode = given.mode ?? 0o666;
  this.start = given.start;
  this.end = given.end ?? Infinity;
  this.pos = undefined;
  this.bytesRead = 0;
  this.autoClose = given.autoClose ?? true;
  this.handle_ = given.handle;
  if (this.start !== undefined) {
    validateInteger(this.start, 'start', 0);
    this.pos = this.start;
  }
  if (this.end !== Infinity) {
    validateInteger(this.end, 'end', 0);
    if (this.start !== undefined && this.start > this.end) throw outOfRange('start', `<= "end" (here: ${this.end})`, this.start);
  }
  Object.defineProperty(this, 'handle_', { enumerable: false });
}
Object.setPrototypeOf(ReadStream.prototype, Readable.prototype);
Object.setPrototypeOf(ReadStream, Readable);
Object.defineProperty(ReadStream.prototype, 'autoClose', {
  get() { return this._readableState.autoDestroy; },
  set(value) { this._readableState.autoDestroy = value; },
  configurable: true,
});
Object.defineProperty(ReadStream.prototype, 'pending', { get() { return this.fd === null; }, configurable: true });

function openFirst(stream, callback) {
  if (stream.fd !== null) {
    callback();
    return;
  }
  enqueue(() => {
    let fd;
    try {
      fd = core.open(core.given(stream.path), core.flagsOf(stream.flags), stream.mode);
    } catch (error) {
      callback(error);
      return;
    }
    stream.fd = fd;
    callback();
    stream.emit('open', fd);
    stream.emit('ready');
  });
}

function closeLast(stream, error, callback) {
  const { fd } = stream;
  if (fd === null || fd === undefined || fd < 0) {
    callback(error);
    return;
  }
  stream.fd = null;
  if (stream.handle_) {
    stream.handle_.close().then(() => callback(error), callback);
    return;
  }
  enqueue(() => {
    try {
      core.close(fd);
    } catch (failed) {
      callback(error ?? failed);
      return;
    }
    callback(error);
  });
}

ReadStream.prototype._construct = function (callback) {
  openFirst(this, callback);
};
ReadStream.prototype._read = function (size) {
  const left = this.end === Infinity ? size : this.pos !== undefined ? this.end - this.pos + 1 : this.end - this.bytesRead + 1;
  const count = Math.min(left, size);
  if (count <= 0) {
    this.push(null);
    return;
  }
  enqueue(() => {
    if (this.destroyed) return;
    const buffer = Buffer.allocUnsafe(count);
    let got;
    try {
      got = core.read(this.fd, buffer, this.pos ?? null);
    } catch (error) {
      this.destroy(error);
      return;
    }
    if (this.pos !== undefined) this.pos += got;
    this.bytesRead += got;
    this.push(got === 0 ? null : got === count ? buffer : buffer.subarray(0, got));
  });
};
ReadStream.prototype._destroy = function (error, callback) {
  closeLast(this, error, callback);
};
ReadStream.prototype.close = function (callback) {
  if (typeof callback === 'function') finished(this, callback);
  this.destroy();
};

function WriteStream(path, options) {
  if (!(this instanceof WriteStream)) return new WriteStream(path, options);
  const given = asOptions(options);
  Writable.call(this, { highWaterMark: given.highWaterMark, decodeStrings: true, defaultEncoding: given.encoding ?? 'utf8', emitClose: given.emitClose, signal: given.signal, autoDestroy: given.autoClose !== false });
  this.fd = given.fd === undefined ? null : typeof given.fd === 'number' ? given.fd : given.fd.fd;
  this.path = this.fd === null ? core.given(path) : path;
  this.flags = given.flags ?? 'w';
  this.mode = given.mode ?? 0o666;
  this.start = given.start;
  this.pos = undefined;
  this.bytesWritten = 0;
  this.handle_ = given.handle;
  if (this.start !== undefined) {
    validateInteger(this.start, 'start', 0);
    this.pos = this.start;
  }
  Object.defineProperty(this, 'handle_', { enumerable: false });
}
Object.setPrototypeOf(WriteStream.prototype, Writable.prototype);
Object.setPrototypeOf(WriteStream, Writable);
Object.defineProperty(WriteStream.prototype, 'autoClose', {
  get() { return this._writableState.autoDestroy; },
  set(value) { this._writableState.autoDestroy = value; },
  configurable: true,
});
Object.defineProperty(WriteStream.prototype, 'pending', { get() { return this.fd === null; }, configurable: true });

WriteStream.prototype._construct = function (callback) {
  openFirst(this, callback);
};
WriteStream.prototype._write = function (chunk, _encoding, callback) {
  enqueue(() => {
    if (this.destroyed) return;
    let count;
    try {
      count = core.write(this.fd, chunk, this.pos);
    } catch (error) {
      callback(error);
      return;
    }
    this.bytesWritten += count;
    if (this.pos !== undefined) this.pos += count;
    callback();
  });
};
WriteStream.prototype._writev = function (chunks, callback) {
  this._write(Buffer.concat(chunks.map(({ chunk }) => chunk)), undefined, callback);
};
WriteStream.prototype._destroy = function (error, callback) {
  closeLast(this, error, callback);
};
WriteStream.prototype.close = function (callback) {
  if (callback) {
    if (this.closed) {
      globalThis.process.nextTick(callback);
      return;
    }
    this.on('close', callback);
  }
  if (!this.autoClose) this.on('finish', this.destroy);
  this.end();
};
WriteStream.prototype.destroySoon = WriteStream.prototype.end;

export { ReadStream, WriteStream };
export const createReadStream = (path, options) => new ReadStream(path, options);
export const createWriteStream = (path, options) => new WriteStream(path, options);
