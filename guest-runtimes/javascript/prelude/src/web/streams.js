// Web streams: the classes of a package, which follow the Streams Standard, printed as Node prints its own.
import {
  ByteLengthQueuingStrategy, CountQueuingStrategy, ReadableByteStreamController, ReadableStream, ReadableStreamBYOBReader, ReadableStreamDefaultController,
  ReadableStreamDefaultReader, TransformStream, TransformStreamDefaultController, WritableStream, WritableStreamDefaultController, WritableStreamDefaultWriter,
} from 'web-streams-polyfill';
import { inspect } from '../inspect/index.js';
import { hidden } from '../engine/uncurry.js';

export { ReadableStream, TransformStream, WritableStream };

// Makes a class print its objects as Node does: the name of the class and the result of `parts`. Beyond the depth of
// the inspection, the result is undefined.
export function shown(Kind, parts) {
  hidden(Kind.prototype, inspect.custom, function (depth, options) {
    if (depth < 0) return undefined;
    const more = { ...options, depth: options.depth === null ? null : options.depth - 1 };
    return `${this.constructor.name} ${inspect(parts(this), more)}`;
  });
}

const isBytes = (stream) => stream._readableStreamController instanceof ReadableByteStreamController;
const close = (one) => one.closed;

shown(ReadableStream, (stream) => ({ locked: stream.locked, state: stream._state, supportsBYOB: isBytes(stream) }));
shown(ReadableStreamDefaultReader, (reader) => ({ stream: reader._ownerReadableStream, readRequests: reader._readRequests.length, close: close(reader) }));
shown(ReadableStreamBYOBReader, (reader) => ({ stream: reader._ownerReadableStream, readIntoRequests: reader._readIntoRequests.length, close: close(reader) }));
shown(WritableStream, (stream) => ({ locked: stream.locked, state: stream._state }));
shown(WritableStreamDefaultController, (controller) => ({ stream: controller._controlledWritableStream }));
shown(WritableStreamDefaultWriter, (writer) => ({ stream: writer._ownerWritableStream, close: close(writer), ready: writer.ready, desiredSize: writer.desiredSize }));
shown(TransformStream, (stream) => ({ readable: stream.readable, writable: stream.writable, backpressure: stream._backpressure }));
shown(TransformStreamDefaultController, (controller) => ({ stream: controller._controlledTransformStream }));
for (const Kind of [ByteLengthQueuingStrategy, CountQueuingStrategy]) shown(Kind, ({ highWaterMark }) => ({ highWaterMark }));
for (const Kind of [ReadableStreamDefaultController, ReadableByteStreamController]) shown(Kind, () => ({}));

// Returns true if any part of the stream was read or cancelled.
export const isDisturbed = (stream) => stream._disturbed;

// Returns true if a reader waits for the next chunk.
export function isAwaited(stream) {
  const reader = stream._reader;
  return reader !== undefined && (reader._readRequests ?? reader._readIntoRequests).length > 0;
}

// Returns a stream of bytes that are provided on the first read.
export const bytesStream = (bytes) => new ReadableStream({
  type: 'bytes',
  async pull(controller) {
    const whole = await bytes();
    if (whole.length > 0) controller.enqueue(whole);
    controller.close();
    controller.byobRequest?.respond(0);
  },
});
