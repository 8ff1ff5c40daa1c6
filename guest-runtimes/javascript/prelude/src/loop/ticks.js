// process.nextTick and queueMicrotask.
import * as context from '../engine/context.js';
import { uncurry } from '../engine/uncurry.js';
import { validateFunction } from '../node/errors.js';

const push = uncurry(Array.prototype.push);
const splice = uncurry(Array.prototype.splice);
const { apply } = Reflect;

let queue = [];
let head = 0;
let promisesFirst = false;

// Makes promises run before the first ticks, since ES modules are evaluated inside a promise job.
export function runPromisesFirst() {
  promisesFirst = true;
}

export function nextTick(callback, ...args) {
  validateFunction(callback, 'callback');
  push(queue, callback, args.length === 0 ? undefined : args, context.current);
}

// Runs the pending ticks. Returns true if there were any.
export function ticks() {
  if (promisesFirst) {
    promisesFirst = false;
    return true;
  }
  if (queue.length === 0) return false;
  try {
    while (head < queue.length) {
      const callback = queue[head];
      const args = queue[head + 1];
      const stores = queue[head + 2];
      head += 3;
      if (head > 3000) {
        splice(queue, 0, head);
        head = 0;
      }
      context.setCurrent(stores);
      if (args === undefined) callback();
      else apply(callback, undefined, args);
    }
  } finally {
    context.setCurrent(undefined);
    if (head >= queue.length) {
      queue = [];
      head = 0;
    }
  }
  return true;
}

const resolved = Promise.resolve();
const then = uncurry(Promise.prototype.then);
let uncaught = (error) => {
  throw error;
};
export const onUncaught = (fn) => {
  uncaught = fn;
};

export function queueMicrotask(callback) {
  validateFunction(callback, 'callback');
  const stores = context.current;
  then(resolved, () => {
    try {
      if (stores === undefined) callback();
      else context.runWith(stores, callback);
    } catch (error) {
      uncaught(error);
    }
  });
}
