// Clients of node:http and node:https, over the exchanges of the host: they need the same grants as fetch.
import { Readable, Writable } from './stream.js';
import { EventEmitter } from './events.js';
import { Buffer } from './buffer.js';
import { coded } from './errors.js';
import { hostFeature, refuse } from '../missing.js';
import { nextTick } from '../loop/ticks.js';
import { clearTimeout, setTimeout } from '../loop/timers.js';
import * as net from '../loop/net.js';
import { Headers } from '../web/fetch.js';
import { AbortController } from '../web/abort.js';
import { URL } from '../web/url.js';
import { exchange } from '../web/exchange.js';

const METHODS_WITHOUT_BODY = new Set(['GET', 'HEAD', 'DELETE', 'OPTIONS', 'TRACE', 'CONNECT']);

// The connection of a request, which the host has.
class Socket extends EventEmitter {
  constructor(request) {
    super();
    Object.defineProperty(this, 'request_', { value: request, enumerable: false });
  }
  setTimeout(time, listener) {
    this.request_.setTimeout(time, listener);
    return this;
  }
  setKeepAlive() { return this; }
  setNoDelay() { return this; }
  ref() { return this; }
  unref() { return this; }
  destroy(error) {
    this.request_.destroy(error);
    return this;
  }
}

export class IncomingMessage extends Readable {
  #reader;
  #touch;
  constructor(response, request, touch) {
    super();
    this.#touch = touch;
    this.statusCode = response.status;
    this.statusMessage = response.statusText;
    this.httpVersion = '1.1';
    this.httpVersionMajor = 1;
    this.httpVersionMinor = 1;
    this.headers = {};
    this.rawHeaders = [];
    this.trailers = {};
    this.rawTrailers = [];
    this.complete = false;
    this.aborted = false;
    this.url = '';
    this.method = null;
    this.req = request;
    this.socket = request.socket;
    const isUnpacked = /^(x-)?gzip$|^deflate$/i.test((response.headers.get('content-encoding') ?? '').trim());
    for (const [name, value] of response.headers) {
      // The body arrives unpacked.
      if (isUnpacked && (name === 'content-encoding' || name === 'content-length')) continue;
      this.rawHeaders.push(name, value);
      if (name === 'set-cookie') (this.headers[name] ??= []).push(value);
      else this.headers[name] = this.headers[name] === undefined ? value : `${this.headers[name]}${name === 'cookie' ? '; ' : ', '}${value}`;
    }
    this.#reader = response.body?.getReader();
  }
  get connection() { return this.socket; }
  async _read() {
    if (this.#reader === undefined) {
      this.#end();
      return;
    }
    try {
      const { done, value } = await this.#reader.read();
      this.#touch();
      if (done) this.#end();
      else this.push(Buffer.from(value.buffer, value.byteOffset, value.byteLength));
    } catch (error) {
      this.aborted = true;
      this.emit('aborted');
      this.destroy(error.cause ?? error);
    }
  }
  #end() {
    this.complete = true;
    this.push(null);
  }
  _destroy(error, callback) {
    if (!this.complete) this.#reader?.cancel().catch(() => {});
    this.req.ended_();
    callback(error);
  }
  setTimeout(time, listener) {
    this.req.setTimeout(time, listener);
    return this;
  }
}

// Returns the settings of a request from its arguments.
function parsed(scheme, [target, options, callback]) {
  if (typeof options === 'function') [options, callback] = [undefined, options];
  const url = typeof target === 'string' ? new URL(target) : target;
  if (!(url instanceof URL) && !('href' in (url ?? {}) && 'searchParams' in url)) return [{ ...url, ...options }, callback];
  const { protocol, hostname, port, pathname, search, username, password } = url;
  const auth = username || password ? { auth: `${decodeURIComponent(username)}:${decodeURIComponent(password)}` } : {};
  return [{ protocol, hostname, port, path: `${pathname}${search}`, ...auth, ...options }, callback];
}

export class ClientRequest extends Writable {
  #headers = new Map();
  #chunks = [];
  #controller = new AbortController();
  #timer;
  #time = 0;
  #url;
  #isSent = false;
  #signal;
  constructor(scheme, args) {
    super({ autoDestroy: false });
    const [given, callback] = parsed(scheme, args);
    const protocol = given.protocol ?? scheme;
    if (protocol !== scheme) throw coded(TypeError, 'ERR_INVALID_PROTOCOL', `Protocol "${protocol}" not supported. Expected "${scheme}"`);
    const path = given.path ?? '/';
    if (/[^\u0021-\u00ff]/.test(path)) throw coded(TypeError, 'ERR_UNESCAPED_CHARACTERS', 'Request path contains unescaped characters');
    this.method = `${given.method ?? 'GET'}`.toUpperCase();
    this.path = path;
    this.protocol = protocol;
    this.host = given.hostname ?? given.host ?? 'localhost';
    this.reusedSocket = false;
    this.aborted = false;
    this.headersSent = false;
    this.maxHeadersCount = null;
    this.agent = given.agent;
    this.socket = new Socket(this);
    const port = given.port ? `:${given.port}` : '';
    const host = this.host.includes(':') && !this.host.startsWith('[') ? `[${this.host}]` : this.host.replace(/:\d+$/, (own) => (port ? '' : own));
    this.#url = new URL(`${protocol}//${host}${port}${path.startsWith('/') ? path : `/${path}`}`);
    const headers = Array.isArray(given.headers) ? Array.from({ length: given.headers.length / 2 }, (_, i) => [given.headers[2 * i], given.headers[2 * i + 1]]) : Object.entries(given.headers ?? {});
    for (const [name, value] of headers) if (value !== undefined) this.setHeader(name, value);
    if (given.auth && !this.hasHeader('authorization')) this.setHeader('Authorization', `Basic ${Buffer.from(given.auth).toString('base64')}`);
    if (!this.hasHeader('host')) this.setHeader('Host', this.#url.host);
    if (callback) this.once('response', callback);
    if (given.timeout) this.setTimeout(given.timeout);
    this.#signal = given.signal;
    if (given.signal?.aborted) nextTick(() => this.destroy(given.signal.reason));
    else given.signal?.addEventListener('abort', () => this.destroy(given.signal.reason), { once: true });
    nextTick(() => {
      if (this.destroyed) return;
      this.emit('socket', this.socket);
      this.socket.emit('connect');
    });
  }
  get connection() { return this.socket; }
  setHeader(name, value) {
    if (this.headersSent) throw coded(Error, 'ERR_HTTP_HEADERS_SENT', 'Cannot set headers after they are sent to the client');
    this.#headers.set(`${name}`.toLowerCase(), [`${name}`, Array.isArray(value) ? value.map(String) : value]);
    return this;
  }
  setHeaders(headers) {
    for (const [name, value] of headers) this.setHeader(name, value);
    return this;
  }
  appendHeader(name, value) {
    const known = this.getHeader(name);
    return this.setHeader(name, known === undefined ? value : [known, value].flat());
  }
  getHeader(name) { return this.#headers.get(`${name}`.toLowerCase())?.[1]; }
  getHeaders() { return Object.fromEntries([...this.#headers].map(([name, [, value]]) => [name, value])); }
  getHeaderNames() { return [...this.#headers.keys()]; }
  getRawHeaderNames() { return [...this.#headers.values()].map(([name]) => name); }
  hasHeader(name) { return this.#headers.has(`${name}`.toLowerCase()); }
  removeHeader(name) { this.#headers.delete(`${name}`.toLowerCase()); }
  flushHeaders() {}
  setNoDelay() { return this; }
  setSocketKeepAlive() { return this; }
  setTimeout(time, listener) {
    this.#time = Number(time) || 0;
    if (listener) this.once('timeout', listener);
    if (this.#isSent) this.#touch();
    return this;
  }
  #touch() {
    clearTimeout(this.#timer);
    if (this.#time > 0) {
      this.#timer = setTimeout(() => {
        this.emit('timeout');
        this.socket.emit('timeout');
      }, this.#time);
    }
  }
  _write(chunk, encoding, callback) {
    this.#chunks.push(typeof chunk === 'string' ? Buffer.from(chunk, encoding) : Buffer.from(chunk));
    callback();
  }
  _final(callback) {
    this.#send();
    callback();
  }
  async #send() {
    const { hostname, port } = this.#url;
    this.#isSent = true;
    this.headersSent = true;
    if (!net.isGranted()) {
      const place = { address: hostname, port: Number(port) || (this.protocol === 'https:' ? 443 : 80) };
      this.destroy(refuse(hostFeature(hostname), 'EACCES', `connect ${place.address}:${place.port}`, place));
      return;
    }
    const body = Buffer.concat(this.#chunks);
    if (!this.hasHeader('content-length') && !this.hasHeader('transfer-encoding') && (body.length > 0 || !METHODS_WITHOUT_BODY.has(this.method))) this.#headers.set('content-length', ['Content-Length', `${body.length}`]);
    // The host writes these itself.
    for (const name of ['transfer-encoding', 'connection', 'keep-alive', 'upgrade', 'expect']) this.#headers.delete(name);
    try {
      const headers = new Headers();
      for (const [name, value] of this.#headers.values()) for (const each of [value].flat()) headers.append(name, each);
      if (!headers.has('accept-encoding')) headers.set('accept-encoding', 'identity');
      this.#touch();
      const response = await exchange({ url: this.#url, method: this.method, headers, body: body.length > 0 ? new Uint8Array(body) : null, signal: this.#controller.signal, followed: 0 });
      this.#touch();
      if (this.destroyed) return;
      const message = new IncomingMessage(response, this, () => this.#touch());
      this.res = message;
      if (!this.emit('response', message)) message.resume();
    } catch (error) {
      this.destroy(error?.cause ?? error);
    }
  }
  // The answer has been read.
  ended_() {
    clearTimeout(this.#timer);
    nextTick(() => this.destroy());
  }
  abort() {
    if (this.aborted) return;
    this.aborted = true;
    this.emit('abort');
    this.destroy();
  }
  _destroy(error, callback) {
    clearTimeout(this.#timer);
    if (this.res === undefined) {
      this.#controller.abort();
      error ??= coded(Error, 'ECONNRESET', 'socket hang up');
    } else if (!this.res.complete) {
      this.res.destroy(error ?? coded(Error, 'ECONNRESET', 'aborted'));
    }
    callback(error);
  }
}
Object.defineProperty(ClientRequest.prototype, 'ended_', { enumerable: false });
