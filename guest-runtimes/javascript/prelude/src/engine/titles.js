// What an error is called and what it says, as far as it lets anybody look.
import { getPrototypeOf } from './uncurry.js';

// Template literals go through String.prototype.concat in this engine.
const textually = String;

// What the language calls an error of that kind, whatever has become of its name.
function kindOf(error) {
  try {
    for (let proto = getPrototypeOf(error); proto !== null; proto = getPrototypeOf(proto)) {
      for (let i = 0; i < NATIVE.length; i++) if (NATIVE[i].prototype === proto) return NATIVE[i].name;
    }
  } catch {
    // A proxy in the chain.
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
