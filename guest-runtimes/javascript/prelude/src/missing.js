// Features that this sandbox lacks: the error that a program expects of Node, and a report to the host of what was
// used.
import { native } from './native.js';
import { SafeWeakMap, getOwnPropertyDescriptor } from './engine/uncurry.js';
import { coded } from './node/errors.js';
import { globals } from './absent.json';

const { stringify } = JSON;

export function reportMissing(what) {
  native.host(stringify({ __proto__: null, op: 'missing', what }));
}

const lacks = new SafeWeakMap();

// Marks an error about a missing feature. The host gets a report only if the error ends the program, since many
// programs can do without the feature.
export function lacking(what, error) {
  lacks.set(error, what);
  return error;
}

// Returns the missing feature that the error or one of its causes is about.
export function missingFeatureOf(error) {
  for (let depth = 0; depth < 8 && native.classOf(error) === 'Error'; depth++) {
    const what = lacks.get(error);
    if (what !== undefined) return what;
    error = getOwnPropertyDescriptor(error, 'cause')?.value;
  }
  return undefined;
}

// Reports a function or class of Node that is missing, and returns the error to throw.
export function unavailable(name) {
  reportMissing(`api:${name}`);
  return coded(Error, 'ERR_FEATURE_UNAVAILABLE_ON_PLATFORM', `${name} is not available in this sandbox`);
}

// Returns Node's global that is missing here, given the message of a ReferenceError.
export function globalOf(message) {
  const ending = ' is not defined';
  if (message === `Deno${ending}`) return 'deno:api';
  if (message === `Bun${ending}`) return 'bun:api';
  // Deno asks at the terminal as browsers do.
  if (message === `prompt${ending}` || message === `confirm${ending}` || message === `alert${ending}`) return 'deno:api';
  for (let i = 0; i < globals.length; i++) if (message === globals[i] + ending) return `api:${globals[i]}`;
  return undefined;
}

const COMMENT = /\/\*[\s\S]*?\*\/|(?:^|\s)\/\/[^\n]*/g;
const DENO =
  /\bDeno\.(?:args|bench|build|chdir|chmod|Command|connect|consoleSize|copyFile|cron|cwd|env|errors|execPath|exit|inspect|kill|listen|lstat|make|mkdir|noColor|open|permissions|pid|read|realPath|remove|rename|resolve|run|serve|stat|stdin|stdout|stderr|test|version|watch|write)/;
const BUN =
  /\bBun\.(?:\$|argv|build|color|connect|CryptoHasher|deepEquals|env|escapeHTML|file|Glob|gzip|hash|inspect|listen|main|nanoseconds|password|plugin|resolve|serve|sleep|spawn|sql|stdin|stdout|stderr|stringWidth|TOML|Transpiler|version|which|write|YAML)/;

// Returns the runner whose API a text uses without a test for it.
export function runnerOf(text) {
  const code = text.replace(COMMENT, ' ');
  if (DENO.test(code) && !/typeof Deno\b|globalThis\.Deno\b|['"]Deno['"] in/.test(code)) return 'deno:api';
  if (BUN.test(code) && !/typeof Bun\b|globalThis\.Bun\b|['"]Bun['"] in/.test(code)) return 'bun:api';
  return undefined;
}

const WHAT = {
  processes: 'processes cannot be started in this sandbox',
  sockets: 'network access is not granted to this sandbox',
  threads: 'threads are not available in this sandbox',
};

const NUMBERS = { ENOSYS: -38, EACCES: -13, ENOTSUP: -95 };

// Returns the missing feature of a client: access to a host, or sockets if the host is the program itself.
export const hostFeature = (host) => (host === '' || host === 'localhost' || host === '[::1]' || /^127\./.test(host) ? 'sockets' : `host:${host}`);

// Reports the feature and returns the error to throw or to pass to a callback.
export function refuse(what, code, syscall, details) {
  reportMissing(what);
  const error = new Error(`${syscall} ${code}: ${WHAT[what.startsWith('host:') ? 'sockets' : what]}`);
  error.errno = NUMBERS[code];
  error.code = code;
  error.syscall = syscall;
  return Object.assign(error, details);
}
