// AssertionError and the texts that describe a difference.
import { inspect } from '../inspect/index.js';
import { setHeader } from '../engine/stacks.js';
import { hidden } from '../engine/uncurry.js';
import { validateObject } from './errors.js';

const HEADS = {
  deepStrictEqual: 'Expected values to be strictly deep-equal:',
  strictEqual: 'Expected values to be strictly equal:',
  strictEqualObject: 'Expected "actual" to be reference-equal to "expected":',
  deepEqual: 'Expected values to be loosely deep-equal:',
  notDeepStrictEqual: 'Expected "actual" not to be strictly deep-equal to:',
  notStrictEqual: 'Expected "actual" to be strictly unequal to:',
  notStrictEqualObject: 'Expected "actual" not to be reference-equal to "expected":',
  notDeepEqual: 'Expected "actual" not to be loosely deep-equal to:',
  notIdentical: 'Values have same structure but are not reference-equal:',
  notDeepEqualUnequal: 'Expected values not to be loosely deep-equal:',
};
const MOST_LINES = 50;
const MOST_SHORT = 12;

const show = (value) =>
  inspect(value, {
    compact: false, customInspect: false, depth: 1000, maxArrayLength: Infinity, showHidden: false, showProxy: false, sorted: true, getters: true, breakLength: Infinity,
  });

const isObject = (value) => (typeof value === 'object' && value !== null) || typeof value === 'function';

const plainObject = (value) => typeof value === 'object' && value !== null;

function difference(actual, expected, operator, message) {
  const actualText = show(actual);
  const expectedText = show(expected);
  const left = actualText.split('\n');
  const right = expectedText.split('\n');
  let caret = '';
  if (operator === 'strictEqual' && ((typeof actual === 'object' && actual !== null && typeof expected === 'object' && expected !== null) || (typeof actual === 'function' && typeof expected === 'function'))) {
    operator = 'strictEqualObject';
  }
  const head = message ?? HEADS[operator];
  if (left.length === 1 && right.length === 1 && left[0] !== right[0]) {
    if (left[0].length + right[0].length <= MOST_SHORT) {
      if (!plainObject(actual) && !plainObject(expected) && (actual !== 0 || expected !== 0)) return `${head}\n\n${left[0]} !== ${right[0]}\n`;
    } else if (operator !== 'strictEqualObject' && left[0].length + right[0].length < 80) {
      let same = 0;
      while (left[0][same] === right[0][same]) same++;
      if (same > 2) caret = `\n  ${' '.repeat(same)}^`;
    }
  }
  // Lines that both texts end with are printed last, three at most.
  let tail = '';
  let nearest = '';
  let count = 0;
  let a = left[left.length - 1];
  let b = right[right.length - 1];
  while (a === b) {
    if (count++ < 3) tail = `\n  ${a}${tail}`;
    else nearest = a;
    left.pop();
    right.pop();
    if (left.length === 0 || right.length === 0) break;
    a = left[left.length - 1];
    b = right[right.length - 1];
  }
  const most = Math.max(left.length, right.length);
  if (most === 0) {
    const lines = actualText.split('\n');
    if (lines.length > MOST_LINES) lines.splice(MOST_LINES - 4, Infinity, '...');
    return `${HEADS.notIdentical}\n\n${lines.join('\n')}\n`;
  }
  let skipped = false;
  if (count > 4) {
    tail = `\n...${tail}`;
    skipped = true;
  }
  if (nearest !== '') tail = `\n  ${nearest}${tail}`;
  let out = '';
  let removed = '';
  let printed = 0;
  // Index of the last printed line.
  let last = -1;
  const catchUp = (i) => {
    const open = i - last - 1;
    if (open > 3) {
      out += `\n...\n  ${left[i - 2]}\n  ${left[i - 1]}`;
      skipped = true;
      printed += 2;
    } else for (let j = last + 1; j < i; j++, printed++) out += `\n  ${left[j]}`;
  };
  let differed = -2;
  for (let i = 0; i < most; i++) {
    if (right.length < i + 1) {
      if (differed !== i - 1) catchUp(i);
      out += `\n+ ${left[i]}`;
      last = differed = i;
      printed++;
    } else if (left.length < i + 1) {
      if (differed !== i - 1) catchUp(i);
      removed += `\n- ${right[i]}`;
      last = differed = i;
      printed++;
    } else {
      let mine = left[i];
      const theirs = right[i];
      let differ = mine !== theirs && (!mine.endsWith(',') || mine.slice(0, -1) !== theirs);
      if (differ && theirs.endsWith(',') && theirs.slice(0, -1) === mine) {
        differ = false;
        mine += ',';
      }
      if (differ) {
        if (differed !== i - 1) catchUp(i);
        out += `\n+ ${mine}`;
        removed += `\n- ${theirs}`;
        last = differed = i;
        printed += 2;
      } else {
        out += removed;
        removed = '';
        if (i <= 1 && last === i - 1 || differed === i - 1) {
          out += `\n  ${mine}`;
          last = i;
          printed++;
        }
      }
    }
    if (printed > MOST_LINES && i < most - 2) {
      return `${head}\n+ actual - expected ... Lines skipped\n${out}\n...${removed}\n...`;
    }
  }
  return `${head}\n+ actual - expected${skipped ? ' ... Lines skipped' : ''}\n${out}${removed}${tail}${caret}`;
}

function described(actual, expected, operator) {
  if (operator === 'notDeepStrictEqual' || operator === 'notStrictEqual' || operator === 'notDeepEqual') {
    let head = HEADS[operator];
    const lines = show(actual).split('\n');
    if (operator === 'notStrictEqual' && isObject(actual)) head = HEADS.notStrictEqualObject;
    if (lines.length > MOST_LINES) lines.splice(MOST_LINES - 4, Infinity, '...');
    if (lines.length === 1) return `${head}${lines[0].length > 5 ? '\n\n' : ' '}${lines[0]}`;
    return `${head}\n\n${lines.join('\n')}\n`;
  }
  let left = show(actual);
  let right = show(expected);
  const known = HEADS[operator];
  if (left.length > 512) left = `${left.slice(0, 509)}...`;
  if (right.length > 512) right = `${right.slice(0, 509)}...`;
  if (operator === 'deepEqual') return `${known}\n\n${left}\n\nshould loosely deep-equal\n\n${right}`;
  return `${left} ${operator} ${right}`;
}

export class AssertionError extends Error {
  constructor(options) {
    validateObject(options, 'options');
    const { message, operator, stackStartFn, stackStartFunction, details, actual, expected } = options;
    let text;
    if (operator === 'deepStrictEqual' || operator === 'strictEqual') text = difference(actual, expected, operator, message === undefined || message === null ? undefined : String(message));
    else text = message !== undefined && message !== null ? String(message) : described(actual, expected, operator);
    super(text);
    this.generatedMessage = !message;
    hidden(this, 'name', 'AssertionError');
    this.code = 'ERR_ASSERTION';
    if (details) {
      this.actual = undefined;
      this.expected = undefined;
      this.operator = undefined;
      for (let i = 0; i < details.length; i++) {
        this[`message ${i}`] = details[i].message;
        this[`actual ${i}`] = details[i].actual;
      }
    } else {
      this.actual = actual;
      this.expected = expected;
      this.operator = operator;
    }
    Error.captureStackTrace(this, stackStartFn ?? stackStartFunction);
    setHeader(this, `AssertionError [ERR_ASSERTION]: ${text}`);
  }
  toString() {
    return `${this.name} [${this.code}]: ${this.message}`;
  }
  [inspect.custom](depth, options) {
    return inspect(this, { ...options, customInspect: false, depth: 0 });
  }
}
hidden(AssertionError.prototype, inspect.custom, AssertionError.prototype[inspect.custom]);
