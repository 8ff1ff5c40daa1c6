// Node's own modules by name. Those that most programs use are created with the image, the others on first use.
import { coded } from '../node/errors.js';
import { complete } from '../node/absent.js';
import { SafeMap, SafeSet } from '../engine/uncurry.js';

const made = new SafeMap();
const makers = new SafeMap();
export function define(name, make) {
  makers.set(name, make);
}

// Modules whose name needs the scheme.
const SCHEME_ONLY = new SafeSet(['test']);

export const isBuiltin = (specifier) =>
  typeof specifier === 'string' && (specifier.startsWith('node:') ? makers.has(specifier.slice(5)) : makers.has(specifier) && !SCHEME_ONLY.has(specifier));

export const nameOf = (specifier) => (specifier.startsWith('node:') ? specifier.slice(5) : specifier);

// Names to restore: the bundler adds a number to a name that is already in use.
const INNER = new SafeSet(['posix', 'win32', 'promises', 'strict', 'types']);
function tidy(exports, depth = 0) {
  for (const key of Object.keys(exports)) {
    const value = Object.getOwnPropertyDescriptor(exports, key)?.value;
    if (typeof value === 'function' && value.name !== key && value.name.replace(/^_|\d+$/g, '') === key) {
      Object.defineProperty(value, 'name', { value: key, configurable: true });
    }
    if (depth === 0 && INNER.has(key) && value !== null && typeof value === 'object') tidy(value, 1);
  }
}

export function builtin(name) {
  if (made.has(name)) return made.get(name);
  const make = makers.get(name);
  if (make === undefined) throw coded(Error, 'ERR_UNKNOWN_BUILTIN_MODULE', `No such built-in module: node:${name}`);
  const exports = make();
  complete(name, exports);
  tidy(exports);
  made.set(name, exports);
  return exports;
}

// Name of the module `codebox`, which a program finds if it has no package of this name.
export const CODEBOX = 'codebox:host';

export const builtinNames = () => [...makers.keys()].filter((name) => name !== CODEBOX).map((name) => (SCHEME_ONLY.has(name) ? `node:${name}` : name)).sort();

const namespaces = new SafeMap();
// Returns the namespace that an import of a built-in module gives. A module that is created with the image has its
// names created with it.
export function namespaceOf(name) {
  let found = namespaces.get(name);
  if (found === undefined) {
    const exports = builtin(name);
    found = { names: ['default', ...Object.keys(exports).filter((key) => key !== 'default')], exports };
    namespaces.set(name, found);
  }
  return found;
}
