// Smaller modules of Node.
import { native } from '../native.js';
import { reportMissing } from '../missing.js';
import { coded } from './errors.js';
import { Buffer } from './buffer.js';
import { structuredClone } from '../web/clone.js';
import { constants as fsConstants } from './fs-core.js';
import * as performancePart from '../web/performance.js';
import os from './os.js';
import { isTerminal } from '../terminal.js';
import { EventEmitter } from './events.js';

export function v8() {
  const kData = Symbol('data');
  return {
    getHeapStatistics() {
      const { used, total, limit } = native.memory();
      return {
        total_heap_size: total, total_heap_size_executable: 0, total_physical_size: total, total_available_size: limit, used_heap_size: used, heap_size_limit: limit,
        malloced_memory: used, peak_malloced_memory: used, does_zap_garbage: 0, number_of_native_contexts: 1, number_of_detached_contexts: 0, total_global_handles_size: 0,
        used_global_handles_size: 0, external_memory: 0,
      };
    },
    getHeapSpaceStatistics: () => [],
    getHeapCodeStatistics: () => ({}),
    setFlagsFromString() {},
    cachedDataVersionTag: () => 0,
    // The format is not V8's; these functions read only what they have written.
    serialize(value) {
      const bytes = Buffer.alloc(0);
      Object.defineProperty(bytes, kData, { value: structuredClone(value) });
      return bytes;
    },
    deserialize(bytes) {
      if (!(kData in bytes)) {
        reportMissing('api:v8.deserialize');
        throw coded(Error, 'ERR_FEATURE_UNAVAILABLE_ON_PLATFORM', "V8's serialization format cannot be read in this sandbox");
      }
      return structuredClone(bytes[kData]);
    },
    startupSnapshot: { isBuildingSnapshot: () => false },
  };
}

export function tty() {
  const none = class {
    constructor() {
      throw coded(Error, 'ERR_INVALID_FD', 'there is no terminal in this sandbox');
    }
  };
  return { isatty: isTerminal, ReadStream: none, WriteStream: none };
}

export const constants = () => ({ ...os.constants.errno, ...os.constants.signals, ...os.constants.priority, ...fsConstants });

export function perfHooks() {
  const { performance, Performance, PerformanceEntry, PerformanceMark, PerformanceMeasure, PerformanceObserver } = performancePart;
  return {
    performance, Performance, PerformanceEntry, PerformanceMark, PerformanceMeasure, PerformanceObserver, constants: {},
    monitorEventLoopDelay: () => ({ enable() {}, disable() {}, min: 0, max: 0, mean: 0, stddev: 0, percentile: () => 0 }),
    createHistogram: () => {
      const values = [];
      return {
        record: (value) => void values.push(Number(value)),
        get count() { return values.length; },
        get min() { return Math.min(...values); },
        get max() { return Math.max(...values); },
        get mean() { return values.reduce((a, b) => a + b, 0) / values.length; },
        percentile: (p) => [...values].sort((a, b) => a - b)[Math.max(0, Math.ceil((p / 100) * values.length) - 1)],
        reset: () => void (values.length = 0),
      };
    },
  };
}

export function diagnosticsChannel() {
  const channels = new Map();
  class Channel {
    #subscribers = [];
    constructor(name) {
      this.name = name;
    }
    get hasSubscribers() { return this.#subscribers.length > 0; }
    subscribe(fn) { this.#subscribers.push(fn); }
    unsubscribe(fn) {
      const at = this.#subscribers.indexOf(fn);
      if (at < 0) return false;
      this.#subscribers.splice(at, 1);
      return true;
    }
    publish(message) { for (const fn of [...this.#subscribers]) fn(message, this.name); }
    bindStore() {}
    unbindStore() {}
    runStores(data, fn, self, ...args) {
      this.publish(data);
      return fn.apply(self, args);
    }
  }
  const channel = (name) => {
    if (!channels.has(name)) channels.set(name, new Channel(name));
    return channels.get(name);
  };
  const tracingChannel = (name) => {
    const of = (event) => channel(`tracing:${name}:${event}`);
    const events = { start: of('start'), end: of('end'), asyncStart: of('asyncStart'), asyncEnd: of('asyncEnd'), error: of('error') };
    return {
      ...events,
      subscribe(handlers) { for (const [event, fn] of Object.entries(handlers)) events[event]?.subscribe(fn); },
      unsubscribe(handlers) { for (const [event, fn] of Object.entries(handlers)) events[event]?.unsubscribe(fn); },
      traceSync(fn, context = {}, self, ...args) {
        events.start.publish(context);
        try {
          context.result = fn.apply(self, args);
          return context.result;
        } catch (error) {
          context.error = error;
          events.error.publish(context);
          throw error;
        } finally {
          events.end.publish(context);
        }
      },
    };
  };
  return {
    channel, hasSubscribers: (name) => channels.get(name)?.hasSubscribers ?? false, subscribe: (name, fn) => channel(name).subscribe(fn),
    unsubscribe: (name, fn) => channel(name).unsubscribe(fn), tracingChannel, Channel,
  };
}

export function punycode() {
  const encodeLabel = (label) => new URL(`http://${label}/`).hostname;
  return { toASCII: encodeLabel, toUnicode: (text) => text, version: '2.1.0', ucs2: { decode: (text) => [...text].map((c) => c.codePointAt(0)), encode: (codes) => String.fromCodePoint(...codes) } };
}

// All of these are in the table of missing modules.
export const inspector = () => ({});
export const repl = () => ({});
export const wasi = () => ({});
export const traceEvents = () => ({ createTracing: () => ({ enable() {}, disable() {}, enabled: false, categories: '' }), getEnabledCategories: () => undefined });

export function domain() {
  class Domain extends EventEmitter {
    run(fn, ...args) {
      try {
        return fn(...args);
      } catch (error) {
        this.emit('error', error);
        return undefined;
      }
    }
    add() {}
    remove() {}
    bind(fn) { return (...args) => this.run(fn, ...args); }
    intercept(fn) { return (error, ...args) => (error ? this.emit('error', error) : this.run(fn, ...args)); }
    enter() {}
    exit() {}
    dispose() {}
  }
  return { Domain, create: () => new Domain(), createDomain: () => new Domain(), active: null };
}

// Functions that read a stream to its end.
export const consumers = () => {
  const all = async (stream) => {
    const parts = [];
    for await (const part of stream) parts.push(typeof part === 'string' ? Buffer.from(part) : part);
    return Buffer.concat(parts);
  };
  return {
    buffer: all,
    arrayBuffer: async (stream) => {
      const bytes = await all(stream);
      return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
    },
    text: async (stream) => (await all(stream)).toString(),
    json: async (stream) => JSON.parse((await all(stream)).toString()),
    blob: async (stream) => new Blob([await all(stream)]),
  };
};
