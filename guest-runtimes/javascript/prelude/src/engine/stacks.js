// Error stacks in V8's format: headed by the error's name and message, without frames of the prelude, in the positions of the
// text that was written. The engine gives call sites when an error is made; text is made of them when somebody looks.
import { native } from '../native.js';
import { defineProperty, getOwnPropertyDescriptor, hidden } from './uncurry.js';
import { retell } from './messages.js';
import { nameOfBuiltin } from './builtins.js';
import { callAround, startOfChain } from './callees.js';
import { offsetOf, positionOf, textOf as sourceText } from './sources.js';
import { originalPosition } from './sourcemaps.js';

const engineCapture = Error.captureStackTrace;

// More frames than are shown, as some are the prelude's own.
const SPARE = 8;

let limit = 10;

class Trace {
  constructor(sites, prepare) {
    // Made when somebody looks, unless it was given: names and messages are often set after the error was made.
    this.header = undefined;
    this.sites = sites;
    this.prepare = prepare;
    this.text = undefined;
  }
}

export function headerOf(error) {
  let name, message;
  try {
    name = error.name;
    name = name === undefined ? 'Error' : `${name}`;
    message = error.message;
    message = message === undefined ? '' : `${message}`;
  } catch {
    return 'Error';
  }
  if (name === '') return message;
  return message === '' ? name : `${name}: ${message}`;
}

const isOurs = (file) => typeof file === 'string' && (file.startsWith('codebox:') || file.startsWith('node:'));

// Built-in functions are shown where the program called them.
function shown(site, at, sites) {
  if (!site.isNative()) return !isOurs(site.getFileName());
  if (nameOfBuiltin(site.getFunction()) === undefined) return false;
  for (let i = at + 1; i < sites.length; i++) if (!sites[i].isNative()) return !isOurs(sites[i].getFileName());
  return false;
}

// What modules are called in stacks: ES modules by their URL, everything else by its path.
const urls = new Set();
export const showAsUrl = (file) => urls.add(file);
const shownFile = (file) => (urls.has(file) ? `file://${file}` : file);

const wrappers = new WeakSet();
export const isModuleWrapper = (fn) => wrappers.add(fn);

// Where the call is that a site is in the middle of: V8 shows where `new` stands, the engine where the class or its last argument does.
function newBefore(file, line, column, maker) {
  const text = sourceText(file);
  const at = text === undefined ? -1 : offsetOf(text, line, column);
  if (at < 0) return [line, column];
  if (text.slice(at - 4, at) === 'new ') return [line, column - 4];
  if (maker === undefined) return [line, column];
  for (let open = callAround(text, at), tries = 0; open >= 0 && tries < 5; open = callAround(text, open), tries++) {
    const start = startOfChain(text, open);
    const name = text.slice(start, open).trimEnd();
    if (name !== maker && !name.endsWith(`.${maker}`)) continue;
    const before = /\bnew\s+$/.exec(text.slice(Math.max(0, start - 12), start));
    return positionOf(text, before ? start - before[0].length : start, line);
  }
  return [line, column];
}

// `maker` is the class of the error that was made there, if it was.
export function placeOf(site, maker) {
  const file = site.getFileName();
  if (!file) return undefined;
  const [line, column] = originalPosition(file, ...newBefore(file, site.getLineNumber(), site.getColumnNumber(), maker));
  return { file, shown: shownFile(file), line, column };
}

// The name by which an error was made.
export function makerOf(error) {
  try {
    const name = error.constructor?.name;
    return typeof name === 'string' && name !== '' ? name : undefined;
  } catch {
    return undefined;
  }
}

export function frameText(site, maker) {
  const fn = site.getFunction();
  if (site.isNative()) return `${nameOfBuiltin(fn) ?? site.getFunctionName()} (<anonymous>)`;
  const place = placeOf(site, maker);
  const where = place === undefined ? '<anonymous>' : place.line > 0 ? `${place.shown}:${place.line}:${place.column}` : place.shown;
  if (typeof fn === 'function' && wrappers.has(fn)) return `Object.<anonymous> (${where})`;
  let name = site.getFunctionName();
  if (name === '<eval>' || name === '<anonymous>' || name === '<module>' || name === '<static_initializer>') name = null;
  if (!name) return where;
  return `${site.isConstructor() ? 'new ' : ''}${name} (${where})`;
}

function textOf(trace, error) {
  if (trace.text !== undefined) return trace.text;
  if (typeof trace.prepare === 'function') {
    const sites = trace.sites.filter(shown);
    trace.text = '';
    trace.text = trace.prepare.call(Error, error, sites.slice(0, limit));
  } else {
    let text = trace.header ?? headerOf(error);
    let count = 0;
    for (const site of trace.sites.filter(shown)) {
      if (count++ >= limit) break;
      text += `\n    at ${frameText(site, count === 1 ? makerOf(error) : undefined)}`;
    }
    trace.text = text;
  }
  return trace.text;
}

// Gives an error that the host found the place in the program where it found it.
export function placed(error, file, line, column) {
  const site = {
    isNative: () => false,
    isConstructor: () => false,
    getFunction: () => undefined,
    getFunctionName: () => null,
    getFileName: () => file,
    getLineNumber: () => line,
    getColumnNumber: () => column,
  };
  const trace = new Trace(line === undefined ? [] : [site], undefined);
  trace.origin = trace.sites[0];
  traces.set(error, trace);
  return error;
}

// The place where an error arose: the first call site that is the program's.
export function originOf(error) {
  const trace = traceOf(error);
  return trace?.origin;
}

export const sitesOf = (error) => traceOf(error)?.sites ?? [];

// An error's `stack` is its own property, as in V8; what it is made of stays here.
const traces = new WeakMap();
function traceOf(error) {
  if (error === null || (typeof error !== 'object' && typeof error !== 'function')) return undefined;
  return traces.get(error);
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

// Where something was last thrown that was made elsewhere, or that is no error.
let thrown;
export const throwSiteOf = (value) => (thrown !== undefined && Object.is(thrown.value, value) ? thrown.site : undefined);
export const forgetThrown = () => {
  thrown = undefined;
};

const firstOfProgram = (sites) => sites.find((site) => !site.isNative() && !isOurs(site.getFileName()));

// A class of errors does not show its own constructor.
function withoutMaker(error, sites) {
  const proto = Object.getPrototypeOf(error);
  if (NATIVE_PROTOTYPES.has(proto)) return sites;
  for (let i = 0; i < sites.length && i < 8 && sites[i].isConstructor(); i++) {
    if (sites[i].getFunction()?.prototype === proto) return sites.slice(i + 1);
  }
  return sites;
}
const NATIVE_PROTOTYPES = new Set([Error, TypeError, RangeError, SyntaxError, ReferenceError, EvalError, URIError, AggregateError].map((type) => type.prototype));

// Called by the engine when an error is made, and again wherever one passes a handler and is thrown on.
function prepare(error, sites) {
  if (capturing) {
    const trace = new Trace(sites, userPrepare);
    trace.origin = firstOfProgram(sites);
    return trace;
  }
  const kind = native.classOf(error);
  if (kind === 'Error' ? traces.has(error) : kind !== 'DOMException') {
    if (sites.length > 0 && !sites[0].isNative() && !isOurs(sites[0].getFileName())) thrown = { value: error, site: sites[0] };
    return '';
  }
  if (kind === 'Error') {
    retell(error, sites);
    sites = withoutMaker(error, sites);
  }
  const trace = new Trace(sites, userPrepare);
  if (kind !== 'Error') return textOf(trace, error);
  trace.origin = firstOfProgram(sites);
  traces.set(error, trace);
  defineProperty(error, 'stack', accessor);
  return '';
}

// Gives an error another first line, as Node's own errors have with their code.
export function retitle(error, header) {
  const trace = traceOf(error);
  if (trace) {
    trace.header = header;
    if (trace.text !== undefined && typeof trace.prepare !== 'function') {
      const rest = trace.text.indexOf('\n    at ');
      trace.text = header + (rest < 0 ? '' : trace.text.slice(rest));
    }
  }
  return error;
}

let userPrepare;
let capturing = false;

function captureStackTrace(target, below) {
  if (target === null || typeof target !== 'object' && typeof target !== 'function') {
    throw new TypeError('Invalid argument');
  }
  // A carrier takes the sites, so that the target's own class does not matter.
  const carrier = {};
  capturing = true;
  try {
    engineCapture(carrier, typeof below === 'function' ? below : captureStackTrace);
  } finally {
    capturing = false;
  }
  const raw = carrier.stack;
  const trace = new Trace(raw?.sites ?? [], userPrepare);
  trace.origin = raw?.origin;
  traces.set(target, trace);
  defineProperty(target, 'stack', accessor);
}

export function install() {
  hidden(Error, 'captureStackTrace', captureStackTrace);
  const engineLimit = getOwnPropertyDescriptor(Error, 'stackTraceLimit').set;
  const enginePrepare = getOwnPropertyDescriptor(Error, 'prepareStackTrace').set;
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
    get: () => userPrepare,
    set(value) {
      userPrepare = value;
    },
    configurable: true,
    enumerable: false,
  });
  defineProperty(Error.prototype, 'stack', { __proto__: null, get: readStack, set: writeStack, configurable: true, enumerable: false });
  widenCallSites();
}

// The methods of V8's call sites that the engine's lack.
function widenCallSites() {
  let site;
  const before = userPrepare;
  userPrepare = undefined;
  const carrier = new Error();
  site = traceOf(carrier)?.sites?.[0];
  userPrepare = before;
  if (!site) return;
  const proto = Object.getPrototypeOf(site);
  const add = (name, value) => name in proto || hidden(proto, name, value);
  const line = proto.getLineNumber;
  const file = proto.getFileName;
  const column = proto.getColumnNumber;
  const place = (of) => originalPosition(file.call(of), line.call(of), column.call(of));
  add('getThis', function getThis() { return undefined; });
  add('getTypeName', function getTypeName() { return 'Object'; });
  add('getMethodName', function getMethodName() { return null; });
  add('getEvalOrigin', function getEvalOrigin() { return undefined; });
  add('getScriptNameOrSourceURL', function getScriptNameOrSourceURL() { return file.call(this); });
  add('getScriptHash', function getScriptHash() { return ''; });
  add('getEnclosingLineNumber', function getEnclosingLineNumber() { return place(this)[0]; });
  add('getEnclosingColumnNumber', function getEnclosingColumnNumber() { return place(this)[1]; });
  add('getPromiseIndex', function getPromiseIndex() { return null; });
  add('getPosition', function getPosition() { return 0; });
  add('isToplevel', function isToplevel() { return true; });
  add('isEval', function isEval() { return false; });
  add('isAsync', function isAsync() { return false; });
  add('isPromiseAll', function isPromiseAll() { return false; });
  hidden(proto, 'toString', function toString() { return frameText(this); });
}
