// Name and message of an error, as far as they can be read.
import { getPrototypeOf } from './uncurry.js';

// A conversion by String: template literals call String.prototype.concat in this engine.
const textually = String;

// Returns the built-in name of the error's class, even if the program has changed `name`.
function kindOf(error) {
  try {
    for (let proto = getPrototypeOf(error); proto !== null; proto = getPrototypeOf(proto)) {
      for (let i = 0; i < NATIVE.length; i++) if (NATIVE[i].prototype === proto) return NATIVE[i].name;
    }
  } catch {
    // The chain contains a proxy.
  }
  return 'Error';
}
class Native {
  constructor(type) {
    this.name = type.name;
    this.prototype = type.prototype;
  }
}
const NATIVE = [Error, TypeError, RangeError, SyntaxError, ReferenceError, EvalError, URIError, AggregateError].map((type) => new Native(type));

export function titleOf(error) {
  try {
    const { name } = error;
    return name === undefined ? 'Error' : textually(name);
  } catch {
    return kindOf(error);
  }
}
export function messageOf(error) {
  try {
    const { message } = error;
    return message === undefined ? '' : textually(message);
  } catch {
    return '';
  }
}

export function headerOf(error) {
  const name = titleOf(error);
  const message = messageOf(error);
  if (name === '') return message;
  return message === '' ? name : name + ': ' + message;
}

export function isNativePrototype(proto) {
  for (let i = 0; i < NATIVE.length; i++) if (NATIVE[i].prototype === proto) return true;
  return false;
}
