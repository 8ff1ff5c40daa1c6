// Intl.NumberFormat.
import { locale, supportedLocalesOf } from './locales.js';

// Symbols and names of currencies in English, and the number of decimals unless it is two.
const CURRENCIES = {
  USD: ['$', 'US dollars', 'US dollar'], EUR: ['€', 'euros', 'euro'], GBP: ['£', 'British pounds', 'British pound'], JPY: ['¥', 'Japanese yen', 'Japanese yen', 0],
  INR: ['₹', 'Indian rupees', 'Indian rupee'], CNY: ['CN¥', 'Chinese yuan', 'Chinese yuan'], KRW: ['₩', 'South Korean won', 'South Korean won', 0], BRL: ['R$', 'Brazilian reals', 'Brazilian real'],
  CAD: ['CA$', 'Canadian dollars', 'Canadian dollar'], AUD: ['A$', 'Australian dollars', 'Australian dollar'], MXN: ['MX$', 'Mexican pesos', 'Mexican peso'],
  NZD: ['NZ$', 'New Zealand dollars', 'New Zealand dollar'], HKD: ['HK$', 'Hong Kong dollars', 'Hong Kong dollar'], ILS: ['₪', 'Israeli new shekels', 'Israeli new shekel'],
  VND: ['₫', 'Vietnamese dong', 'Vietnamese dong', 0], TWD: ['NT$', 'New Taiwan dollars', 'New Taiwan dollar'], PHP: ['₱', 'Philippine pesos', 'Philippine peso'],
  CHF: ['CHF', 'Swiss francs', 'Swiss franc'], SEK: ['SEK', 'Swedish kronor', 'Swedish krona'], NOK: ['NOK', 'Norwegian kroner', 'Norwegian krone'], DKK: ['DKK', 'Danish kroner', 'Danish krone'],
  PLN: ['PLN', 'Polish zlotys', 'Polish zloty'], RUB: ['RUB', 'Russian rubles', 'Russian ruble'], KWD: ['KWD', 'Kuwaiti dinars', 'Kuwaiti dinar', 3], CLP: ['CLP', 'Chilean pesos', 'Chilean peso', 0],
};
const NARROW = { CAD: '$', AUD: '$', MXN: '$', NZD: '$', HKD: '$', TWD: '$', CNY: '¥', SEK: 'kr', NOK: 'kr', DKK: 'kr', PLN: 'zł', RUB: '₽' };
// Symbols of currencies in regions where they differ.
const OWN = { 'en-CA': { CAD: '$', USD: 'US$' }, 'en-AU': { AUD: '$' }, 'ja-JP': { JPY: '￥', CNY: '元' }, 'zh-CN': { CNY: '¥', JPY: 'JP¥' }, 'pl-PL': { PLN: 'zł' }, 'sv-SE': { SEK: 'kr' }, 'ru-RU': { RUB: '₽' }, 'en-GB': { USD: 'US$' }, 'en-IN': {} };

const UNITS = {
  kilometer: ['km', 'kilometer'], meter: ['m', 'meter'], centimeter: ['cm', 'centimeter'], millimeter: ['mm', 'millimeter'], mile: ['mi', 'mile'], foot: ['ft', 'foot', 'feet'], inch: ['in', 'inch', 'inches'], yard: ['yd', 'yard'],
  kilogram: ['kg', 'kilogram'], gram: ['g', 'gram'], pound: ['lb', 'pound'], ounce: ['oz', 'ounce'], liter: ['L', 'liter'], milliliter: ['mL', 'milliliter'], gallon: ['gal', 'gallon'],
  celsius: ['°C', 'degree Celsius', 'degrees Celsius'], fahrenheit: ['°F', 'degree Fahrenheit', 'degrees Fahrenheit'], percent: ['%', 'percent', 'percent'], degree: [' deg', 'degree'],
  bit: ['bit', 'bit'], byte: ['byte', 'byte'], kilobyte: ['kB', 'kilobyte'], megabyte: ['MB', 'megabyte'], gigabyte: ['GB', 'gigabyte'], terabyte: ['TB', 'terabyte'], petabyte: ['PB', 'petabyte'],
  millisecond: ['ms', 'millisecond'], second: ['sec', 'second'], minute: ['min', 'minute'], hour: ['hr', 'hour'], day: ['day', 'day'], week: ['wk', 'week'], month: ['mth', 'month'], year: ['yr', 'year'],
};

const styles = new Set(['decimal', 'percent', 'currency', 'unit']);

// Returns the decimal digits of a number and the position of its point: value = 0.digits * 10^point.
function decimalOf(value) {
  const text = typeof value === 'bigint' ? `${value}` : String(Math.abs(value));
  const found = /^-?(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(text);
  let digits = found[1] + (found[2] ?? '');
  let point = found[1].length + Number(found[3] ?? 0);
  const zeros = /^0*/.exec(digits)[0].length;
  digits = digits.slice(zeros);
  point -= zeros;
  if (digits === '') point = 0;
  return { digits: digits.replace(/0+$/, ''), point };
}

const EVEN = new Set(['0', '2', '4', '6', '8']);
// Rounds to `count` digits.
function roundAt({ digits, point }, count, mode = 'halfExpand', negative = false) {
  if (count >= digits.length) return { digits, point };
  const kept = count < 0 ? '' : digits.slice(0, count);
  const next = count < 0 ? '0' : digits[count];
  const exactHalf = next === '5' && digits.length === count + 1;
  const last = kept[kept.length - 1] ?? '0';
  let up;
  switch (mode) {
    case 'ceil': up = !negative; break;
    case 'floor': up = negative; break;
    case 'expand': up = true; break;
    case 'trunc': up = false; break;
    case 'halfEven': up = exactHalf ? !EVEN.has(last) : next >= '5'; break;
    case 'halfTrunc': up = exactHalf ? false : next >= '5'; break;
    case 'halfCeil': up = exactHalf ? !negative : next >= '5'; break;
    case 'halfFloor': up = exactHalf ? negative : next >= '5'; break;
    default: up = next >= '5';
  }
  if (count < 0) up = up && mode !== 'halfExpand' && !mode.startsWith('half');
  if (!up) return { digits: kept.replace(/0+$/, ''), point: kept.replace(/0+$/, '') === '' ? 0 : point };
  let i = kept.length - 1;
  while (i >= 0 && kept[i] === '9') i--;
  if (i < 0) return { digits: '1', point: kept.length === 0 ? point - Math.min(0, count) + (count < 0 ? count : 0) + 1 : point + 1 };
  return { digits: kept.slice(0, i) + (Number(kept[i]) + 1), point };
}

const integerPart = ({ digits, point }) => (point <= 0 ? '0' : digits.slice(0, point).padEnd(point, '0'));
const fractionPart = ({ digits, point }) => (point <= 0 ? '0'.repeat(digits === '' ? 0 : -point) + digits : digits.slice(point));

function grouped(integer, data, minimum) {
  if (integer.length < 3 + minimum) return integer;
  if (data.indian) return integer.slice(0, -3).replace(/\B(?=(\d\d)+(?!\d))/g, data.group) + data.group + integer.slice(-3);
  return integer.replace(/\B(?=(\d{3})+(?!\d))/g, data.group);
}

const COMPACT = [[13, 'T', ' trillion'], [10, 'B', ' billion'], [7, 'M', ' million'], [4, 'K', ' thousand']];

function range(name, value, min, max, otherwise) {
  if (value === undefined) return otherwise;
  const number = Number(value);
  if (!(number >= min && number <= max)) throw new RangeError(`${name} value is out of range.`);
  return Math.floor(number);
}

const kept = new WeakMap();

export class NumberFormat {
  constructor(locales, options = {}) {
    if (!new.target) return new NumberFormat(locales, options);
    const { name, data } = locale(locales);
    const style = options.style ?? 'decimal';
    if (!styles.has(style)) throw new RangeError(`Value ${style} out of range for Intl.NumberFormat options property style`);
    const r = { locale: name, numberingSystem: 'latn', style };
    let digits;
    if (style === 'currency') {
      if (options.currency === undefined) throw new TypeError('Currency code is required with currency style.');
      if (!/^[A-Za-z]{3}$/.test(options.currency)) throw new RangeError(`Invalid currency code : ${options.currency}`);
      r.currency = `${options.currency}`.toUpperCase();
      r.currencyDisplay = options.currencyDisplay ?? 'symbol';
      r.currencySign = options.currencySign ?? 'standard';
      digits = CURRENCIES[r.currency]?.[3] ?? 2;
    }
    if (style === 'unit') {
      if (options.unit === undefined) throw new TypeError('Unit is required with unit style.');
      r.unit = options.unit;
      r.unitDisplay = options.unitDisplay ?? 'short';
      for (const part of `${r.unit}`.split('-per-')) if (!UNITS[part]) throw new RangeError(`Invalid unit argument for Intl.NumberFormat() '${r.unit}'`);
    }
    const notation = options.notation ?? 'standard';
    r.minimumIntegerDigits = range('minimumIntegerDigits', options.minimumIntegerDigits, 1, 21, 1);
    const significant = options.minimumSignificantDigits !== undefined || options.maximumSignificantDigits !== undefined;
    const fractional = options.minimumFractionDigits !== undefined || options.maximumFractionDigits !== undefined;
    const low = style === 'currency' && notation === 'standard' ? digits : 0;
    const high = style === 'currency' && notation === 'standard' ? digits : style === 'percent' || notation === 'compact' ? 0 : 3;
    if (significant) {
      r.minimumSignificantDigits = range('minimumSignificantDigits', options.minimumSignificantDigits, 1, 21, 1);
      r.maximumSignificantDigits = range('maximumSignificantDigits', options.maximumSignificantDigits, r.minimumSignificantDigits, 21, 21);
    } else {
      let min = range('minimumFractionDigits', options.minimumFractionDigits, 0, 100, undefined);
      let max = range('maximumFractionDigits', options.maximumFractionDigits, 0, 100, undefined);
      if (min === undefined) min = max === undefined ? low : Math.min(low, max);
      else if (max === undefined) max = Math.max(high, min);
      max ??= Math.max(high, min);
      if (min > max) throw new RangeError('maximumFractionDigits value is out of range.');
      r.minimumFractionDigits = min;
      r.maximumFractionDigits = max;
    }
    const grouping = options.useGrouping;
    r.useGrouping = grouping === undefined ? (notation === 'compact' ? 'min2' : 'auto') : grouping === 'true' || grouping === true ? 'always' : grouping === 'false' || grouping === false ? false : grouping;
    r.notation = notation;
    if (notation === 'compact') r.compactDisplay = options.compactDisplay ?? 'short';
    r.signDisplay = options.signDisplay ?? 'auto';
    r.roundingIncrement = options.roundingIncrement ?? 1;
    r.roundingMode = options.roundingMode ?? 'halfExpand';
    r.roundingPriority = options.roundingPriority ?? 'auto';
    r.trailingZeroDisplay = options.trailingZeroDisplay ?? 'auto';
    kept.set(this, { r, data, compactRounding: notation === 'compact' && !significant && !fractional });
    const format = (value) => this.formatToParts(value).map((part) => part.value).join('');
    Object.defineProperty(this, 'format', { value: format, writable: true, configurable: true, enumerable: false });
  }

  resolvedOptions() {
    return { ...kept.get(this).r };
  }

  formatToParts(given) {
    const { r, data, compactRounding } = kept.get(this);
    const value = typeof given === 'bigint' ? given : typeof given === 'string' && /^-?\d{16,}$/.test(given.trim()) ? BigInt(given) : Number(given);
    const negative = value < 0 || Object.is(value, -0);
    const parts = [];
    let zero = false;
    let plural = true;
    if (Number.isNaN(value)) parts.push({ type: 'nan', value: 'NaN' });
    else if (value === Infinity || value === -Infinity) parts.push({ type: 'infinity', value: '∞' });
    else {
      let decimal = decimalOf(value);
      if (r.style === 'percent' && decimal.digits !== '') decimal = { ...decimal, point: decimal.point + 2 };
      let suffix = '';
      let exponent;
      if (r.notation === 'compact') {
        const scale = (d) => COMPACT.find(([point]) => d.point >= point && (point < 13 || d.point >= 13));
        let step = scale(decimal);
        const shift = (d, s) => (s ? { digits: d.digits, point: d.point - (s[0] - 1) } : d);
        let scaled = this.#round(shift(decimal, step), r, compactRounding, negative);
        const next = step ? COMPACT[COMPACT.indexOf(step) - 1] : COMPACT[3];
        if (scaled.point === 4 && decimal.point < 16 && next && (!step || decimal.point === step[0] + 2)) {
          step = next;
          scaled = this.#round(shift(decimal, step), r, compactRounding, negative);
        }
        decimal = scaled;
        if (step) suffix = r.compactDisplay === 'long' ? step[2] : step[1];
      } else if (r.notation === 'scientific' || r.notation === 'engineering') {
        exponent = decimal.digits === '' ? 0 : decimal.point - 1;
        if (r.notation === 'engineering') exponent = Math.floor(exponent / 3) * 3;
        const shifted = this.#round({ digits: decimal.digits, point: decimal.point - exponent }, r, false, negative);
        const most = r.notation === 'engineering' ? 3 : 1;
        if (shifted.point > most) {
          exponent += most;
          shifted.point -= most;
        }
        decimal = shifted;
      } else decimal = this.#round(decimal, r, false, negative);
      zero = decimal.digits === '';
      plural = !(decimal.digits === '1' && decimal.point === 1 && suffix === '');
      const integer = integerPart(decimal).padStart(r.minimumIntegerDigits, '0');
      let fraction = fractionPart(decimal);
      let least = r.minimumFractionDigits ?? 0;
      if (r.minimumSignificantDigits !== undefined) least = Math.max(0, r.minimumSignificantDigits - (integer === '0' ? 0 : integer.length));
      if (compactRounding) least = 0;
      if (!(r.trailingZeroDisplay === 'stripIfInteger' && fraction === '')) fraction = fraction.padEnd(least, '0');
      const minimum = r.useGrouping === 'always' ? 1 : r.useGrouping === 'min2' ? 2 : data.minimumGroup;
      const shown = r.useGrouping === false ? integer : grouped(integer, data, minimum);
      shown.split(data.group).forEach((piece, i, all) => {
        parts.push({ type: 'integer', value: piece });
        if (i < all.length - 1) parts.push({ type: 'group', value: data.group });
      });
      if (fraction !== '') parts.push({ type: 'decimal', value: data.decimal }, { type: 'fraction', value: fraction });
      if (suffix !== '') {
        if (suffix[0] === ' ') parts.push({ type: 'literal', value: ' ' });
        parts.push({ type: 'compact', value: suffix.trim() });
      }
      if (exponent !== undefined) {
        parts.push({ type: 'exponentSeparator', value: 'E' });
        if (exponent < 0) parts.push({ type: 'exponentMinusSign', value: '-' });
        parts.push({ type: 'exponentInteger', value: `${Math.abs(exponent)}` });
      }
    }
    return this.#dress(parts, r, data, negative, zero || Number.isNaN(value), plural);
  }

  #round(decimal, r, compact, negative) {
    if (compact) {
      // Keeps two digits, or all digits of the integer part.
      return roundAt(decimal, Math.max(2, decimal.point), r.roundingMode, negative);
    }
    if (r.maximumSignificantDigits !== undefined) return roundAt(decimal, r.maximumSignificantDigits, r.roundingMode, negative);
    return roundAt(decimal, decimal.point + r.maximumFractionDigits, r.roundingMode, negative);
  }

  #dress(parts, r, data, negative, zero, plural) {
    let sign = '';
    switch (r.signDisplay) {
      case 'always': sign = negative ? '-' : '+'; break;
      case 'never': break;
      case 'exceptZero': sign = zero ? '' : negative ? '-' : '+'; break;
      case 'negative': sign = negative && !zero ? '-' : ''; break;
      default: sign = negative ? '-' : '';
    }
    const signPart = sign === '' ? [] : [sign === '-' ? { type: 'minusSign', value: data.minus } : { type: 'plusSign', value: data.plus }];
    if (r.style === 'percent') {
      const [, space] = /^#(.?)%$/.exec(data.percent);
      return [...signPart, ...parts, ...(space ? [{ type: 'literal', value: space === ' ' ? '\u00a0' : space }] : []), { type: 'percentSign', value: '%' }];
    }
    if (r.style === 'unit') return [...signPart, ...parts, ...this.#unit(r, plural)];
    if (r.style !== 'currency') return [...signPart, ...parts];
    if (r.currencyDisplay === 'name') {
      const names = CURRENCIES[r.currency];
      const word = names ? names[plural || (r.minimumFractionDigits ?? 0) > 0 ? 1 : 2] : r.currency;
      return [...signPart, ...parts, { type: 'literal', value: ' ' }, { type: 'currency', value: word }];
    }
    let symbol = OWN[r.locale]?.[r.currency] ?? CURRENCIES[r.currency]?.[0] ?? r.currency;
    if (r.locale !== 'en-US' && r.currency === 'USD' && !OWN[r.locale]) symbol = '$';
    if (r.currencyDisplay === 'code') symbol = r.currency;
    else if (r.currencyDisplay === 'narrowSymbol') symbol = NARROW[r.currency] ?? symbol;
    const money = { type: 'currency', value: symbol };
    const accounting = r.currencySign === 'accounting' && sign === '-' && data.accounting.includes('(');
    const pattern = data.currency;
    let out;
    if (pattern === '¤#') out = [money, ...(/[A-Za-z]$/.test(symbol) && parts[0].type === 'integer' ? [{ type: 'literal', value: '\u00a0' }] : []), ...parts];
    else if (pattern === '¤ #') out = [money, { type: 'literal', value: '\u00a0' }, ...(data.negativeCurrency ? signPart : []), ...parts];
    else out = [...parts, { type: 'literal', value: '\u00a0' }, money];
    if (accounting) return [{ type: 'literal', value: '(' }, ...out, { type: 'literal', value: ')' }];
    return data.negativeCurrency && pattern === '¤ #' ? out : [...signPart, ...out];
  }

  #unit(r, plural) {
    const [one, per] = `${r.unit}`.split('-per-');
    const [symbol, singular, many = `${singular}s`] = UNITS[one];
    if (r.unitDisplay === 'long') {
      const word = (plural ? many : singular) + (per ? ` per ${UNITS[per][1]}` : '');
      return [{ type: 'literal', value: ' ' }, { type: 'unit', value: word }];
    }
    if (per) {
      const tail = { hour: 'h', second: 's', minute: 'min' }[per] ?? UNITS[per][0];
      const whole = one === 'mile' && per === 'hour' ? 'mph' : one === 'mile' && per === 'gallon' ? 'mpg' : `${symbol}/${tail}`;
      return r.unitDisplay === 'narrow' ? [{ type: 'unit', value: whole }] : [{ type: 'literal', value: ' ' }, { type: 'unit', value: whole }];
    }
    const text = plural && ['day', 'wk', 'mth', 'yr'].includes(symbol) && r.unitDisplay === 'short' ? `${symbol}s` : symbol;
    if (symbol === '%' || symbol.startsWith('°')) return [{ type: 'unit', value: symbol }];
    if (r.unitDisplay === 'narrow') {
      const narrow = { sec: 's', min: 'm', hr: 'h', day: 'd', wk: 'w', mth: 'm', yr: 'y', byte: 'B', bit: 'bit', lb: '#', in: '″', ft: '′' }[symbol] ?? symbol;
      return [{ type: 'unit', value: narrow }];
    }
    return [{ type: 'literal', value: ' ' }, { type: 'unit', value: text }];
  }

  formatRange(start, end) {
    const [a, b] = [this.format(start), this.format(end)];
    if (a === b) return `~${a}`;
    const { r } = kept.get(this);
    return r.style === 'currency' ? `${a} – ${this.format(end)}` : `${a}–${b}`;
  }

  static supportedLocalesOf(locales) {
    return supportedLocalesOf(locales);
  }
}
Object.defineProperty(NumberFormat.prototype, Symbol.toStringTag, { value: 'Intl.NumberFormat', configurable: true });
