// The end of a program that nothing catches: Node's text on standard error, a message to the host, status 1.
import { native } from './native.js';
import { inspect } from './inspect/index.js';
import { coded } from './node/errors.js';
import { lineOf, originalOf } from './engine/sources.js';
import { forgetThrown, makerOf, originOf, placeOf, sitesOf, throwSiteOf } from './engine/stacks.js';
import * as processPart from './process.js';
import { isNativeError } from './inspect/types.js';

const { process } = processPart;

// Most text that is sent; what is printed is not cut.
const MOST = 64 << 10;

let mainFile;
export const setMain = (file) => {
  mainFile = file;
};

const isError = (value) => isNativeError(value) || value instanceof Error;

// The line where it happened and a caret below, as Node shows them.
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

function describe(error, fromPromise) {
  const before = excerpt(error, fromPromise);
  if (isError(error)) {
    let shown;
    try {
      shown = inspect(error, { colors: false });
      // What has no frames to show is not put in brackets here.
      const { stack } = error;
      if (typeof stack === 'string' && shown.startsWith(`[${stack}]`)) shown = stack + shown.slice(stack.length + 2);
    } catch {
      shown = `${error.stack ?? error}`;
    }
    return before === '' ? shown : `${before}\n${shown}`;
  }
  let shown;
  try {
    shown = typeof error === 'string' ? error : inspect(error);
  } catch {
    shown = 'a value that cannot be shown';
  }
  const hint = error === null || (typeof error !== 'object' && typeof error !== 'function');
  return `${before === '' ? 'Uncaught ' : before}${shown}${hint ? '\n(Use `node --trace-uncaught ...` to show where the exception was thrown)' : ''}`;
}

function tell(error, text) {
  let name = 'Error';
  let value = '';
  let line = null;
  try {
    if (isError(error)) {
      name = `${error.name}`;
      value = `${error.message}`;
    } else {
      name = typeof error === 'object' && error !== null ? error.constructor?.name ?? 'Object' : typeof error;
      value = typeof error === 'string' ? error : inspect(error);
    }
    for (const site of isError(error) ? sitesOf(error) : []) {
      const place = site.isNative() ? undefined : placeOf(site, site === originOf(error) ? makerOf(error) : undefined);
      if (place && place.file === mainFile && place.line > 0) {
        line = place.line;
        break;
      }
    }
  } catch {
    // What a program's own getters throw is not the error that ended it.
  }
  native.host(JSON.stringify({ op: 'error', name: name.slice(0, MOST), value: value.slice(0, MOST), traceback: text.slice(-MOST), line }));
}

let failing = false;

export function end(error, fromPromise = false) {
  if (failing) native.exit(7);
  failing = true;
  const text = describe(error, fromPromise);
  native.write(2, `${text}\n`);
  tell(error, text);
  failing = false;
  process.exitCode = 1;
  let status = 1;
  try {
    status = processPart.emitExit();
  } catch (second) {
    native.write(2, `${describe(second, false)}\n`);
    status = 7;
  }
  native.exit(status === 0 ? 1 : status);
}

export function uncaught(error, origin = 'uncaughtException') {
  if (typeof processPart.captureCallback === 'function') {
    processPart.captureCallback(error);
    return;
  }
  process.emit('uncaughtExceptionMonitor', error, origin);
  if (process.listenerCount('uncaughtException') > 0) {
    process.emit('uncaughtException', error, origin);
    return;
  }
  end(error, origin === 'unhandledRejection');
}

export function unhandled(promise, reason) {
  if (process.listenerCount('unhandledRejection') > 0) {
    process.emit('unhandledRejection', reason, promise);
    return;
  }
  if (isError(reason)) {
    uncaught(reason, 'unhandledRejection');
    return;
  }
  const shown = inspect(reason);
  const error = coded(
    Error,
    'ERR_UNHANDLED_REJECTION',
    'This error originated either by throwing inside of an async function without a catch block, or by rejecting a promise which was not handled with .catch(). ' +
      `The promise rejected with the reason "${typeof reason === 'string' ? reason : shown}".`,
  );
  error.stack = `UnhandledPromiseRejection: ${error.message}`;
  Object.defineProperty(error, 'name', { value: 'UnhandledPromiseRejection', enumerable: false, configurable: true, writable: true });
  uncaught(error, 'unhandledRejection');
}

export const handledLater = (promise) => process.emit('rejectionHandled', promise);
export const begin = () => {
  forgetThrown();
  failing = false;
};
