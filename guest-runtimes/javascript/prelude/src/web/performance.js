// performance: a clock that starts with the job, marks and measures.
import { native } from '../native.js';
import { EventTarget } from './events.js';
import { coded } from '../node/errors.js';
import { inspect } from '../inspect/index.js';
import { structuredClone } from './clone.js';

let origin = 0;
export const begin = () => {
  origin = native.now() - native.clock();
  entries.length = 0;
};

const entries = [];
const observers = new Set();

export class PerformanceEntry {
  constructor(name, entryType, startTime, duration, detail) {
    this.name = name;
    this.entryType = entryType;
    this.startTime = startTime;
    this.duration = duration;
    if (detail !== undefined) this.detail = detail;
  }
  toJSON() {
    return { ...this };
  }
}
export class PerformanceMark extends PerformanceEntry {
  constructor(name, options = {}) {
    super(`${name}`, 'mark', options.startTime ?? native.clock(), 0, options.detail === undefined ? null : structuredClone(options.detail));
  }
}
export class PerformanceMeasure extends PerformanceEntry {}

function record(entry) {
  entries.push(entry);
  for (const observer of observers) observer.queue(entry);
  return entry;
}

function timeOf(mark) {
  if (mark === undefined) return undefined;
  if (typeof mark === 'number') return mark;
  for (let i = entries.length - 1; i >= 0; i--) if (entries[i].entryType === 'mark' && entries[i].name === `${mark}`) return entries[i].startTime;
  throw new DOMException(`The "${mark}" performance mark has not been set`, 'SyntaxError');
}

export class Performance extends EventTarget {
  get timeOrigin() { return origin; }
  now() { return native.clock(); }
  mark(name, options) { return record(new PerformanceMark(name, options)); }
  measure(name, startOrOptions, endMark) {
    let start;
    let end;
    let detail = null;
    if (startOrOptions !== null && typeof startOrOptions === 'object') {
      ({ detail = null } = startOrOptions);
      start = timeOf(startOrOptions.start);
      end = timeOf(startOrOptions.end);
      if (startOrOptions.duration !== undefined) {
        if (start === undefined && end !== undefined) start = end - startOrOptions.duration;
        else end = (start ?? 0) + startOrOptions.duration;
      }
    } else {
      start = timeOf(startOrOptions);
      end = timeOf(endMark);
    }
    start ??= 0;
    end ??= native.clock();
    return record(new PerformanceMeasure(`${name}`, 'measure', start, end - start, detail));
  }
  clearMarks(name) { clear('mark', name); }
  clearMeasures(name) { clear('measure', name); }
  clearResourceTimings() {}
  getEntries() { return [...entries].sort((a, b) => a.startTime - b.startTime); }
  getEntriesByName(name, type) { return this.getEntries().filter((entry) => entry.name === name && (type === undefined || entry.entryType === type)); }
  getEntriesByType(type) { return this.getEntries().filter((entry) => entry.entryType === type); }
  timerify(fn) { return fn; }
  eventLoopUtilization() { return { idle: 0, active: native.clock(), utilization: 1 }; }
  toJSON() { return { timeOrigin: origin }; }
  [inspect.custom](depth, options) {
    return depth < 0 ? this : `Performance ${inspect({ timeOrigin: origin }, options)}`;
  }
}
Object.defineProperty(Performance.prototype, Symbol.toStringTag, { value: 'Performance', configurable: true });

function clear(type, name) {
  for (let i = entries.length - 1; i >= 0; i--) {
    if (entries[i].entryType === type && (name === undefined || entries[i].name === name)) entries.splice(i, 1);
  }
}

export class PerformanceObserver {
  static supportedEntryTypes = ['mark', 'measure'];
  #callback;
  #types = new Set();
  #waiting = [];
  constructor(callback) {
    if (typeof callback !== 'function') throw coded(TypeError, 'ERR_INVALID_ARG_TYPE', 'The "callback" argument must be of type function.');
    this.#callback = callback;
  }
  observe({ entryTypes, type }) {
    for (const each of entryTypes ?? [type]) this.#types.add(each);
    observers.add(this);
  }
  disconnect() { observers.delete(this); }
  takeRecords() { return this.#waiting.splice(0); }
  queue(entry) {
    if (!this.#types.has(entry.entryType)) return;
    if (this.#waiting.push(entry) > 1) return;
    globalThis.setImmediate(() => {
      const list = this.#waiting.splice(0);
      if (list.length === 0) return;
      this.#callback({
        getEntries: () => list,
        getEntriesByName: (name) => list.filter((each) => each.name === name),
        getEntriesByType: (kind) => list.filter((each) => each.entryType === kind),
      }, this);
    });
  }
}

export const performance = new Performance();
