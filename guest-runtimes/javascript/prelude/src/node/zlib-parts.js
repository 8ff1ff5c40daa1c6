// Shared parts of node:zlib and the web's compression streams: their inputs, and zlib's errors for invalid data.
import { Buffer } from './buffer.js';
import { invalidArgType } from './errors.js';

export function bytesOf(data, name = 'buffer') {
  if (typeof data === 'string') return Buffer.from(data);
  if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  if (data instanceof ArrayBuffer) return new Uint8Array(data);
  throw invalidArgType(name, ['string', 'Buffer', 'TypedArray', 'DataView', 'ArrayBuffer'], data);
}

const REASONS = {
  0: ['unexpected end of file', 'Z_BUF_ERROR', -5], 1: ['invalid block type', 'Z_DATA_ERROR', -3], 2: ['invalid code lengths set', 'Z_DATA_ERROR', -3],
  3: ['invalid distance too far back', 'Z_DATA_ERROR', -3], 6: ['incorrect header check', 'Z_DATA_ERROR', -3],
};
const CHECK = ['incorrect data check', 'Z_DATA_ERROR', -3];

const made = ([message, code, errno]) => Object.assign(new Error(message), { errno, code });

export const truncatedInput = () => made(REASONS[0]);
export const badHeader = () => made(REASONS[6]);
export const badCheck = () => made(CHECK);

// Runs a function and replaces the package's errors by those of zlib.
export function unpacked(run) {
  try {
    return run();
  } catch (error) {
    if (typeof error.code === 'number') throw made(REASONS[error.code] ?? CHECK);
    throw error;
  }
}
