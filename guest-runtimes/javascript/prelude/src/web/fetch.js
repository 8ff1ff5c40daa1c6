// The classes around fetch, which need no network.
import { native } from '../native.js';
import { inspect } from '../inspect/index.js';
import { hidden } from '../engine/uncurry.js';
import { Blob } from './blob.js';
import { typeOf } from './mime.js';
import { read, written } from './multipart.js';
import { ReadableStream, bytesStream, isDisturbed } from './streams.js';
import { URL, URLSearchParams } from './url.js';

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

// Checks that a header's text consists of bytes, one for each unit.
function byteString(value) {
  const text = `${value}`;
  const at = text.search(/[^\0-\xff]/);
  if (at >= 0) throw new TypeError(`Cannot convert argument to a ByteString because the character at index ${at} has a value of ${text.charCodeAt(at)} which is greater than 255.`);
  return text;
}

export class Headers {
  #list = new Map();
  constructor(init) {
    if (init === undefined) return;
    if (init === null || typeof init !== 'object') throw new TypeError('Headers constructor: init given is not one of the expected types');
    const pairs = typeof init[Symbol.iterator] === 'function' ? init : Object.entries(init);
    for (const pair of pairs) {
      const [name, value] = pair;
      if (pair.length !== 2) throw new TypeError(`Headers constructor: expected name/value pair to be length 2, found ${pair.length}.`);
      this.append(name, value);
    }
  }
  static #name(name, method) {
    name = byteString(name);
    if (!TOKEN.test(name)) throw new TypeError(`Headers.${method}: "${name}" is an invalid header name.`);
    return name.toLowerCase();
  }
  static #value(value, method) {
    value = byteString(value).replace(/^[\t\n\r ]+|[\t\n\r ]+$/g, '');
    if (/[\0\r\n]/.test(value)) throw new TypeError(`Headers.${method}: "${value}" is an invalid header value.`);
    return value;
  }
  append(name, value) {
    const key = Headers.#name(name, 'append');
    const text = Headers.#value(value, 'append');
    const known = this.#list.get(key);
    if (key === 'set-cookie') this.#list.set(key, [...(known ?? []), text]);
    else this.#list.set(key, known === undefined ? text : `${known}${key === 'cookie' ? '; ' : ', '}${text}`);
  }
  set(name, value) {
    const key = Headers.#name(name, 'set');
    const text = Headers.#value(value, 'set');
    this.#list.set(key, key === 'set-cookie' ? [text] : text);
  }
  get(name) {
    const found = this.#list.get(Headers.#name(name, 'get'));
    return Array.isArray(found) ? found.join(', ') : found ?? null;
  }
  has(name) { return this.#list.has(Headers.#name(name, 'has')); }
  delete(name) { this.#list.delete(Headers.#name(name, 'delete')); }
  getSetCookie() { return [...(this.#list.get('set-cookie') ?? [])]; }
  *entries() {
    for (const key of [...this.#list.keys()].sort()) {
      const value = this.#list.get(key);
      if (Array.isArray(value)) for (const each of value) yield [key, each];
      else yield [key, value];
    }
  }
  *keys() { for (const [key] of this.entries()) yield key; }
  *values() { for (const [, value] of this.entries()) yield value; }
  forEach(fn, self) { for (const [key, value] of this.entries()) fn.call(self, value, key, this); }
  [Symbol.iterator]() { return this.entries(); }
  [inspect.custom](depth, options) {
    return `Headers ${inspect(Object.fromEntries(this.entries()), { ...options, depth: options.depth === null ? null : depth - 1 })}`;
  }
}
hidden(Headers.prototype, inspect.custom, Headers.prototype[inspect.custom]);
Object.defineProperty(Headers.prototype, Symbol.toStringTag, { value: 'Headers', configurable: true });

export class FormData {
  #list = [];
  static #item(value, filename) {
    if (value instanceof Blob) return filename === undefined && value.name !== undefined ? value : new globalThis.File([value], filename ?? value.name ?? 'blob', { type: value.type, lastModified: value.lastModified });
    return `${value}`;
  }
  append(name, value, filename) { this.#list.push([`${name}`, FormData.#item(value, filename)]); }
  set(name, value, filename) {
    const at = this.#list.findIndex(([key]) => key === `${name}`);
    this.#list = this.#list.filter(([key], i) => key !== `${name}` || i === at);
    if (at < 0) this.append(name, value, filename);
    else this.#list[this.#list.findIndex(([key]) => key === `${name}`)] = [`${name}`, FormData.#item(value, filename)];
  }
  get(name) { return this.#list.find(([key]) => key === `${name}`)?.[1] ?? null; }
  getAll(name) { return this.#list.filter(([key]) => key === `${name}`).map(([, value]) => value); }
  has(name) { return this.#list.some(([key]) => key === `${name}`); }
  delete(name) { this.#list = this.#list.filter(([key]) => key !== `${name}`); }
  *entries() { yield* this.#list.map((pair) => [...pair]); }
  *keys() { for (const [key] of this.#list) yield key; }
  *values() { for (const [, value] of this.#list) yield value; }
  forEach(fn, self) { for (const [key, value] of this.#list) fn.call(self, value, key, this); }
  [Symbol.iterator]() { return this.entries(); }
}
Object.defineProperty(FormData.prototype, Symbol.toStringTag, { value: 'FormData', configurable: true });

// Returns the bytes of a body and its type.
function bodyOf(given) {
  if (given === undefined || given === null) return { bytes: null, type: null };
  if (given instanceof ReadableStream) {
    if (given.locked || isDisturbed(given)) throw new TypeError('Response body object should not be disturbed or locked');
    return { bytes: null, stream: given, type: null };
  }
  if (given instanceof URLSearchParams) return { bytes: native.utf8Encode(`${given}`), type: 'application/x-www-form-urlencoded;charset=UTF-8' };
  if (given instanceof Blob) return { blob: given, bytes: null, type: given.type || null };
  if (ArrayBuffer.isView(given)) return { bytes: new Uint8Array(given.buffer, given.byteOffset, given.byteLength).slice(), type: null };
  if (native.classOf(given) === 'ArrayBuffer') return { bytes: new Uint8Array(given.slice(0)), type: null };
  if (given instanceof FormData) {
    const blob = written(given);
    return { blob, bytes: null, type: blob.type };
  }
  if (typeof given === 'object' && typeof given[Symbol.asyncIterator] === 'function') return { bytes: null, stream: ReadableStream.from(given), type: null };
  return { bytes: native.utf8Encode(`${given}`), type: 'text/plain;charset=UTF-8' };
}

// Returns all bytes of a stream.
export async function collected(stream) {
  const parts = [];
  let length = 0;
  for await (const each of stream) {
    if (!(each instanceof Uint8Array)) throw new TypeError('Received non-Uint8Array chunk');
    parts.push(each);
    length += each.length;
  }
  if (parts.length === 1) return parts[0];
  const whole = new Uint8Array(length);
  let at = 0;
  for (const each of parts) {
    whole.set(each, at);
    at += each.length;
  }
  return whole;
}

// Internal body objects, which are used as they are, unlike values that programs pass.
const shared = new WeakSet();

function keptBody(given) {
  if (given !== null && typeof given === 'object' && shared.has(given)) return given;
  const body = bodyOf(given);
  shared.add(body);
  return body;
}

class Body {
  #body;
  #used = false;
  constructor(given, headers) {
    this.#body = keptBody(given);
    if (this.#body.type !== null && !headers.has('content-type')) headers.set('content-type', this.#body.type);
  }
  get bodyUsed() { return this.#used || (this.#body.stream !== undefined && isDisturbed(this.#body.stream)); }
  get body() {
    const body = this.#body;
    if (body.stream === undefined && (body.bytes !== null || body.blob !== undefined)) {
      const used = this.#used;
      body.stream = bytesStream(async () => (used ? new Uint8Array(0) : body.blob ? body.blob.bytes() : body.bytes.slice()));
    }
    return body.stream ?? null;
  }
  async #take() {
    if (this.bodyUsed) throw new TypeError('Body is unusable: Body has already been read');
    if (this.#body.stream?.locked) throw new TypeError('Body is unusable: Body is locked');
    this.#used = this.#body.bytes !== null || this.#body.blob !== undefined || this.#body.stream !== undefined;
    if (this.#body.stream) return collected(this.#body.stream);
    if (this.#body.blob) return this.#body.blob.bytes();
    return this.#body.bytes ?? new Uint8Array(0);
  }
  async arrayBuffer() { return (await this.#take()).slice().buffer; }
  async bytes() { return (await this.#take()).slice(); }
  async text() { return native.utf8Decode(await this.#take(), false).replace(/^\ufeff/, ''); }
  async json() { return JSON.parse(await this.text()); }
  async blob() { return new Blob([await this.#take()], { type: `${typeOf(this.headers) ?? ''}` }); }
  async formData() {
    const bytes = await this.#take();
    const type = typeOf(this.headers);
    let entries;
    if (type?.essence === 'multipart/form-data') {
      const boundary = type.parameters.get('boundary');
      entries = boundary === undefined ? null : read(bytes, boundary);
      if (entries === null) throw new TypeError('Failed to parse body as FormData.');
    } else if (type?.essence === 'application/x-www-form-urlencoded') entries = new URLSearchParams(native.utf8Decode(bytes, false));
    else throw new TypeError('Content-Type was not one of "multipart/form-data" or "application/x-www-form-urlencoded".');
    const form = new FormData();
    for (const [name, value] of entries) form.append(name, value);
    return form;
  }
  // Returns the body for another object: present bytes are shared, a stream is split.
  whole() {
    if (this.bodyUsed || this.#body.stream?.locked) throw new TypeError(this instanceof Response ? 'Response.clone: Body has already been consumed.' : 'unusable');
    if (this.#body.stream === undefined || this.#body.bytes !== null || this.#body.blob) return this.#body;
    const [own, other] = this.#body.stream.tee();
    this.#body = { ...this.#body, stream: own };
    const split = { ...this.#body, stream: other };
    shared.add(this.#body);
    shared.add(split);
    return split;
  }
  hasBody() {
    const { stream, bytes, blob } = this.#body;
    return stream !== undefined || bytes !== null || blob !== undefined;
  }
  // Returns the body for a request made of this one, which cannot use it afterwards, or null if there is none.
  moved() {
    const body = this.#body;
    if (!this.hasBody()) return null;
    if (this.bodyUsed || body.stream?.locked) throw new TypeError('Cannot construct a Request with a Request object that has already been used.');
    this.#used = true;
    return body;
  }
  // Returns the content that a request sends: bytes, a stream, or null.
  async sent() {
    if (this.#body.blob && !this.#body.stream) return this.#body.blob.bytes();
    return this.#body.stream ?? this.#body.bytes;
  }
}
hidden(Body.prototype, 'whole', Body.prototype.whole);
hidden(Body.prototype, 'hasBody', Body.prototype.hasBody);
hidden(Body.prototype, 'moved', Body.prototype.moved);
hidden(Body.prototype, 'sent', Body.prototype.sent);

const NO_BODY = new Set([101, 103, 204, 205, 304]);

export class Response extends Body {
  #given;
  constructor(body = null, init = {}) {
    const status = init.status === undefined ? 200 : Number(init.status);
    // A server may use a status that a program cannot set.
    if (!(Number.isInteger(status) && status >= 200 && status <= 599) && init.kind === undefined) throw new RangeError('init["status"] must be in the range of 200 to 599, inclusive.');
    if (body !== null && body !== undefined && NO_BODY.has(status)) throw new TypeError(`Response constructor: Invalid response status code ${status}`);
    const headers = new Headers(init.headers);
    super(body, headers);
    this.#given = { status, statusText: `${init.statusText ?? ''}`, headers, url: init.url ?? '', kind: init.kind ?? 'default', redirected: init.redirected ?? false };
  }
  get status() { return this.#given.status; }
  get ok() { return this.#given.status >= 200 && this.#given.status <= 299; }
  get statusText() { return this.#given.statusText; }
  get headers() { return this.#given.headers; }
  get url() { return this.#given.url; }
  get type() { return this.#given.kind; }
  get redirected() { return this.#given.redirected; }
  clone() { return new Response(this.whole(), { status: this.status, statusText: this.statusText, headers: this.headers, url: this.url, kind: this.type, redirected: this.redirected }); }
  static json(data, init = {}) {
    const text = JSON.stringify(data);
    if (text === undefined) throw new TypeError('Value is not JSON serializable');
    const headers = new Headers(init.headers);
    if (!headers.has('content-type')) headers.set('content-type', 'application/json');
    return new Response(text, { ...init, headers });
  }
  static error() { return new Response(null, { status: 0, kind: 'error' }); }
  static redirect(url, status = 302) {
    if (![301, 302, 303, 307, 308].includes(status)) throw new RangeError(`Invalid status code ${status}`);
    return new Response(null, { status, headers: { location: new URL(`${url}`).href } });
  }
  [inspect.custom](depth, options) {
    const { status, statusText, headers, ok, url, type, redirected, bodyUsed, body } = this;
    return `Response ${inspect({ status, statusText, headers, body, bodyUsed, ok, redirected, type, url }, { ...options, depth: options.depth === null ? null : depth - 1 })}`;
  }
}
hidden(Response.prototype, inspect.custom, Response.prototype[inspect.custom]);
Object.defineProperty(Response.prototype, Symbol.toStringTag, { value: 'Response', configurable: true });

const NORMAL = new Set(['DELETE', 'GET', 'HEAD', 'OPTIONS', 'POST', 'PUT']);
const FORBIDDEN = new Set(['CONNECT', 'TRACE', 'TRACK']);

export class Request extends Body {
  #given;
  constructor(input, init = {}) {
    const from = input instanceof Request ? input : undefined;
    const method = `${init.method ?? from?.method ?? 'GET'}`;
    const usual = method.toUpperCase();
    if (!TOKEN.test(method)) throw new TypeError(`'${method}' is not a valid HTTP method.`);
    if (FORBIDDEN.has(usual)) throw new TypeError(`'${method}' HTTP method is unsupported.`);
    if (init.duplex !== undefined && `${init.duplex}` !== 'half') throw new TypeError(`Request constructor: ${init.duplex} is not an accepted type. Expected one of half.`);
    const headers = new Headers(init.headers ?? from?.headers);
    const own = init.body === undefined || init.body === null ? null : keptBody(init.body);
    if ((own !== null || from?.hasBody()) && (usual === 'GET' || usual === 'HEAD')) throw new TypeError('Request with GET/HEAD method cannot have body.');
    let url;
    if (from) ({ url } = from);
    else {
      try {
        url = new URL(`${input}`).href;
      } catch (cause) {
        throw new TypeError(`Failed to parse URL from ${input}`, { cause });
      }
      if (/^[a-z]+:\/\/[^/?#]*@/i.test(url)) throw new TypeError(`Request cannot be constructed from a URL that includes credentials: ${input}`);
    }
    if (own?.stream !== undefined && init.duplex === undefined) throw new TypeError('RequestInit: duplex option is required when sending a body.');
    super(own ?? from?.moved() ?? null, headers);
    this.#given = { url, method: NORMAL.has(usual) ? usual : method, headers, signal: init.signal ?? from?.signal ?? new globalThis.AbortController().signal, redirect: init.redirect ?? 'follow', credentials: init.credentials ?? 'same-origin', mode: init.mode ?? 'cors', cache: init.cache ?? 'default' };
  }
  get url() { return this.#given.url; }
  get method() { return this.#given.method; }
  get headers() { return this.#given.headers; }
  get signal() { return this.#given.signal; }
  get redirect() { return this.#given.redirect; }
  get credentials() { return this.#given.credentials; }
  get mode() { return this.#given.mode; }
  get cache() { return this.#given.cache; }
  get duplex() { return 'half'; }
  clone() { return new Request(this, this.hasBody() ? { body: this.whole(), duplex: 'half' } : {}); }
}
Object.defineProperty(Request.prototype, Symbol.toStringTag, { value: 'Request', configurable: true });
