// node:test: tests and suites that run when the program has been loaded, with a report in TAP, or in lines at a terminal.
import { process } from '../process.js';
import { inspect } from '../inspect/index.js';
import { AbortController } from '../web/abort.js';
import { coded, invalidArgType, validateFunction, validateNumber } from './errors.js';
import { isTerminal } from '../terminal.js';
import { setTimeout, clearTimeout } from '../loop/timers.js';
import { builtin } from '../loader/builtins.js';
import { performance } from '../web/performance.js';
import { mock, MockTracker } from './mock.js';

const HOOKS = ['before', 'after', 'beforeEach', 'afterEach'];

// Returns name, options and function of a call, each of which may be left out.
function parsed(name, options, fn) {
  if (typeof name === 'function') [name, options, fn] = [name.name, {}, name];
  else if (name !== null && typeof name === 'object') [name, options, fn] = [undefined, name, options];
  if (typeof options === 'function') [options, fn] = [{}, options];
  options ??= {};
  if (fn === null || fn === undefined) fn = undefined;
  else validateFunction(fn, 'fn');
  if (options.timeout !== undefined && options.timeout !== null && options.timeout !== Infinity) validateNumber(options.timeout, 'options.timeout', 0, 2 ** 31 - 1);
  return [`${name ?? (fn?.name || '<anonymous>')}` || (fn?.name ?? '') || '<anonymous>', options, fn];
}

const failure = (message, type, cause) => Object.assign(coded(Error, 'ERR_TEST_FAILURE', message), { failureType: type, cause });

// Calls a function that may take a callback, return a promise, or do neither.
function called(fn, self, context, usesCallback) {
  if (!usesCallback) return (async () => fn.call(self, context))();
  return new Promise((resolve, reject) => {
    let isDone = false;
    const result = fn.call(self, context, (error) => {
      if (isDone) return reject(failure('callback invoked multiple times', 'multipleCallbackInvocations'));
      isDone = true;
      return error ? reject(error) : resolve();
    });
    if (typeof result?.then === 'function') reject(failure('passed a callback but also returned a Promise', 'callbackAndPromisePresent'));
  });
}

async function limited(work, timeout, signal) {
  let timer;
  let stop;
  const ends = [work];
  if (timeout !== undefined && timeout !== null && timeout !== Infinity) {
    ends.push(new Promise((_, reject) => {
      timer = setTimeout(() => reject(failure(`test timed out after ${timeout}ms`, 'testTimeoutFailure')), timeout);
    }));
  }
  if (signal) {
    ends.push(new Promise((_, reject) => {
      stop = () => reject(signal.reason);
      if (signal.aborted) stop();
      else signal.addEventListener('abort', stop, { once: true });
    }));
  }
  try {
    return await Promise.race(ends);
  } finally {
    if (timer) clearTimeout(timer);
    if (stop) signal.removeEventListener('abort', stop);
  }
}

class Entry {
  constructor(kind, name, options, fn, parent) {
    Object.assign(this, { kind, name, options, fn, parent });
    this.depth = parent ? parent.depth + 1 : -1;
    this.children = [];
    this.hooks = { before: [], after: [], beforeEach: [], afterEach: [] };
    this.skip = options.skip || (parent?.kind === 'suite' && parent.skip) || false;
    this.todo = options.todo || false;
    this.diagnostics = [];
    this.started = false;
    this.next = 0;
    this.done = new Promise((resolve) => (this.resolve = resolve));
  }
  // Runs the children that have been added so far, in order or at once, and those that they add.
  async runChildren() {
    const width = this.options.concurrency === true ? Infinity : Math.max(1, Number(this.options.concurrency) || 1);
    const running = new Set();
    while (this.next < this.children.length || running.size > 0) {
      while (this.next < this.children.length && running.size < width) {
        const child = this.children[this.next];
        this.next += 1;
        if (child.started) continue;
        const run = child.run().then(() => running.delete(run));
        running.add(run);
      }
      if (running.size > 0) await Promise.race(running);
    }
    await Promise.all(this.children.map((child) => child.done));
  }
  each(name) {
    return this.parent ? [...this.parent.each(name), ...this.hooks[name]] : this.hooks[name];
  }
  get fullName() {
    return this.depth > 0 ? `${this.parent.fullName} > ${this.name}` : this.name;
  }
  async hook(list, context) {
    for (const { fn, options } of list) await limited(called(fn, undefined, context, fn.length > 1), options.timeout);
  }
  async prepare() {
    if (!this.prepared) this.prepared = this.hook(this.hooks.before, this.context);
    return this.prepared;
  }
  async run() {
    if (this.started) return this.done;
    this.started = true;
    this.begun = performance.now();
    if (!this.skip && isLeftOut(this)) this.skip = "'only' option not set";
    if (this.kind === 'test') await this.runTest();
    else await this.runSuite();
    this.duration = performance.now() - this.begun;
    this.resolve();
    return undefined;
  }
  async runTest() {
    const { fn, options, parent } = this;
    const context = new TestContext(this);
    this.context = context;
    if (this.skip || fn === undefined) return;
    try {
      await parent.prepare();
      await this.hook(parent.each('beforeEach'), context);
      const work = (async () => {
        await called(fn, context, context, fn.length > 1);
        await this.runChildren();
      })();
      await limited(work, options.timeout, options.signal);
      if (context.planned !== undefined && context.planned !== context.assertions) {
        throw failure(`plan expected ${context.planned} assertions but received ${context.assertions}`, 'testCodeFailure');
      }
    } catch (error) {
      this.error = error ?? failure(`test failed with ${inspect(error)}`, 'testCodeFailure');
    }
    for (const list of [this.parent.each('afterEach'), this.hooks.after]) {
      try {
        await this.hook(list, context);
      } catch (error) {
        this.error ??= error;
      }
    }
    context.mock.reset();
    context.abort();
    this.settle();
  }
  settle() {
    const failed = this.children.filter((child) => child.failed).length;
    if (failed > 0) this.error ??= failure(`${failed} subtest${failed > 1 ? 's' : ''} failed`, 'subtestsFailed');
    if (this.error !== undefined && this.options.expectFailure) this.error = undefined;
    this.failed = this.error !== undefined && !this.todo;
  }
  async runSuite() {
    try {
      await this.defined;
      if (!this.skip) {
        await this.prepare();
        await limited(this.runChildren(), this.options.timeout, this.options.signal);
      } else {
        this.children = [];
      }
    } catch (error) {
      this.error = error;
      await Promise.all(this.children.map((child) => {
        child.error ??= failure('test did not run because a hook failed', 'cancelledByParent');
        child.failed = true;
        child.started = true;
        child.duration ??= 0;
        child.resolve();
        return child.done;
      }));
    }
    try {
      if (!this.skip) await this.hook(this.hooks.after, this.context);
    } catch (error) {
      this.error ??= error;
    }
    this.settle();
  }
}

// With `only`, the tests without it do not run: for a suite that has some inside, those.
const hasOnly = (entry) => entry.options.only || entry.children.some(hasOnly);
function isLeftOut(entry) {
  const { parent } = entry;
  if (parent === undefined || !onlyIsUsed) return false;
  if (entry.options.only || hasOnly(entry)) return false;
  for (let above = parent; above; above = above.parent) if (above.options.only && !above.children.some(hasOnly)) return false;
  return true;
}

class TestContext {
  #entry;
  #controller = new AbortController();
  constructor(entry) {
    this.#entry = entry;
    this.assertions = 0;
    Object.defineProperty(this, 'assertions', { enumerable: false });
    Object.defineProperty(this, 'planned', { value: entry.options.plan, writable: true, enumerable: false });
    Object.defineProperty(this, 'mock', { value: new MockTracker(), enumerable: false });
    const assert = builtin('assert');
    const counted = {};
    for (const key of Object.keys(assert)) {
      if (typeof assert[key] !== 'function' || /^[A-Z]/.test(key)) continue;
      counted[key] = (...args) => {
        this.assertions += 1;
        return assert[key](...args);
      };
    }
    Object.defineProperty(this, 'assert', { value: counted, enumerable: false });
  }
  get name() { return this.#entry.name; }
  get fullName() { return this.#entry.fullName; }
  get signal() { return this.#entry.options.signal ?? this.#controller.signal; }
  abort() { this.#controller.abort(); }
  plan(count) { this.planned = count; }
  diagnostic(message) { this.#entry.diagnostics.push(`${message}`); }
  skip(message) { this.#entry.skip = message ?? true; }
  todo(message) { this.#entry.todo = message ?? true; }
  runOnly(on) { onlyIsUsed = Boolean(on); }
  before(fn, options) { this.#entry.hooks.before.push({ fn, options: options ?? {} }); }
  after(fn, options) { this.#entry.hooks.after.push({ fn, options: options ?? {} }); }
  beforeEach(fn, options) { this.#entry.hooks.beforeEach.push({ fn, options: options ?? {} }); }
  afterEach(fn, options) { this.#entry.hooks.afterEach.push({ fn, options: options ?? {} }); }
  test(...args) {
    this.assertions += 1;
    const [name, options, fn] = parsed(...args);
    const child = new Entry('test', name, options, fn, this.#entry);
    this.#entry.children.push(child);
    // A test that waits for its subtest must not wait for itself.
    const width = this.#entry.options.concurrency === true ? Infinity : Math.max(1, Number(this.#entry.options.concurrency) || 1);
    const before = this.#entry.children.slice(0, -1);
    const free = width > 1 ? Promise.resolve() : Promise.all(before.map((other) => other.done));
    return free.then(() => child.run());
  }
}

let onlyIsUsed = false;
let root;
let current;

function scope() {
  if (root === undefined) {
    root = new Entry('suite', '<root>', {}, undefined, undefined);
    root.context = { name: '<root>' };
    current = root;
    process.once('beforeExit', runAll);
  }
  return current;
}

function addTest(...args) {
  const parent = scope();
  const [name, options, fn] = parsed(...args);
  if (options.only) onlyIsUsed = true;
  const entry = new Entry('test', name, options, fn, parent);
  parent.children.push(entry);
  return entry.done;
}

function addSuite(...args) {
  const parent = scope();
  const [name, options, fn] = parsed(...args);
  if (options.only) onlyIsUsed = true;
  const entry = new Entry('suite', name, options, fn, parent);
  entry.context = { name, fullName: entry.fullName, signal: options.signal };
  parent.children.push(entry);
  if (fn !== undefined && !entry.skip) {
    current = entry;
    try {
      const result = fn.call(entry.context, entry.context);
      // A suite that is defined later still ends before it runs.
      entry.defined = Promise.resolve(result);
      entry.defined.catch(() => {});
    } catch (error) {
      entry.defined = Promise.reject(error);
      entry.defined.catch(() => {});
    } finally {
      current = parent;
    }
  }
  return entry.done;
}

// Adds the variants of a function, such as `test.skip`.
function withVariants(add) {
  for (const key of ['skip', 'todo', 'only']) {
    add[key] = (...args) => {
      const [name, options, fn] = parsed(...args);
      return add(name, { ...options, [key]: options[key] ?? true }, fn);
    };
  }
  return add;
}

const counts = { tests: 0, suites: 0, pass: 0, fail: 0, cancelled: 0, skipped: 0, todo: 0 };
function count(entry) {
  if (entry.kind === 'suite') counts.suites += 1;
  else {
    counts.tests += 1;
    if (entry.error?.failureType === 'cancelledByParent') counts.cancelled += 1;
    else if (entry.skip) counts.skipped += 1;
    else if (entry.todo) counts.todo += 1;
    else if (entry.failed) counts.fail += 1;
    else counts.pass += 1;
  }
  entry.children.forEach(count);
}

const escaped = (text) => text.replace(/[\\#]/g, '\\$&').replace(/\n/g, '\\n').replace(/\r/g, '\\r').replace(/\t/g, '\\t');
const directive = (entry) => {
  for (const [key, word] of [['skip', 'SKIP'], ['todo', 'TODO']]) {
    if (entry[key]) return ` # ${word}${typeof entry[key] === 'string' ? ` ${escaped(entry[key])}` : ''}`;
  }
  return '';
};
const indented = (text, by) => text.replace(/^(?=.)/gm, by);

function errorLines(error) {
  const cause = error?.code === 'ERR_TEST_FAILURE' && error.cause !== undefined ? error.cause : error;
  const isError = cause instanceof Error;
  const lines = [`failureType: '${error?.failureType ?? 'testCodeFailure'}'`];
  lines.push(`error: ${isError && cause.message.includes('\n') ? `|-\n${indented(cause.message, '  ')}` : `'${`${isError ? cause.message : inspect(cause)}`.replace(/'/g, "''")}'`}`);
  lines.push(`code: '${error?.code === 'ERR_TEST_FAILURE' ? (cause?.code ?? 'ERR_TEST_FAILURE') : (cause?.code ?? 'ERR_TEST_FAILURE')}'`);
  if (isError) {
    if (cause.name && cause.name !== 'Error') lines.push(`name: '${cause.name}'`);
    for (const key of ['expected', 'actual']) if (cause.code === 'ERR_ASSERTION' && key in cause) lines.push(`${key}: ${inspect(cause[key])}`);
    if (cause.code === 'ERR_ASSERTION' && cause.operator) lines.push(`operator: '${cause.operator}'`);
    const stack = `${cause.stack ?? ''}`.split('\n').filter((line) => /^\s+at /.test(line)).map((line) => line.trim().replace(/^at /, ''));
    if (stack.length > 0) lines.push(`stack: |-\n${indented(stack.join('\n'), '  ')}`);
  }
  return lines;
}

function tapEntry(entry, number, lines) {
  const by = '    '.repeat(entry.depth);
  lines.push(`${by}# Subtest: ${escaped(entry.name)}`);
  entry.children.forEach((child, index) => tapEntry(child, index + 1, lines));
  if (entry.children.length > 0) lines.push(`${by}    1..${entry.children.length}`);
  lines.push(`${by}${entry.failed || entry.error !== undefined ? 'not ok' : 'ok'} ${number} - ${escaped(entry.name)}${directive(entry)}`);
  const details = [`duration_ms: ${(entry.duration ?? 0).toFixed(6)}`];
  if (entry.kind === 'suite') details.push("type: 'suite'");
  if (entry.error !== undefined) details.push(...errorLines(entry.error));
  lines.push(indented(['---', ...details, '...'].join('\n'), `${by}  `));
  for (const text of entry.diagnostics) lines.push(`${by}# ${escaped(text)}`);
}

const summary = (duration, sign) => Object.entries({ ...counts, duration_ms: duration.toFixed(6) }).map(([name, value]) => `${sign} ${name} ${value}`);

function tap(duration) {
  const lines = ['TAP version 13'];
  root.children.forEach((child, index) => tapEntry(child, index + 1, lines));
  lines.push(`1..${root.children.length}`, ...summary(duration, '#'));
  return lines;
}

const COLOURS = { green: '\x1b[32m', red: '\x1b[31m', blue: '\x1b[34m', grey: '\x1b[90m', plain: '\x1b[39m' };

function specEntry(entry, lines, failed) {
  const by = '  '.repeat(entry.depth);
  const time = ` ${COLOURS.grey}(${(entry.duration ?? 0).toFixed(6)}ms)${COLOURS.plain}`;
  const isBad = entry.error !== undefined && !entry.todo;
  const [sign, colour] = entry.skip ? ['﹣', COLOURS.grey] : isBad ? ['✖', COLOURS.red] : ['✔', COLOURS.green];
  const line = `${by}${colour}${sign} ${entry.name}${COLOURS.plain}${time}${directive(entry)}`;
  if (isBad && entry.error.failureType !== 'subtestsFailed') failed.push([line.trimStart(), entry.error]);
  if (entry.children.length > 0) {
    lines.push(`${by}▶ ${entry.name}`);
    entry.children.forEach((child) => specEntry(child, lines, failed));
  }
  lines.push(line);
  for (const text of entry.diagnostics) lines.push(`${by}${COLOURS.blue}ℹ ${text}${COLOURS.plain}`);
}

function spec(duration) {
  const [lines, failed] = [[], []];
  root.children.forEach((child) => specEntry(child, lines, failed));
  lines.push(...summary(duration, 'ℹ').map((line) => `${COLOURS.blue}${line}${COLOURS.plain}`));
  if (failed.length > 0) {
    lines.push('', `${COLOURS.red}✖ failing tests:${COLOURS.plain}`);
    for (const [line, error] of failed) lines.push('', line, indented(inspect(error?.code === 'ERR_TEST_FAILURE' ? (error.cause ?? error) : error), '  '));
  }
  return lines;
}

async function runAll() {
  const begun = performance.now();
  await root.prepare().catch((error) => (root.error = error));
  await root.runChildren();
  await root.hook(root.hooks.after, root.context).catch((error) => (root.error ??= error));
  root.children.forEach(count);
  const duration = performance.now() - begun;
  const lines = isTerminal(1) ? spec(duration) : tap(duration);
  process.stdout.write(`${lines.join('\n')}\n`);
  if (root.error !== undefined) throw root.error;
  if (counts.fail + counts.cancelled > 0 || root.children.some((child) => child.failed)) process.exitCode = 1;
}

const test = withVariants(addTest);
const suite = withVariants(addSuite);
const hooks = {};
for (const name of HOOKS) {
  hooks[name] = (fn, options) => {
    validateFunction(fn, 'fn');
    scope().hooks[name].push({ fn, options: options ?? {} });
  };
}

function run() {
  throw invalidArgType('options', 'tests in the program itself: run() starts processes, which this sandbox does not have', undefined);
}

export default Object.assign(test, { test, it: withVariants((...args) => addTest(...args)), suite, describe: suite, ...hooks, mock, run, assert: builtin('assert') });
