// node:vm with a single context: code runs in that of the program.
import { native } from '../native.js';
import { invalidArgType, validateString } from './errors.js';
import { remember } from '../engine/sources.js';

const nameOf = (options) => (typeof options === 'string' ? options : options?.filename ?? 'evalmachine.<anonymous>');
const contexts = new WeakSet();
// A name that programs do not use.
const kCode = '__code_in_context__';

// Runs code in a context: `with` provides the context's names, and declarations with var and assignments are stored in
// it.
function runIn(code, context, options) {
  const scope = new Proxy(context, {
    has: (_, key) => typeof key !== 'symbol' && key !== kCode,
    get: (target, key) => {
      if (key === Symbol.unscopables) return undefined;
      if (key in target) return target[key];
      if (key === 'globalThis') return context;
      if (LANGUAGE.has(key)) return globalThis[key];
      throw new ReferenceError(`${String(key)} is not defined`);
    },
  });
  const names = [...code.matchAll(/(?:^|[;{}\n])\s*(?:var|function)\s+([A-Za-z_$][\w$]*)/g)].map((found) => found[1]);
  for (const name of names) if (!(name in context)) context[name] = undefined;
  const run = native.compileFunction(`with (${kCode}.scope) { return eval(${kCode}.text); }`, nameOf(options), [kCode]);
  const text = code.replace(/(^|[;{}\n])(\s*)var\s+(?=[A-Za-z_$][\w$]*\s*=)/g, '$1$2').replace(/(^|[;}\n])(\s*)function\s+([A-Za-z_$][\w$]*)\s*\(/g, '$1$2$3 = function $3(');
  return run({ scope, text });
}

const LANGUAGE = new Set([
  'Object', 'Function', 'Array', 'Number', 'parseFloat', 'parseInt', 'Infinity', 'NaN', 'undefined', 'Boolean', 'String', 'Symbol', 'Date', 'Promise', 'RegExp', 'Error',
  'AggregateError', 'EvalError', 'RangeError', 'ReferenceError', 'SyntaxError', 'TypeError', 'URIError', 'JSON', 'Math', 'Intl', 'ArrayBuffer', 'Atomics', 'Uint8Array', 'Int8Array',
  'Uint16Array', 'Int16Array', 'Uint32Array', 'Int32Array', 'Float32Array', 'Float64Array', 'Uint8ClampedArray', 'BigUint64Array', 'BigInt64Array', 'DataView', 'Map', 'BigInt',
  'Set', 'WeakMap', 'WeakSet', 'WeakRef', 'Proxy', 'Reflect', 'FinalizationRegistry', 'decodeURI', 'decodeURIComponent', 'encodeURI', 'encodeURIComponent', 'escape', 'unescape',
  'eval', 'isFinite', 'isNaN', 'SharedArrayBuffer', 'Iterator',
]);

export function createContext(context = {}) {
  if (context === null || typeof context !== 'object') throw invalidArgType('contextObject', 'Object', context);
  contexts.add(context);
  return context;
}
export const isContext = (value) => contexts.has(value);
export const runInThisContext = (code, options) => {
  validateString(code, 'code');
  const file = nameOf(options);
  remember(file, code);
  return native.evalScript(code, file);
};
export const runInContext = (code, context, options) => {
  validateString(code, 'code');
  if (!contexts.has(context)) throw invalidArgType('contextifiedObject', 'vm.Context', context);
  return runIn(code, context, options);
};
export const runInNewContext = (code, context, options) => runInContext(code, createContext(context), options);

export class Script {
  #code;
  #options;
  constructor(code, options) {
    this.#code = `${code}`;
    this.#options = options;
    // A syntax error is thrown when the script is created.
    remember(nameOf(options), this.#code);
    native.compileFunction(this.#code, nameOf(options), []);
  }
  runInThisContext() { return runInThisContext(this.#code, this.#options); }
  runInContext(context) { return runInContext(this.#code, context, this.#options); }
  runInNewContext(context) { return runInNewContext(this.#code, context, this.#options); }
  createCachedData() { return globalThis.Buffer.alloc(0); }
}

export const compileFunction = (code, parameters = [], options) => native.compileFunction(code, nameOf(options), parameters);
export default {
  Script, createContext, isContext, runInThisContext, runInContext, runInNewContext, compileFunction,
  createScript: (code, options) => new Script(code, options), measureMemory: async () => ({}), constants: { USE_MAIN_CONTEXT_DEFAULT_LOADER: Symbol('main loader'), DONT_CONTEXTIFY: Symbol('dont contextify') },
};
