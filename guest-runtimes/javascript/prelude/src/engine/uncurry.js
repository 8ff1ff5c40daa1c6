// Keeps the parts of the language that the prelude uses, even if programs change the globals.
const { call } = Function.prototype;

export const uncurry = (method) => call.bind(method);

export const { defineProperty, getOwnPropertyDescriptor, getPrototypeOf } = Object;

// Adds a property like a built-in one: writable, configurable, not enumerable.
export function hidden(target, name, value) {
  defineProperty(target, name, { __proto__: null, value, writable: true, configurable: true, enumerable: false });
  return value;
}

export function getter(target, name, get, enumerable = true) {
  defineProperty(target, name, { __proto__: null, get, enumerable, configurable: true });
}

// Returns a collection class that finds its methods where no program can change them.
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
