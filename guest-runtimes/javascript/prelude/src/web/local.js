// Addresses without a server: data: contains its content, blob: names one of the program's own blobs.
import { native } from '../native.js';
import { atob } from '../node/buffer.js';
import { unescapeBuffer } from '../node/querystring.js';
import { blobAt } from './blob.js';
import { MIMEType } from './mime.js';

function dataAt(href) {
  const comma = href.indexOf(',');
  if (comma < 0) return null;
  let type = href.slice('data:'.length, comma).trim();
  let bytes = unescapeBuffer(href.slice(comma + 1));
  const packed = /; *base64$/i.exec(type);
  if (packed) {
    type = type.slice(0, packed.index);
    try {
      bytes = native.latin1Encode(atob(native.latin1Decode(bytes)));
    } catch {
      return null;
    }
  }
  if (type.startsWith(';')) type = `text/plain${type}`;
  return { body: bytes, headers: { 'content-type': `${MIMEType.parse(type) ?? 'text/plain;charset=US-ASCII'}` } };
}

// Returns the body and headers of an address. Throws Node's error if there is no content.
export function contentAt(url, method) {
  if (url.protocol === 'data:') {
    const found = dataAt(url.href);
    if (found === null) throw new Error('failed to fetch the data URL');
    return found;
  }
  if (url.search !== '') throw new Error('NetworkError when attempting to fetch resource.');
  const blob = blobAt(url.href);
  if (method !== 'GET' || blob === undefined) throw new Error('invalid method');
  return { body: blob, headers: { 'content-length': `${blob.size}`, 'content-type': blob.type } };
}
