// node:timers and node:timers/promises.
import * as timers from '../loop/timers.js';
import { AbortError, invalidArgType, validateAbortSignal } from './errors.js';

const kPromisify = Symbol.for('nodejs.util.promisify.custom');

function cancellable(start, stop, options, value) {
  if (options !== undefined && (options === null || typeof options !== 'object')) return Promise.reject(invalidArgType('options', 'Object', options));
  const { signal, ref = true } = options ?? {};
  try {
    validateAbortSignal(signal, 'options.signal');
  } catch (error) {
    return Promise.reject(error);
  }
  if (signal?.aborted) return Promise.reject(new AbortError(undefined, { cause: signal.reason }));
  return new Promise((resolve, reject) => {
    const onAbort = () => {
      stop(handle);
      reject(new AbortError(undefined, { cause: signal.reason }));
    };
    const handle = start(() => {
      signal?.removeEventListener('abort', onAbort);
      resolve(value);
    });
    if (!ref) handle.unref();
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}

const setTimeoutPromise = (delay, value, options) => cancellable((fn) => timers.setTimeout(fn, delay), timers.clearTimeout, options, value);
const setImmediatePromise = (value, options) => cancellable((fn) => timers.setImmediate(fn), timers.clearImmediate, options, value);

async function* setIntervalPromise(delay, value, options = {}) {
  const { signal, ref = true } = options;
  if (signal?.aborted) throw new AbortError(undefined, { cause: signal.reason });
  let due = 0;
  let wake;
  let failed;
  const handle = timers.setInterval(() => {
    due++;
    wake?.();
  }, delay);
  if (!ref) handle.unref();
  const onAbort = () => {
    failed = new AbortError(undefined, { cause: signal.reason });
    timers.clearInterval(handle);
    wake?.();
  };
  signal?.addEventListener('abort', onAbort, { once: true });
  try {
    for (;;) {
      if (failed) throw failed;
      if (due === 0) {
        await new Promise((resolve) => {
          wake = resolve;
        });
        wake = undefined;
      }
      for (; due > 0; due--) yield value;
    }
  } finally {
    timers.clearInterval(handle);
    signal?.removeEventListener('abort', onAbort);
  }
}

Object.defineProperty(timers.setTimeout, kPromisify, { value: setTimeoutPromise, enumerable: false });
Object.defineProperty(timers.setImmediate, kPromisify, { value: setImmediatePromise, enumerable: false });
for (const [fn, name] of [[setTimeoutPromise, 'setTimeout'], [setImmediatePromise, 'setImmediate'], [setIntervalPromise, 'setInterval']]) {
  Object.defineProperty(fn, 'name', { value: name, configurable: true });
}

export const promises = {
  setTimeout: setTimeoutPromise, setImmediate: setImmediatePromise, setInterval: setIntervalPromise,
  scheduler: { wait: (delay, options) => setTimeoutPromise(delay, undefined, options), yield: () => setImmediatePromise() },
};

const { setTimeout, clearTimeout, setImmediate, clearImmediate, setInterval, clearInterval } = timers;
export default { setTimeout, clearTimeout, setImmediate, clearImmediate, setInterval, clearInterval, promises };
