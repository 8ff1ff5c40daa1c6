// Powers that this sandbox lacks: the error a program expects of Node, and a line to the host that says what it was after.
import { native } from './native.js';

export function tell(what) {
  native.host(JSON.stringify({ op: 'missing', what }));
}

const WHAT = {
  processes: 'processes cannot be started in this sandbox',
  sockets: 'network access is not granted to this sandbox',
  threads: 'threads are not available in this sandbox',
};

const NUMBERS = { ENOSYS: -38, EACCES: -13, ENOTSUP: -95 };

// Reports the power and returns the error to throw or hand to a callback.
export function refuse(what, code, syscall, details) {
  tell(what);
  const error = new Error(`${syscall} ${code}: ${WHAT[what]}`);
  error.errno = NUMBERS[code];
  error.code = code;
  error.syscall = syscall;
  return Object.assign(error, details);
}
