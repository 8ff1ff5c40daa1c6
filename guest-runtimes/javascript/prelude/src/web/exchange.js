// fetch: the host makes the requests. Redirects are followed here, so that the host checks each of them.
import { native } from '../native.js';
import { Decompress } from 'fflate/browser';
import { hostFeature, refuse } from '../missing.js';
import * as net from '../loop/net.js';
import { Headers, Request, Response } from './fetch.js';
import { contentAt } from './local.js';
import { ReadableStream, isAwaited } from './streams.js';
import { URL } from './url.js';

const REDIRECTS = new Set([301, 302, 303, 307, 308]);
const MOST_REDIRECTS = 20;

// Bytes of a body that are read ahead of the program: most answers are complete with that and free their slot.
const AHEAD = 65536;

const NO_BODY = new Set([101, 103, 204, 205, 304]);

// Default headers of a request.
const USUAL = [['accept', '*/*'], ['accept-language', '*'], ['sec-fetch-mode', 'cors'], ['user-agent', 'node'], ['accept-encoding', 'gzip, deflate']];

// Headers that are not sent to another origin.
const OWN = ['authorization', 'proxy-authorization', 'cookie', 'host'];
const OF_BODY = ['content-encoding', 'content-language', 'content-length', 'content-location', 'content-type'];

// System calls to name in errors, for errors that do not come from connecting.
const CALLS = { ECONNRESET: 'read', ECONNABORTED: 'read', EPIPE: 'write' };

const NUMBERS = { ECONNREFUSED: -111, ECONNRESET: -104, ECONNABORTED: -103, EACCES: -13, EPIPE: -32, ETIMEDOUT: -110, EHOSTUNREACH: -113, ENETUNREACH: -101, EMFILE: -24 };

const CERTIFICATE = [
  ['not valid for name', 'ERR_TLS_CERT_ALTNAME_INVALID'], ['expired', 'CERT_HAS_EXPIRED'], ['not valid yet', 'CERT_NOT_YET_VALID'],
  ['UnknownIssuer', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE'], ['CaUsedAsEndEntity', 'DEPTH_ZERO_SELF_SIGNED_CERT'],
];

const { InternalError } = globalThis;

// Returns the error that a program gets for a cause. The engine's error about exhausted memory is passed unchanged, as
// it does not concern the request.
const because = (message, cause) => (cause instanceof InternalError ? cause : new TypeError(message, { cause }));
const failed = (cause) => because('fetch failed', cause);

// Returns the error that Node would have for the host's failure.
function causeOf(error, url) {
  if (!(error instanceof net.NetFailure)) return error;
  const { kind, errno, text } = error.failure;
  const port = Number(url.port || (url.protocol === 'https:' ? 443 : 80));
  const at = `${url.hostname}:${port}`;
  if (kind === 'name') return Object.assign(new Error(`getaddrinfo ENOTFOUND ${url.hostname}`), { errno: -3008, code: 'ENOTFOUND', syscall: 'getaddrinfo', hostname: url.hostname });
  if (kind === 'certificate') {
    const known = CERTIFICATE.find(([word]) => text.includes(word));
    return Object.assign(new Error(text), { code: known?.[1] ?? 'ERR_TLS_CERT' });
  }
  if (kind === 'closed') return Object.assign(new Error('other side closed'), { name: 'SocketError', code: 'UND_ERR_SOCKET' });
  if (kind === 'io' && CALLS[errno] !== undefined) return Object.assign(new Error(`${CALLS[errno]} ${errno}`), { errno: NUMBERS[errno], code: errno, syscall: CALLS[errno] });
  if (kind === 'io' && errno !== 'EIO') return Object.assign(new Error(`connect ${errno} ${at}`), { errno: NUMBERS[errno], code: errno, syscall: 'connect', address: url.hostname, port });
  return Object.assign(new Error(text), { code: errno });
}

const event = (handle, isWanted) => new Promise((resolve) => net.next(handle, resolve, isWanted));

// Begins an exchange when there is a slot for it: `begin` starts it and returns its number.
function placed(begin, signal) {
  return new Promise((resolve, reject) => {
    let takeBack;
    const onAbort = () => {
      takeBack();
      reject(signal.reason);
    };
    signal.addEventListener('abort', onAbort);
    takeBack = net.acquireSlot((is) => {
      signal.removeEventListener('abort', onAbort);
      if (!is) reject(failed(Object.assign(new Error('too many concurrent requests: none of their response bodies is being read'), { errno: NUMBERS.EMFILE, code: 'EMFILE' })));
      else {
        try {
          resolve(begin());
        } catch (error) {
          reject(error);
        }
      }
    });
  });
}

// Sends the body of a stream in pieces.
async function pump(handle, stream, broken) {
  try {
    for await (const chunk of stream) {
      if (!(chunk instanceof Uint8Array)) throw new TypeError('Received non-Uint8Array chunk');
      for (let at = 0; at < chunk.length; at += net.MAX_CHUNK) {
        const piece = chunk.subarray(at, at + net.MAX_CHUNK);
        while (!net.send(handle, piece, false)) await new Promise((resolve) => net.onWritable(handle, resolve));
      }
    }
    net.send(handle, new Uint8Array(0), true);
  } catch (error) {
    // An exchange that has ended reports the reason itself.
    if (!(error instanceof net.NetFailure)) broken(error);
  }
}

// Returns the body of an answer as a stream, decompressed.
function bodyStream(handle, headers, { url, over, done }) {
  const packed = (headers.get('content-encoding') ?? '').trim().toLowerCase();
  let unpacked = [];
  const opened = packed === 'gzip' || packed === 'x-gzip' || packed === 'deflate' ? new Decompress((chunk) => void (chunk.length > 0 && unpacked.push(chunk))) : null;
  const open = (bytes, last) => {
    if (opened === null) return [bytes];
    opened.push(bytes, last);
    const chunks = unpacked;
    unpacked = [];
    return chunks;
  };
  let control;
  let any = false;
  const isWanted = () => isAwaited(stream);
  const stream = new ReadableStream({
    type: 'bytes',
    start(controller) { control = controller; },
    async pull(controller) {
      for (;;) {
        const { kind, bytes, error } = await event(handle, isWanted);
        if (over()) return;
        try {
          if (kind === 'd') {
            any = true;
            const chunks = open(bytes, false);
            chunks.forEach((chunk) => controller.enqueue(chunk));
            if (chunks.length > 0) return;
          } else if (kind === 'e') {
            done();
            if (opened !== null && any) open(new Uint8Array(0), true).forEach((chunk) => controller.enqueue(chunk));
            controller.close();
            // Returns the buffer that the reader has provided.
            controller.byobRequest?.respond(0);
            return;
          } else throw error;
        } catch (reason) {
          done();
          if (kind === 'd') net.abort(handle);
          controller.error(because('terminated', causeOf(reason, url)));
          return;
        }
      }
    },
    cancel() {
      done();
      net.abort(handle);
    },
  }, { highWaterMark: AHEAD });
  return { stream, fail: (reason) => control.error(reason) };
}

const LOCAL = new Set(['data:', 'blob:']);

// Returns the answer from a data: or blob: address, which needs no grant.
function found({ url, method }) {
  const bare = new URL(url);
  bare.hash = '';
  try {
    const { body, headers } = contentAt(bare, method);
    return new Response(method === 'HEAD' ? null : body, { statusText: 'OK', headers, url: bare.href, kind: 'basic' });
  } catch (error) {
    throw failed(error);
  }
}

export async function fetch(input, init = undefined) {
  const request = new Request(input, init);
  const { signal } = request;
  if (signal.aborted) throw signal.reason;
  if (LOCAL.has(new URL(request.url).protocol)) return found(request);
  if (!net.isGranted()) throw failed(refuse(hostFeature(new URL(request.url).hostname), 'EACCES', `connect ${new URL(request.url).host || request.url}`));
  let { method } = request;
  let body = await request.sent();
  const headers = new Headers(request.headers);
  for (const [name, value] of USUAL) if (!headers.has(name)) headers.set(name, value);
  let url = new URL(request.url);
  for (let followed = 0; ; followed++) {
    const response = await exchange({ url, method, headers, body, signal, followed });
    if (!REDIRECTS.has(response.status) || request.redirect === 'manual' || !response.headers.has('location')) return response;
    if (request.redirect === 'error') throw failed(new Error('unexpected redirect'));
    if (followed === MOST_REDIRECTS) throw failed(new Error('redirect count exceeded'));
    await response.body?.cancel();
    const from = url;
    try {
      url = new URL(response.headers.get('location'), from);
    } catch (error) {
      throw failed(error);
    }
    if (url.protocol !== 'http:' && url.protocol !== 'https:') throw failed(new Error('URL scheme must be a HTTP(S) scheme'));
    if (!url.hash) url.hash = from.hash;
    if (response.status === 303 ? method !== 'GET' && method !== 'HEAD' : response.status < 303 && method === 'POST') {
      method = 'GET';
      body = null;
      for (const name of OF_BODY) headers.delete(name);
    }
    if (body instanceof ReadableStream) throw failed(new Error('cannot resend a streamed body'));
    if (url.origin !== from.origin) for (const name of OWN) headers.delete(name);
  }
}

// Checks that a content-length header matches the body. The length of a stream is not known yet.
function checkLength(headers, bytes) {
  const declared = headers.get('content-length');
  if (declared === null) return;
  if (!/^\d+$/.test(declared)) throw failed(Object.assign(new Error('invalid content-length header'), { name: 'InvalidArgumentError', code: 'UND_ERR_INVALID_ARG' }));
  if (bytes === null || bytes.length === 0 || Number(declared) === bytes.length) return;
  const name = 'RequestContentLengthMismatchError';
  throw failed(Object.assign(new Error('Request body length does not match content-length header'), { name, code: 'UND_ERR_REQ_CONTENT_LENGTH_MISMATCH' }));
}

export async function exchange({ url, method, headers, body, signal, followed }) {
  if (url.protocol !== 'http:' && url.protocol !== 'https:') throw failed(new Error('unknown scheme'));
  const streams = body instanceof ReadableStream;
  const bare = new URL(url.href);
  bare.hash = '';
  let whole = streams || body === null ? new Uint8Array(0) : body;
  // A body that does not fit into one request to the host is sent in pieces.
  const pieces = streams ? body : whole.length > net.MAX_CHUNK ? ReadableStream.from([whole]) : null;
  if (pieces !== null) whole = new Uint8Array(0);
  const sent = [...headers];
  const length = pieces !== null && !streams ? body.length : null;
  checkLength(headers, streams ? null : body);
  const handle = await placed(() => {
    try {
      return net.start({ method, url: bare.href, headers: sent, streams: pieces !== null, length }, whole);
    } catch (error) {
      throw failed(causeOf(error, url));
    }
  }, signal);
  if (signal.aborted) {
    net.abort(handle);
    throw signal.reason;
  }
  let ended = false;
  let fail;
  const stopped = new Promise((_, reject) => {
    fail = reject;
  });
  native.markHandled(stopped);
  const stop = (reason) => {
    if (ended) return;
    ended = true;
    net.abort(handle);
    fail(reason);
  };
  const onAbort = () => stop(signal.reason);
  const done = () => {
    ended = true;
    signal.removeEventListener('abort', onAbort);
  };
  signal.addEventListener('abort', onAbort);
  if (pieces !== null) pump(handle, pieces, (error) => stop(failed(error)));
  const { kind, bytes, error } = await Promise.race([event(handle), stopped]);
  if (kind !== 'h') {
    done();
    throw failed(causeOf(error ?? new Error('other side closed'), url));
  }
  const head = JSON.parse(native.utf8Decode(bytes, false));
  // The final answer cannot have a status that announces another one.
  if (head.status < 200) {
    done();
    net.abort(handle);
    throw failed(Object.assign(new Error('bad response'), { name: 'SocketError', code: 'UND_ERR_SOCKET' }));
  }
  const answer = new Headers();
  for (const [name, value] of head.headers) answer.append(name, value);
  const given = { status: head.status, statusText: head.text, headers: answer, url: bare.href, kind: 'basic', redirected: followed > 0 };
  if (method === 'HEAD' || NO_BODY.has(head.status)) {
    done();
    net.abort(handle);
    return new Response(null, given);
  }
  const made = bodyStream(handle, answer, { url, over: () => ended, done });
  stopped.catch((reason) => made.fail(reason));
  return new Response(made.stream, given);
}
