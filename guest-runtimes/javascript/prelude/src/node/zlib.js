// node:zlib by a package that implements deflate in JavaScript: synchronous, with callbacks, and as streams that work
// when all input is there.
import { deflateSync, gunzipSync, gzipSync, inflateSync, unzlibSync, zlibSync } from 'fflate/browser';
import { Buffer, wrap } from './buffer.js';
import { validateFunction } from './errors.js';
import { enqueue } from '../loop/loop.js';
import { crc32 } from './checksums.js';
import { Transform } from './stream.js';
import { badHeader, bytesOf, truncatedInput, unpacked } from './zlib-parts.js';

const constants = {
  Z_NO_FLUSH: 0, Z_PARTIAL_FLUSH: 1, Z_SYNC_FLUSH: 2, Z_FULL_FLUSH: 3, Z_FINISH: 4, Z_BLOCK: 5, Z_OK: 0, Z_STREAM_END: 1, Z_NEED_DICT: 2, Z_ERRNO: -1, Z_STREAM_ERROR: -2,
  Z_DATA_ERROR: -3, Z_MEM_ERROR: -4, Z_BUF_ERROR: -5, Z_VERSION_ERROR: -6, Z_NO_COMPRESSION: 0, Z_BEST_SPEED: 1, Z_BEST_COMPRESSION: 9, Z_DEFAULT_COMPRESSION: -1,
  Z_FILTERED: 1, Z_HUFFMAN_ONLY: 2, Z_RLE: 3, Z_FIXED: 4, Z_DEFAULT_STRATEGY: 0, Z_MIN_WINDOWBITS: 8, Z_MAX_WINDOWBITS: 15, Z_DEFAULT_WINDOWBITS: 15, Z_MIN_CHUNK: 64,
  Z_DEFAULT_CHUNK: 16384, Z_MIN_MEMLEVEL: 1, Z_MAX_MEMLEVEL: 9, Z_DEFAULT_MEMLEVEL: 8, Z_MIN_LEVEL: -1, Z_MAX_LEVEL: 9, Z_DEFAULT_LEVEL: -1,
};

const attempt = (run) => wrap(unpacked(run));

const levelOf = (options) => {
  const level = options?.level;
  return level === undefined || level === -1 ? {} : { level };
};
const isGzip = (bytes) => bytes.length > 1 && bytes[0] === 0x1f && bytes[1] === 0x8b;
const isZlib = (bytes) => bytes.length > 1 && (bytes[0] & 15) === 8 && ((bytes[0] << 8) | bytes[1]) % 31 === 0;

function check(bytes, good) {
  if (bytes.length < 2) throw truncatedInput();
  if (!good) throw badHeader();
}

// A gzip file may have several members.
function gunzip(bytes) {
  check(bytes, isGzip(bytes));
  return gunzipSync(bytes);
}
function inflate(bytes) {
  check(bytes, isZlib(bytes));
  return unzlibSync(bytes);
}

const CODECS = {
  // The byte for the operating system is Unix, as in Node.
  gzip: (bytes, options) => {
    const made = gzipSync(bytes, { mtime: 0, ...levelOf(options) });
    made[9] = 3;
    return made;
  },
  gunzip: (bytes) => gunzip(bytes),
  deflate: (bytes, options) => zlibSync(bytes, levelOf(options)),
  inflate: (bytes) => inflate(bytes),
  deflateRaw: (bytes, options) => deflateSync(bytes, levelOf(options)),
  inflateRaw: (bytes) => inflateSync(bytes),
  unzip: (bytes) => (isGzip(bytes) ? gunzip(bytes) : inflate(bytes)),
};
const CLASSES = { gzip: 'Gzip', gunzip: 'Gunzip', deflate: 'Deflate', inflate: 'Inflate', deflateRaw: 'DeflateRaw', inflateRaw: 'InflateRaw', unzip: 'Unzip' };

const zlib = { constants, codes: { Z_OK: 0, Z_STREAM_END: 1, Z_NEED_DICT: 2, Z_ERRNO: -1, Z_STREAM_ERROR: -2, Z_DATA_ERROR: -3, Z_MEM_ERROR: -4, Z_BUF_ERROR: -5, Z_VERSION_ERROR: -6 } };
for (const [name, codec] of Object.entries(CODECS)) {
  zlib[`${name}Sync`] = (data, options) => attempt(() => codec(bytesOf(data), options));
  zlib[name] = (data, options, callback = options) => {
    validateFunction(callback, 'callback');
    const bytes = bytesOf(data);
    enqueue(() => {
      let result;
      try {
        result = attempt(() => codec(bytes, options));
      } catch (error) {
        callback(error);
        return;
      }
      callback(null, result);
    });
  };
  const Made = {
    [CLASSES[name]]: class extends Transform {
      #parts = [];
      #options;
      constructor(options) {
        super(options);
        this.#options = options;
        this.bytesWritten = 0;
      }
      _transform(chunk, encoding, callback) {
        this.#parts.push(bytesOf(chunk));
        this.bytesWritten += chunk.length;
        callback();
      }
      _flush(callback) {
        try {
          this.push(attempt(() => codec(Buffer.concat(this.#parts), this.#options)));
        } catch (error) {
          callback(error);
          return;
        }
        callback();
      }
      close(callback) {
        if (callback) this.once('close', callback);
        this.destroy();
      }
      flush(kind, callback) {
        if (typeof kind === 'function') callback = kind;
        if (callback) globalThis.process.nextTick(callback);
      }
    },
  }[CLASSES[name]];
  zlib[CLASSES[name]] = Made;
  zlib[`create${CLASSES[name]}`] = (options) => new Made(options);
  for (const key of [name, `${name}Sync`, `create${CLASSES[name]}`]) Object.defineProperty(zlib[key], 'name', { value: key });
}

zlib.crc32 = (data, value = 0) => crc32(bytesOf(data), value);

export default zlib;
