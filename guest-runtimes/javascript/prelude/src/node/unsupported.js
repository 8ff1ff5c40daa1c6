// Node's modules for processes, threads and the network: they exist, so that programs load, and fail when they are
// used.
import { EventEmitter } from './events.js';
import { coded, validateFunction } from './errors.js';
import { refuse } from '../missing.js';
import { nextTick } from '../loop/ticks.js';
import { Duplex } from './stream.js';
import { ClientRequest, IncomingMessage } from './http-client.js';
import { CloseEvent, MessageEvent } from '../web/events.js';
import { WebSocket } from '../web/websocket.js';

const later = (emitter, error) => {
  nextTick(() => emitter.emit('error', error));
  return emitter;
};

const named = (object) => {
  for (const name of Object.keys(object)) {
    if (typeof object[name] === 'function' && Object.getOwnPropertyDescriptor(object[name], 'name')?.configurable) Object.defineProperty(object[name], 'name', { value: name });
  }
  return object;
};

export function childProcess() {
  const kPromisify = Symbol.for('nodejs.util.promisify.custom');
  const spawnError = (call, file, args = []) => refuse('processes', 'ENOSYS', `${call} ${file}`, { path: file, spawnargs: args });
  class ChildProcess extends EventEmitter {
    pid = undefined;
    exitCode = null;
    signalCode = null;
    killed = false;
    connected = false;
    stdin = null;
    stdout = null;
    stderr = null;
    stdio = [null, null, null];
    kill() { return false; }
    ref() {}
    unref() {}
    send() { return false; }
    disconnect() {}
    spawn() {
      throw spawnError('spawn', '');
    }
  }
  const fail = (file, args) => later(new ChildProcess(), spawnError('spawn', file, Array.isArray(args) ? args : []));
  const withCallback = (file, args, rest) => {
    const callback = [args, ...rest].find((each) => typeof each === 'function');
    const child = new ChildProcess();
    const error = spawnError('spawn', file, Array.isArray(args) ? args : []);
    if (callback) nextTick(() => callback(error, '', ''));
    else later(child, error);
    return child;
  };
  const exec = (command, ...rest) => withCallback(command, undefined, rest);
  const execFile = (file, args, ...rest) => withCallback(file, args, rest);
  for (const fn of [exec, execFile]) {
    Object.defineProperty(fn, kPromisify, { value: (file, args) => Promise.reject(spawnError('spawn', file, Array.isArray(args) ? args : [])) });
  }
  return named({
    ChildProcess, exec, execFile,
    fork: (file, args) => fail(file, args),
    spawn: (file, args) => fail(file, args),
    spawnSync(file, args) {
      const error = spawnError('spawnSync', file, Array.isArray(args) ? args : []);
      return { error, status: null, signal: null, output: null, pid: 0, stdout: null, stderr: null };
    },
    execSync(command) {
      throw spawnError('spawnSync', command);
    },
    execFileSync(file, args) {
      throw spawnError('spawnSync', file, Array.isArray(args) ? args : []);
    },
  });
}

const denied = (syscall, details) => refuse('sockets', 'EACCES', syscall, details);
const placeOf = (args) => {
  const [first, second] = args;
  if (first !== null && typeof first === 'object') return { address: first.host ?? first.path ?? 'localhost', port: first.port };
  return { address: typeof second === 'string' ? second : 'localhost', port: Number(first) };
};
const where = ({ address, port }) => (port === undefined || Number.isNaN(port) ? address : `${address}:${port}`);

export function net() {
  class Socket extends Duplex {
    connecting = false;
    connect(...args) {
      const place = placeOf(args);
      const error = denied(`connect ${where(place)}`, { ...place });
      nextTick(() => this.destroy(error));
      return this;
    }
    _read() {}
    _write(chunk, encoding, callback) { callback(denied('write')); }
    setTimeout() { return this; }
    setNoDelay() { return this; }
    setKeepAlive() { return this; }
    address() { return {}; }
    ref() { return this; }
    unref() { return this; }
  }
  class Server extends EventEmitter {
    listening = false;
    constructor(options, listener) {
      super();
      if (typeof options === 'function') listener = options;
      if (listener) this.on('connection', listener);
    }
    listen(...args) {
      const place = placeOf(args);
      return later(this, denied(`listen ${where({ address: '0.0.0.0', ...place })}`, place));
    }
    close(callback) {
      const error = coded(Error, 'ERR_SERVER_NOT_RUNNING', 'Server is not running.');
      if (callback) nextTick(() => callback(error));
      return this;
    }
    address() { return null; }
    getConnections(callback) { nextTick(() => callback(null, 0)); }
    ref() { return this; }
    unref() { return this; }
  }
  const v4 = /^(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?!$)|$)){4}$/;
  const isIPv4 = (text) => v4.test(`${text}`);
  const isIPv6 = (text) => {
    try {
      return `${text}`.includes(':') && new URL(`http://[${`${text}`.replace(/%.*$/, '')}]/`).hostname !== '';
    } catch {
      return false;
    }
  };
  const connect = (...args) => {
    const listener = args.find((each) => typeof each === 'function');
    const socket = new Socket();
    if (listener) socket.once('connect', listener);
    return socket.connect(...args);
  };
  return named({
    Socket, Stream: Socket, Server, connect, createConnection: connect,
    createServer: (options, listener) => new Server(options, listener),
    isIP: (text) => (isIPv4(text) ? 4 : isIPv6(text) ? 6 : 0),
    isIPv4, isIPv6,
    getDefaultAutoSelectFamily: () => true, setDefaultAutoSelectFamily() {},
  });
}

const STATUS = {
  100: 'Continue', 101: 'Switching Protocols', 102: 'Processing', 103: 'Early Hints', 200: 'OK', 201: 'Created', 202: 'Accepted', 203: 'Non-Authoritative Information',
  204: 'No Content', 205: 'Reset Content', 206: 'Partial Content', 207: 'Multi-Status', 208: 'Already Reported', 226: 'IM Used', 300: 'Multiple Choices',
  301: 'Moved Permanently', 302: 'Found', 303: 'See Other', 304: 'Not Modified', 305: 'Use Proxy', 307: 'Temporary Redirect', 308: 'Permanent Redirect', 400: 'Bad Request',
  401: 'Unauthorized', 402: 'Payment Required', 403: 'Forbidden', 404: 'Not Found', 405: 'Method Not Allowed', 406: 'Not Acceptable', 407: 'Proxy Authentication Required',
  408: 'Request Timeout', 409: 'Conflict', 410: 'Gone', 411: 'Length Required', 412: 'Precondition Failed', 413: 'Payload Too Large', 414: 'URI Too Long',
  415: 'Unsupported Media Type', 416: 'Range Not Satisfiable', 417: 'Expectation Failed', 418: "I'm a Teapot", 421: 'Misdirected Request', 422: 'Unprocessable Entity',
  423: 'Locked', 424: 'Failed Dependency', 425: 'Too Early', 426: 'Upgrade Required', 428: 'Precondition Required', 429: 'Too Many Requests',
  431: 'Request Header Fields Too Large', 451: 'Unavailable For Legal Reasons', 500: 'Internal Server Error', 501: 'Not Implemented', 502: 'Bad Gateway',
  503: 'Service Unavailable', 504: 'Gateway Timeout', 505: 'HTTP Version Not Supported', 506: 'Variant Also Negotiates', 507: 'Insufficient Storage', 508: 'Loop Detected',
  509: 'Bandwidth Limit Exceeded', 510: 'Not Extended', 511: 'Network Authentication Required',
};
const METHODS = [
  'ACL', 'BIND', 'CHECKOUT', 'CONNECT', 'COPY', 'DELETE', 'GET', 'HEAD', 'LINK', 'LOCK', 'M-SEARCH', 'MERGE', 'MKACTIVITY', 'MKCALENDAR', 'MKCOL', 'MOVE', 'NOTIFY', 'OPTIONS',
  'PATCH', 'POST', 'PROPFIND', 'PROPPATCH', 'PURGE', 'PUT', 'REBIND', 'REPORT', 'SEARCH', 'SOURCE', 'SUBSCRIBE', 'TRACE', 'UNBIND', 'UNLINK', 'UNLOCK', 'UNSUBSCRIBE',
];

export function http(netModule, secure) {
  const scheme = secure ? 'https:' : 'http:';
  class Server extends netModule.Server {
    constructor(options, listener) {
      super();
      const handler = typeof options === 'function' ? options : listener;
      if (handler) this.on('request', handler);
    }
    setTimeout() { return this; }
    closeAllConnections() {}
    closeIdleConnections() {}
  }
  class Agent extends EventEmitter {
    constructor(options = {}) {
      super();
      this.options = options;
    }
    destroy() {}
  }
  class ServerResponse extends Duplex {}
  const request = (...args) => new ClientRequest(scheme, args);
  return named({
    METHODS, STATUS_CODES: STATUS, Agent, ClientRequest, IncomingMessage, OutgoingMessage: ServerResponse, ServerResponse, Server,
    createServer: (options, listener) => new Server(options, listener),
    request,
    get(...args) {
      const made = request(...args);
      made.end();
      return made;
    },
    globalAgent: new Agent(), maxHeaderSize: 16384,
    validateHeaderName() {}, validateHeaderValue() {}, setMaxIdleHTTPParsers() {},
    ...(secure ? {} : { CloseEvent, MessageEvent, WebSocket }),
  });
}

export function http2() {
  const fail = (name) => () => {
    throw denied(name);
  };
  return named({ connect: fail('connect'), createServer: fail('listen'), createSecureServer: fail('listen'), constants: {} });
}

export function tls(netModule) {
  return named({ TLSSocket: netModule.Socket, Server: netModule.Server, connect: netModule.connect, createServer: netModule.createServer, createSecureContext: () => ({}), rootCertificates: [], getCiphers: () => [] });
}

export function dgram() {
  class Socket extends EventEmitter {
    bind() { return later(this, denied('bind')); }
    send(...args) {
      const callback = args.find((each) => typeof each === 'function');
      const error = denied('send');
      if (callback) nextTick(() => callback(error));
      else later(this, error);
    }
    close() { return this; }
    address() { return {}; }
    ref() { return this; }
    unref() { return this; }
  }
  return named({ Socket, createSocket: () => new Socket() });
}

const LOOKUPS = ['lookup', 'lookupService', 'resolve', 'resolve4', 'resolve6', 'resolveAny', 'resolveCaa', 'resolveCname', 'resolveMx', 'resolveNaptr', 'resolveNs', 'resolvePtr', 'resolveSoa', 'resolveSrv', 'resolveTxt', 'reverse'];
const CODES = { NODATA: 'ENODATA', FORMERR: 'EFORMERR', SERVFAIL: 'ESERVFAIL', NOTFOUND: 'ENOTFOUND', NOTIMP: 'ENOTIMP', REFUSED: 'EREFUSED', BADQUERY: 'EBADQUERY', BADNAME: 'EBADNAME', TIMEOUT: 'ETIMEOUT', CANCELLED: 'ECANCELLED' };

export function dns() {
  const errorOf = (name, host) => denied(name === 'lookup' ? 'getaddrinfo' : `query${name}`, { hostname: host });
  const callbacks = {};
  const promises = {};
  for (const name of LOOKUPS) {
    callbacks[name] = (host, ...rest) => {
      const callback = rest.findLast((each) => typeof each === 'function');
      validateFunction(callback, 'callback');
      const error = errorOf(name, host);
      nextTick(() => callback(error));
    };
    promises[name] = (host) => Promise.reject(errorOf(name, host));
  }
  const shared = { ...CODES, getServers: () => [], setServers() {}, setDefaultResultOrder() {}, getDefaultResultOrder: () => 'verbatim' };
  Object.assign(promises, shared);
  class Resolver {}
  Object.assign(Resolver.prototype, callbacks, shared, { cancel() {} });
  return named({ ...callbacks, ...shared, Resolver, promises: named(promises), ADDRCONFIG: 32, ALL: 16, V4MAPPED: 8 });
}

export function cluster() {
  const fail = () => {
    throw refuse('processes', 'ENOSYS', 'fork');
  };
  return Object.assign(new EventEmitter(), { isMaster: true, isPrimary: true, isWorker: false, workers: {}, settings: {}, SCHED_NONE: 1, SCHED_RR: 2, schedulingPolicy: 2, setupPrimary() {}, setupMaster() {}, disconnect() {}, fork: fail });
}

export function workerThreads(web) {
  class Worker extends EventEmitter {
    constructor() {
      super();
      throw refuse('threads', 'ENOSYS', 'Worker');
    }
  }
  return named({
    Worker, isMainThread: true, isInternalThread: false, parentPort: null, workerData: null, threadId: 0, resourceLimits: {}, SHARE_ENV: Symbol.for('nodejs.worker_threads.SHARE_ENV'),
    MessageChannel: web.MessageChannel, MessagePort: web.MessagePort, BroadcastChannel: web.BroadcastChannel,
    getEnvironmentData: (key) => environment.get(key),
    setEnvironmentData: (key, value) => void environment.set(key, value),
    markAsUntransferable() {}, markAsUncloneable() {}, isMarkedAsUntransferable: () => false, moveMessagePortToContext: (port) => port,
    receiveMessageOnPort: (port) => web.receiveMessageOnPort(port),
  });
}
const environment = new Map();
