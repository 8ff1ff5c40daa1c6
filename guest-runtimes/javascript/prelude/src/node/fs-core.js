// File operations that all of node:fs's styles share: synchronous, with Node's errors.
import { native } from '../native.js';
import { absolute } from '../process.js';
import { Buffer, wrap } from './buffer.js';
import { coded, invalidArgType, invalidArgValue, outOfRange, systemError } from './errors.js';
import { setHeader } from '../engine/stacks.js';
import { fileURLToPath } from '../loader/urls.js';

export const constants = {
  F_OK: 0, X_OK: 1, W_OK: 2, R_OK: 4,
  UV_FS_SYMLINK_DIR: 1, UV_FS_SYMLINK_JUNCTION: 2, O_RDONLY: 0, O_WRONLY: 1, O_RDWR: 2, UV_DIRENT_UNKNOWN: 0, UV_DIRENT_FILE: 1, UV_DIRENT_DIR: 2, UV_DIRENT_LINK: 3,
  UV_DIRENT_FIFO: 4, UV_DIRENT_SOCKET: 5, UV_DIRENT_CHAR: 6, UV_DIRENT_BLOCK: 7, EXTENSIONLESS_FORMAT_JAVASCRIPT: 0, EXTENSIONLESS_FORMAT_WASM: 1,
  S_IFMT: 0o170000, S_IFREG: 0o100000, S_IFDIR: 0o040000, S_IFCHR: 0o020000, S_IFBLK: 0o060000, S_IFIFO: 0o010000, S_IFLNK: 0o120000, S_IFSOCK: 0o140000,
  O_CREAT: 0o100, O_EXCL: 0o200, UV_FS_O_FILEMAP: 0, O_NOCTTY: 0o400, O_TRUNC: 0o1000, O_APPEND: 0o2000, O_DIRECTORY: 0o200000, O_NOATIME: 0o1000000,
  O_NOFOLLOW: 0o400000, O_SYNC: 0o4010000, O_DSYNC: 0o10000, O_DIRECT: 0o40000, O_NONBLOCK: 0o4000,
  S_IRWXU: 0o700, S_IRUSR: 0o400, S_IWUSR: 0o200, S_IXUSR: 0o100, S_IRWXG: 0o70, S_IRGRP: 0o40, S_IWGRP: 0o20, S_IXGRP: 0o10, S_IRWXO: 7, S_IROTH: 4, S_IWOTH: 2, S_IXOTH: 1,
  UV_FS_COPYFILE_EXCL: 1, COPYFILE_EXCL: 1, UV_FS_COPYFILE_FICLONE: 2, COPYFILE_FICLONE: 2, UV_FS_COPYFILE_FICLONE_FORCE: 4, COPYFILE_FICLONE_FORCE: 4,
};

const { O_RDONLY, O_WRONLY, O_RDWR, O_CREAT, O_EXCL, O_TRUNC, O_APPEND, O_SYNC } = constants;
const FLAGS = {
  r: O_RDONLY, rs: O_RDONLY | O_SYNC, sr: O_RDONLY | O_SYNC, 'r+': O_RDWR, 'rs+': O_RDWR | O_SYNC, 'sr+': O_RDWR | O_SYNC,
  w: O_TRUNC | O_CREAT | O_WRONLY, wx: O_TRUNC | O_CREAT | O_WRONLY | O_EXCL, xw: O_TRUNC | O_CREAT | O_WRONLY | O_EXCL,
  'w+': O_TRUNC | O_CREAT | O_RDWR, 'wx+': O_TRUNC | O_CREAT | O_RDWR | O_EXCL, 'xw+': O_TRUNC | O_CREAT | O_RDWR | O_EXCL,
  a: O_APPEND | O_CREAT | O_WRONLY, ax: O_APPEND | O_CREAT | O_WRONLY | O_EXCL, xa: O_APPEND | O_CREAT | O_WRONLY | O_EXCL,
  as: O_APPEND | O_CREAT | O_WRONLY | O_SYNC, sa: O_APPEND | O_CREAT | O_WRONLY | O_SYNC,
  'a+': O_APPEND | O_CREAT | O_RDWR, 'ax+': O_APPEND | O_CREAT | O_RDWR | O_EXCL, 'xa+': O_APPEND | O_CREAT | O_RDWR | O_EXCL,
  'as+': O_APPEND | O_CREAT | O_RDWR | O_SYNC, 'sa+': O_APPEND | O_CREAT | O_RDWR | O_SYNC,
};

export function flagsOf(flags) {
  if (flags === undefined || flags === null) return O_RDONLY;
  if (typeof flags === 'number') return flags;
  const found = Object.hasOwn(FLAGS, flags) ? FLAGS[flags] : undefined;
  if (found === undefined) throw invalidArgValue('flags', flags);
  return found;
}

export function modeOf(mode, otherwise) {
  if (mode === undefined || mode === null) return otherwise;
  if (typeof mode === 'string') {
    if (!/^[0-7]+$/.test(mode)) throw invalidArgValue('mode', mode, 'must be a 32-bit unsigned integer or an octal string');
    return parseInt(mode, 8);
  }
  if (typeof mode !== 'number') throw invalidArgType('mode', 'number', mode);
  return mode;
}

// Returns the path that the program gave as a string.
export function given(path, name = 'path') {
  if (typeof path === 'string') {
    if (path.includes('\0')) throw invalidArgValue(name, path, 'must be a string, Uint8Array, or URL without null bytes');
    return path;
  }
  if (path instanceof Uint8Array) {
    const text = native.utf8Decode(path, true);
    // File names are text in this sandbox.
    if (text === null) throw systemError({ code: 'EILSEQ', errno: -84, message: 'EILSEQ: illegal byte sequence' }, 'open', native.utf8Decode(path, false));
    return text;
  }
  if (path !== null && typeof path === 'object' && typeof path.href === 'string' && typeof path.protocol === 'string') return fileURLToPath(path);
  throw invalidArgType(name, ['string', 'Buffer', 'URL'], path);
}

export function fdOf(fd, name = 'fd') {
  if (typeof fd !== 'number') throw invalidArgType(name, 'number', fd);
  if (!Number.isInteger(fd)) throw outOfRange(name, 'an integer', fd);
  if (fd < 0 || fd > 2147483647) throw outOfRange(name, '>= 0 && <= 2147483647', fd);
  return fd;
}

const isSystem = (error) => error instanceof Error && typeof error.errno === 'number';
function attempt(syscall, path, dest, run) {
  try {
    return run();
  } catch (error) {
    throw isSystem(error) ? systemError(error, syscall, path, dest) : error;
  }
}

const located = (syscall, path) => attempt(syscall, path, undefined, () => absolute(path));

// The standard streams, by their names in /dev and /proc.
const STREAMS = { '/dev/stdin': 0, '/dev/stdout': 1, '/dev/stderr': 2, '/dev/fd/0': 0, '/dev/fd/1': 1, '/dev/fd/2': 2, '/proc/self/fd/0': 0 };

export function open(path, flags, mode = 0o666) {
  const full = located('open', path);
  if (full.startsWith('/dev/') || full.startsWith('/proc/')) {
    const stream = STREAMS[full];
    if (stream !== undefined) return stream;
  }
  return attempt('open', path, undefined, () => native.open(full, flags, mode));
}

// The standard descriptors stay open, as the next program needs them.
export function close(fd) {
  if (fd <= 2) return;
  attempt('close', undefined, undefined, () => native.close(fd));
}


export function readAll(fd) {
  return attempt('read', undefined, undefined, () => {
    const parts = [];
    let total = 0;
    for (;;) {
      const part = native.read(fd, 65536);
      if (part.length === 0) break;
      parts.push(part);
      total += part.length;
    }
    if (parts.length === 1) return parts[0];
    const all = new Uint8Array(total);
    let at = 0;
    for (const part of parts) {
      all.set(part, at);
      at += part.length;
    }
    return all;
  });
}

export function readFile(path, flags) {
  if (Number.isInteger(path)) return readAll(fdOf(path));
  const name = given(path);
  const full = located('open', name);
  if (STREAMS[full] !== undefined) return readAll(STREAMS[full]);
  if (full === '/dev/null') return new Uint8Array(0);
  if (flags !== O_RDONLY) {
    const fd = open(name, flags);
    try {
      return readAll(fd);
    } finally {
      close(fd);
    }
  }
  try {
    return native.readFile(full);
  } catch (error) {
    if (!isSystem(error)) throw error;
    if (error.code === 'EISDIR') throw systemError(error, 'read');
    throw systemError(error, 'open', name);
  }
}

export function bytesOf(data, encoding) {
  if (typeof data === 'string') return encoding === undefined || encoding === null || encoding === 'utf8' || encoding === 'utf-8' ? data : Buffer.from(data, encoding);
  if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  throw invalidArgType('data', ['string', 'Buffer', 'TypedArray', 'DataView'], data);
}

export function writeFile(path, data, flags, mode, encoding) {
  const bytes = bytesOf(data, encoding);
  if (typeof path === 'number') {
    attempt('write', undefined, undefined, () => native.write(fdOf(path), bytes));
    return;
  }
  const name = given(path);
  const fd = open(name, flags, mode);
  try {
    attempt('write', undefined, undefined, () => native.write(fd, bytes));
  } finally {
    close(fd);
  }
}

export const read = (fd, bytes, position) =>
  attempt('read', undefined, undefined, () => {
    if (position === null || position === undefined || position === -1 || position === -1n) return native.readInto(fd, bytes, null);
    return native.readInto(fd, bytes, Number(position));
  });

export const write = (fd, bytes, position) =>
  attempt('write', undefined, undefined, () => (typeof position === 'number' || typeof position === 'bigint' ? native.pwrite(fd, bytes, Number(position)) : native.write(fd, bytes)));

const MODES = { file: constants.S_IFREG, dir: constants.S_IFDIR, symlink: constants.S_IFLNK, char: constants.S_IFCHR, block: constants.S_IFBLK, socket: constants.S_IFSOCK, fifo: constants.S_IFIFO };

function StatsBase() {}
const kindTest = (bits) =>
  function () {
    return (Number(this.mode) & constants.S_IFMT) === bits;
  };
Object.assign(StatsBase.prototype, {
  isDirectory: kindTest(constants.S_IFDIR), isFile: kindTest(constants.S_IFREG), isBlockDevice: kindTest(constants.S_IFBLK),
  isCharacterDevice: kindTest(constants.S_IFCHR), isSymbolicLink: kindTest(constants.S_IFLNK), isFIFO: kindTest(constants.S_IFIFO), isSocket: kindTest(constants.S_IFSOCK),
});
for (const name of Object.keys(StatsBase.prototype)) Object.defineProperty(StatsBase.prototype[name], 'name', { value: name });

export function Stats() {}
Object.setPrototypeOf(Stats.prototype, StatsBase.prototype);
export function BigIntStats() {}
Object.setPrototypeOf(BigIntStats.prototype, StatsBase.prototype);

const dateOf = (ms) => new Date(Math.floor(Number(ms) + 0.5));
function datesOf(stats) {
  for (const name of ['atime', 'mtime', 'ctime', 'birthtime']) stats[name] = dateOf(stats[`${name}Ms`]);
  return stats;
}

export function statsOf(raw, bigint) {
  const mode = (MODES[raw.type] ?? 0) | (raw.mode & 0o7777);
  const plain = {
    dev: raw.dev, mode, nlink: raw.nlink, uid: 0, gid: 0, rdev: 0, blksize: 4096, ino: raw.ino, size: raw.size, blocks: Math.ceil(raw.size / 512),
    atimeMs: raw.atimeMs, mtimeMs: raw.mtimeMs, ctimeMs: raw.ctimeMs, birthtimeMs: raw.ctimeMs,
  };
  if (!bigint) return datesOf(Object.assign(new Stats(), plain));
  const stats = new BigIntStats();
  for (const [name, value] of Object.entries(plain)) stats[name] = BigInt(Math.floor(value));
  for (const name of ['atime', 'mtime', 'ctime', 'birthtime']) stats[`${name}Ns`] = BigInt(Math.round(plain[`${name}Ms`] * 1e6));
  return datesOf(stats);
}

// Returns undefined for a missing file if the caller has disabled the error.
export function stat(path, { bigint = false, throwIfNoEntry = true } = {}, kind = 'stat') {
  const name = given(path);
  try {
    return statsOf(native[kind](absolute(name)), bigint);
  } catch (error) {
    if (!isSystem(error)) throw error;
    if (!throwIfNoEntry && (error.code === 'ENOENT' || error.code === 'ENOTDIR')) return undefined;
    throw systemError(error, kind, name);
  }
}

export const fstat = (fd, { bigint = false } = {}) => attempt('fstat', undefined, undefined, () => statsOf(native.fstat(fdOf(fd)), bigint));

export function exists(path) {
  try {
    const full = absolute(given(path));
    native.stat(full);
    return true;
  } catch {
    return false;
  }
}

export function access(path, mode = 0) {
  const name = given(path);
  const raw = attempt('access', name, undefined, () => native.stat(absolute(name)));
  if (mode & constants.X_OK && raw.type === 'file' && !(raw.mode & 0o111)) {
    throw systemError({ code: 'EACCES', errno: -13, message: 'EACCES: permission denied' }, 'access', name);
  }
}

const TYPES = { file: constants.UV_DIRENT_FILE, dir: constants.UV_DIRENT_DIR, symlink: constants.UV_DIRENT_LINK, char: constants.UV_DIRENT_CHAR, block: constants.UV_DIRENT_BLOCK, socket: constants.UV_DIRENT_SOCKET, fifo: constants.UV_DIRENT_FIFO };
const kType = Symbol('type');

export class Dirent {
  constructor(name, parent, type) {
    this.name = name;
    this.parentPath = parent;
    this.path = parent;
    this[kType] = TYPES[type] ?? 0;
  }
  isDirectory() { return this[kType] === constants.UV_DIRENT_DIR; }
  isFile() { return this[kType] === constants.UV_DIRENT_FILE; }
  isBlockDevice() { return this[kType] === constants.UV_DIRENT_BLOCK; }
  isCharacterDevice() { return this[kType] === constants.UV_DIRENT_CHAR; }
  isSymbolicLink() { return this[kType] === constants.UV_DIRENT_LINK; }
  isFIFO() { return this[kType] === constants.UV_DIRENT_FIFO; }
  isSocket() { return this[kType] === constants.UV_DIRENT_SOCKET; }
}

const list = (path) => attempt('scandir', path, undefined, () => native.readdir(absolute(path)));

export function readdir(path, { withFileTypes = false, recursive = false, encoding } = {}) {
  const name = given(path);
  const out = [];
  const shown = (text) => (encoding === 'buffer' ? Buffer.from(text) : text);
  const add = (entry, directory, prefix) => out.push(withFileTypes ? new Dirent(shown(entry.name), directory, entry.type) : shown(prefix + entry.name));
  if (!recursive) {
    for (const entry of list(name)) add(entry, name, '');
    return out;
  }
  // Breadth first, as in Node.
  const waiting = [[name, '']];
  while (waiting.length > 0) {
    const [directory, prefix] = waiting.shift();
    for (const entry of list(directory)) {
      add(entry, directory, prefix);
      if (entry.type === 'dir') waiting.push([`${directory === '/' ? '' : directory}/${entry.name}`, `${prefix}${entry.name}/`]);
    }
  }
  return out;
}

export function mkdir(path, { recursive = false, mode = 0o777 } = {}) {
  const name = given(path);
  if (!recursive) {
    attempt('mkdir', name, undefined, () => native.mkdir(absolute(name), mode));
    return undefined;
  }
  const full = located('mkdir', name);
  let first;
  const make = (at) => {
    const type = native.statType(at);
    if (type === 'dir') return;
    if (type !== null) throw systemError({ code: at === full ? 'EEXIST' : 'ENOTDIR', errno: at === full ? -17 : -20, message: at === full ? 'EEXIST: file already exists' : 'ENOTDIR: not a directory' }, 'mkdir', name);
    const parent = at.slice(0, at.lastIndexOf('/'));
    if (parent !== '') make(parent);
    attempt('mkdir', name, undefined, () => native.mkdir(at, mode));
    first ??= at;
  };
  make(full);
  return first;
}

export const rmdir = (path) => {
  const name = given(path);
  attempt('rmdir', name, undefined, () => native.rmdir(absolute(name)));
};
export const unlink = (path) => {
  const name = given(path);
  attempt('unlink', name, undefined, () => native.unlink(absolute(name)));
};

function systemCoded(code, message) {
  const error = coded(Error, code, message);
  Object.defineProperty(error, 'name', { value: 'SystemError', writable: true, configurable: true, enumerable: false });
  return setHeader(error, `SystemError [${code}]: ${message}`);
}

function removeTree(full, name) {
  for (const entry of attempt('rm', name, undefined, () => native.readdir(full))) {
    const inner = `${full}/${entry.name}`;
    if (entry.type === 'dir') removeTree(inner, `${name}/${entry.name}`);
    else attempt('rm', `${name}/${entry.name}`, undefined, () => native.unlink(inner));
  }
  attempt('rm', name, undefined, () => native.rmdir(full));
}

export function rm(path, { recursive = false, force = false } = {}) {
  const name = given(path);
  let full, type;
  try {
    full = absolute(name);
    ({ type } = native.lstat(full));
  } catch (error) {
    if (force && error.code === 'ENOENT') return;
    throw isSystem(error) ? systemError(error, 'lstat', name) : error;
  }
  if (type === 'dir') {
    if (!recursive) {
      const error = systemCoded('ERR_FS_EISDIR', `Path is a directory: rm returned EISDIR (is a directory) ${name}`);
      error.info = { code: 'EISDIR', message: 'is a directory', path: name, syscall: 'rm', errno: 21 };
      error.errno = 21;
      error.syscall = 'rm';
      error.path = name;
      throw error;
    }
    removeTree(full, name);
  } else attempt('rm', name, undefined, () => native.unlink(full));
}

export function rename(from, to) {
  const a = given(from, 'oldPath');
  const b = given(to, 'newPath');
  attempt('rename', a, b, () => native.rename(absolute(a), absolute(b)));
}
export function link(from, to) {
  const a = given(from, 'existingPath');
  const b = given(to, 'newPath');
  attempt('link', a, b, () => native.link(absolute(a), absolute(b)));
}
export function symlink(target, path) {
  const a = given(target, 'target');
  const b = given(path);
  attempt('symlink', a, b, () => native.symlink(a, absolute(b)));
}
export function readlink(path) {
  const name = given(path);
  return attempt('readlink', name, undefined, () => native.readlink(absolute(name)));
}

export function realpath(path) {
  const name = given(path);
  let rest = absolute(name || '.').split('/').filter(Boolean);
  let at = '';
  let links = 0;
  while (rest.length > 0) {
    const part = rest.shift();
    if (part === '.') continue;
    if (part === '..') {
      at = at.slice(0, Math.max(0, at.lastIndexOf('/')));
      continue;
    }
    const next = `${at}/${part}`;
    const { type } = attempt('lstat', next, undefined, () => native.lstat(next));
    if (type === 'symlink') {
      if (++links > 40) throw systemError({ code: 'ELOOP', errno: -40, message: 'ELOOP: too many symbolic links encountered' }, 'stat', name);
      const target = native.readlink(next);
      if (target[0] === '/') at = '';
      rest = [...target.split('/').filter(Boolean), ...rest];
    } else at = next;
  }
  return at === '' ? '/' : at;
}

export function copyFile(from, to, mode = 0) {
  const a = given(from, 'src');
  const b = given(to, 'dest');
  attempt('copyfile', a, b, () => {
    const source = native.stat(absolute(a));
    if (source.type === 'dir') throw Object.assign(new Error('EISDIR: illegal operation on a directory'), { code: 'EISDIR', errno: -21 });
    const bytes = native.readFile(absolute(a));
    const fd = native.open(absolute(b), O_WRONLY | O_CREAT | (mode & constants.COPYFILE_EXCL ? O_EXCL : O_TRUNC), source.mode & 0o777);
    try {
      native.write(fd, bytes);
    } finally {
      native.close(fd);
    }
  });
}

export function cp(from, to, options = {}) {
  const a = given(from, 'src');
  const b = given(to, 'dest');
  const { recursive = false, force = true, errorOnExist = false, filter, dereference = false, preserveTimestamps = false } = options;
  const copy = (source, dest) => {
    if (filter && !filter(source, dest)) return;
    const raw = attempt('lstat', source, undefined, () => native[dereference ? 'stat' : 'lstat'](absolute(source)));
    if (raw.type === 'dir') {
      if (!recursive) {
        const error = systemCoded('ERR_FS_EISDIR', `Path is a directory: cp returned EISDIR (${source} is a directory (not copied)) ${source}`);
        throw Object.assign(error, { errno: 22, syscall: 'cp', path: source });
      }
      if (native.statType(absolute(dest)) === null) mkdir(dest, { recursive: true });
      for (const entry of list(source)) copy(`${source}/${entry.name}`, `${dest}/${entry.name}`);
      return;
    }
    const there = native.statType(absolute(dest)) !== null;
    if (there && !force) {
      if (errorOnExist) throw coded(Error, 'ERR_FS_CP_EEXIST', `Target already exists: cp returned EEXIST (${dest} already exists) ${dest}`);
      return;
    }
    const parent = dest.slice(0, dest.lastIndexOf('/'));
    if (parent !== '' && native.statType(absolute(parent)) === null) mkdir(parent, { recursive: true });
    if (raw.type === 'symlink') {
      if (there) unlink(dest);
      symlink(native.readlink(absolute(source)), dest);
    } else {
      copyFile(source, dest);
      if (preserveTimestamps) native.utimes(absolute(dest), raw.atimeMs, raw.mtimeMs, true);
    }
  };
  copy(a, b);
}

const milliseconds = (time, name) => {
  if (time instanceof Date) return time.getTime();
  const value = Number(time);
  if (typeof time === 'boolean' || Number.isNaN(value)) throw invalidArgType(name, ['Date', 'Time in seconds'], time);
  return value * 1000;
};
export function utimes(path, atime, mtime, follow = true) {
  const name = given(path);
  attempt(follow ? 'utime' : 'lutime', name, undefined, () => native.utimes(absolute(name), milliseconds(atime, 'atime'), milliseconds(mtime, 'mtime'), follow));
}
export const futimes = (fd, atime, mtime) => attempt('futime', undefined, undefined, () => native.futimes(fdOf(fd), milliseconds(atime, 'atime'), milliseconds(mtime, 'mtime')));

export function truncate(path, length = 0) {
  const name = given(path);
  attempt('open', name, undefined, () => native.truncate(absolute(name), length ?? 0));
}
export const ftruncate = (fd, length = 0) => attempt('ftruncate', undefined, undefined, () => native.ftruncate(fdOf(fd), length ?? 0));
export const fsync = (fd) => attempt('fsync', undefined, undefined, () => native.fsync(fdOf(fd)));
export const fdatasync = (fd) => attempt('fdatasync', undefined, undefined, () => native.fdatasync(fdOf(fd)));

// Modes and owners are not stored here; the call only checks that the file exists.
export const chmod = (path, syscall = 'chmod') => {
  const name = given(path);
  attempt(syscall, name, undefined, () => native.stat(absolute(name)));
};

const LETTERS = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789';
export function mkdtemp(prefix) {
  const start = given(prefix, 'prefix');
  for (let tries = 0; ; tries++) {
    const name = start + [...native.random(6)].map((byte) => LETTERS[byte % LETTERS.length]).join('');
    try {
      native.mkdir(absolute(name), 0o700);
      return name;
    } catch (error) {
      if (error.code === 'EEXIST' && tries < 20) continue;
      throw isSystem(error) ? systemError(error, 'mkdtemp', `${start}XXXXXX`) : error;
    }
  }
}

export const decoded = (bytes, encoding) => {
  if (encoding === undefined || encoding === null || encoding === 'buffer') return wrap(bytes);
  if (encoding === 'utf8' || encoding === 'utf-8') return native.utf8Decode(bytes, false);
  return wrap(bytes).toString(encoding);
};

