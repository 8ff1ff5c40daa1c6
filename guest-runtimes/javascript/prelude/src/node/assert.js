// node:assert.
import { inspect } from '../inspect/index.js';
import { isRegExp } from '../inspect/types.js';
import { callText } from '../engine/quote.js';
import { AssertionError } from './assertion-error.js';
import { isDeepEqual, isDeepStrictEqual } from './equal.js';
import { coded, invalidArgType, invalidArgValue, validateFunction } from './errors.js';

function fail(given) {
  if (given.message instanceof Error) throw given.message;
  throw new AssertionError(given);
}

function missing() {
  return coded(TypeError, 'ERR_MISSING_ARGS', 'The "actual" and "expected" arguments must be specified');
}

function innerOk(fn, count, value, message) {
  if (value) return;
  let generated = false;
  if (count === 0) {
    generated = true;
    message = 'No value argument passed to `assert.ok()`';
  } else if (message === undefined || message === null) {
    generated = true;
    const probe = {};
    Error.captureStackTrace(probe, fn);
    const code = callText(probe, /(?:^|\.)(?:assert\w*|ok|strict)\s*$/i);
    message = code === undefined ? 'The expression evaluated to a falsy value' : `The expression evaluated to a falsy value:\n\n  ${code.split('\n').join('\n  ')}\n`;
  } else if (message instanceof Error) throw message;
  const error = new AssertionError({ actual: value, expected: true, message, operator: '==', stackStartFn: fn });
  error.generatedMessage = generated;
  throw error;
}

function assert(...args) {
  innerOk(assert, args.length, ...args);
}

assert.ok = function ok(...args) {
  innerOk(ok, args.length, ...args);
};

assert.fail = function (actual, expected, message, operator, stackStartFn = assert.fail) {
  const count = arguments.length;
  if (actual instanceof Error && count === 1) throw actual;
  if (count <= 1) {
    const error = new AssertionError({ operator: 'fail', message: actual ?? 'Failed', stackStartFn });
    error.generatedMessage = actual === undefined || actual === null;
    throw error;
  }
  if (count === 2) operator = '!=';
  fail({ actual, expected, operator: operator ?? 'fail', message, stackStartFn });
};
Object.defineProperty(assert.fail, 'name', { value: 'fail' });

// Adds an assertion; `test` returns true if it holds.
function comparison(name, operator, test) {
  const fn = {
    [name](actual, expected, message) {
      if (arguments.length < 2) throw missing();
      if (!test(actual, expected)) fail({ actual, expected, message, operator, stackStartFn: fn });
    },
  }[name];
  assert[name] = fn;
}
// The loose comparisons use the language's own operators.
const loosely = new Function('a', 'b', 'return a == b || (a !== a && b !== b)');
comparison('equal', '==', (a, b) => loosely(a, b));
comparison('notEqual', '!=', (a, b) => !loosely(a, b));
comparison('deepEqual', 'deepEqual', isDeepEqual);
comparison('notDeepEqual', 'notDeepEqual', (a, b) => !isDeepEqual(a, b));
comparison('deepStrictEqual', 'deepStrictEqual', isDeepStrictEqual);
comparison('notDeepStrictEqual', 'notDeepStrictEqual', (a, b) => !isDeepStrictEqual(a, b));
comparison('strictEqual', 'strictEqual', Object.is);
comparison('notStrictEqual', 'notStrictEqual', (a, b) => !Object.is(a, b));

function partlyEqual(actual, expected) {
  if (Object.is(actual, expected)) return true;
  if (actual === null || expected === null || typeof actual !== 'object' || typeof expected !== 'object') return false;
  if (Array.isArray(expected)) {
    if (!Array.isArray(actual)) return false;
    let at = 0;
    return expected.every((item) => {
      while (at < actual.length && !partlyEqual(actual[at], item)) at++;
      return at++ < actual.length;
    });
  }
  if (expected instanceof Map) return actual instanceof Map && [...expected].every(([key, value]) => actual.has(key) && partlyEqual(actual.get(key), value));
  if (expected instanceof Set) return actual instanceof Set && [...expected].every((item) => [...actual].some((each) => partlyEqual(each, item)));
  if (Object.getPrototypeOf(expected) !== Object.prototype && Object.getPrototypeOf(expected) !== null) return isDeepStrictEqual(actual, expected);
  return Reflect.ownKeys(expected).every((key) => key in actual && partlyEqual(actual[key], expected[key]));
}
comparison('partialDeepStrictEqual', 'partialDeepStrictEqual', partlyEqual);

class Comparison {
  constructor(from, keys, actual) {
    for (const key of keys) {
      if (!(key in from)) continue;
      if (actual !== undefined && typeof actual[key] === 'string' && isRegExp(from[key]) && from[key].test(actual[key])) this[key] = actual[key];
      else this[key] = from[key];
    }
  }
}

function compareKey(actual, expected, key, message, keys, fn) {
  if (key in actual && isDeepStrictEqual(actual[key], expected[key])) return;
  if (message === undefined) {
    const error = new AssertionError({ actual: new Comparison(actual, keys), expected: new Comparison(expected, keys, actual), operator: 'deepStrictEqual', stackStartFn: fn });
    error.actual = actual;
    error.expected = expected;
    error.operator = fn.name;
    throw error;
  }
  fail({ actual, expected, message, operator: fn.name, stackStartFn: fn });
}

function expectedException(actual, expected, message, fn) {
  let generated = false;
  let failed = false;
  if (typeof expected !== 'function') {
    if (isRegExp(expected)) {
      const text = String(actual);
      if (expected.test(text)) return;
      if (!message) {
        generated = true;
        message = `The input did not match the regular expression ${inspect(expected)}. Input:\n\n${inspect(text)}\n`;
      }
      failed = true;
    } else if (typeof actual !== 'object' || actual === null) {
      const error = new AssertionError({ actual, expected, message, operator: 'deepStrictEqual', stackStartFn: fn });
      error.operator = fn.name;
      throw error;
    } else {
      const keys = Object.keys(expected);
      if (expected instanceof Error) keys.push('name', 'message');
      else if (keys.length === 0) throw invalidArgValue('error', expected, 'may not be an empty object');
      for (const key of keys) {
        if (typeof actual[key] === 'string' && isRegExp(expected[key]) && expected[key].test(actual[key])) continue;
        compareKey(actual, expected, key, message, keys, fn);
      }
      return;
    }
  } else if (expected.prototype !== undefined && actual instanceof expected) return;
  else if (Object.prototype.isPrototypeOf.call(Error, expected) || expected === Error) {
    if (!message) {
      generated = true;
      message = `The error is expected to be an instance of "${expected.name}". Received `;
      if (actual instanceof Error) message += `"${actual.name}"`;
      else message += `"${inspect(actual, { depth: -1 })}"`;
    }
    failed = true;
    if (generated && actual instanceof Error) message += `\n\nError message:\n\n${actual.message}`;
  } else {
    const result = Reflect.apply(expected, {}, [actual]);
    if (result !== true) {
      if (!message) {
        generated = true;
        const name = expected.name ? `"${expected.name}" ` : '';
        message = `The ${name}validation function is expected to return "true". Received ${inspect(result)}`;
        if (actual instanceof Error) message += `\n\nCaught error:\n\n${actual}`;
      }
      failed = true;
    }
  }
  if (!failed) return;
  const error = new AssertionError({ actual, expected, message, operator: fn.name, stackStartFn: fn });
  error.generatedMessage = generated;
  throw error;
}

const NOTHING = Symbol('nothing thrown');

function outcome(fn) {
  validateFunction(fn, 'fn');
  try {
    fn();
  } catch (error) {
    return error;
  }
  return NOTHING;
}

async function laterOutcome(given) {
  let promise;
  if (typeof given === 'function') {
    promise = given();
    if (typeof promise?.then !== 'function') throw coded(TypeError, 'ERR_INVALID_RETURN_VALUE', `Expected instance of Promise to be returned from the "promiseFn" function but got ${typeof promise === 'object' && promise !== null ? `an instance of ${promise.constructor?.name}` : `type ${typeof promise}`}.`);
  } else if (typeof given?.then === 'function') promise = given;
  else throw invalidArgType('promiseFn', ['Function', 'Promise'], given);
  try {
    await promise;
  } catch (error) {
    return error;
  }
  return NOTHING;
}

function expectsError(fn, actual, expected, message, count) {
  if (typeof expected === 'string') {
    if (count === 4) throw invalidArgType('error', ['Object', 'Error', 'Function', 'RegExp'], expected);
    if (typeof actual === 'object' && actual !== null ? actual.message === expected : actual === expected) {
      throw coded(TypeError, 'ERR_AMBIGUOUS_ARGUMENT', `The "error/message" argument is ambiguous. The ${typeof actual === 'object' && actual !== null ? `error message "${actual.message}"` : `error "${actual}"`} is identical to the message.`);
    }
    message = expected;
    expected = undefined;
  } else if (expected !== undefined && expected !== null && typeof expected !== 'object' && typeof expected !== 'function') {
    throw invalidArgType('error', ['Object', 'Error', 'Function', 'RegExp'], expected);
  }
  if (actual === NOTHING) {
    let details = expected?.name ? ` (${expected.name})` : '';
    details += message ? `: ${message}` : '.';
    fail({ actual: undefined, expected, operator: fn.name, message: `Missing expected ${fn.name === 'rejects' ? 'rejection' : 'exception'}${details}`, stackStartFn: fn });
  }
  if (expected) expectedException(actual, expected, message, fn);
}

function expectsNoError(fn, actual, expected, message) {
  if (actual === NOTHING) return;
  if (typeof expected === 'string') {
    message = expected;
    expected = undefined;
  }
  if (!expected || (typeof expected === 'function' && expected.prototype !== undefined && actual instanceof expected) || (isRegExp(expected) && expected.test(String(actual)))) {
    const kind = fn.name === 'doesNotReject' ? 'rejection' : 'exception';
    fail({ actual, expected, operator: fn.name, message: `Got unwanted ${kind}${message ? `: ${message}` : '.'}\nActual message: "${actual?.message}"`, stackStartFn: fn });
  }
  throw actual;
}

assert.throws = function throws(fn, ...args) {
  expectsError(throws, outcome(fn), args[0], args[1], args.length + 2);
};
assert.rejects = async function rejects(promise, ...args) {
  expectsError(rejects, await laterOutcome(promise), args[0], args[1], args.length + 2);
};
assert.doesNotThrow = function doesNotThrow(fn, ...args) {
  expectsNoError(doesNotThrow, outcome(fn), ...args);
};
assert.doesNotReject = async function doesNotReject(promise, ...args) {
  expectsNoError(doesNotReject, await laterOutcome(promise), ...args);
};

assert.ifError = function ifError(error) {
  if (error === null || error === undefined) return;
  let message = 'ifError got unwanted exception: ';
  if (typeof error === 'object' && typeof error.message === 'string') message += error.message.length === 0 && error.constructor ? error.constructor.name : error.message;
  else message += inspect(error);
  const made = new AssertionError({ actual: error, expected: null, operator: 'ifError', message, stackStartFn: ifError });
  made.generatedMessage = true;
  throw made;
};

function matching(name, wanted) {
  const fn = {
    [name](string, regexp, message) {
      if (!isRegExp(regexp)) throw invalidArgType('regexp', 'RegExp', regexp);
      if (typeof string === 'string' && regexp.test(string) === wanted) return;
      if (message instanceof Error) throw message;
      const generated = !message;
      message ||= typeof string !== 'string'
        ? `The "string" argument must be of type string. Received type ${typeof string} (${inspect(string)})`
        : `${wanted ? 'The input did not match the regular expression ' : 'The input was expected to not match the regular expression '}${inspect(regexp)}. Input:\n\n${inspect(string)}\n`;
      const error = new AssertionError({ actual: string, expected: regexp, message, operator: name, stackStartFn: fn });
      error.generatedMessage = generated;
      throw error;
    },
  }[name];
  assert[name] = fn;
}
matching('match', true);
matching('doesNotMatch', false);

assert.AssertionError = AssertionError;
assert.CallTracker = class CallTracker {
  #calls = [];
  calls(fn = () => {}, exact = 1) {
    const record = { count: 0, exact };
    this.#calls.push(record);
    return (...args) => {
      record.count++;
      return fn(...args);
    };
  }
  report() {
    return this.#calls.filter((each) => each.count !== each.exact).map((each) => ({ message: `Expected the function to be executed ${each.exact} time(s) but was executed ${each.count} time(s).`, actual: each.count, expected: each.exact }));
  }
  verify() {
    const errors = this.report();
    if (errors.length > 0) throw new AssertionError({ message: errors.length === 1 ? errors[0].message : 'Functions were not called the expected number of times', details: errors });
  }
};

function strict(...args) {
  innerOk(strict, args.length, ...args);
}
assert.strict = Object.assign(strict, assert, { equal: assert.strictEqual, deepEqual: assert.deepStrictEqual, notEqual: assert.notStrictEqual, notDeepEqual: assert.notDeepStrictEqual });
assert.strict.strict = assert.strict;

export default assert;
