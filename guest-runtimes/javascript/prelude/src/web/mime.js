// MIME types, parsed and written by a package: a single one, or that of a message's headers.
import MIMEType from 'whatwg-mimetype/lib/mime-type.js';

export { MIMEType };

// Returns the type of a message, or null if no valid one is present. If there are several, the last one counts, with
// the charset of an equal type before it.
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
