// Streams: a package's, which follow the Streams Standard, shown as Node shows its own.
import {
  ByteLengthQueuingStrategy, CountQueuingStrategy, ReadableByteStreamController, ReadableStream, ReadableStreamBYOBReader, ReadableStreamDefaultController,
  ReadableStreamDefaultReader, TransformStream, TransformStreamDefaultController, WritableStream, WritableStreamDefaultController, WritableStreamDefaultWriter,
} from 'web-streams-polyfill';
import { inspect } from '../inspect/index.js';
import { hidden } from '../engine/uncurry.js';

export { ReadableStream, TransformStream, WritableStream };

// Gives a class the way in which Node shows its objects: the class's name and what `parts` finds in one, and too deep inside of
// others nothing.
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

// Whether anything of it was read or thrown away.
export const isDisturbed = (stream) => stream._disturbed;

// Whether somebody waits for what it gives next.
export function isAwaited(stream) {
  const reader = stream._reader;
  return reader !== undefined && (reader._readRequests ?? reader._readIntoRequests).length > 0;
}

// A stream of bytes that are there at once when somebody asks for them.
export const bytesStream = (bytes) => new ReadableStream({
  type: 'bytes',
  async pull(controller) {
    const whole = await bytes();
    if (whole.length > 0) controller.enqueue(whole);
    controller.close();
    controller.byobRequest?.respond(0);
  },
});
