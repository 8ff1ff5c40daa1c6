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

// A collection that looks its methods up where no program can change them.
function safe(Base) {
  const Safe = class extends Base {};
  const proto = Safe.prototype;
  for (const key of Reflect.ownKeys(Base.prototype)) {
    if (key !== 'constructor') defineProperty(proto, key, { __proto__: null, ...getOwnPropertyDescriptor(Base.prototype, key) });
  }
  return Object.freeze(Object.setPrototypeOf(proto, null)) && Safe;
}
export const SafeMap = safe(Map);
export const SafeSet = safe(Set);
export const SafeWeakMap = safe(WeakMap);
export const SafeWeakSet = safe(WeakSet);
