// The terminal that the standard streams are, if they are one.
import { native } from './native.js';
import { process } from './process.js';

const { parse } = JSON;

// Columns and rows.
let size;

export function begin(job) {
  size = job.terminal;
}

// Has the terminal pass each key on as it is pressed, or lines.
export function setKeys(keys) {
  try {
    native.host(`{"op":"input_mode","mode":"${keys ? 'keys' : 'lines'}"}`);
  } catch {
    // Standard input is no terminal of the host.
  }
}

// Asks for the size, which changes with the window.
function current() {
  if (size === undefined) return undefined;
  try {
    size = parse(native.utf8Decode(native.host('{"op":"terminal_size"}'), false));
  } catch {
    // Only the size at the start of the program is known.
  }
  return size;
}

export const isTerminal = (fd) => size !== undefined && Number.isInteger(fd) && fd >= 0 && fd <= 2;
export const columns = () => current()?.[0];
export const rows = () => current()?.[1];

// Number of bits of a colour, by the variables that terminals set, as in Node.
export function colorDepth(env = process.env) {
  if (env.FORCE_COLOR !== undefined) {
    const forced = { '': 4, 1: 4, true: 4, 2: 8, 3: 24 };
    return forced[env.FORCE_COLOR] ?? 1;
  }
  if (env.NODE_DISABLE_COLORS || env.NO_COLOR || env.TERM === 'dumb') return 1;
  if (env.COLORTERM === 'truecolor' || env.COLORTERM === '24bit') return 24;
  if (/-256(color)?$/i.test(env.TERM ?? '')) return 8;
  return env.COLORTERM || /^(xterm|screen|tmux|linux|rxvt|vt100|ansi|cygwin)|color/i.test(env.TERM ?? '') ? 4 : 1;
}

export function hasColors(count, env) {
  if (typeof count === 'object') [count, env] = [16, count];
  return (count ?? 16) <= 2 ** colorDepth(env);
}
