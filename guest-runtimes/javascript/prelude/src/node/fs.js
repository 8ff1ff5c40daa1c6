// node:fs: a synchronous core in Node's three styles.
import * as core from './fs-core.js';
import { Buffer } from './buffer.js';
import { coded, invalidArgType, invalidArgValue, outOfRange, validateFunction, AbortError } from './errors.js';
import { enqueue } from '../loop/loop.js';
import { cwd } from '../process.js';
import { customPromisifyArgs } from './util.js';
import { EventEmitter } from './events.js';
import { matchesGlob } from './path-posix.js';
import { reportMissing } from '../missing.js';

const { constants, Stats, Dirent } = core;

function optionsOf(options, defaults) {
  if (options === undefined || options === null || typeof options === 'function') return defaults;
  if (typeof options === 'string') {
    checkEncoding(options);
    return { ...defaults, encoding: options };
  }
  if (typeof options !== 'object') throw invalidArgType('options', ['string', 'Object'], options);
  checkEncoding(options.encoding);
  return { ...defaults, ...options };
}

function checkEncoding(encoding) {
  if (encoding !== undefined && encoding !== null && encoding !== 'buffer' && !Buffer.isEncoding(encoding)) {
    throw invalidArgValue('encoding', encoding, 'is invalid encoding');
  }
}

// Returns the part of the buffer that a read or write uses, which the arguments give in several forms.
function slice(buffer, offset, length, position) {
  if (offset !== null && typeof offset === 'object') ({ offset = 0, length, position = null } = offset);
  if (!ArrayBuffer.isView(buffer)) throw invalidArgType('buffer', ['Buffer', 'TypedArray', 'DataView'], buffer);
  offset ??= 0;
  length ??= buffer.byteLength - offset;
  if (offset < 0 || offset > buffer.byteLength) throw outOfRange('offset', `>= 0 && <= ${buffer.byteLength}`, offset);
  if (length < 0 || length > buffer.byteLength - offset) throw outOfRange('length', `>= 0 && <= ${buffer.byteLength - offset}`, length);
  return { bytes: new Uint8Array(buffer.buffer, buffer.byteOffset + offset, length), position: position ?? null };
}

const sync = {
  readFile(path, options) {
    const { encoding, flag } = optionsOf(options, { flag: 'r' });
    return core.decoded(core.readFile(path, core.flagsOf(flag)), encoding);
  },
  writeFile(path, data, options) {
    const { encoding, flag, mode } = optionsOf(options, { encoding: 'utf8', flag: 'w', mode: 0o666 });
    core.writeFile(path, data, core.flagsOf(flag), core.modeOf(mode, 0o666), encoding);
  },
  appendFile(path, data, options) {
    const { encoding, flag, mode } = optionsOf(options, { encoding: 'utf8', flag: 'a', mode: 0o666 });
    core.writeFile(path, data, core.flagsOf(flag), core.modeOf(mode, 0o666), encoding);
  },
  open: (path, flags = 'r', mode = 0o666) => core.open(core.given(path), core.flagsOf(flags), core.modeOf(mode, 0o666)),
  close: (fd) => core.close(core.fdOf(fd)),
  read(fd, buffer, offset, length, position) {
    const part = slice(buffer, offset, length, position);
    return part.bytes.length === 0 ? 0 : core.read(core.fdOf(fd), part.bytes, part.position);
  },
  write(fd, buffer, offset, length, position) {
    core.fdOf(fd);
    if (typeof buffer === 'string') {
      const bytes = Buffer.from(buffer, length);
      return core.write(fd, bytes, offset);
    }
    const part = slice(buffer, offset, length, position);
    return core.write(fd, part.bytes, part.position);
  },
  readv(fd, buffers, position) {
    let total = 0;
    for (const buffer of buffers) {
      const got = core.read(fd, new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength), typeof position === 'number' ? position + total : null);
      total += got;
      if (got < buffer.byteLength) break;
    }
    return total;
  },
  writev(fd, buffers, position) {
    let total = 0;
    for (const buffer of buffers) total += core.write(fd, new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength), typeof position === 'number' ? position + total : null);
    return total;
  },
  stat: (path, options) => core.stat(path, options ?? undefined, 'stat'),
  lstat: (path, options) => core.stat(path, options ?? undefined, 'lstat'),
  fstat: (fd, options) => core.fstat(fd, options ?? undefined),
  access: core.access,
  readdir(path, options) {
    return core.readdir(path, optionsOf(options, {}));
  },
  mkdir(path, options) {
    const given = typeof options === 'number' || typeof options === 'string' ? { mode: options } : options ?? {};
    return core.mkdir(path, { recursive: !!given.recursive, mode: core.modeOf(given.mode, 0o777) });
  },
  rmdir(path, options) {
    if (options?.recursive) return core.rm(path, { recursive: true });
    return core.rmdir(path);
  },
  rm: (path, options) => core.rm(path, options ?? undefined),
  unlink: core.unlink,
  rename: core.rename,
  link: core.link,
  symlink: (target, path) => core.symlink(target, path),
  readlink: (path, options) => {
    const { encoding } = optionsOf(options, {});
    return encoding === 'buffer' ? Buffer.from(core.readlink(path)) : core.readlink(path);
  },
  realpath: (path) => core.realpath(path),
  copyFile: core.copyFile,
  cp: (from, to, options) => core.cp(from, to, options ?? undefined),
  utimes: (path, atime, mtime) => core.utimes(path, atime, mtime),
  lutimes: (path, atime, mtime) => core.utimes(path, atime, mtime, false),
  futimes: core.futimes,
  truncate: (path, length) => (typeof path === 'number' ? core.ftruncate(path, length) : core.truncate(path, length)),
  ftruncate: core.ftruncate,
  fsync: core.fsync,
  fdatasync: core.fdatasync,
  chmod: (path) => core.chmod(path),
  lchmod: (path) => core.chmod(path, 'lchmod'),
  fchmod: (fd) => void core.fstat(fd),
  chown: (path) => core.chmod(path, 'chown'),
  lchown: (path) => core.chmod(path, 'lchown'),
  fchown: (fd) => void core.fstat(fd),
  mkdtemp: (prefix) => core.mkdtemp(prefix),
  statfs: (path, options) => {
    core.stat(path);
    const values = { type: 0, bsize: 4096, blocks: 0, bfree: 0, bavail: 0, files: 0, ffree: 0 };
    return options?.bigint ? Object.fromEntries(Object.entries(values).map(([name, value]) => [name, BigInt(value)])) : values;
  },
  opendir: (path, options) => new Dir(core.given(path), options),
  glob: (pattern, options) => [...globbed(pattern, options)],
};

// Checks of arguments that happen when the call is made, not when it runs.
const CHECKS = {
  readFile: (path) => Number.isInteger(path) || core.given(path),
  writeFile: (path, data, options) => {
    if (typeof path !== 'number') core.given(path);
    if (typeof data !== 'string' && !ArrayBuffer.isView(data)) core.bytesOf(data);
    optionsOf(options, {});
  },
  appendFile: (path) => typeof path === 'number' || core.given(path),
  open: (path, flags) => {
    core.given(path);
    if (typeof flags !== 'function') core.flagsOf(flags);
  },
  close: (fd) => core.fdOf(fd), fstat: (fd) => core.fdOf(fd), read: (fd) => core.fdOf(fd), write: (fd) => core.fdOf(fd),
  rename: (from, to) => [core.given(from, 'oldPath'), core.given(to, 'newPath')],
  copyFile: (from, to) => [core.given(from, 'src'), core.given(to, 'dest')],
};
for (const name of ['stat', 'lstat', 'access', 'readdir', 'mkdir', 'rmdir', 'rm', 'unlink', 'readlink', 'realpath', 'truncate', 'utimes']) {
  CHECKS[name] ??= (path) => typeof path === 'number' || core.given(path);
}

// Data that only the promise form of writing accepts: an iterable of pieces.
const inPieces = (data) => data !== null && typeof data === 'object' && !ArrayBuffer.isView(data) && (data[Symbol.iterator] || data[Symbol.asyncIterator]);
async function gathered(data, encoding) {
  const pieces = [];
  for await (const piece of data) pieces.push(typeof piece === 'string' ? Buffer.from(piece, encoding) : piece);
  return Buffer.concat(pieces);
}

// Number of operations in Node's thread pool for one operation of `fs`, which determines the order of callbacks.
const POOL_OPERATIONS = { readFile: 3, writeFile: 3, appendFile: 3, copyFile: 1, cp: 4, rm: 2, mkdir: 1 };

const MULTIPLE = {
  read: (count, [, buffer]) => [count, buffer],
  write: (count, [, buffer]) => [count, buffer],
  readv: (count, [, buffers]) => [count, buffers],
  writev: (count, [, buffers]) => [count, buffers],
};

function callbackStyle(name) {
  const run = sync[name];
  const poolOperations = POOL_OPERATIONS[name] ?? 1;
  const fn = function (...args) {
    let callback = args.pop();
    // read(fd, callback) and similar calls omit optional arguments.
    if (typeof callback !== 'function') {
      const at = args.findLastIndex((each) => typeof each === 'function');
      if (at >= 0) {
        callback = args[at];
        args.length = at;
      }
    }
    validateFunction(typeof callback === 'function' ? callback : undefined, 'cb');
    if (name === 'read' && (args.length < 2 || !ArrayBuffer.isView(args[1]))) {
      const options = args[1] ?? {};
      args = [args[0], options.buffer ?? Buffer.alloc(16384), options.offset ?? 0, options.length, options.position ?? null];
    }
    CHECKS[name]?.(...args);
    const signal = args[args.length - 1]?.signal;
    enqueue(() => {
      let result;
      if (signal?.aborted) return callback(new AbortError(undefined, { cause: signal.reason }));
      try {
        result = run(...args);
      } catch (error) {
        callback(error);
        return undefined;
      }
      const done = () => {
        if (MULTIPLE[name]) callback(null, ...MULTIPLE[name](result, args));
        else if (result === undefined) callback(null);
        else callback(null, result);
      };
      // An operation that fails does so in the first pool operation.
      if (poolOperations > 1) enqueue(done, poolOperations - 2);
      else done();
      return undefined;
    });
  };
  Object.defineProperty(fn, 'name', { value: name, configurable: true });
  return fn;
}

function promiseStyle(name) {
  const run = sync[name];
  const fn = function (...args) {
    return new Promise((resolve, reject) => {
      try {
        CHECKS[name]?.(...args);
      } catch (error) {
        reject(error);
        return;
      }
      const signal = args[args.length - 1]?.signal;
      enqueue(() => {
        try {
          if (signal?.aborted) throw new AbortError(undefined, { cause: signal.reason });
          resolve(run(...args.map((arg) => (arg instanceof FileHandle ? arg.fd : arg))));
        } catch (error) {
          reject(error);
        }
      }, POOL_OPERATIONS[name] ?? 1);
    });
  };
  Object.defineProperty(fn, 'name', { value: name, configurable: true });
  return fn;
}

const later = (run, poolOperations = 1) =>
  new Promise((resolve, reject) => {
    enqueue(() => {
      try {
        resolve(run());
      } catch (error) {
        reject(error);
      }
    }, poolOperations);
  });

const kFd = Symbol('fd');

class FileHandle extends EventEmitter {
  constructor(fd) {
    super();
    Object.defineProperty(this, kFd, { value: fd, writable: true, enumerable: false });
  }
  get fd() { return this[kFd]; }
  getAsyncId() { return 0; }
  #use(run, poolOperations) {
    if (this[kFd] < 0) {
      const error = new Error('file closed');
      error.code = 'EBADF';
      error.syscall = 'read';
      return Promise.reject(error);
    }
    return later(() => run(this[kFd]), poolOperations);
  }
  readFile(options) { return this.#use((fd) => sync.readFile(fd, options), 2); }
  writeFile(data, options) { return this.#use((fd) => sync.writeFile(fd, data, options), 2); }
  appendFile(data, options) { return this.#use((fd) => sync.writeFile(fd, data, options), 2); }
  read(buffer, offset, length, position) {
    if (!ArrayBuffer.isView(buffer)) ({ buffer = Buffer.alloc(16384), offset = 0, length, position = null } = buffer ?? {});
    return this.#use((fd) => ({ bytesRead: sync.read(fd, buffer, offset, length, position), buffer }));
  }
  write(buffer, offset, length, position) {
    return this.#use((fd) => ({ bytesWritten: sync.write(fd, buffer, offset, length, position), buffer }));
  }
  readv(buffers, position) { return this.#use((fd) => ({ bytesRead: sync.readv(fd, buffers, position), buffers })); }
  writev(buffers, position) { return this.#use((fd) => ({ bytesWritten: sync.writev(fd, buffers, position), buffers })); }
  stat(options) { return this.#use((fd) => sync.fstat(fd, options)); }
  truncate(length) { return this.#use((fd) => sync.ftruncate(fd, length)); }
  sync() { return this.#use((fd) => sync.fsync(fd)); }
  datasync() { return this.#use((fd) => sync.fdatasync(fd)); }
  utimes(atime, mtime) { return this.#use((fd) => sync.futimes(fd, atime, mtime)); }
  chmod() { return this.#use(() => {}); }
  chown() { return this.#use(() => {}); }
  close() {
    if (this[kFd] < 0) return Promise.resolve();
    const fd = this[kFd];
    this[kFd] = -1;
    return later(() => {
      core.close(fd);
      this.emit('close');
    });
  }
  createReadStream(options) { return streams().createReadStream('', { ...options, fd: this[kFd], handle: this }); }
  createWriteStream(options) { return streams().createWriteStream('', { ...options, fd: this[kFd], handle: this }); }
  async *readLines(options) {
    const { createInterface } = globalThis.process.getBuiltinModule('readline');
    yield* createInterface({ input: this.createReadStream(options), crlfDelay: Infinity });
  }
  [Symbol.asyncDispose ?? Symbol('asyncDispose')]() { return this.close(); }
}

class Dir {
  #entries;
  #closed = false;
  #path;
  constructor(path, options) {
    this.#path = path;
    this.#entries = core.readdir(path, { ...(options ?? {}), withFileTypes: true });
  }
  get path() { return this.#path; }
  #check() {
    if (this.#closed) throw coded(Error, 'ERR_DIR_CLOSED', 'Directory handle was closed');
  }
  readSync() {
    this.#check();
    return this.#entries.shift() ?? null;
  }
  read(callback) {
    this.#check();
    if (typeof callback !== 'function') return later(() => this.readSync());
    enqueue(() => callback(null, this.readSync()));
    return undefined;
  }
  closeSync() {
    this.#check();
    this.#closed = true;
  }
  close(callback) {
    this.#check();
    this.#closed = true;
    if (typeof callback !== 'function') return Promise.resolve();
    enqueue(() => callback(null));
    return undefined;
  }
  async *entries() {
    try {
      for (let entry = await this.read(); entry !== null; entry = await this.read()) yield entry;
    } finally {
      if (!this.#closed) await this.close();
    }
  }
  [Symbol.asyncIterator]() { return this.entries(); }
}

function* globbed(pattern, options = {}) {
  const patterns = Array.isArray(pattern) ? pattern : [pattern];
  const root = options?.cwd === undefined ? cwd() : core.given(options.cwd);
  const excluded = (entry) => {
    if (typeof options?.exclude === 'function') return options.exclude(options.withFileTypes ? entry : entry.name);
    return Array.isArray(options?.exclude) && options.exclude.some((each) => matchesGlob(entry.name, each));
  };
  const walk = function* (directory, prefix) {
    let entries;
    try {
      entries = core.readdir(directory, { withFileTypes: true });
    } catch {
      return;
    }
    for (const entry of entries) {
      if (excluded(entry)) continue;
      const name = prefix + entry.name;
      if (patterns.some((each) => matchesGlob(name, each.replace(/^\.\//, '')))) yield options?.withFileTypes ? entry : name;
      if (entry.isDirectory()) yield* walk(`${directory}/${entry.name}`, `${name}/`);
    }
  };
  yield* walk(root, '');
}

const fs = {};
for (const name of Object.keys(sync)) {
  if (name === 'glob' || name === 'opendir') continue;
  fs[name] = callbackStyle(name);
  fs[`${name}Sync`] = sync[name];
  Object.defineProperty(sync[name], 'name', { value: `${name}Sync`, configurable: true });
}
fs.globSync = sync.glob;
fs.glob = (pattern, options, callback = options) => enqueue(() => callback(null, sync.glob(pattern, typeof options === 'function' ? undefined : options)));
fs.opendirSync = sync.opendir;
fs.opendir = callbackStyle('opendir');
fs.exists = (path, callback) => {
  validateFunction(callback, 'cb');
  enqueue(() => callback(core.exists(path)));
};
fs.existsSync = core.exists;
Object.defineProperty(fs.exists, Symbol.for('nodejs.util.promisify.custom'), { value: (path) => later(() => core.exists(path)) });
fs.read[customPromisifyArgs] = ['bytesRead', 'buffer'];
fs.write[customPromisifyArgs] = ['bytesWritten', 'buffer'];
for (const each of [fs.read, fs.write]) Object.defineProperty(each, customPromisifyArgs, { enumerable: false });
fs.realpath.native = fs.realpath;
fs.realpathSync.native = fs.realpathSync;

const PROMISED = [
  'access', 'copyFile', 'cp', 'rename', 'truncate', 'rm', 'rmdir', 'mkdir', 'readdir', 'readlink', 'symlink', 'lstat', 'stat', 'statfs', 'link', 'unlink',
  'chmod', 'lchmod', 'lchown', 'chown', 'utimes', 'lutimes', 'realpath', 'mkdtemp', 'writeFile', 'appendFile', 'readFile', 'opendir',
];
export const promises = { open: undefined, constants };
for (const name of PROMISED) promises[name] = promiseStyle(name);
for (const name of ['writeFile', 'appendFile']) {
  const write = promises[name];
  promises[name] = { async [name](path, data, options) {
    if (inPieces(data)) data = await gathered(data, typeof options === 'string' ? options : options?.encoding ?? 'utf8');
    return write(path, data, options);
  } }[name];
}
promises.open = function open(path, flags, mode) {
  return later(() => new FileHandle(sync.open(path, flags, mode)));
};
promises.glob = async function* glob(pattern, options) {
  yield* globbed(pattern, options);
};

function cannotWatch(path) {
  core.given(path);
  reportMissing('api:fs.watch');
  const error = new Error(`ENOSYS: function not implemented, watch '${path}': files cannot be watched in this sandbox`);
  return Object.assign(error, { errno: -38, code: 'ENOSYS', syscall: 'watch', path });
}
fs.watch = (path) => {
  throw cannotWatch(path);
};
fs.watchFile = fs.watch;
fs.unwatchFile = () => {};
promises.watch = async function* watch(path) {
  throw cannotWatch(path);
};

let streams;
export const useStreams = (get) => {
  streams = get;
};
fs.createReadStream = (path, options) => streams().createReadStream(path, options);
fs.createWriteStream = (path, options) => streams().createWriteStream(path, options);
for (const name of ['ReadStream', 'WriteStream', 'FileReadStream', 'FileWriteStream']) {
  Object.defineProperty(fs, name, { get: () => streams()[name.replace('File', '')], enumerable: true, configurable: true });
}
fs.openAsBlob = (path, options) => later(() => new Blob([core.readFile(path, 0)], options));

Object.assign(fs, { constants, Stats, Dirent, Dir, F_OK: 0, R_OK: 4, W_OK: 2, X_OK: 1, _toUnixTimestamp: Number });
Object.defineProperty(fs, 'promises', { value: promises, enumerable: true, configurable: true });

export { FileHandle };
export default fs;
