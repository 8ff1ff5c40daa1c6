// Error stacks in V8's format: headed by the error's name and message, without frames of the prelude, with positions in
// the original text. The engine provides call sites when an error is created; the text is made of them on first access.
import { native } from '../native.js';
import { defineProperty, getOwnPropertyDescriptor, getPrototypeOf, hidden, uncurry } from './uncurry.js';
import { UNNAMED, frameText, isOurs, makerOf, placeOf, shown } from './frames.js';
import { rewriteMessage } from './messages.js';
import { pristinely } from './pristine.js';
import { columnOf, fileOf, functionOf, isConstructor, isNative, learnSites, lineOf, placedAt } from './sites.js';
import { headerOf, isNativePrototype } from './titles.js';

const { Error } = globalThis;
const engineCapture = Error.captureStackTrace;
const { apply } = Reflect;
const { is, setPrototypeOf } = Object;
const getFrom = uncurry(WeakMap.prototype.get);
const setIn = uncurry(WeakMap.prototype.set);

// Additional frames that are recorded, as some are the prelude's own.
const SPARE = 8;

let limit = 10;

class Trace {
  constructor(sites, from = 0) {
    // Made on first access unless it was set: names and messages are often set after the error was created.
    this.header = undefined;
    this.sites = sites;
    // Index of the first site that the program may see, and the number of frames it requested when the error was
    // created.
    this.from = from;
    this.limit = limit;
    this.origin = firstOfProgram(sites, from);
    this.text = undefined;
  }
}

// Returns the prepareStackTrace in force, however the program has set it.
function preparing() {
  const found = getOwnPropertyDescriptor(Error, 'prepareStackTrace');
  if (found === undefined) return undefined;
  setPrototypeOf(found, null);
  if (found.get === undefined) return found.value;
  return found.get === currentPrepare ? userPrepare : apply(found.get, Error, []);
}
// Returns the index of the next site from `at` on that is shown, or -1.
function nextShown(sites, at) {
  while (at < sites.length) {
    if (shown(at, sites)) return at;
    at++;
  }
  return -1;
}

// Class names of errors, by the first site that was passed to the program's prepareStackTrace.
const makers = new WeakMap();

function prepared(trace, error, prepare) {
  const { sites } = trace;
  const seen = [];
  for (let at = nextShown(sites, trace.from); at >= 0 && seen.length < trace.limit; at = nextShown(sites, at + 1)) {
    if (seen.length === 0) setIn(makers, sites[at], makerOf(error));
    defineProperty(seen, seen.length, { __proto__: null, value: sites[at], writable: true, configurable: true, enumerable: true });
  }
  // An access to the stack during its preparation returns an empty text.
  trace.text = '';
  return (trace.text = apply(prepare, Error, [error, seen]));
}

function written(trace, error) {
  const { sites } = trace;
  let text = trace.header ?? headerOf(error);
  for (let at = nextShown(sites, trace.from), count = 0; at >= 0 && count < trace.limit; at = nextShown(sites, at + 1), count++) {
    text += '\n    at ' + frameText(sites[at], count === 0 ? makerOf(error) : undefined, at, sites);
  }
  return text;
}

function textOf(trace, error) {
  if (trace.text !== undefined) return trace.text;
  const prepare = preparing();
  if (typeof prepare === 'function') return prepared(trace, error, prepare);
  try {
    trace.text = written(trace, error);
  } catch {
    trace.text = pristinely(() => written(trace, error));
  }
  return trace.text;
}

// Sets the position in the program that the host found for an error.
export function placed(error, file, line, column) {
  const trace = new Trace(line === undefined ? [] : [placedAt(file, line, column)]);
  setIn(traces, error, trace);
  return error;
}

// Returns the position where an error arose: the first call site of the program.
export function originOf(error) {
  const trace = traceOf(error);
  return trace?.origin;
}

// Returns the call sites of an error that the program may see, including those of the prelude among them.
export function sitesOf(error) {
  const trace = traceOf(error);
  if (trace === undefined) return [];
  if (trace.from === 0) return trace.sites;
  const below = [];
  for (let i = trace.from; i < trace.sites.length; i++) defineProperty(below, i - trace.from, { __proto__: null, value: trace.sites[i], writable: true, configurable: true, enumerable: true });
  return below;
}

// Traces by error. An error's `stack` is its own property, as in V8; its parts stay here.
const traces = new WeakMap();
function traceOf(error) {
  if (error === null || (typeof error !== 'object' && typeof error !== 'function')) return undefined;
  return getFrom(traces, error);
}

function readStack() {
  const trace = traceOf(this);
  if (trace) return textOf(trace, this);
  return native.classOf(this) === 'Error' ? headerOf(this) : undefined;
}

function writeStack(value) {
  if (this === null || (typeof this !== 'object' && typeof this !== 'function')) return;
  defineProperty(this, 'stack', { __proto__: null, value, writable: true, configurable: true, enumerable: false });
}

const accessor = { __proto__: null, get: readStack, set: writeStack, configurable: true, enumerable: false };

// Position of the last throw of a value that was created elsewhere or is not an error.
let thrown;
export const throwSiteOf = (value) => (thrown !== undefined && is(thrown.value, value) ? thrown.site : undefined);
export const forgetThrown = () => {
  thrown = undefined;
};

function firstOfProgram(sites, from) {
  for (let i = from; i < sites.length; i++) {
    if (!isNative(sites[i]) && !isOurs(fileOf(sites[i])) && fileOf(sites[i]) !== UNNAMED) return sites[i];
  }
  return undefined;
}

// Returns the index of the first site that is shown: a class of errors does not show its own constructor.
function belowMaker(error, sites) {
  const proto = getPrototypeOf(error);
  if (isNativePrototype(proto)) return 0;
  for (let i = 0; i < sites.length && i < 8 && isConstructor(sites[i]); i++) {
    const fn = functionOf(sites[i]);
    const found = typeof fn === 'function' ? getOwnPropertyDescriptor(fn, 'prototype') : undefined;
    if (found !== undefined && found.value === proto) return i + 1;
  }
  return 0;
}

// Called by the engine when an error is created, and again when an error passes a handler and is thrown on.
function prepare(error, sites) {
  if (capturing) return new Trace(sites);
  const kind = native.classOf(error);
  if (kind === 'Error' ? traceOf(error) !== undefined : kind !== 'DOMException') {
    if (sites.length > 0 && !isNative(sites[0]) && !isOurs(fileOf(sites[0]))) thrown = { value: error, site: sites[0] };
    return '';
  }
  if (kind !== 'Error') return textOf(new Trace(sites), error);
  // An error that the program created keeps its message.
  if (!native.errorIsMade()) rewriteMessage(error, sites);
  setIn(traces, error, new Trace(sites, belowMaker(error, sites)));
  defineProperty(error, 'stack', accessor);
  return '';
}

// Replaces the first line of an error's stack, as Node's own errors show their code there.
export function setHeader(error, header) {
  const trace = traceOf(error);
  if (trace) {
    trace.header = header;
    if (typeof trace.text === 'string' && typeof preparing() !== 'function') {
      const rest = trace.text.indexOf('\n    at ');
      trace.text = header + (rest < 0 ? '' : trace.text.slice(rest));
    }
  }
  return error;
}

let userPrepare;
const currentPrepare = () => userPrepare;
let capturing = false;

function captureStackTrace(target, below) {
  if (target === null || typeof target !== 'object' && typeof target !== 'function') {
    throw new TypeError('Invalid argument');
  }
  // A separate object receives the sites, so that the target's class does not matter.
  const carrier = { __proto__: null };
  capturing = true;
  try {
    engineCapture(carrier, typeof below === 'function' ? below : captureStackTrace);
  } finally {
    capturing = false;
  }
  const found = getOwnPropertyDescriptor(carrier, 'stack');
  setIn(traces, target, found !== undefined && typeof found.value === 'object' ? found.value : new Trace([]));
  defineProperty(target, 'stack', accessor);
}

export function install() {
  hidden(Error, 'captureStackTrace', captureStackTrace);
  const engineLimit = getOwnPropertyDescriptor(Error, 'stackTraceLimit').set;
  const enginePrepare = getOwnPropertyDescriptor(Error, 'prepareStackTrace').set;
  // The first error provides a call site.
  let proto;
  enginePrepare.call(Error, (_, sites) => {
    proto = learnSites(sites[0]);
    return '';
  });
  void new Error().stack;
  enginePrepare.call(Error, prepare);
  engineLimit.call(Error, limit + SPARE);
  defineProperty(Error, 'stackTraceLimit', {
    __proto__: null,
    get: () => limit,
    set(value) {
      limit = value;
      engineLimit.call(Error, typeof value === 'number' ? value + SPARE : 0);
    },
    configurable: true,
    enumerable: true,
  });
  defineProperty(Error, 'prepareStackTrace', {
    __proto__: null,
    get: currentPrepare,
    set(value) {
      userPrepare = value;
    },
    configurable: true,
    enumerable: false,
  });
  defineProperty(Error.prototype, 'stack', { __proto__: null, get: readStack, set: writeStack, configurable: true, enumerable: false });
  widenCallSites(proto);
}

// Adds the methods of V8's call sites that the engine's lack.
function widenCallSites(proto) {
  const add = (name, value) => name in proto || hidden(proto, name, value);
  const place = (of) => placeOf(of, getFrom(makers, of)) ?? { line: lineOf(of), column: columnOf(of) };
  hidden(proto, 'getLineNumber', { getLineNumber() { return isNative(this) ? null : place(this).line; } }.getLineNumber);
  hidden(proto, 'getColumnNumber', { getColumnNumber() { return isNative(this) ? null : place(this).column; } }.getColumnNumber);
  add('getThis', function getThis() { return undefined; });
  add('getTypeName', function getTypeName() { return 'Object'; });
  add('getMethodName', function getMethodName() { return null; });
  add('getEvalOrigin', function getEvalOrigin() { return undefined; });
  add('getScriptNameOrSourceURL', function getScriptNameOrSourceURL() { return fileOf(this); });
  add('getScriptHash', function getScriptHash() { return ''; });
  add('getEnclosingLineNumber', function getEnclosingLineNumber() { return place(this).line; });
  add('getEnclosingColumnNumber', function getEnclosingColumnNumber() { return place(this).column; });
  add('getPromiseIndex', function getPromiseIndex() { return null; });
  add('getPosition', function getPosition() { return 0; });
  add('isToplevel', function isToplevel() { return true; });
  add('isEval', function isEval() { return false; });
  add('isAsync', function isAsync() { return false; });
  add('isPromiseAll', function isPromiseAll() { return false; });
  hidden(proto, 'toString', function toString() { return frameText(this, getFrom(makers, this)); });
}
