// Installs Intl, and the methods of numbers, dates and strings that depend on the locale.
import { hidden } from '../engine/uncurry.js';
import { canonical, locale } from './locales.js';
import { NumberFormat } from './number.js';
import { DateTimeFormat } from './date.js';
import { Collator, compare } from './collate.js';
import { DisplayNames, ListFormat, Locale, PluralRules, RelativeTimeFormat, Segmenter } from './list-plural-segment.js';

export const Intl = {};

// Makes a class that may also be called as a function.
function callable(Inner, name) {
  const outer = function (locales, options) {
    return Reflect.construct(Inner, [locales, options], new.target ?? outer);
  };
  Object.defineProperty(outer, 'name', { value: name, configurable: true });
  Object.defineProperty(outer, 'length', { value: 0, configurable: true });
  outer.prototype = Inner.prototype;
  Object.defineProperty(outer, 'prototype', { writable: false, enumerable: false });
  hidden(Inner.prototype, 'constructor', outer);
  hidden(outer, 'supportedLocalesOf', Inner.supportedLocalesOf);
  return outer;
}

export function install() {
  const parts = {
    Collator: callable(Collator, 'Collator'), DateTimeFormat: callable(DateTimeFormat, 'DateTimeFormat'), NumberFormat: callable(NumberFormat, 'NumberFormat'),
    DisplayNames, ListFormat, Locale, PluralRules, RelativeTimeFormat, Segmenter,
    getCanonicalLocales: (locales) => [...new Set((locales === undefined ? [] : Array.isArray(locales) ? locales : [locales]).map(canonical))],
    supportedValuesOf(key) {
      const values = { calendar: ['gregory'], collation: ['default'], currency: ['EUR', 'GBP', 'JPY', 'USD'], numberingSystem: ['latn'], timeZone: ['UTC'], unit: ['day', 'hour', 'minute', 'second'] };
      if (!values[key]) throw new RangeError(`Invalid key : ${key}`);
      return values[key];
    },
  };
  for (const [name, value] of Object.entries(parts)) hidden(Intl, name, value);
  Object.defineProperty(Intl, Symbol.toStringTag, { value: 'Intl', configurable: true });
  hidden(globalThis, 'Intl', Intl);

  let plain;
  const numberText = (value, locales, options) => {
    if (locales === undefined && options === undefined) return (plain ??= new NumberFormat()).format(value);
    return new NumberFormat(locales, options ?? undefined).format(value);
  };
  const dateText = (needs) => (date, locales, options) => {
    const time = Date.prototype.getTime.call(date);
    if (Number.isNaN(time)) return 'Invalid Date';
    return new DateTimeFormat(locales, options ?? undefined, needs).format(time);
  };
  const [all, dateOnly, timeOnly] = ['all', 'date only', 'time only'].map(dateText);
  const methods = [
    [Number.prototype, { toLocaleString(locales, options) { return numberText(Number.prototype.valueOf.call(this), locales, options); } }],
    [BigInt.prototype, { toLocaleString(locales, options) { return numberText(BigInt.prototype.valueOf.call(this), locales, options); } }],
    [Date.prototype, {
      toLocaleString(locales, options) { return all(this, locales, options); },
      toLocaleDateString(locales, options) { return dateOnly(this, locales, options); },
      toLocaleTimeString(locales, options) { return timeOnly(this, locales, options); },
    }],
    [String.prototype, {
      localeCompare(that, locales, options) {
        if (this === null || this === undefined) throw new TypeError('String.prototype.localeCompare called on null or undefined');
        if (locales !== undefined) locale(locales);
        return compare(`${this}`, `${that}`, options ?? undefined);
      },
    }],
  ];
  for (const [holder, table] of methods) {
    for (const [name, fn] of Object.entries(table)) {
      Object.defineProperty(fn, 'length', { value: holder === String.prototype ? 1 : 0, configurable: true });
      hidden(holder, name, fn);
    }
  }
  const joined = function (locales, options) {
    return Array.prototype.map.call(this, (item) => (item === null || item === undefined ? '' : item.toLocaleString(locales, options))).join(',');
  };
  Object.defineProperty(joined, 'name', { value: 'toLocaleString' });
  Object.defineProperty(joined, 'length', { value: 0 });
  hidden(Array.prototype, 'toLocaleString', joined);
}
