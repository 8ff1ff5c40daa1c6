// The process object.
import { native } from './native.js';
import { EventEmitter } from './node/events.js';
import { coded, invalidArgType, systemError, validateInteger, validateString } from './node/errors.js';
import { getter, hidden } from './engine/uncurry.js';
import { nextTick } from './loop/ticks.js';
import { resolve } from './node/path-posix.js';
import { inspect } from './inspect/index.js';
import { refuse } from './missing.js';

// Version that programs see: the Node whose behaviour is followed.
export const NODE_VERSION = 'v22.12.0';

// Environment of every program, which the grants of a job extend and override.
const ENVIRONMENT = { HOME: '/tmp', LANG: 'C.UTF-8', PATH: '/usr/local/bin:/usr/bin:/bin', TMPDIR: '/tmp', TZ: 'UTC' };

const { apply } = Reflect;
const { isInteger } = Number;

let workingDirectory = '/work';
let mask = 0o022;
let exitCode;
let exiting = false;
let beganAt = 0;

class Process extends EventEmitter {}
Object.defineProperty(Process, 'name', { value: 'process' });
export const process = new Process();
Object.defineProperty(process, Symbol.toStringTag, { value: 'process', configurable: true });

const ENVIRONMENT_TRAPS = {
  set(target, name, value) {
    if (typeof name === 'symbol' || typeof value === 'symbol') throw new TypeError('Cannot convert a Symbol value to a string');
    target[name] = `${value}`;
    return true;
  },
  defineProperty(target, name, descriptor) {
    if (!('value' in descriptor)) {
      throw coded(TypeError, 'ERR_INVALID_OBJECT_DEFINE_PROPERTY', "'process.env' does not accept an accessor(getter/setter) descriptor");
    }
    if (!(descriptor.configurable && descriptor.writable && descriptor.enumerable)) {
      throw coded(TypeError, 'ERR_INVALID_OBJECT_DEFINE_PROPERTY', "'process.env' only accepts a configurable, writable, and enumerable data descriptor");
    }
    target[name] = `${descriptor.value}`;
    return true;
  },
};
const environment = (values) => new Proxy(values, ENVIRONMENT_TRAPS);

export const cwd = () => workingDirectory;
export function absolute(path) {
  if (path === '') throw Object.assign(new Error('ENOENT: no such file or directory'), { errno: -2, code: 'ENOENT' });
  return path[0] === '/' ? resolve(path) : resolve(workingDirectory, path);
}

Object.assign(process, {
  version: NODE_VERSION,
  versions: { node: NODE_VERSION.slice(1), quickjs: '', modules: '127' },
  arch: 'wasm32',
  platform: 'linux',
  release: { name: 'node', lts: 'Jod' },
  argv: ['/usr/local/bin/node'],
  execArgv: [],
  env: {},
  pid: 1,
  ppid: 0,
  execPath: '/usr/local/bin/node',
  debugPort: 9229,
  argv0: 'node',
  exitCode: undefined,
  title: 'node',
  config: { target_defaults: {}, variables: {} },
  features: {
    inspector: false, debug: false, uv: true, ipv6: true, tls_alpn: true, tls_sni: true, tls_ocsp: true, tls: false, cached_builtins: true,
    require_module: true, typescript: 'strip',
  },
  allowedNodeEnvironmentFlags: new Set(),
  report: {},
  nextTick,
  cwd: () => workingDirectory,
  chdir(directory) {
    validateString(directory, 'directory');
    let path, type;
    try {
      path = absolute(directory);
      type = native.stat(path).type;
    } catch (error) {
      const failed = systemError(error, 'chdir', workingDirectory, directory);
      throw failed;
    }
    if (type !== 'dir') throw systemError({ message: 'ENOTDIR: not a directory', code: 'ENOTDIR', errno: -20 }, 'chdir', workingDirectory, directory);
    workingDirectory = path;
  },
  exit(code) {
    if (arguments.length > 0) setExitCode(code);
    leave();
  },
  reallyExit: (code) => native.exit((code ?? 0) & 255),
  abort() {
    native.exit(134);
  },
  uptime: () => (native.now() - beganAt) / 1000,
  hrtime: Object.assign(
    function hrtime(before) {
      const now = native.hrtime();
      let seconds = Number(now / 1000000000n);
      let nanos = Number(now % 1000000000n);
      if (before !== undefined) {
        if (!Array.isArray(before)) throw invalidArgType('time', 'Array', before);
        seconds -= before[0];
        nanos -= before[1];
        if (nanos < 0) {
          seconds--;
          nanos += 1e9;
        }
      }
      return [seconds, nanos];
    },
    { bigint: () => native.hrtime() },
  ),
  memoryUsage: Object.assign(
    function memoryUsage() {
      const { used, total } = native.memory();
      return { rss: total, heapTotal: total, heapUsed: used, external: 0, arrayBuffers: 0 };
    },
    { rss: () => native.memory().total },
  ),
  constrainedMemory: () => native.memory().limit,
  availableMemory: () => native.memory().limit,
  resourceUsage: () => ({
    userCPUTime: Math.round(native.clock() * 1000), systemCPUTime: 0, maxRSS: native.memory().total >> 10, sharedMemorySize: 0, unsharedDataSize: 0, unsharedStackSize: 0,
    minorPageFault: 0, majorPageFault: 0, swappedOut: 0, fsRead: 0, fsWrite: 0, ipcSent: 0, ipcReceived: 0, signalsCount: 0,
    voluntaryContextSwitches: 0, involuntaryContextSwitches: 0,
  }),
  cpuUsage(before) {
    const user = Math.round(native.clock() * 1000);
    return { user: before ? user - before.user : user, system: 0 };
  },
  umask(value) {
    const before = mask;
    if (value !== undefined) mask = typeof value === 'string' ? parseInt(value, 8) : value & 0o777;
    return before;
  },
  getuid: () => 0,
  geteuid: () => 0,
  getgid: () => 0,
  getegid: () => 0,
  getgroups: () => [0],
  kill(pid, signal = 'SIGTERM') {
    if (pid === process.pid && signal === 0) return true;
    throw refuse('processes', 'ENOSYS', 'kill');
  },
  ref() {},
  unref() {},
  openStdin: () => process.stdin,
  emitWarning,
  getActiveResourcesInfo: () => [],
  setUncaughtExceptionCaptureCallback(fn) {
    captureCallback = fn;
  },
  hasUncaughtExceptionCaptureCallback: () => typeof captureCallback === 'function',
  setSourceMapsEnabled() {},
  loadEnvFile(path = '.env') {
    const { parseEnv } = process.getBuiltinModule('util');
    const { readFileSync } = process.getBuiltinModule('fs');
    for (const [name, value] of Object.entries(parseEnv(readFileSync(path, 'utf8')))) process.env[name] ??= value;
  },
  binding(name) {
    throw coded(Error, 'ERR_INVALID_MODULE', `No such module: ${name}`);
  },
});
for (const name of Object.keys(process)) {
  if (typeof process[name] === 'function' && process[name].name === '') hidden(process[name], 'name', name);
}

export let captureCallback;

function setExitCode(value) {
  if (value !== null && value !== undefined && (typeof value === 'bigint' || (value | 0) !== value)) {
    let number = value;
    if (typeof value === 'string' && value !== '') {
      number = +value;
      if (!isInteger(number)) throw invalidArgType('code', 'number', value);
    }
    validateInteger(number, 'code');
  }
  exitCode = value;
}

Object.defineProperty(process, 'exitCode', {
  get: () => exitCode,
  set: setExitCode,
  enumerable: true,
  configurable: false,
});

const statusNow = () => (exitCode === undefined || exitCode === null ? 0 : +exitCode & 255);
export const status = statusNow;

// Emits 'exit' once and returns the exit status; listeners may still set the exit code.
export function emitExit() {
  if (!exiting) {
    exiting = true;
    try {
      process._exiting = true;
    } catch {
      // Programs may freeze the object.
    }
    emit('exit');
  }
  return statusNow();
}

// Does the same after an uncaught error; a further error has no effect then.
export function emitFailed() {
  exitCode = 1;
  try {
    emitExit();
  } catch {
    // Node does not report it either.
  }
  return statusNow();
}

function emit(name) {
  const { emit: how } = process;
  return typeof how === 'function' && apply(how, process, [name, exitCode ?? 0]);
}

function leave() {
  // process.exit in an 'exit' listener ends the program at once.
  const code = emitExit();
  native.exit(code);
}

export const emitBeforeExit = () => emit('beforeExit');

export function emitWarning(warning, type, code, ctor) {
  let detail;
  if (type !== null && typeof type === 'object' && !Array.isArray(type)) {
    ctor = type.ctor;
    code = type.code;
    if (typeof type.detail === 'string') detail = type.detail;
    type = type.type || 'Warning';
  } else if (typeof type === 'function') {
    ctor = type;
    code = '';
    type = 'Warning';
  }
  if (type !== undefined) validateString(type, 'type');
  if (typeof code === 'function') {
    ctor = code;
    code = '';
  }
  if (typeof warning === 'string') {
    const text = warning;
    warning = new Error(text);
    warning.name = String(type || 'Warning');
    if (code !== undefined && code !== '') warning.code = code;
    if (detail !== undefined) warning.detail = detail;
    Error.captureStackTrace(warning, ctor ?? process.emitWarning);
  } else if (!(warning instanceof Error)) throw invalidArgType('warning', ['Error', 'string'], warning);
  if (warning.name === 'DeprecationWarning') {
    if (process.noDeprecation) return;
    if (process.throwDeprecation) {
      nextTick(() => {
        throw warning;
      });
      return;
    }
  }
  nextTick(() => process.emit('warning', warning));
}

let shown = 0;
function showWarning(warning) {
  if (!(warning instanceof Error) || process.noProcessWarnings) return;
  const deprecated = warning.name === 'DeprecationWarning';
  if (deprecated && process.noDeprecation) return;
  const traced = process.traceProcessWarnings || (deprecated && process.traceDeprecation);
  let text = `(node:${process.pid}) `;
  if (warning.code) text += `[${warning.code}] `;
  text += traced && warning.stack ? `${warning.stack}` : `${typeof warning.toString === 'function' ? warning.toString() : inspect(warning)}`;
  if (typeof warning.detail === 'string') text += `\n${warning.detail}`;
  if (!traced && shown++ === 0) text += `\n(Use \`node --trace-${deprecated ? 'deprecation' : 'warnings'} ...\` to show where the warning was created)`;
  native.write(2, `${text}\n`);
}

// Defines a property whose value is created on first access.
export function lazily(name, make) {
  getter(process, name, function () {
    const value = make();
    Object.defineProperty(process, name, { value, writable: true, configurable: true, enumerable: true });
    return value;
  });
}
Object.defineProperty(process, 'noDeprecation', { value: false, writable: true, configurable: true, enumerable: false });

process.env = environment({ ...ENVIRONMENT });
process.on('warning', showWarning);

// Sets up the process object for a job.
export function begin(job) {
  beganAt = native.now();
  const argv = job.argv ?? [];
  const script = job.kind === 'file' ? [job.file] : job.kind === 'stdin' ? ['-'] : [];
  process.argv = [process.execPath, ...script, ...argv.slice(1)];
  process.env = environment({ ...ENVIRONMENT, ...job.env });
  workingDirectory = job.cwd ?? '/work';
  process.versions.quickjs = native.version;
  if (process.env.NODE_NO_WARNINGS === '1') process.noProcessWarnings = true;
  if (process.env.NODE_OPTIONS?.includes('--no-deprecation')) process.noDeprecation = true;
}
