// URL and URLSearchParams, printed as Node prints them.
import { URL, URLSearchParams } from 'whatwg-url-minimum';
import { coded } from '../node/errors.js';
import { inspect } from '../inspect/index.js';
import { hidden } from '../engine/uncurry.js';
import { addressOf, forget } from './blob.js';

const PARTS = ['href', 'origin', 'protocol', 'username', 'password', 'host', 'hostname', 'port', 'pathname', 'search', 'searchParams', 'hash'];

function invalid(input, base) {
  const error = coded(TypeError, 'ERR_INVALID_URL', 'Invalid URL');
  error.input = input;
  if (base !== undefined) error.base = base;
  return error;
}

const Parsed = URL;
const NodeURL = new Proxy(Parsed, {
  construct(target, args, newTarget) {
    if (args.length === 0) throw coded(TypeError, 'ERR_MISSING_ARGS', 'The "url" argument must be specified');
    try {
      return Reflect.construct(target, args, newTarget);
    } catch (error) {
      if (error instanceof TypeError) throw invalid(`${args[0]}`, args[1] === undefined ? undefined : `${args[1]}`);
      throw error;
    }
  },
});

hidden(Parsed.prototype, inspect.custom, function (depth, options) {
  if (typeof depth === 'number' && depth < 0) return this;
  const shown = {};
  for (const name of PARTS) shown[name] = this[name];
  const text = inspect(shown, options);
  return `${this.constructor === NodeURL || this.constructor === Parsed ? 'URL' : this.constructor.name} ${text}`;
});

hidden(URLSearchParams.prototype, inspect.custom, function (depth, options) {
  if (typeof depth === 'number' && depth < 0) return options.stylize('[Object]', 'special');
  const inner = { ...options, depth: options.depth === null ? null : options.depth - 1 };
  const shown = [...this].map(([key, value]) => `${inspect(key, inner)} => ${inspect(value, inner)}`);
  if (shown.length === 0) return 'URLSearchParams {}';
  const length = shown.reduce((sum, each) => sum + each.length + 2, -2);
  if (length > options.breakLength) return `URLSearchParams {\n  ${shown.join(',\n  ')} }`;
  return `URLSearchParams { ${shown.join(', ')} }`;
});

Object.defineProperty(Parsed.prototype, 'constructor', { value: NodeURL, writable: true, configurable: true });
Object.defineProperty(Parsed, 'name', { value: 'URL', configurable: true });
hidden(Parsed, 'canParse', function canParse(url, base) {
  try {
    void (base === undefined ? new Parsed(url) : new Parsed(url, base));
    return true;
  } catch {
    return false;
  }
});
hidden(Parsed, 'parse', function parse(url, base) {
  try {
    return base === undefined ? new NodeURL(url) : new NodeURL(url, base);
  } catch {
    return null;
  }
});
hidden(Parsed, 'createObjectURL', function createObjectURL(blob) {
  return addressOf(blob);
});
hidden(Parsed, 'revokeObjectURL', function revokeObjectURL(url) {
  forget(url);
});

export { NodeURL as URL, URLSearchParams };
