// node:querystring.
import { Buffer } from './buffer.js';
import { coded } from './errors.js';

export function escape(text) {
  if (typeof text !== 'string') text = typeof text === 'object' ? String(text) : `${text}`;
  try {
    return encodeURIComponent(text);
  } catch {
    throw coded(URIError, 'ERR_INVALID_URI', 'URI malformed');
  }
}

export function unescapeBuffer(text) {
  const out = Buffer.allocUnsafe(text.length);
  let at = 0;
  for (let i = 0; i < text.length; i++) {
    if (text[i] === '%' && /^[0-9a-fA-F]{2}$/.test(text.slice(i + 1, i + 3))) {
      out[at++] = parseInt(text.slice(i + 1, i + 3), 16);
      i += 2;
    } else out[at++] = text.charCodeAt(i);
  }
  return out.subarray(0, at);
}

export function unescape(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return unescapeBuffer(text).toString();
  }
}

const primitive = (value) => {
  if (typeof value === 'string') return value;
  if (typeof value === 'number' && Number.isFinite(value)) return `${value}`;
  if (typeof value === 'bigint' || typeof value === 'boolean') return `${value}`;
  return '';
};

export function stringify(object, separator = '&', equals = '=', options) {
  separator ||= '&';
  equals ||= '=';
  const encode = options?.encodeURIComponent ?? querystring.escape;
  if (object === null || typeof object !== 'object') return '';
  const parts = [];
  for (const key of Object.keys(object)) {
    const name = encode(primitive(key)) + equals;
    const value = object[key];
    if (Array.isArray(value)) for (const item of value) parts.push(name + encode(primitive(item)));
    else parts.push(name + encode(primitive(value)));
  }
  return parts.join(separator);
}

export function parse(text, separator = '&', equals = '=', options) {
  separator ||= '&';
  equals ||= '=';
  const out = { __proto__: null };
  if (typeof text !== 'string' || text === '') return out;
  const decode = options?.decodeURIComponent ?? querystring.unescape;
  const read = (part) => {
    const plain = part.replace(/\+/g, ' ');
    try {
      return decode(plain);
    } catch {
      return unescape(plain);
    }
  };
  let parts = text.split(separator);
  const most = options?.maxKeys ?? 1000;
  if (most > 0) parts = parts.slice(0, most);
  for (const part of parts) {
    if (part === '') continue;
    const at = part.indexOf(equals);
    const key = read(at < 0 ? part : part.slice(0, at));
    const value = at < 0 ? '' : read(part.slice(at + equals.length));
    if (!(key in out)) out[key] = value;
    else if (Array.isArray(out[key])) out[key].push(value);
    else out[key] = [out[key], value];
  }
  return out;
}

const querystring = { unescapeBuffer, unescape, escape, stringify, encode: stringify, parse, decode: parse };
export default querystring;
