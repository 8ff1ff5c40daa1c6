// The console, with Node's output format.
import { native } from './native.js';
import { format, formatWithOptions, inspect, getStringWidth } from './inspect/index.js';
import { isMap, isMapIterator, isSet, isSetIterator } from './inspect/types.js';

let streams = () => ({});
let warn = () => {};

// Connects the streams. Text is written directly to the descriptor unless the program has replaced
// process.stdout.write.
export function connect(parts) {
  streams = parts.streams;
  warn = parts.warn;
}

function text(value) {
  switch (typeof value) {
    case 'string': return value;
    case 'number': return Object.is(value, -0) ? '-0' : `${value}`;
    case 'boolean': return value ? 'true' : 'false';
    case 'undefined': return 'undefined';
    case 'bigint': return `${value}n`;
    case 'symbol': return value.toString();
    default: return value === null ? 'null' : undefined;
  }
}

// Formats the arguments. Most calls print a few primitive values, which do not need inspect.
export function formatLog(args, options) {
  const count = args.length;
  if (count === 0) return '';
  if (options === undefined) {
    const first = args[0];
    if (count === 1 || typeof first !== 'string' || !first.includes('%')) {
      let line = text(first);
      if (typeof first !== 'string' || line !== undefined) {
        let i = 1;
        while (line !== undefined && i < count) {
          const next = text(args[i++]);
          line = next === undefined ? undefined : `${line} ${next}`;
        }
        if (line !== undefined) return line;
      }
    }
    return format(...args);
  }
  return formatWithOptions(options, ...args);
}

const CHARS = {
  middleMiddle: '─', rowMiddle: '┼', topRight: '┐', topLeft: '┌', leftMiddle: '├', topMiddle: '┬', bottomRight: '┘', bottomLeft: '└',
  bottomMiddle: '┴', rightMiddle: '┤', left: '│ ', right: ' │', middle: ' │ ',
};

function tableText(head, columns) {
  const height = Math.max(0, ...columns.map((column) => column.length));
  const widths = head.map((title, i) => {
    let most = getStringWidth(title);
    for (let row = 0; row < height; row++) {
      columns[i][row] = Object.hasOwn(columns[i], row) ? columns[i][row] : '';
      most = Math.max(most, getStringWidth(columns[i][row]));
    }
    return most + 2;
  });
  const row = (cells) =>
    CHARS.left +
    cells
      .map((cell, i) => {
        return cell + ' '.repeat(widths[i] - 2 - getStringWidth(cell));
      })
      .join(CHARS.middle) +
    CHARS.right;
  const rule = (left, middle, right) => left + widths.map((width) => CHARS.middleMiddle.repeat(width)).join(middle) + right;
  let out = `${rule(CHARS.topLeft, CHARS.topMiddle, CHARS.topRight)}\n${row(head)}\n${rule(CHARS.leftMiddle, CHARS.rowMiddle, CHARS.rightMiddle)}\n`;
  for (let r = 0; r < height; r++) out += `${row(columns.map((column) => `${column[r]}`))}\n`;
  return out + rule(CHARS.bottomLeft, CHARS.bottomMiddle, CHARS.bottomRight);
}

const elapsed = (ms) => {
  let hours = 0;
  let minutes = 0;
  let seconds = 0;
  if (ms >= 1000) {
    if (ms >= 60000) {
      if (ms >= 3600000) {
        hours = Math.floor(ms / 3600000);
        ms %= 3600000;
      }
      minutes = Math.floor(ms / 60000);
      ms %= 60000;
    }
    seconds = ms / 1000;
  }
  const two = (n) => String(n).padStart(2, '0');
  if (hours !== 0 || minutes !== 0) {
    const [whole, part] = seconds.toFixed(3).split('.');
    return hours !== 0 ? `${hours}:${two(minutes)}:${two(whole)} (h:mm:ss.mmm)` : `${minutes}:${two(whole)}.${part} (m:ss.mmm)`;
  }
  if (seconds !== 0) return `${seconds.toFixed(3)}s`;
  return `${Number(ms.toFixed(3))}ms`;
};


export class Console {
  #out;
  #err;
  #depth = '';
  #counts = new Map();
  #timers = new Map();
  #options;
  #step = 2;

  constructor(out, ...rest) {
    let options;
    if (out && typeof out.write === 'function') options = { stdout: out, stderr: rest[0], ignoreErrors: rest[1] };
    else options = out ?? {};
    this.#out = options.stdout;
    this.#err = options.stderr ?? options.stdout;
    this.#options = options.inspectOptions;
    if (options.groupIndentation !== undefined) this.#step = options.groupIndentation;
    for (const name of METHODS) {
      const method = Console.prototype[name].bind(this);
      Object.defineProperty(method, 'name', { value: name, configurable: true });
      this[name] = method;
    }
  }

  #write(toErr, line) {
    if (this.#depth !== '') line = this.#depth + (line.includes('\n') ? line.replace(/\n/g, `\n${this.#depth}`) : line);
    line += '\n';
    const given = toErr ? this.#err : this.#out;
    if (given !== undefined) {
      given.write(line);
      return;
    }
    const stream = streams(toErr);
    if (stream === undefined || !stream.isReplaced()) native.write(toErr ? 2 : 1, line);
    else stream.write(line);
  }
  #format(args) {
    return formatLog(args, this.#optionsFor());
  }
  #optionsFor() {
    return this.#options ?? (colours() ? { colors: true } : undefined);
  }

  log(...args) {
    this.#write(false, this.#format(args));
  }
  warn(...args) {
    this.#write(true, this.#format(args));
  }
  error(...args) {
    this.#write(true, this.#format(args));
  }
  debug(...args) {
    this.#write(false, this.#format(args));
  }
  info(...args) {
    this.#write(false, this.#format(args));
  }
  dirxml(...args) {
    this.#write(false, this.#format(args));
  }
  dir(value, options) {
    this.#write(false, inspect(value, { customInspect: false, ...this.#optionsFor(), ...options }));
  }
  time(label = 'default') {
    label = `${label}`;
    if (this.#timers.has(label)) {
      warn(`Label '${label}' already exists for console.time()`);
      return;
    }
    this.#timers.set(label, native.hrtime());
  }
  timeEnd(label = 'default') {
    if (this.#timeLog('timeEnd', label, [])) this.#timers.delete(`${label}`);
  }
  timeLog(label = 'default', ...data) {
    this.#timeLog('timeLog', label, data);
  }
  #timeLog(name, label, data) {
    label = `${label}`;
    const start = this.#timers.get(label);
    if (start === undefined) {
      warn(`No such label '${label}' for console.${name}()`);
      return false;
    }
    const spent = elapsed(Number(native.hrtime() - start) / 1e6);
    if (data.length > 0) this.log('%s: %s', label, spent, ...data);
    else this.log('%s: %s', label, spent);
    return true;
  }
  timeStamp() {}
  profile() {}
  profileEnd() {}
  context() {
    return this;
  }
  createTask() {
    return { run: (fn) => fn() };
  }
  trace(...args) {
    const error = { name: 'Trace', message: this.#format(args) };
    Error.captureStackTrace(error, this.trace);
    this.#write(true, `${error.stack}`);
  }
  assert(condition, ...args) {
    if (condition) return;
    if (typeof args[0] === 'string') args[0] = `Assertion failed: ${args[0]}`;
    else args.unshift('Assertion failed');
    this.warn(...args);
  }
  clear() {}
  count(label = 'default') {
    label = `${label}`;
    const count = (this.#counts.get(label) ?? 0) + 1;
    this.#counts.set(label, count);
    this.log(`${label}: ${count}`);
  }
  countReset(label = 'default') {
    if (!this.#counts.has(label)) {
      warn(`Count for '${label}' does not exist`);
      return;
    }
    this.#counts.delete(`${label}`);
  }
  group(...label) {
    if (label.length > 0) this.log(...label);
    this.#depth += ' '.repeat(this.#step);
  }
  groupCollapsed(...label) {
    this.group(...label);
  }
  groupEnd() {
    this.#depth = this.#depth.slice(0, Math.max(0, this.#depth.length - this.#step));
  }
  table(data, properties) {
    if (data === null || typeof data !== 'object') {
      this.log(data);
      return;
    }
    const show = (value) => {
      const depth = value !== null && typeof value === 'object' && !Array.isArray(value) && Object.keys(value).length > 2 ? -1 : 0;
      return inspect(value, { maxArrayLength: 3, breakLength: Infinity, ...this.#optionsFor(), depth });
    };
    const final = (head, columns) => this.log(tableText(head, columns));
    const index = '(index)';
    const iteration = '(iteration index)';
    const kind = { map: isMap(data), mapIterator: isMapIterator(data), set: isSet(data), setIterator: isSetIterator(data) };
    if (kind.map || (kind.mapIterator && native.previewEntries(data)[1])) {
      const entries = kind.map ? [...data] : native.previewEntries(data)[0];
      final([iteration, 'Key', 'Values'], [entries.map((_, i) => i), entries.map(([key]) => show(key)), entries.map(([, value]) => show(value))].map((column) => column.map(String)));
      return;
    }
    if (kind.set || kind.setIterator || kind.mapIterator) {
      const values = kind.set ? [...data] : native.previewEntries(data)[0];
      final([iteration, 'Values'], [values.map((_, i) => `${i}`), values.map(show)]);
      return;
    }
    const columns = { __proto__: null };
    let hasPrimitives = false;
    const primitives = [];
    const keys = Object.keys(data);
    keys.forEach((key, i) => {
      const item = data[key];
      const primitive = item === null || (typeof item !== 'function' && typeof item !== 'object');
      if (properties === undefined && primitive) {
        hasPrimitives = true;
        primitives[i] = show(item);
        return;
      }
      for (const name of properties ?? Object.keys(item)) {
        columns[name] ??= [];
        if ((primitive && properties) || !Object.hasOwn(Object(item), name)) columns[name][i] = '';
        else columns[name][i] = show(item[name]);
      }
    });
    const names = Object.keys(columns);
    const head = [index, ...names];
    const list = [keys.map(String), ...names.map((name) => columns[name])];
    if (hasPrimitives) {
      head.push('Values');
      list.push(primitives);
    }
    for (const column of list) column.length = Math.max(column.length, keys.length);
    final(head, list);
  }
}

const METHODS = [
  'log', 'warn', 'dir', 'time', 'timeEnd', 'timeLog', 'trace', 'assert', 'clear', 'count', 'countReset', 'group', 'groupEnd', 'table', 'debug',
  'info', 'dirxml', 'error', 'groupCollapsed',
];
const LATER_METHODS = ['profile', 'profileEnd', 'timeStamp', 'context', 'createTask'];

let force;
const colours = () => force === true;
export function useColours(on) {
  force = on;
}

// The methods are bound, so that the global console needs no class of its own.
export const globalConsole = Object.assign(Object.create({}), new Console());
Object.defineProperty(Console, 'name', { value: 'Console' });
globalConsole.Console = Console;
for (const name of LATER_METHODS) {
  globalConsole[name] = { [name]: (...args) => Console.prototype[name].apply(globalConsole, args) }[name];
}
Object.defineProperty(globalConsole, Symbol.toStringTag, { value: 'console', configurable: true });
