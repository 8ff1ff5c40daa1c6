// Intl.PluralRules, ListFormat, RelativeTimeFormat, Segmenter and DisplayNames, for English.
import { canonical, locale, supportedLocalesOf } from './locales.js';
import { NumberFormat } from './number.js';

const kept = new WeakMap();
const tag = (constructor, name) => Object.defineProperty(constructor.prototype, Symbol.toStringTag, { value: `Intl.${name}`, configurable: true });

const NO_PLURAL = new Set(['ja', 'zh', 'ko']);
function cardinal(value, language) {
  if (NO_PLURAL.has(language)) return 'other';
  if (language === 'fr' || language === 'pt') return Math.abs(value) < 2 ? 'one' : 'other';
  if (language === 'ru' || language === 'pl') {
    if (!Number.isInteger(value)) return 'other';
    const ten = Math.abs(value) % 10;
    const hundred = Math.abs(value) % 100;
    if (language === 'ru' ? ten === 1 && hundred !== 11 : value === 1) return 'one';
    return ten >= 2 && ten <= 4 && !(hundred >= 12 && hundred <= 14) ? 'few' : 'many';
  }
  return value === 1 ? 'one' : 'other';
}
function ordinal(value, language) {
  if (language !== 'en') return 'other';
  const ten = value % 10;
  const hundred = value % 100;
  if (ten === 1 && hundred !== 11) return 'one';
  if (ten === 2 && hundred !== 12) return 'two';
  return ten === 3 && hundred !== 13 ? 'few' : 'other';
}

export class PluralRules {
  constructor(locales, options = {}) {
    const { name } = locale(locales);
    kept.set(this, { name, language: name.split('-')[0], type: options.type ?? 'cardinal', options });
  }
  select(value) {
    const { language, type, options } = kept.get(this);
    const number = Number(value);
    if (type === 'ordinal') return ordinal(Math.abs(number), language);
    // In English, a number with decimals is never singular.
    if (language === 'en' && options.minimumFractionDigits > 0) return 'other';
    return cardinal(number, language);
  }
  selectRange(start, end) {
    return this.select(end);
  }
  resolvedOptions() {
    const { name, type } = kept.get(this);
    return {
      locale: name, type, minimumIntegerDigits: 1, minimumFractionDigits: 0, maximumFractionDigits: 3, pluralCategories: type === 'ordinal' ? ['few', 'one', 'two', 'other'] : ['one', 'other'],
      roundingIncrement: 1, roundingMode: 'halfExpand', roundingPriority: 'auto', trailingZeroDisplay: 'auto',
    };
  }
  static supportedLocalesOf(locales) { return supportedLocalesOf(locales); }
}
tag(PluralRules, 'PluralRules');

export class ListFormat {
  constructor(locales, options = {}) {
    const { name, data } = locale(locales);
    kept.set(this, { name, data, type: options.type ?? 'conjunction', style: options.style ?? 'long' });
  }
  formatToParts(list) {
    const items = [...list].map((item) => {
      if (typeof item !== 'string') throw new TypeError('Iterable yielded a non-String value');
      return item;
    });
    const { data, type, style } = kept.get(this);
    let last = type === 'disjunction' ? data.listOr : data.listAnd;
    let pair = type === 'disjunction' ? data.listOr.replace(/^,/, '') : data.two;
    if (type === 'conjunction' && style !== 'long') {
      if (data.listAnd === ', and ') {
        last = style === 'short' ? ', & ' : ', ';
        pair = style === 'short' ? ' & ' : ', ';
      }
    }
    if (type === 'unit') last = pair = style === 'narrow' ? ' ' : ', ';
    const between = type === 'unit' && style === 'narrow' ? ' ' : ', ';
    const parts = [];
    items.forEach((value, i) => {
      if (i > 0) parts.push({ type: 'literal', value: items.length === 2 ? pair : i === items.length - 1 ? last : between });
      parts.push({ type: 'element', value });
    });
    return parts;
  }
  format(list) {
    return this.formatToParts(list).map((part) => part.value).join('');
  }
  resolvedOptions() {
    const { name, type, style } = kept.get(this);
    return { locale: name, type, style };
  }
  static supportedLocalesOf(locales) { return supportedLocalesOf(locales); }
}
tag(ListFormat, 'ListFormat');

const WORDS = {
  'day -1': 'yesterday', 'day 0': 'today', 'day 1': 'tomorrow', 'year -1': 'last year', 'year 0': 'this year', 'year 1': 'next year', 'month -1': 'last month', 'month 0': 'this month',
  'month 1': 'next month', 'week -1': 'last week', 'week 0': 'this week', 'week 1': 'next week', 'quarter -1': 'last quarter', 'quarter 0': 'this quarter', 'quarter 1': 'next quarter',
  'hour 0': 'this hour', 'minute 0': 'this minute', 'second 0': 'now',
};
const SHORT = { second: 'sec.', minute: 'min.', hour: 'hr.', day: 'day', week: 'wk.', month: 'mo.', quarter: 'qtr.', year: 'yr.' };
const NARROW = { second: 's', minute: 'min', hour: 'h', day: 'd', week: 'w', month: 'mo', quarter: 'q', year: 'y' };

export class RelativeTimeFormat {
  constructor(locales, options = {}) {
    const { name } = locale(locales);
    kept.set(this, { name, numeric: options.numeric ?? 'always', style: options.style ?? 'long' });
  }
  format(value, unit) {
    const { numeric, style } = kept.get(this);
    const one = `${unit}`.replace(/s$/, '');
    if (!SHORT[one]) throw new RangeError(`Invalid unit argument for format() '${unit}'`);
    const number = Number(value);
    if (!Number.isFinite(number)) throw new RangeError('Invalid time value');
    if (numeric === 'auto') {
      const word = WORDS[`${one} ${number}`];
      if (word) return word;
    }
    const amount = new NumberFormat('en-US').format(Math.abs(number));
    let text;
    if (style === 'narrow') text = `${amount}${NARROW[one]}`;
    else if (style === 'short') text = `${amount} ${Math.abs(number) !== 1 && (one === 'day' || one === 'quarter') ? (one === 'day' ? 'days' : 'qtrs.') : SHORT[one]}`;
    else text = `${amount} ${Math.abs(number) === 1 ? one : `${one}s`}`;
    return number < 0 || Object.is(number, -0) ? `${text} ago` : `in ${text}`;
  }
  formatToParts(value, unit) {
    const text = this.format(value, unit);
    const found = /[\d,.]+/.exec(text);
    if (!found) return [{ type: 'literal', value: text }];
    const name = `${unit}`.replace(/s$/, '');
    const parts = [{ type: 'integer', value: found[0], unit: name }, { type: 'literal', value: text.slice(found.index + found[0].length) }];
    if (found.index > 0) parts.unshift({ type: 'literal', value: text.slice(0, found.index) });
    return parts;
  }
  resolvedOptions() {
    const { name, numeric, style } = kept.get(this);
    return { locale: name, style, numeric, numberingSystem: 'latn' };
  }
  static supportedLocalesOf(locales) { return supportedLocalesOf(locales); }
}
tag(RelativeTimeFormat, 'RelativeTimeFormat');

// A grapheme cluster: a letter with the marks, joiners, skin tones or flags that extend it.
const GRAPHEME = /\r\n|\p{RI}\p{RI}|\p{Emoji}(?:\p{EMod}|\uFE0F\u20E3?|[\u{E0020}-\u{E007E}]+\u{E007F})?(?:\u200D\p{Emoji}(?:\p{EMod}|\uFE0F)?)*[\p{M}\u200D]*|[\s\S][\p{M}\u200D\uFE0F]*/gu;
const WORD = /[\p{L}\p{M}\p{N}_]+(?:['’.][\p{L}\p{M}\p{N}_]+)*|\r\n|[^\S\r\n]+|[\s\S]/gu;
const SENTENCE = /[^.!?]*[.!?]*\s*/gu;

export class Segmenter {
  constructor(locales, options = {}) {
    kept.set(this, { name: locale(locales).name, granularity: options.granularity ?? 'grapheme' });
  }
  segment(input) {
    const text = `${input}`;
    const { granularity } = kept.get(this);
    const pattern = granularity === 'word' ? WORD : granularity === 'sentence' ? SENTENCE : GRAPHEME;
    const all = function* () {
      for (const found of text.matchAll(pattern)) {
        if (found[0] === '') continue;
        const out = { segment: found[0], index: found.index, input: text };
        if (granularity === 'word') out.isWordLike = /[\p{L}\p{N}]/u.test(found[0]);
        yield out;
      }
    };
    return {
      [Symbol.iterator]: all,
      containing: (index = 0) => [...all()].find((each) => index >= each.index && index < each.index + each.segment.length),
    };
  }
  resolvedOptions() {
    const { name, granularity } = kept.get(this);
    return { locale: name, granularity };
  }
  static supportedLocalesOf(locales) { return supportedLocalesOf(locales); }
}
tag(Segmenter, 'Segmenter');

const LANGUAGES = { en: 'English', de: 'German', fr: 'French', es: 'Spanish', it: 'Italian', pt: 'Portuguese', nl: 'Dutch', sv: 'Swedish', pl: 'Polish', ru: 'Russian', ja: 'Japanese', zh: 'Chinese', ko: 'Korean', ar: 'Arabic', hi: 'Hindi' };
const REGIONS = { US: 'United States', GB: 'United Kingdom', DE: 'Germany', FR: 'France', ES: 'Spain', IT: 'Italy', BR: 'Brazil', NL: 'Netherlands', SE: 'Sweden', PL: 'Poland', RU: 'Russia', JP: 'Japan', CN: 'China', KR: 'South Korea', IN: 'India', CA: 'Canada', AU: 'Australia', MX: 'Mexico' };

export class DisplayNames {
  constructor(locales, options) {
    if (options?.type === undefined) throw new TypeError('Required option "type" must not be undefined');
    kept.set(this, { name: locale(locales).name, type: options.type, fallback: options.fallback ?? 'code' });
  }
  of(code) {
    const { type, fallback } = kept.get(this);
    let found;
    if (type === 'region') found = REGIONS[code];
    else if (type === 'language') found = LANGUAGES[code] ?? (LANGUAGES[code.split('-')[0]] && REGIONS[code.split('-')[1]] ? `${LANGUAGES[code.split('-')[0]]} (${REGIONS[code.split('-')[1]]})` : undefined);
    else if (type === 'currency') found = new NumberFormat('en-US', { style: 'currency', currency: code, currencyDisplay: 'name' }).formatToParts(2).find((part) => part.type === 'currency').value.replace(/\b\w/g, (c) => c.toUpperCase()).replace(/s$/, '');
    return found ?? (fallback === 'code' ? code : undefined);
  }
  resolvedOptions() {
    const { name, type, fallback } = kept.get(this);
    return { locale: name, style: 'long', type, fallback };
  }
  static supportedLocalesOf(locales) { return supportedLocalesOf(locales); }
}
tag(DisplayNames, 'DisplayNames');

export class Locale {
  constructor(name, options = {}) {
    const text = canonical(name);
    const parts = text.split('-');
    this.language = options.language ?? parts[0];
    this.region = options.region ?? parts.find((part) => /^(?:[A-Z]{2}|\d{3})$/.test(part));
    this.script = options.script ?? parts.find((part) => /^[A-Z][a-z]{3}$/.test(part));
    this.baseName = [this.language, this.script, this.region].filter(Boolean).join('-');
    for (const key of ['language', 'region', 'script', 'baseName']) Object.defineProperty(this, key, { enumerable: false });
  }
  toString() { return this.baseName; }
  maximize() { return this; }
  minimize() { return this; }
}
tag(Locale, 'Locale');
