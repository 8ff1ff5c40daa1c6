// Intl.Collator and String.prototype.localeCompare: compares letters first, then case, as dictionaries do.
import { locale, supportedLocalesOf } from './locales.js';

// Signs in their order, which come before digits, which come before letters.
const SIGNS = '_-,;:!?.\'"()[]{}@*/\\&#%`^+<=>|~$';
const ORDER = new Map([...' \t\n\r'].map((c) => [c, 1]).concat([...SIGNS].map((c, i) => [c, i + 2])));
const SPECIAL = { 'ß': 'ss', 'æ': 'ae', 'œ': 'oe', 'ø': 'o', 'đ': 'd', 'ł': 'l', 'þ': 'th', 'ð': 'd', 'ı': 'i' };
const MARKS = /[\u0300-\u036f]/g;
const ASCII = /^[\x00-\x7f]*$/;

function weight(c) {
  const known = ORDER.get(c);
  if (known !== undefined) return known;
  const code = c.codePointAt(0);
  if (code >= 48 && code <= 57) return 100 + code;
  if (code < 128) return code < 32 || code === 127 ? 0 : 200 + code;
  return /\p{L}|\p{N}/u.test(c) ? 1000 + code : 90;
}

// Primary weights of the first 128 characters, for the many texts that have no others. A character of weight zero is
// ignored.
const PRIMARY = Uint16Array.from({ length: 128 }, (_, code) => weight(String.fromCharCode(code).toLowerCase()));

// Returns the order of two ASCII texts, or undefined if one has other characters.
function compareAscii(a, b) {
  const end = Math.min(a.length, b.length);
  let letterCase = 0;
  for (let i = 0; i < end; i++) {
    const x = a.charCodeAt(i);
    const y = b.charCodeAt(i);
    if (x > 127 || y > 127) return undefined;
    if (x === y) {
      if (PRIMARY[x] === 0) return undefined;
      continue;
    }
    const left = PRIMARY[x];
    const right = PRIMARY[y];
    if (left === 0 || right === 0) return undefined;
    if (left !== right) return left < right ? -1 : 1;
    if (letterCase === 0) letterCase = x > y ? -1 : 1;
  }
  if (a.length === b.length) return letterCase;
  const next = (a.length > end ? a : b).charCodeAt(end);
  if (next > 127 || PRIMARY[next] === 0) return undefined;
  return a.length < b.length ? -1 : 1;
}

// Returns the letters without case and marks.
function base(text) {
  if (ASCII.test(text)) return text.toLowerCase();
  return text
    .normalize('NFD')
    .replace(MARKS, '')
    .toLowerCase()
    .replace(/[ßæœøđłþðı]/g, (c) => SPECIAL[c]);
}

function compareBase(a, b, numeric) {
  let i = 0;
  let j = 0;
  for (;;) {
    if (i >= a.length || j >= b.length) return Math.sign(a.length - i - (b.length - j));
    if (numeric && a[i] >= '0' && a[i] <= '9' && b[j] >= '0' && b[j] <= '9') {
      const left = /^\d+/.exec(a.slice(i))[0];
      const right = /^\d+/.exec(b.slice(j))[0];
      const x = left.replace(/^0+(?=\d)/, '');
      const y = right.replace(/^0+(?=\d)/, '');
      if (x.length !== y.length) return x.length < y.length ? -1 : 1;
      if (x !== y) return x < y ? -1 : 1;
      i += left.length;
      j += right.length;
      continue;
    }
    const x = String.fromCodePoint(a.codePointAt(i));
    const y = String.fromCodePoint(b.codePointAt(j));
    if (x !== y) {
      const left = weight(x);
      const right = weight(y);
      if (left !== right) return left < right ? -1 : 1;
    }
    i += x.length;
    j += y.length;
  }
}

const marksOf = (text) => (ASCII.test(text) ? '' : text.normalize('NFD').toLowerCase().replace(/[^\u0300-\u036f]/g, '.'));

function compareCase(a, b, upperFirst) {
  const left = a.normalize('NFD').replace(MARKS, '');
  const right = b.normalize('NFD').replace(MARKS, '');
  for (let i = 0; i < left.length && i < right.length; i++) {
    if (left[i] === right[i]) continue;
    const upper = left[i] !== left[i].toLowerCase();
    return upper === upperFirst ? -1 : 1;
  }
  return 0;
}

export function compare(a, b, options) {
  if (a === b) return 0;
  if (options === undefined) {
    const order = compareAscii(a, b);
    if (order !== undefined) return order;
  }
  const { numeric = false, sensitivity = 'variant', caseFirst = 'false', ignorePunctuation = false } = options ?? {};
  if (ignorePunctuation) {
    a = a.replace(/[\p{P}\s]/gu, '');
    b = b.replace(/[\p{P}\s]/gu, '');
  }
  const letters = compareBase(base(a), base(b), numeric);
  if (letters !== 0 || sensitivity === 'base') return letters;
  if (sensitivity !== 'case') {
    const left = marksOf(a);
    const right = marksOf(b);
    if (left !== right) return left < right ? -1 : 1;
  }
  if (sensitivity === 'accent') return 0;
  return compareCase(a, b, caseFirst === 'upper');
}

const kept = new WeakMap();

export class Collator {
  constructor(locales, options = {}) {
    if (!new.target) return new Collator(locales, options);
    const { name } = locale(locales);
    const extension = /-u-(.*)$/.exec(Array.isArray(locales) ? locales[0] ?? '' : locales ?? '')?.[1] ?? '';
    const resolved = {
      locale: name, usage: options.usage ?? 'sort', sensitivity: options.sensitivity ?? 'variant', ignorePunctuation: !!options.ignorePunctuation, collation: 'default',
      numeric: options.numeric === undefined ? /\bkn(?!-false)/.test(extension) : !!options.numeric, caseFirst: options.caseFirst ?? 'false',
    };
    kept.set(this, resolved);
    const usual = !resolved.numeric && resolved.sensitivity === 'variant' && resolved.caseFirst === 'false' && !resolved.ignorePunctuation;
    Object.defineProperty(this, 'compare', { value: (a, b) => compare(`${a}`, `${b}`, usual ? undefined : resolved), writable: true, configurable: true, enumerable: false });
  }
  resolvedOptions() {
    return { ...kept.get(this) };
  }
  static supportedLocalesOf(locales) {
    return supportedLocalesOf(locales);
  }
}
Object.defineProperty(Collator.prototype, Symbol.toStringTag, { value: 'Intl.Collator', configurable: true });
