// MIME types, which a package reads and writes: one, or what the headers of a message say.
import MIMEType from 'whatwg-mimetype/lib/mime-type.js';

export { MIMEType };

// The type of a message, or null if it has none that can be read. Of several the last counts, with the charset of one before it
// that is the same.
export function typeOf(headers) {
  let last = null;
  for (const each of headers.get('content-type')?.match(/(?:[^",]|"(?:[^"\\]|\\[^])*"?)+/g) ?? []) {
    const type = MIMEType.parse(each);
    if (type === null || type.essence === '*/*') continue;
    const charset = last?.essence === type.essence ? last.parameters.get('charset') : undefined;
    if (charset !== undefined && !type.parameters.has('charset')) type.parameters.set('charset', charset);
    last = type;
  }
  return last;
}
