// node:os: facts about the system, which are the same for all programs.
import { native } from '../native.js';
import { process } from '../process.js';
import { getSystemErrorMap } from './util.js';

const tagged = (fn) => Object.defineProperty(fn, Symbol.toPrimitive, { value: () => fn() });
const SIGNALS = {
  SIGHUP: 1, SIGINT: 2, SIGQUIT: 3, SIGILL: 4, SIGTRAP: 5, SIGABRT: 6, SIGIOT: 6, SIGBUS: 7, SIGFPE: 8, SIGKILL: 9, SIGUSR1: 10, SIGSEGV: 11, SIGUSR2: 12,
  SIGPIPE: 13, SIGALRM: 14, SIGTERM: 15, SIGCHLD: 17, SIGSTKFLT: 16, SIGCONT: 18, SIGSTOP: 19, SIGTSTP: 20, SIGTTIN: 21, SIGTTOU: 22, SIGURG: 23, SIGXCPU: 24,
  SIGXFSZ: 25, SIGVTALRM: 26, SIGPROF: 27, SIGWINCH: 28, SIGIO: 29, SIGPOLL: 29, SIGPWR: 30, SIGSYS: 31,
};
const errno = {};
for (const [number, [name]] of getSystemErrorMap()) errno[name] = -number;

const os = {
  arch: tagged(() => process.arch),
  availableParallelism: tagged(() => 1),
  cpus: () => [{ model: 'WebAssembly', speed: 0, times: { user: 0, nice: 0, sys: 0, idle: 0, irq: 0 } }],
  endianness: tagged(() => 'LE'),
  freemem: tagged(() => {
    const { limit, total, used } = native.memory();
    return Math.max(0, (limit || total) - used);
  }),
  getPriority: () => 0,
  homedir: tagged(() => process.env.HOME ?? '/tmp'),
  hostname: tagged(() => 'codebox'),
  loadavg: () => [0, 0, 0],
  networkInterfaces: () => ({}),
  platform: tagged(() => 'linux'),
  release: tagged(() => '6.0.0'),
  setPriority() {},
  tmpdir: tagged(() => process.env.TMPDIR ?? '/tmp'),
  totalmem: tagged(() => {
    const { limit, total } = native.memory();
    return limit || total;
  }),
  type: tagged(() => 'Linux'),
  userInfo: () => ({ uid: 0, gid: 0, username: 'root', homedir: process.env.HOME ?? '/tmp', shell: null }),
  uptime: tagged(() => Number(native.hrtime() / 1000000n) / 1000),
  version: tagged(() => 'codebox'),
  machine: tagged(() => 'wasm32'),
  constants: {
    UV_UDP_REUSEADDR: 4, dlopen: {}, errno, signals: SIGNALS,
    priority: { PRIORITY_LOW: 19, PRIORITY_BELOW_NORMAL: 10, PRIORITY_NORMAL: 0, PRIORITY_ABOVE_NORMAL: -7, PRIORITY_HIGH: -14, PRIORITY_HIGHEST: -20 },
  },
  EOL: '\n',
  devNull: '/dev/null',
};
export default os;
