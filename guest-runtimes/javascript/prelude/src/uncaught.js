// The end of a program by an uncaught error: Node's text on standard error, a message to the host, status 1. It works
// whatever the program has changed of the built-ins and whatever value it throws.
import { native } from './native.js';
import { inspect } from './inspect/index.js';
import { coded } from './node/errors.js';
import { lineOf, originalOf } from './engine/sources.js';
import { makerOf, placeOf } from './engine/frames.js';
import { forgetThrown, originOf, sitesOf, throwSiteOf } from './engine/stacks.js';
import { headerOf, messageOf, titleOf } from './engine/titles.js';
import { isNative } from './engine/sites.js';
import { defineProperty, uncurry } from './engine/uncurry.js';
import { withFallback } from './engine/pristine.js';
import { globalOf, missingFeatureOf, reportMissing } from './missing.js';
import * as processPart from './process.js';

const { process } = processPart;
const { stringify } = JSON;
const { apply } = Reflect;
const { Error, String } = globalThis;
const slice = uncurry(String.prototype.slice);

// Most characters of a text that are sent to the host; printed text is not truncated.
const MOST = 64 << 10;

let mainFile;
export const setMain = (file) => {
  mainFile = file;
};

function isError(value) {
  const kind = native.classOf(value);
  if (kind === 'Error') return true;
  try {
    return kind !== 'Proxy' && value instanceof Error;
  } catch {
    return false;
  }
}

const isObject = (value) => value !== null && (typeof value === 'object' || typeof value === 'function');

// Returns the line of the error with a caret below it, as Node shows them.
function excerpt(error, fromPromise) {
  const site = throwSiteOf(error) ?? (isError(error) ? originOf(error) : undefined);
  const place = site && placeOf(site, throwSiteOf(error) ? undefined : makerOf(error));
  if (!place || !(place.line > 0)) return '';
  const text = originalOf(place.file);
  const line = text === undefined ? undefined : lineOf(text, place.line);
  if (line === undefined || line.length > 4096) return `${place.shown}:${place.line}\n`;
  let at = Math.max(0, Math.min(place.column - 1, line.length));
  const before = fromPromise ? -1 : line.slice(0, at + 1).lastIndexOf('throw');
  if (before >= 0) at = before;
  return `${place.shown}:${place.line}\n${line}\n${line.slice(0, at).replace(/[^\t]/g, ' ')}^\n`;
}

const HINT = '\n(Use `node --trace-uncaught ...` to show where the exception was thrown)';

function describe(error, fromPromise) {
  const before = excerpt(error, fromPromise);
  let shown;
  if (isError(error)) {
    try {
      shown = inspect(error, { colors: false });
      // Here, an error without frames is not put in brackets.
      const { stack } = error;
      if (typeof stack === 'string' && shown.startsWith(`[${stack}]`)) shown = stack + shown.slice(stack.length + 2);
    } catch {
      shown = headerOf(error);
    }
    return before === '' ? shown : `${before}\n${shown}`;
  }
  try {
    shown = typeof error === 'string' ? error : inspect(error);
  } catch {
    shown = 'a value that cannot be shown';
  }
  return `${before === '' ? 'Uncaught ' : before}${shown}${isObject(error) ? '' : HINT}`;
}

// Describes an error by operations that cannot fail.
function describeSafely(error) {
  if (isError(error)) return headerOf(error);
  return 'Uncaught ' + valueOf(error);
}

function valueOf(error) {
  if (typeof error === 'string') return error;
  if (isObject(error)) return 'a value that cannot be shown';
  // String accepts symbols as well.
  return String(error);
}

function describeValue(error) {
  if (isError(error)) return { __proto__: null, name: titleOf(error), value: messageOf(error) };
  let name = typeof error;
  if (isObject(error)) {
    name = 'Object';
    try {
      const maker = error.constructor?.name;
      if (typeof maker === 'string') name = maker;
    } catch {
      // The name cannot be read.
    }
  }
  return { __proto__: null, name, value: withFallback(() => (typeof error === 'string' ? error : inspect(error)), () => valueOf(error)) };
}

function lineInMain(error) {
  const thrown = throwSiteOf(error);
  const sites = isError(error) ? sitesOf(error) : thrown ? [thrown] : [];
  for (let i = 0; i < sites.length; i++) {
    if (isNative(sites[i])) continue;
    const place = placeOf(sites[i], sites[i] === originOf(error) ? makerOf(error) : undefined);
    if (place && place.file === mainFile && place.line > 0) return place.line;
  }
  return null;
}

function reportError(error, text) {
  const { name, value } = describeValue(error);
  const lack = missingFeatureOf(error) ?? (name === 'ReferenceError' ? globalOf(value) : undefined);
  if (lack !== undefined) reportMissing(lack);
  const line = withFallback(() => lineInMain(error), () => null);
  native.host(stringify({ __proto__: null, op: 'error', name: slice(name, 0, MOST), value: slice(value, 0, MOST), traceback: slice(text, -MOST), line }));
}

let failing = false;

function show(error, fromPromise) {
  if (failing) native.exit(7);
  failing = true;
  const text = withFallback(() => describe(error, fromPromise), () => describeSafely(error));
  try {
    native.write(2, text + '\n');
  } catch {
    // Standard error may be closed; the host gets the report nevertheless.
  }
  reportError(error, text);
  failing = false;
}

export function end(error, fromPromise = false) {
  show(error, fromPromise);
  const status = processPart.emitFailed();
  native.exit(status === 0 ? 1 : status);
}

// Ends the program after an error in a listener for errors.
function failed(error) {
  show(error, false);
  native.exit(7);
}

// Node finds listeners with `emit`, even if the program has replaced it.
function emitToListeners(name, first, second) {
  const { emit } = process;
  return typeof emit === 'function' && apply(emit, process, [name, first, second]);
}

export function uncaught(error, origin = 'uncaughtException') {
  if (typeof processPart.captureCallback === 'function') {
    processPart.captureCallback(error);
    return;
  }
  let taken = false;
  try {
    emitToListeners('uncaughtExceptionMonitor', error, origin);
    taken = emitToListeners('uncaughtException', error, origin);
  } catch (second) {
    failed(second);
  }
  if (!taken) end(error, origin === 'unhandledRejection');
}

function rejection(reason) {
  const shown = withFallback(() => (typeof reason === 'string' ? reason : inspect(reason)), () => valueOf(reason));
  const error = coded(
    Error,
    'ERR_UNHANDLED_REJECTION',
    'This error originated either by throwing inside of an async function without a catch block, or by rejecting a promise which was not handled with .catch(). ' +
      `The promise rejected with the reason "${shown}".`,
  );
  error.stack = `UnhandledPromiseRejection: ${error.message}`;
  defineProperty(error, 'name', { __proto__: null, value: 'UnhandledPromiseRejection', enumerable: false, configurable: true, writable: true });
  return error;
}

export function unhandled(promise, reason) {
  if (emitToListeners('unhandledRejection', reason, promise)) return;
  uncaught(isError(reason) ? reason : withFallback(() => rejection(reason), () => reason), 'unhandledRejection');
}

export const handledLater = (promise) => emitToListeners('rejectionHandled', promise);
export const begin = () => {
  forgetThrown();
  failing = false;
};
