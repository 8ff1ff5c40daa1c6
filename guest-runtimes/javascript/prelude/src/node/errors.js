// Errors of Node's own modules, which have a code that the first line of their stack shows.
import { setHeader } from '../engine/stacks.js';
import { headerOf } from '../engine/titles.js';
import { hidden } from '../engine/uncurry.js';

export function coded(Base, code, message) {
  const error = new Base(message);
  error.code = code;
  hidden(error, 'toString', function toString() {
    return `${this.name} [${code}]: ${this.message}`;
  });
  setHeader(error, `${error.name} [${code}]: ${message}`);
  return error;
}

let inspectValue = (value) => String(value);
export const useInspect = (inspect) => {
  inspectValue = inspect;
};

// Describes a wrong argument in the words of Node's messages.
export function received(value) {
  if (value === null || value === undefined) return ` Received ${value}`;
  if (typeof value === 'function') return ` Received function ${value.name}`;
  if (typeof value === 'object') {
    if (value.constructor?.name) return ` Received an instance of ${value.constructor.name}`;
    return ` Received ${inspectValue(value, { depth: -1 })}`;
  }
  let shown = inspectValue(value, { colors: false });
  if (shown.length > 28) shown = `${shown.slice(0, 25)}...`;
  return ` Received type ${typeof value} (${shown})`;
}

const PLAIN = new Set(['string', 'function', 'number', 'object', 'Function', 'Object', 'boolean', 'bigint', 'symbol']);

const either = (list) => (list.length > 2 ? `${list.slice(0, -1).join(', ')}, or ${list[list.length - 1]}` : list.join(' or '));

export function invalidArgType(name, expected, value) {
  if (!Array.isArray(expected)) expected = [expected];
  const subject = name.endsWith(' argument') ? `The ${name}` : `The "${name}" ${name.includes('.') ? 'property' : 'argument'}`;
  const types = [];
  const instances = [];
  const other = [];
  for (const item of expected) {
    if (PLAIN.has(item)) types.push(item.toLowerCase());
    else if (/^[A-Z]/.test(item)) instances.push(item);
    else other.push(item);
  }
  if (instances.length > 0) {
    const at = types.indexOf('object');
    if (at >= 0) {
      types.splice(at, 1);
      instances.push('Object');
    }
  }
  let text = `${subject} must be `;
  if (types.length > 0) {
    text += `${types.length > 1 ? 'one of type' : 'of type'} ${either(types)}`;
    if (instances.length > 0 || other.length > 0) text += ' or ';
  }
  if (instances.length > 0) {
    text += `an instance of ${either(instances)}`;
    if (other.length > 0) text += ' or ';
  }
  if (other.length > 0) text += other.length > 1 ? `one of ${either(other)}` : `${other[0].toLowerCase() !== other[0] ? 'an ' : ''}${other[0]}`;
  return coded(TypeError, 'ERR_INVALID_ARG_TYPE', `${text}.${received(value)}`);
}

export function invalidArgValue(name, value, reason = 'is invalid') {
  let shown = inspectValue(value);
  if (shown.length > 128) shown = `${shown.slice(0, 128)}...`;
  return coded(TypeError, 'ERR_INVALID_ARG_VALUE', `The ${name.includes('.') ? 'property' : 'argument'} '${name}' ${reason}. Received ${shown}`);
}

const grouped = (digits) => digits.replace(/\B(?=(\d{3})+(?!\d))/g, '_');

export function outOfRange(name, range, value) {
  let shown;
  if (Number.isInteger(value) && Math.abs(value) > 2 ** 32) shown = grouped(String(value));
  else if (typeof value === 'bigint') shown = `${value > 2n ** 32n || value < -(2n ** 32n) ? grouped(String(value)) : value}n`;
  else shown = inspectValue(value);
  return coded(RangeError, 'ERR_OUT_OF_RANGE', `The value of "${name}" is out of range. It must be ${range}. Received ${shown}`);
}

export function validateString(value, name) {
  if (typeof value !== 'string') throw invalidArgType(name, 'string', value);
}

export function validateFunction(value, name) {
  if (typeof value !== 'function') throw invalidArgType(name, 'Function', value);
}

export function validateObject(value, name) {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) throw invalidArgType(name, 'Object', value);
}

export function validateNumber(value, name, min, max) {
  if (typeof value !== 'number') throw invalidArgType(name, 'number', value);
  if ((min !== undefined && value < min) || (max !== undefined && value > max) || Number.isNaN(value)) {
    throw outOfRange(name, `${min !== undefined ? `>= ${min}` : ''}${min !== undefined && max !== undefined ? ' && ' : ''}${max !== undefined ? `<= ${max}` : ''}`, value);
  }
}

export function validateInteger(value, name, min = Number.MIN_SAFE_INTEGER, max = Number.MAX_SAFE_INTEGER) {
  if (typeof value !== 'number') throw invalidArgType(name, 'number', value);
  if (!Number.isInteger(value)) throw outOfRange(name, 'an integer', value);
  if (value < min || value > max) throw outOfRange(name, `>= ${min} && <= ${max}`, value);
}

export function validateAbortSignal(signal, name) {
  if (signal !== undefined && (signal === null || typeof signal !== 'object' || !('aborted' in signal))) {
    throw invalidArgType(name, 'AbortSignal', signal);
  }
}

export class AbortError extends Error {
  constructor(message = 'The operation was aborted', options) {
    super(message, options);
    this.code = 'ABORT_ERR';
    this.name = 'AbortError';
    setHeader(this, headerOf(this));
  }
}

// Returns the error of a failed system operation: `ENOENT: no such file or directory, open 'x'`.
export function systemError(from, syscall, path, dest) {
  const reason = /^[A-Z0-9]+: ([^,]*)/.exec(from.message)?.[1] ?? from.message;
  let message = `${from.code}: ${reason}, ${syscall}`;
  if (path !== undefined) message += ` '${path}'`;
  if (dest !== undefined) message += ` -> '${dest}'`;
  const error = new Error(message);
  error.errno = from.errno;
  error.code = from.code;
  error.syscall = syscall;
  if (path !== undefined) error.path = path;
  if (dest !== undefined) error.dest = dest;
  return error;
}
