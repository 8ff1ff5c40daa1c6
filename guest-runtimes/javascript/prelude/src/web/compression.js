// CompressionStream and DecompressionStream.
import { Deflate, Gzip, Zlib } from 'fflate/browser';
import { ByteLengthQueuingStrategy } from 'web-streams-polyfill';
import { coded } from '../node/errors.js';
import { bytesOf } from '../node/zlib-parts.js';
import { inspect } from '../inspect/index.js';
import { Through, named } from './through.js';
import { Unpacker } from './unpack.js';

const PACKERS = { gzip: Gzip, deflate: Zlib, 'deflate-raw': Deflate };

// Number of bytes that are produced before they are read, so that a small write does not wait for a read.
const OUTPUT_BUFFER = new ByteLengthQueuingStrategy({ highWaterMark: 16384 });

function known(format) {
  if (typeof format === 'string' && Object.hasOwn(PACKERS, format)) return format;
  throw coded(TypeError, 'ERR_INVALID_ARG_VALUE', `The argument 'format' is invalid. Received ${inspect(format)}`);
}

export class CompressionStream extends Through {
  constructor(format) {
    const packer = new PACKERS[known(format)]({ mtime: 0 });
    super({
      start(controller) {
        packer.ondata = (part) => void (part.length > 0 && controller.enqueue(part));
      },
      transform(chunk) { packer.push(bytesOf(chunk, 'chunk')); },
      flush() { packer.push(new Uint8Array(0), true); },
    }, OUTPUT_BUFFER);
  }
}
named(CompressionStream);

export class DecompressionStream extends Through {
  constructor(format) {
    let unpacker;
    known(format);
    super({
      start(controller) {
        unpacker = new Unpacker(format, (part) => controller.enqueue(part));
      },
      transform(chunk) { unpacker.push(bytesOf(chunk, 'chunk')); },
      flush() { unpacker.end(); },
    }, OUTPUT_BUFFER);
  }
}
named(DecompressionStream);
