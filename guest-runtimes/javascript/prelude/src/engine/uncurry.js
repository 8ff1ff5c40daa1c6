// Keeps what the prelude uses of the language, whatever programs do to the globals.
const { call } = Function.prototype;

export const uncurry = (method) => call.bind(method);

export const { defineProperty, getOwnPropertyDescriptor, getPrototypeOf } = Object;

// Adds a property as built-in ones are: writable, configurable, not listed.
export function hidden(target, name, value) {
  defineProperty(target, name, { __proto__: null, value, writable: true, configurable: true, enumerable: false });
  return value;
}

export function getter(target, name, get, enumerable = true) {
  defineProperty(target, name, { __proto__: null, get, enumerable, configurable: true });
}
