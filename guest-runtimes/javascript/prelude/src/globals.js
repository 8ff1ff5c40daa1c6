// The global names that every program finds.
import { hidden } from './engine/uncurry.js';
import { globalConsole } from './console.js';
import { process } from './process.js';
import * as timers from './loop/timers.js';
import { queueMicrotask } from './loop/ticks.js';
import { Buffer, atob, btoa } from './node/buffer.js';
import { URL, URLSearchParams } from './web/url.js';
import { TextDecoder, TextEncoder } from './web/encoding.js';
import { CustomEvent, Event, EventTarget, MessageEvent } from './web/events.js';
import { AbortController, AbortSignal } from './web/abort.js';
import { structuredClone } from './web/clone.js';
import { Performance, PerformanceEntry, PerformanceMark, PerformanceMeasure, PerformanceObserver, performance } from './web/performance.js';
import { Crypto, SubtleCrypto, crypto } from './web/crypto.js';
import { Blob, File } from './web/blob.js';
import { BroadcastChannel, MessageChannel, MessagePort } from './web/messages.js';
import { web } from './web/all-streams.js';
import { FormData, Headers, Request, Response } from './web/fetch.js';
import { fetch } from './web/exchange.js';
import { WebSocket } from './web/websocket.js';
import { refuse } from './missing.js';
import { display } from './display.js';

// Names that the engine's own programs have and Node's do not.
const FOREIGN = ['gc', 'execArgv', 'argv0', 'scriptArgs', 'print', 'std', 'os', 'bjson', 'navigator', 'InternalError'];

function lackingClass(name, what) {
  return {
    [name]: class {
      constructor() {
        throw refuse(what, what === 'sockets' ? 'EACCES' : 'ENOSYS', name);
      }
    },
  }[name];
}

export function install() {
  for (const name of FOREIGN) if (name !== 'InternalError') delete globalThis[name];
  const { setTimeout, clearTimeout, setInterval, clearInterval, setImmediate, clearImmediate } = timers;
  const listed = { global: globalThis, clearImmediate, setImmediate, clearInterval, clearTimeout, setInterval, setTimeout, queueMicrotask, structuredClone, atob, btoa, performance, fetch, crypto };
  for (const [name, value] of Object.entries(listed)) {
    if (typeof value === 'function') Object.defineProperty(value, 'name', { value: name, configurable: true });
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: true });
  }
  const plain = {
    console: globalConsole, process, Buffer, URL, URLSearchParams, TextEncoder, TextDecoder, Event, EventTarget, CustomEvent, MessageEvent, AbortController, AbortSignal,
    Performance, PerformanceEntry, PerformanceMark, PerformanceMeasure, PerformanceObserver, Crypto, SubtleCrypto, Blob, File, MessageChannel, MessagePort, BroadcastChannel, Headers, Request, Response, FormData, ...web,
    WebSocket, EventSource: lackingClass('EventSource', 'sockets'),
  };
  for (const [name, value] of Object.entries(plain)) {
    // The bundler renames functions and classes that have the name of a global.
    if (typeof value === 'function' && value.name !== name) Object.defineProperty(value, 'name', { value: name, configurable: true });
    hidden(globalThis, name, value);
  }
  hidden(globalThis, 'display', display);
  hidden(globalThis, 'navigator', { hardwareConcurrency: 1, language: 'en-US', languages: ['en-US'], platform: 'linux', userAgent: `Node.js/${process.version.slice(1).split('.')[0]}` });
  Object.defineProperty(globalThis, Symbol.toStringTag, { value: 'global', configurable: true, writable: false, enumerable: false });
}
