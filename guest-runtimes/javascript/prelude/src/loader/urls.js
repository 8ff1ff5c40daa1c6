// Conversion between file paths and URLs.
import { coded, invalidArgType } from '../node/errors.js';
import { resolve } from '../node/path-posix.js';
import { URL } from '../web/url.js';

const ESCAPES = { '%': '%25', '\\': '%5C', '\n': '%0A', '\r': '%0D', '\t': '%09', '?': '%3F', '#': '%23' };

// Paths that need no escapes and therefore no URL object.
const PLAIN = /^[A-Za-z0-9/._~-]*$/;

export function hrefOf(path) {
  if (PLAIN.test(path)) return `file://${path}`;
  return new URL(`file://${path.replace(/[%\\\n\r\t?#]/g, (c) => ESCAPES[c])}`).href;
}

export function pathToFileURL(path) {
  if (typeof path !== 'string') throw invalidArgType('path', 'string', path);
  let full = resolve(path);
  if (path.endsWith('/') && !full.endsWith('/')) full += '/';
  return new URL(`file://${full.replace(/[%\\\n\r\t?#]/g, (c) => ESCAPES[c])}`);
}

export function fileURLToPath(url) {
  if (typeof url === 'string') {
    if (url.startsWith('file:///') && PLAIN.test(url.slice(7)) && !url.includes('/.')) return url.slice(7);
    url = new URL(url);
  } else if (url === null || typeof url !== 'object' || typeof url.href !== 'string' || typeof url.protocol !== 'string') {
    throw invalidArgType('path', ['string', 'URL'], url);
  }
  if (url.protocol !== 'file:') throw coded(TypeError, 'ERR_INVALID_URL_SCHEME', 'The URL must be of scheme file');
  if (url.hostname !== '') throw coded(TypeError, 'ERR_INVALID_FILE_URL_HOST', 'File URL host must be "localhost" or empty on linux');
  if (/%2f/i.test(url.pathname)) throw coded(TypeError, 'ERR_INVALID_FILE_URL_PATH', 'File URL path must not include encoded / characters');
  return decodeURIComponent(url.pathname);
}
