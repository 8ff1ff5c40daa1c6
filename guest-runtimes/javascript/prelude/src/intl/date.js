// Intl.DateTimeFormat: the Gregorian calendar, in UTC, in the zones of the table below and at fixed offsets from UTC.
import { locale, supportedLocalesOf } from './locales.js';

const FIELDS = ['weekday', 'era', 'year', 'month', 'day', 'dayPeriod', 'hour', 'minute', 'second', 'fractionalSecondDigits', 'timeZoneName'];

// Time zones: hours from UTC, the rule of summer time, and the labels of both times.
const ZONES = {
  UTC: [0], GMT: [0], 'Etc/UTC': [0], 'Etc/GMT': [0], 'Asia/Tokyo': [9], 'Asia/Shanghai': [8], 'Asia/Hong_Kong': [8], 'Asia/Singapore': [8], 'Asia/Seoul': [9], 'Asia/Kolkata': [5.5], 'Asia/Calcutta': [5.5],
  'Asia/Dubai': [4], 'Asia/Bangkok': [7], 'Asia/Jakarta': [7], 'Asia/Karachi': [5], 'Asia/Manila': [8], 'Asia/Kathmandu': [5.75], 'America/Sao_Paulo': [-3], 'America/Argentina/Buenos_Aires': [-3],
  'America/Bogota': [-5], 'America/Lima': [-5], 'America/Phoenix': [-7], 'America/Mexico_City': [-6], 'Pacific/Honolulu': [-10], 'Europe/Moscow': [3], 'Europe/Istanbul': [3], 'Africa/Lagos': [1],
  'Africa/Johannesburg': [2], 'Africa/Nairobi': [3], 'Australia/Brisbane': [10],
  'America/New_York': [-5, 'us', 'EST', 'EDT'], 'America/Toronto': [-5, 'us', 'EST', 'EDT'], 'America/Chicago': [-6, 'us', 'CST', 'CDT'], 'America/Denver': [-7, 'us', 'MST', 'MDT'],
  'America/Los_Angeles': [-8, 'us', 'PST', 'PDT'], 'America/Vancouver': [-8, 'us', 'PST', 'PDT'], 'America/Anchorage': [-9, 'us', 'AKST', 'AKDT'], 'America/Halifax': [-4, 'us', 'AST', 'ADT'],
  'Europe/London': [0, 'eu'], 'Europe/Dublin': [0, 'eu'], 'Europe/Lisbon': [0, 'eu'], 'Europe/Paris': [1, 'eu'], 'Europe/Berlin': [1, 'eu'], 'Europe/Madrid': [1, 'eu'], 'Europe/Rome': [1, 'eu'],
  'Europe/Amsterdam': [1, 'eu'], 'Europe/Brussels': [1, 'eu'], 'Europe/Vienna': [1, 'eu'], 'Europe/Zurich': [1, 'eu'], 'Europe/Stockholm': [1, 'eu'], 'Europe/Oslo': [1, 'eu'], 'Europe/Copenhagen': [1, 'eu'],
  'Europe/Prague': [1, 'eu'], 'Europe/Warsaw': [1, 'eu'], 'Europe/Budapest': [1, 'eu'], 'Europe/Athens': [2, 'eu'], 'Europe/Helsinki': [2, 'eu'], 'Europe/Kiev': [2, 'eu'], 'Europe/Kyiv': [2, 'eu'],
  'Australia/Sydney': [10, 'au'], 'Australia/Melbourne': [10, 'au'], 'Pacific/Auckland': [12, 'nz'],
};
const ZONE_NAMES = new Map(Object.keys(ZONES).map((name) => [name.toLowerCase(), name]));

const sunday = (year, month, nth) => {
  if (nth > 0) {
    const first = new Date(Date.UTC(year, month, 1)).getUTCDay();
    return 1 + ((7 - first) % 7) + (nth - 1) * 7;
  }
  const last = new Date(Date.UTC(year, month + 1, 0));
  return last.getUTCDate() - last.getUTCDay();
};
const at = (year, month, nth, hour) => Date.UTC(year, month, sunday(year, month, nth)) + hour * 3600000;

function summer(rule, hours, time) {
  const year = new Date(time + hours * 3600000).getUTCFullYear();
  if (rule === 'us') return time >= at(year, 2, 2, 2 - hours) && time < at(year, 10, 1, 1 - hours);
  if (rule === 'eu') return time >= at(year, 2, -1, 1) && time < at(year, 9, -1, 1);
  if (rule === 'au') return !(time >= at(year, 3, 1, 2 - hours) && time < at(year, 9, 1, 2 - hours));
  return !(time >= at(year, 3, 1, 2 - hours) && time < at(year, 8, -1, 2 - hours));
}

export function zoneOf(name) {
  if (name === undefined) return 'UTC';
  const known = ZONE_NAMES.get(`${name}`.toLowerCase());
  if (known) return known === 'GMT' || known.startsWith('Etc/') ? 'UTC' : known;
  if (/^[+-]\d\d(?::?\d\d)?$/.test(name)) return `${name}`;
  throw new RangeError(`Invalid time zone specified: ${name}`);
}

function hoursOf(zone, time) {
  const fixed = /^([+-])(\d\d):?(\d\d)?$/.exec(zone);
  if (fixed) return { hours: (fixed[1] === '-' ? -1 : 1) * (Number(fixed[2]) + Number(fixed[3] ?? 0) / 60) };
  const [hours, rule, standard, daylight] = ZONES[zone];
  const turned = rule !== undefined && summer(rule, hours, time);
  return { hours: hours + (turned ? 1 : 0), label: turned ? daylight : standard };
}

function zoneLabel(zone, time, style) {
  if (zone === 'UTC') return style === 'long' ? 'Coordinated Universal Time' : style === 'shortOffset' || style === 'longOffset' ? 'GMT' : 'UTC';
  const { hours, label } = hoursOf(zone, time);
  if (label && style === 'short') return label;
  const whole = Math.trunc(Math.abs(hours));
  const minutes = Math.round((Math.abs(hours) - whole) * 60);
  if (hours === 0) return 'GMT';
  const sign = hours < 0 ? '-' : '+';
  if (style === 'longOffset') return `GMT${sign}${String(whole).padStart(2, '0')}:${String(minutes).padStart(2, '0')}`;
  return `GMT${sign}${whole}${minutes ? `:${String(minutes).padStart(2, '0')}` : ''}`;
}

const DATE_STYLES = {
  full: { weekday: 'long', year: 'numeric', month: 'long', day: 'numeric' },
  long: { year: 'numeric', month: 'long', day: 'numeric' },
  medium: { year: 'numeric', month: 'short', day: 'numeric' },
  short: { year: '2-digit', month: 'numeric', day: 'numeric' },
};
const TIME_STYLES = {
  full: { hour: 'numeric', minute: '2-digit', second: '2-digit', timeZoneName: 'long' },
  long: { hour: 'numeric', minute: '2-digit', second: '2-digit', timeZoneName: 'short' },
  medium: { hour: 'numeric', minute: '2-digit', second: '2-digit' },
  short: { hour: 'numeric', minute: '2-digit' },
};

const kept = new WeakMap();
const two = (value) => String(value).padStart(2, '0');

export class DateTimeFormat {
  constructor(locales, options = {}, needs = 'date') {
    const { name, data } = locale(locales);
    const timeZone = zoneOf(options.timeZone);
    let fields = {};
    const { dateStyle, timeStyle } = options;
    if (dateStyle !== undefined || timeStyle !== undefined) {
      for (const field of FIELDS) if (options[field] !== undefined) throw new TypeError(`Can't set option ${field} when ${dateStyle !== undefined ? 'dateStyle' : 'timeStyle'} is used`);
      if (dateStyle !== undefined && !DATE_STYLES[dateStyle]) throw new RangeError(`Value ${dateStyle} out of range for Intl.DateTimeFormat options property dateStyle`);
      if (timeStyle !== undefined && !TIME_STYLES[timeStyle]) throw new RangeError(`Value ${timeStyle} out of range for Intl.DateTimeFormat options property timeStyle`);
      fields = { ...DATE_STYLES[dateStyle], ...TIME_STYLES[timeStyle] };
    } else {
      for (const field of FIELDS) if (options[field] !== undefined) fields[field] = options[field];
      const hasDate = fields.weekday !== undefined || fields.year !== undefined || fields.month !== undefined || fields.day !== undefined;
      const hasTime = fields.hour !== undefined || fields.minute !== undefined || fields.second !== undefined || fields.fractionalSecondDigits !== undefined || fields.dayPeriod !== undefined;
      const lacksDate = needs === 'date' ? !hasDate && !hasTime : needs === 'all' ? !hasDate && !hasTime : needs === 'date only' && !hasDate;
      if (lacksDate) Object.assign(fields, { year: 'numeric', month: 'numeric', day: 'numeric' });
      if ((needs === 'all' && !hasDate && !hasTime) || (needs === 'time only' && !hasTime)) Object.assign(fields, { hour: 'numeric', minute: '2-digit', second: '2-digit' });
    }
    let hour12 = options.hour12;
    if (hour12 === undefined && options.hourCycle !== undefined) hour12 = options.hourCycle === 'h12' || options.hourCycle === 'h11';
    hour12 ??= data.time12;
    kept.set(this, { name, data, timeZone, fields, hour12, dateStyle, timeStyle, hourCycle: options.hour12 === false && data.time12 ? 'h24' : options.hourCycle });
    Object.defineProperty(this, 'format', { value: (date) => this.formatToParts(date).map((part) => part.value).join(''), writable: true, configurable: true, enumerable: false });
  }

  resolvedOptions() {
    const { name, timeZone, fields, hour12, dateStyle, timeStyle } = kept.get(this);
    const out = { locale: name, calendar: 'gregory', numberingSystem: 'latn', timeZone };
    if (fields.hour !== undefined) Object.assign(out, { hourCycle: hour12 ? 'h12' : 'h23', hour12 });
    return Object.assign(out, dateStyle === undefined && timeStyle === undefined ? fields : { ...(dateStyle && { dateStyle }), ...(timeStyle && { timeStyle }) });
  }

  formatToParts(given) {
    const { data, timeZone, fields, hour12, dateStyle, hourCycle } = kept.get(this);
    const time = given === undefined ? Date.now() : Number(given);
    if (!Number.isFinite(time)) throw new RangeError('Invalid time value');
    const local = new Date(time + hoursOf(timeZone, time).hours * 3600000);
    const parts = [];
    const add = (type, value) => parts.push({ type, value: `${value}` });
    const literal = (value) => value !== '' && parts.push({ type: 'literal', value });

    const year = local.getUTCFullYear();
    const yearText = fields.year === '2-digit' ? two(((year % 100) + 100) % 100) : `${year}`;
    const month = local.getUTCMonth();
    const wordy = fields.month === 'long' || fields.month === 'short' || fields.month === 'narrow';
    const hasDate = fields.year !== undefined || fields.month !== undefined || fields.day !== undefined;
    const weekday = fields.weekday && (fields.weekday === 'long' ? data.days : fields.weekday === 'narrow' ? data.days.map((name) => name[0]) : data.daysShort)[local.getUTCDay()];

    if (weekday) {
      add('weekday', weekday);
      if (hasDate) literal(wordy ? data.weekday.replace('W', '') : ', ');
    }
    if (wordy) {
      const word = (fields.month === 'long' ? data.months : fields.month === 'narrow' ? data.months.map((name) => name[0].toUpperCase()) : data.monthsShort)[month];
      const day = fields.day === '2-digit' ? two(local.getUTCDate()) : `${local.getUTCDate()}`;
      const pattern = fields.day === undefined ? (fields.year === undefined ? 'M' : data.longNoDay) : fields.year === undefined ? data.longNoYear : data.long;
      for (const piece of pattern.match(/[DMY]|[^DMY]+/g)) {
        if (piece === 'D') add('day', day);
        else if (piece === 'M') add('month', word);
        else if (piece === 'Y') add('year', yearText);
        else literal(piece);
      }
    } else if (hasDate) {
      const shown = { Y: fields.year && yearText };
      const full = fields.year !== undefined && fields.month !== undefined && fields.day !== undefined;
      shown.M = fields.month && (fields.month === '2-digit' || (full && data.pad.includes('M')) || (dateStyle === 'short' && data.date === 'D.M.Y') ? two(month + 1) : `${month + 1}`);
      const alone = fields.month === undefined && fields.year === undefined;
      shown.D = fields.day && (fields.day === '2-digit' ? two(local.getUTCDate()) : (full && data.pad.includes('D')) || (dateStyle === 'short' && data.date === 'D.M.Y') ? two(local.getUTCDate()) : `${local.getUTCDate()}`);
      if (alone && fields.day === '2-digit') shown.D = two(local.getUTCDate());
      const names = { Y: 'year', M: 'month', D: 'day' };
      let pending;
      for (const piece of data.date.match(/[DMY]|[^DMY]+/g)) {
        if (names[piece]) {
          if (!shown[piece]) continue;
          if (pending !== undefined && parts.some((part) => part.type !== 'weekday' && part.type !== 'literal')) literal(pending);
          add(names[piece], shown[piece]);
          pending = undefined;
        } else pending ??= piece;
      }
    }

    const hasTime = fields.hour !== undefined || fields.minute !== undefined || fields.second !== undefined || fields.fractionalSecondDigits !== undefined;
    if (hasTime) {
      if (hasDate || weekday) literal(wordy && (dateStyle === 'full' || dateStyle === 'long' || (dateStyle === undefined && fields.month === 'long')) ? data.at : hasDate ? data.comma : ' ');
      const hours = local.getUTCHours();
      const pieces = [];
      if (fields.hour !== undefined) {
        const shown = hour12 ? hours % 12 || (hourCycle === 'h11' ? 0 : 12) : hourCycle === 'h24' && hours === 0 ? 24 : hours;
        const withMinutes = fields.minute !== undefined || fields.second !== undefined;
        pieces.push(['hour', fields.hour === '2-digit' || (!hour12 && !data.bareHour && (withMinutes || data.time12)) ? two(shown) : `${shown}`]);
      }
      const alone = fields.hour === undefined && fields.second === undefined;
      if (fields.minute !== undefined) pieces.push(['minute', alone ? `${local.getUTCMinutes()}` : two(local.getUTCMinutes())]);
      if (fields.second !== undefined) pieces.push(['second', fields.minute === undefined && fields.hour === undefined ? `${local.getUTCSeconds()}` : two(local.getUTCSeconds())]);
      pieces.forEach(([type, value], i) => {
        if (i > 0) literal(':');
        add(type, value);
      });
      if (fields.fractionalSecondDigits !== undefined) {
        if (pieces.length > 0) literal(data.decimal);
        add('fractionalSecond', String(local.getUTCMilliseconds()).padStart(3, '0').slice(0, fields.fractionalSecondDigits));
      }
      if (hour12 && fields.hour !== undefined) {
        literal(' ');
        add('dayPeriod', hours < 12 ? data.am : data.pm);
      }
    }
    if (fields.timeZoneName !== undefined) {
      literal(hasTime ? ' ' : ', ');
      add('timeZoneName', zoneLabel(timeZone, time, fields.timeZoneName));
    }
    return parts;
  }

  formatRange(start, end) {
    const [a, b] = [this.format(start), this.format(end)];
    return a === b ? a : `${a} – ${b}`;
  }

  static supportedLocalesOf(locales) {
    return supportedLocalesOf(locales);
  }
}
Object.defineProperty(DateTimeFormat.prototype, Symbol.toStringTag, { value: 'Intl.DateTimeFormat', configurable: true });
