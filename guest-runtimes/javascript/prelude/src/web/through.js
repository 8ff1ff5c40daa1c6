// Streams that convert text to bytes and back.
import { TextDecoder, TextEncoder } from './encoding.js';
import { TransformStream, shown } from './streams.js';

// A pair of streams: chunks that are written to one end are read from the other, transformed.
export class Through {
  #ends;
  constructor(transformer, readable) {
    this.#ends = new TransformStream(transformer, undefined, readable);
  }
  get readable() { return this.#ends.readable; }
  get writable() { return this.#ends.writable; }
}

// Sets the name of such a class, and the properties that Node prints before the two ends.
export function named(Kind, names = []) {
  Object.defineProperty(Kind.prototype, Symbol.toStringTag, { value: Kind.name, configurable: true });
  shown(Kind, (one) => Object.fromEntries([...names, 'readable', 'writable'].map((name) => [name, one[name]])));
}

export class TextDecoderStream extends Through {
  #decoder;
  constructor(label = 'utf-8', options = undefined) {
    const decoder = new TextDecoder(label, options);
    const give = (controller, text) => {
      if (text !== '') controller.enqueue(text);
    };
    super({
      transform(chunk, controller) { give(controller, decoder.decode(chunk, { stream: true })); },
      flush(controller) { give(controller, decoder.decode()); },
    });
    this.#decoder = decoder;
  }
  get encoding() { return this.#decoder.encoding; }
  get fatal() { return this.#decoder.fatal; }
  get ignoreBOM() { return this.#decoder.ignoreBOM; }
}
named(TextDecoderStream, ['encoding', 'fatal', 'ignoreBOM']);

// The first half of a surrogate pair at the end of a text.
const HALF = /[\ud800-\udbff]$/;

export class TextEncoderStream extends Through {
  constructor() {
    const encoder = new TextEncoder();
    let half = '';
    super({
      transform(chunk, controller) {
        let text = `${half}${chunk}`;
        half = HALF.exec(text)?.[0] ?? '';
        if (half) text = text.slice(0, -1);
        if (text !== '') controller.enqueue(encoder.encode(text));
      },
      flush(controller) {
        if (half) controller.enqueue(encoder.encode(half));
      },
    });
  }
  get encoding() { return 'utf-8'; }
}
named(TextEncoderStream, ['encoding']);
