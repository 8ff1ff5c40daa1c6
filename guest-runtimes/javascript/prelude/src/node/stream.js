// node:stream: the package that Node's own streams are published as, with this prelude's events, buffers and ticks.
import stream from 'readable-stream/lib/stream.js';
import { install } from './stream-web.js';

stream.Stream = stream;
install(stream);
export default stream;
export const { Readable, Writable, Duplex, Transform, PassThrough, Stream, pipeline, finished, addAbortSignal, compose, promises } = stream;
