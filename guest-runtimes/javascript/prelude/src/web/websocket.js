// WebSocket clients (RFC 6455), with the interface of the WHATWG and Node's additions.
import { sha1 } from '../node/digests.js';
import { native } from '../native.js';
import { Buffer } from '../node/buffer.js';
import { hostFeature, refuse } from '../missing.js';
import * as connections from '../loop/connections.js';
import * as net from '../loop/net.js';
import { enqueue } from '../loop/loop.js';
import { clearTimeout, setTimeout } from '../loop/timers.js';
import { Blob, bytesOf } from './blob.js';
import { CloseEvent, ErrorEvent, EventTarget, MessageEvent, Event, handlerProperty } from './events.js';
import { URL } from './url.js';
import { frame, FrameReader, join, ProtocolError } from './websocket-frames.js';

const CONNECTING = 0;
const OPEN = 1;
const CLOSING = 2;
const CLOSED = 3;

// Value that RFC 6455 appends to the key of a client.
const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';

// Time for a connection, and for the answer to the end of one.
const CONNECT_MS = 30000;
const CLOSE_MS = 3000;

// Most bytes of the head of an answer.
const MOST_HEAD = 65536;

const TEXT = 1;
const BINARY = 2;
const CLOSE = 8;
const PING = 9;
const PONG = 10;

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

const syntaxError = (message) => new DOMException(message, 'SyntaxError');

function parsedUrl(url) {
  let parsed;
  try {
    parsed = new URL(`${url}`);
  } catch {
    throw syntaxError(`Invalid URL: ${url}`);
  }
  if (parsed.protocol === 'http:') parsed.protocol = 'ws:';
  if (parsed.protocol === 'https:') parsed.protocol = 'wss:';
  if (parsed.protocol !== 'ws:' && parsed.protocol !== 'wss:') throw syntaxError(`Expected a ws: or wss: protocol, got ${parsed.protocol}`);
  if (parsed.hash !== '') throw syntaxError('Got fragment');
  return parsed;
}

function parsedOptions(options) {
  const given = typeof options === 'string' ? { protocols: [options] } : Array.isArray(options) ? { protocols: options } : { ...options };
  const protocols = [given.protocols ?? []].flat().map((each) => `${each}`);
  if (protocols.some((each) => !TOKEN.test(each)) || new Set(protocols).size < protocols.length) throw syntaxError('Invalid Sec-WebSocket-Protocol value');
  const headers = Object.entries(given.headers ?? {}).map(([name, value]) => [name, `${value}`]);
  if (headers.some(([name, value]) => !TOKEN.test(name) || /[\r\n\0]/.test(value))) throw new TypeError('Invalid header');
  return { protocols, headers };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// Codes of the end that a peer may send.
const isCode = (code) => (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) || (code >= 3000 && code <= 4999);

function textOf(bytes) {
  const text = native.utf8Decode(bytes, true);
  if (text === null) throw new ProtocolError(1007, 'Invalid UTF-8');
  return text;
}

export class WebSocket extends EventTarget {
  #url;
  #wanted;
  #state = CONNECTING;
  #protocol = '';
  #binaryType = 'blob';
  #handle;
  #key;
  #head = new Uint8Array(0);
  #frames = new FrameReader();
  #output = [];
  #isWriting = false;
  #buffered = 0;
  #pong;
  #isEndSent = false;
  #timer;

  constructor(url, options = []) {
    super();
    if (arguments.length === 0) throw new TypeError("WebSocket constructor: 1 argument required, but only 0 present.");
    this.#url = parsedUrl(url);
    this.#wanted = parsedOptions(options);
    if (!net.isGranted()) throw refuse(hostFeature(this.#url.hostname), 'EACCES', 'WebSocket');
    enqueue(() => this.#connect());
  }

  get url() { return this.#url.href; }
  get readyState() { return this.#state; }
  get bufferedAmount() { return this.#buffered; }
  get extensions() { return ''; }
  get protocol() { return this.#protocol; }
  get binaryType() { return this.#binaryType; }
  set binaryType(type) {
    this.#binaryType = type === 'blob' || type === 'arraybuffer' ? type : 'blob';
  }

  send(data) {
    if (arguments.length === 0) throw new TypeError("WebSocket.send: 1 argument required, but only 0 present.");
    if (this.#state === CONNECTING) throw new DOMException('Sent before connected.', 'InvalidStateError');
    const isBinary = data instanceof Blob || ArrayBuffer.isView(data) || native.classOf(data) === 'ArrayBuffer';
    this.#sendMessage(isBinary ? BINARY : TEXT, bytesOf(data));
  }

  close(code = undefined, reason = undefined) {
    if (code !== undefined) {
      code = Math.min(Math.max(Math.trunc(Number(code)) || 0, 0), 65535);
      if (code !== 1000 && (code < 3000 || code > 4999)) throw new DOMException('invalid code', 'InvalidAccessError');
    }
    const text = native.utf8Encode(reason === undefined ? '' : `${reason}`);
    if (text.length > 123) throw syntaxError(`Reason must be less than 123 bytes; received ${text.length}`);
    if (this.#state === CONNECTING) {
      this.#state = CLOSING;
      enqueue(() => this.#fail('WebSocket is closed before the connection is established'));
    } else if (this.#state === OPEN) {
      this.#state = CLOSING;
      this.#sendEnd(code, text);
      this.#timer = setTimeout(() => this.#end(1006, '', false), CLOSE_MS);
    }
  }

  #sendMessage(kind, bytes) {
    if (this.#state !== OPEN) {
      this.#buffered += bytes.length;
      return;
    }
    this.#write(frame(kind, bytes), bytes.length);
  }

  #sendEnd(code, reason) {
    if (this.#isEndSent) return;
    this.#isEndSent = true;
    const head = code === undefined ? new Uint8Array(0) : new Uint8Array([code >> 8, code & 255]);
    this.#write(frame(CLOSE, join(code === undefined ? [head] : [head, reason])), 0);
  }

  // Writes bytes, of which `counted` belong to the data of a message.
  #write(bytes, counted) {
    this.#buffered += counted;
    this.#output.push({ bytes, counted });
    if (!this.#isWriting) this.#flush();
  }

  #flush() {
    this.#isWriting = false;
    try {
      while (this.#output.length > 0 && this.#handle !== undefined) {
        const [first] = this.#output;
        const sent = connections.send(this.#handle, first.bytes);
        if (sent < first.bytes.length) {
          first.bytes = first.bytes.subarray(sent);
          if (sent > 0) continue;
          this.#isWriting = true;
          connections.onWritable(this.#handle, () => this.#flush());
          return;
        }
        this.#buffered -= first.counted;
        this.#output.shift();
        if (this.#output.length === 0 && this.#pong !== undefined && !this.#isEndSent) this.#output.push({ bytes: frame(PONG, this.#pong), counted: 0 });
        if (this.#output.length > 0 && this.#pong !== undefined) this.#pong = undefined;
      }
    } catch (error) {
      this.#lost(error);
    }
  }

  #connect() {
    if (this.#state !== CONNECTING) return;
    const { hostname, port, protocol, pathname, search, host, username, password } = this.#url;
    const isSecure = protocol === 'wss:';
    const name = hostname.replace(/^\[|\]$/g, '');
    try {
      this.#handle = connections.open(name, Number(port || (isSecure ? 443 : 80)), CONNECT_MS) ?? undefined;
      if (this.#handle === undefined || (isSecure && !connections.startTls(this.#handle, name, CONNECT_MS))) {
        this.#fail('Connect Timeout Error');
        return;
      }
    } catch (error) {
      this.#fail(error.failure?.text ?? error.message);
      return;
    }
    this.#key = Buffer.from(native.random(16)).toString('base64');
    const { protocols, headers } = this.#wanted;
    const lines = [
      `GET ${pathname}${search} HTTP/1.1`, `Host: ${host}`, 'Connection: Upgrade', 'Upgrade: websocket', `Sec-WebSocket-Key: ${this.#key}`, 'Sec-WebSocket-Version: 13',
      ...(protocols.length > 0 ? [`Sec-WebSocket-Protocol: ${protocols.join(', ')}`] : []),
      ...(username !== '' ? [`Authorization: Basic ${Buffer.from(`${decoded(username)}:${decoded(password)}`).toString('base64')}`] : []),
      ...headers.map(([header, value]) => `${header}: ${value}`),
    ];
    this.#timer = setTimeout(() => this.#fail('Headers Timeout Error'), CONNECT_MS);
    this.#write(native.utf8Encode(`${lines.join('\r\n')}\r\n\r\n`), 0);
    this.#read();
  }

  #read() {
    if (this.#handle !== undefined) connections.onReadable(this.#handle, () => this.#receive());
  }

  #receive() {
    try {
      const bytes = connections.receive(this.#handle);
      if (bytes !== null && bytes.length === 0) {
        this.#lost(undefined);
        return;
      }
      if (bytes !== null) this.#take(bytes);
    } catch (error) {
      this.#lost(error);
      return;
    }
    this.#read();
  }

  #take(bytes) {
    if (this.#key !== undefined) {
      const rest = this.#takeHead(bytes);
      if (rest === undefined) return;
      bytes = rest;
    }
    this.#frames.push(bytes);
    for (let message = this.#frames.next(); message !== undefined && this.#handle !== undefined; message = this.#frames.next()) this.#accept(message);
  }

  // Takes bytes of the head of the answer. Returns the bytes after it, once it is complete and valid.
  #takeHead(bytes) {
    this.#head = join([this.#head, bytes]);
    const text = native.latin1Decode(this.#head);
    const end = text.indexOf('\r\n\r\n');
    if (end < 0) {
      if (text.length > MOST_HEAD) throw new ProtocolError(1002, 'the head of the answer is too long');
      return undefined;
    }
    const [status, ...lines] = text.slice(0, end).split('\r\n');
    const headers = new Map(lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]));
    const accept = Buffer.from(sha1(native.utf8Encode(this.#key + GUID))).toString('base64');
    const chosen = headers.get('sec-websocket-protocol');
    const isValid =
      /^HTTP\/1\.1 101\b/.test(status) && headers.get('upgrade')?.toLowerCase() === 'websocket' && /\bupgrade\b/i.test(headers.get('connection') ?? '') &&
      headers.get('sec-websocket-accept') === accept && !headers.has('sec-websocket-extensions') && (chosen === undefined || this.#wanted.protocols.includes(chosen));
    if (!isValid) {
      this.#fail('Received network error or non-101 status code.');
      return undefined;
    }
    clearTimeout(this.#timer);
    this.#key = undefined;
    const rest = this.#head.slice(end + 4);
    this.#head = new Uint8Array(0);
    this.#protocol = chosen ?? '';
    this.#state = OPEN;
    this.#fire(new Event('open'));
    return rest;
  }

  #accept({ kind, bytes }) {
    if (kind === PING) {
      // While earlier bytes wait for space, the last one alone is answered.
      if (this.#isWriting) this.#pong = bytes;
      else if (!this.#isEndSent) this.#write(frame(PONG, bytes), 0);
    } else if (kind === CLOSE) {
      if (bytes.length === 1 || (bytes.length > 1 && !isCode((bytes[0] << 8) | bytes[1]))) throw new ProtocolError(1002, 'Invalid close code');
      const code = bytes.length >= 2 ? (bytes[0] << 8) | bytes[1] : 1005;
      const reason = textOf(bytes.subarray(2));
      if (this.#state === OPEN) this.#state = CLOSING;
      this.#sendEnd(code === 1005 ? undefined : code, new Uint8Array(0));
      this.#end(code, reason, true);
    } else if (kind !== PONG && this.#state === OPEN) {
      const data = kind === TEXT ? textOf(bytes) : this.#binaryType === 'blob' ? new Blob([bytes]) : bytes.slice().buffer;
      this.#fire(new MessageEvent('message', { data, origin: this.#url.origin }));
    }
  }

  // Ends after a failure of the connection, or its end without that of the protocol.
  #lost(error) {
    if (this.#state === CONNECTING || this.#key !== undefined) {
      this.#fail(error?.failure?.text ?? 'Received network error or non-101 status code.');
    } else if (error instanceof ProtocolError) {
      this.#sendEnd(error.closeCode, new Uint8Array(0));
      this.#fire(new ErrorEvent('error', { error, message: error.message }));
      this.#end(1006, '', false);
    } else this.#end(1006, '', false);
  }

  // Ends a connection that was not established.
  #fail(message) {
    if (this.#state === CLOSED) return;
    this.#fire(new ErrorEvent('error', { error: new TypeError(message), message }));
    this.#end(1006, '', false);
  }

  #end(code, reason, wasClean) {
    if (this.#state === CLOSED) return;
    this.#state = CLOSED;
    clearTimeout(this.#timer);
    if (this.#handle !== undefined) connections.close(this.#handle);
    this.#handle = undefined;
    this.#fire(new CloseEvent('close', { code, reason, wasClean }));
  }

  // Dispatches an event after the ones before it and the promises of their listeners.
  #fire(event) {
    enqueue(() => this.dispatchEvent(event), 0);
  }
}
for (const type of ['open', 'message', 'error', 'close']) handlerProperty(WebSocket.prototype, type);
for (const [name, value] of [['CONNECTING', CONNECTING], ['OPEN', OPEN], ['CLOSING', CLOSING], ['CLOSED', CLOSED]]) {
  Object.defineProperty(WebSocket, name, { value, enumerable: true });
  Object.defineProperty(WebSocket.prototype, name, { value, enumerable: true });
}
Object.defineProperty(WebSocket.prototype, Symbol.toStringTag, { value: 'WebSocket', configurable: true });
