// setTimeout, setInterval and setImmediate with Node's objects and Node's order: timers of the same duration are in one
// list, and the list whose first timer is due first runs first.
import { native } from '../native.js';
import * as context from '../engine/context.js';
import { validateFunction } from '../node/errors.js';
import { defineProperty, uncurry } from '../engine/uncurry.js';
import { inspect } from '../inspect/index.js';

const { floor, max, trunc } = Math;
const { apply } = Reflect;
const getFrom = uncurry(Map.prototype.get);
const setIn = uncurry(Map.prototype.set);
const deleteFrom = uncurry(Map.prototype.delete);
const each = uncurry(Map.prototype.forEach);
const push = uncurry(Array.prototype.push);
const shift = uncurry(Array.prototype.shift);

const LONGEST = 2 ** 31 - 1;
// Most milliseconds by which the loop's time may lag while a callback runs, so that a slow interpreter keeps the order
// of timers that were set together.
const LAG = 4;

let origin = 0;
let loopTime = 0;
let nextId = 1;
let lists = new Map();
const byId = new Map();
let active = 0;
let warn = () => {};
export const connect = (parts) => {
  warn = parts.warn;
};

const clock = () => floor(native.now() - origin);

export function begin() {
  origin = native.now();
  loopTime = 0;
}

// Reads the clock, which the loop does once per round.
export function update() {
  loopTime = clock();
  return loopTime;
}

function startTime() {
  const real = clock();
  if (real - loopTime > LAG) loopTime = real;
  return loopTime;
}

const kRefed = Symbol('refed');
const kPrimitive = Symbol('kHasPrimitive');
const kId = Symbol('asyncId');
const kTrigger = Symbol('triggerId');

class TimersList {
  constructor(expiry, msecs) {
    this._idleNext = this;
    this._idlePrev = this;
    this.expiry = expiry;
    this.id = nextId;
    this.msecs = msecs;
    this.priorityQueuePosition = null;
  }
}

function insert(timer, start) {
  const ms = timer._idleTimeout;
  timer._idleStart = start;
  let list = getFrom(lists, ms);
  if (list === undefined) {
    list = new TimersList(start + ms, ms);
    setIn(lists, ms, list);
  }
  const last = list._idlePrev;
  timer._idlePrev = last;
  timer._idleNext = list;
  last._idleNext = timer;
  list._idlePrev = timer;
}

function remove(timer) {
  if (timer._idleNext) {
    timer._idleNext._idlePrev = timer._idlePrev;
    timer._idlePrev._idleNext = timer._idleNext;
  }
  timer._idleNext = null;
  timer._idlePrev = null;
}

class Timeout {
  constructor(callback, after, args, repeats) {
    after *= 1;
    if (!(after >= 1 && after <= LONGEST)) {
      if (after > LONGEST) warn(`${after} does not fit into a 32-bit signed integer.\nTimeout duration was set to 1.`, 'TimeoutOverflowWarning');
      after = 1;
    }
    this._idleTimeout = trunc(after);
    this._idlePrev = this;
    this._idleNext = this;
    this._idleStart = null;
    this._onTimeout = callback;
    this._timerArgs = args;
    this._repeat = repeats ? this._idleTimeout : null;
    this._destroyed = false;
    this[kRefed] = true;
    this[kPrimitive] = false;
    this[kId] = nextId++;
    this[kTrigger] = 1;
    if (context.current !== undefined) defineProperty(this, 'stores', { __proto__: null, value: context.current, enumerable: false, writable: true });
  }
  [inspect.custom](_, options) {
    return inspect(this, { ...options, depth: 0, customInspect: false });
  }
  refresh() {
    if (this[kRefed] && this._destroyed === false) {
      remove(this);
      insert(this, startTime());
    } else if (this._destroyed === false || this._onTimeout) {
      if (this._destroyed) {
        this._destroyed = false;
        if (this[kRefed]) active++;
      }
      remove(this);
      insert(this, startTime());
    }
    return this;
  }
  unref() {
    if (this[kRefed]) {
      this[kRefed] = false;
      if (!this._destroyed) active--;
    }
    return this;
  }
  ref() {
    if (!this[kRefed]) {
      this[kRefed] = true;
      if (!this._destroyed) active++;
    }
    return this;
  }
  hasRef() {
    return this[kRefed];
  }
  close() {
    clearTimeout(this);
    return this;
  }
  [Symbol.toPrimitive]() {
    this[kPrimitive] = true;
    setIn(byId, this[kId], this);
    return this[kId];
  }
}
if (Symbol.dispose) Timeout.prototype[Symbol.dispose] = function () { clearTimeout(this); };

function start(timer) {
  insert(timer, startTime());
  active++;
  return timer;
}

export function setTimeout(callback, after, ...args) {
  validateFunction(callback, 'callback');
  return start(new Timeout(callback, after, args.length === 0 ? undefined : args, false));
}

export function setInterval(callback, repeat, ...args) {
  validateFunction(callback, 'callback');
  return start(new Timeout(callback, repeat, args.length === 0 ? undefined : args, true));
}

function stop(timer) {
  if (timer._destroyed) return;
  timer._destroyed = true;
  if (timer[kRefed]) active--;
  deleteFrom(byId, timer[kId]);
  const list = getFrom(lists, timer._idleTimeout);
  remove(timer);
  if (list !== undefined && list._idleNext === list) deleteFrom(lists, timer._idleTimeout);
}

export function clearTimeout(timer) {
  if (timer instanceof Timeout) {
    timer._repeat = null;
    timer._onTimeout = null;
    stop(timer);
    timer._idleTimeout = -1;
  } else if (typeof timer === 'number' || typeof timer === 'string') {
    const known = getFrom(byId, +timer);
    if (known) clearTimeout(known);
  }
}
export const clearInterval = (timer) => clearTimeout(timer);

let immediates = [];
let running = [];
let immediateRefs = 0;

class Immediate {
  constructor(callback, args) {
    this._idleNext = null;
    this._idlePrev = null;
    this._onImmediate = callback;
    this._argv = args;
    this._destroyed = false;
    this[kRefed] = true;
    this[kId] = nextId++;
    this[kTrigger] = 1;
    if (context.current !== undefined) defineProperty(this, 'stores', { __proto__: null, value: context.current, enumerable: false });
    immediateRefs++;
    push(immediates, this);
  }
  ref() {
    if (!this[kRefed]) {
      this[kRefed] = true;
      if (!this._destroyed) immediateRefs++;
    }
    return this;
  }
  unref() {
    if (this[kRefed]) {
      this[kRefed] = false;
      if (!this._destroyed) immediateRefs--;
    }
    return this;
  }
  hasRef() {
    return this[kRefed];
  }
}
if (Symbol.dispose) Immediate.prototype[Symbol.dispose] = function () { clearImmediate(this); };

export function setImmediate(callback, ...args) {
  validateFunction(callback, 'callback');
  return new Immediate(callback, args.length === 0 ? undefined : args);
}

export function clearImmediate(immediate) {
  if (!(immediate instanceof Immediate) || immediate._destroyed) return;
  immediate._destroyed = true;
  immediate._onImmediate = null;
  if (immediate[kRefed]) immediateRefs--;
}

export const pendingTimers = () => active;
export const pendingImmediates = () => immediateRefs;

let first;
function compare(list) {
  if (first === undefined || list.expiry < first.expiry) first = list;
}
function earliest() {
  first = undefined;
  each(lists, compare);
  return first;
}

// Returns the milliseconds until the next timer, or -1.
export function untilNext() {
  const list = earliest();
  return list === undefined ? -1 : max(0, list.expiry - clock());
}

let phaseTime = 0;
export function beginTimers() {
  phaseTime = update();
}

// Runs one due timer; returns false if none is due.
export function runTimer() {
  for (;;) {
    const list = earliest();
    if (list === undefined) return false;
    if (list.expiry > phaseTime) {
      phaseTime = update();
      if (list.expiry > phaseTime) return false;
    }
    const timer = list._idleNext;
    if (timer === list) {
      deleteFrom(lists, list.msecs);
      continue;
    }
    if (phaseTime - timer._idleStart < list.msecs) {
      list.expiry = max(timer._idleStart + list.msecs, phaseTime + 1);
      continue;
    }
    remove(timer);
    if (list._idleNext === list) deleteFrom(lists, list.msecs);
    fire(timer);
    return true;
  }
}

function fire(timer) {
  const callback = timer._onTimeout;
  try {
    context.setCurrent(timer.stores);
    if (timer._timerArgs === undefined) timer._onTimeout();
    else apply(callback, timer, timer._timerArgs);
  } finally {
    context.setCurrent(undefined);
    if (!timer._destroyed && timer._idleNext === null) {
      if (timer._repeat !== null) {
        timer._idleTimeout = timer._repeat;
        insert(timer, update());
      } else stop(timer);
    }
  }
}

export function beginImmediates() {
  running = immediates;
  immediates = [];
}

export function runImmediate() {
  while (running.length > 0) {
    const immediate = shift(running);
    if (immediate._destroyed) continue;
    immediate._destroyed = true;
    if (immediate[kRefed]) immediateRefs--;
    const callback = immediate._onImmediate;
    immediate._onImmediate = null;
    try {
      context.setCurrent(immediate.stores);
      if (immediate._argv === undefined) callback();
      else apply(callback, undefined, immediate._argv);
    } finally {
      context.setCurrent(undefined);
    }
    return true;
  }
  return false;
}

export { Timeout, Immediate };
