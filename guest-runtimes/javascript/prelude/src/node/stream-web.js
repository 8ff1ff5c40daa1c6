// Conversion between Node's streams and web streams.
import { Buffer } from './buffer.js';
import { ReadableStream, WritableStream } from '../web/streams.js';

const { isBuffer } = Buffer;

export function install({ Readable, Writable, Duplex }) {
  Readable.fromWeb = (stream, options) => Readable.from(stream.values(), { objectMode: false, highWaterMark: undefined, ...options });
  Readable.toWeb = (readable) => {
    const parts = readable[Symbol.asyncIterator]();
    return new ReadableStream({
      async pull(controller) {
        const { value, done } = await parts.next();
        if (done) controller.close();
        else controller.enqueue(isBuffer(value) ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength) : value);
      },
      cancel(reason) { readable.destroy(reason); },
    }, { highWaterMark: 0 });
  };
  Writable.fromWeb = (stream, options) => {
    const writer = stream.getWriter();
    const then = (promise, callback) => void promise.then(() => callback(), callback);
    return new Writable({
      ...options,
      write: (chunk, encoding, callback) => then(writer.write(chunk), callback),
      final: (callback) => then(writer.close(), callback),
      destroy: (error, callback) => (error ? then(writer.abort(error), () => callback(error)) : callback(null)),
    });
  };
  Writable.toWeb = (writable) => {
    const done = (run) => new Promise((resolve, reject) => run((error) => (error ? reject(error) : resolve())));
    return new WritableStream({
      start(controller) { writable.once('error', (error) => controller.error(error)); },
      write: (chunk) => done((callback) => writable.write(chunk, callback)),
      close: () => done((callback) => writable.end(callback)),
      abort(reason) { writable.destroy(reason); },
    });
  };
  Duplex.fromWeb = ({ readable, writable }, options) => Duplex.from({ readable: Readable.fromWeb(readable, options), writable: Writable.fromWeb(writable, options) });
  Duplex.toWeb = (duplex) => ({ readable: Readable.toWeb(duplex), writable: Writable.toWeb(duplex) });
}
