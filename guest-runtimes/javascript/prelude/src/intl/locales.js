// Data of languages and regions: for English all that is supported, for the others the formats of numbers and dates.
const EN_MONTHS = ['January', 'February', 'March', 'April', 'May', 'June', 'July', 'August', 'September', 'October', 'November', 'December'];
const EN_DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];

const short = (names, length = 3) => names.map((name) => name.slice(0, length));

const en = {
  decimal: '.', group: ',', minimumGroup: 1, currency: '¤#', accounting: '(¤#)', percent: '#%', plus: '+', minus: '-',
  date: 'M/D/Y', pad: '', time12: true, months: EN_MONTHS, monthsShort: short(EN_MONTHS), days: EN_DAYS, daysShort: short(EN_DAYS), comma: ', ', at: ' at ',
  long: 'M D, Y', longNoYear: 'M D', longNoDay: 'M Y', weekday: 'W, ', am: 'AM', pm: 'PM', listAnd: ', and ', listOr: ', or ', two: ' and ',
};
const enGB = { ...en, date: 'D/M/Y', pad: 'DM', time12: false, long: 'D M Y', longNoYear: 'D M', am: 'am', pm: 'pm', monthsShort: en.monthsShort.map((m) => (m === 'Sep' ? 'Sept' : m)) };

export const LOCALES = {
  'en-US': en,
  'en-GB': enGB,
  'en-AU': { ...enGB, time12: true, monthsShort: EN_MONTHS.map((m) => (m.length <= 4 ? m : m === 'September' ? 'Sept' : m.slice(0, 3))) },
  'en-CA': { ...en, date: 'Y-M-D', pad: 'DM', am: 'a.m.', pm: 'p.m.', monthsShort: enGB.monthsShort },
  'en-IN': { ...enGB, pad: '', indian: true, time12: true },
  'de-DE': {
    ...en, decimal: ',', group: '.', currency: '# ¤', accounting: '-# ¤', percent: '# %', date: 'D.M.Y', time12: false, long: 'D. M Y', longNoYear: 'D. M', weekday: 'W, ', at: ' um ',
    months: ['Januar', 'Februar', 'März', 'April', 'Mai', 'Juni', 'Juli', 'August', 'September', 'Oktober', 'November', 'Dezember'],
    monthsShort: ['Jan.', 'Feb.', 'März', 'Apr.', 'Mai', 'Juni', 'Juli', 'Aug.', 'Sept.', 'Okt.', 'Nov.', 'Dez.'],
    days: ['Sonntag', 'Montag', 'Dienstag', 'Mittwoch', 'Donnerstag', 'Freitag', 'Samstag'], daysShort: ['So', 'Mo', 'Di', 'Mi', 'Do', 'Fr', 'Sa'],
    listAnd: ' und ', listOr: ' oder ', two: ' und ',
  },
  'fr-FR': {
    ...en, decimal: ',', group: '\u202f', currency: '# ¤', accounting: '(# ¤)', percent: '#\u202f%', date: 'D/M/Y', pad: 'DM', time12: false, comma: ' ', long: 'D M Y', longNoYear: 'D M', weekday: 'W ', at: ' à ',
    months: ['janvier', 'février', 'mars', 'avril', 'mai', 'juin', 'juillet', 'août', 'septembre', 'octobre', 'novembre', 'décembre'],
    monthsShort: ['janv.', 'févr.', 'mars', 'avr.', 'mai', 'juin', 'juil.', 'août', 'sept.', 'oct.', 'nov.', 'déc.'],
    days: ['dimanche', 'lundi', 'mardi', 'mercredi', 'jeudi', 'vendredi', 'samedi'], daysShort: ['dim.', 'lun.', 'mar.', 'mer.', 'jeu.', 'ven.', 'sam.'],
    listAnd: ' et ', listOr: ' ou ', two: ' et ',
  },
  'es-ES': {
    ...en, bareHour: true, decimal: ',', group: '.', minimumGroup: 2, currency: '# ¤', accounting: '-# ¤', percent: '# %', date: 'D/M/Y', time12: false, long: 'D de M de Y', longNoYear: 'D de M', longNoDay: 'M de Y', at: ', ',
    months: ['enero', 'febrero', 'marzo', 'abril', 'mayo', 'junio', 'julio', 'agosto', 'septiembre', 'octubre', 'noviembre', 'diciembre'],
    monthsShort: ['ene', 'feb', 'mar', 'abr', 'may', 'jun', 'jul', 'ago', 'sept', 'oct', 'nov', 'dic'],
    days: ['domingo', 'lunes', 'martes', 'miércoles', 'jueves', 'viernes', 'sábado'], daysShort: ['dom', 'lun', 'mar', 'mié', 'jue', 'vie', 'sáb'],
    listAnd: ' y ', listOr: ' o ', two: ' y ',
  },
  'it-IT': {
    ...en, decimal: ',', group: '.', minimumGroup: 2, currency: '# ¤', accounting: '-# ¤', date: 'D/M/Y', pad: 'DM', time12: false, long: 'D M Y', longNoYear: 'D M', weekday: 'W ', at: ' alle ore ',
    months: ['gennaio', 'febbraio', 'marzo', 'aprile', 'maggio', 'giugno', 'luglio', 'agosto', 'settembre', 'ottobre', 'novembre', 'dicembre'],
    monthsShort: ['gen', 'feb', 'mar', 'apr', 'mag', 'giu', 'lug', 'ago', 'set', 'ott', 'nov', 'dic'],
    days: ['domenica', 'lunedì', 'martedì', 'mercoledì', 'giovedì', 'venerdì', 'sabato'], daysShort: ['dom', 'lun', 'mar', 'mer', 'gio', 'ven', 'sab'],
    listAnd: ' e ', listOr: ' o ', two: ' e ',
  },
  'pt-BR': {
    ...en, decimal: ',', group: '.', currency: '¤ #', accounting: '(¤ #)', date: 'D/M/Y', pad: 'DM', time12: false, long: 'D de M de Y', longNoYear: 'D de M', longNoDay: 'M de Y', at: ' às ',
    months: ['janeiro', 'fevereiro', 'março', 'abril', 'maio', 'junho', 'julho', 'agosto', 'setembro', 'outubro', 'novembro', 'dezembro'],
    monthsShort: ['jan.', 'fev.', 'mar.', 'abr.', 'mai.', 'jun.', 'jul.', 'ago.', 'set.', 'out.', 'nov.', 'dez.'],
    days: ['domingo', 'segunda-feira', 'terça-feira', 'quarta-feira', 'quinta-feira', 'sexta-feira', 'sábado'], daysShort: ['dom.', 'seg.', 'ter.', 'qua.', 'qui.', 'sex.', 'sáb.'],
    listAnd: ' e ', listOr: ' ou ', two: ' e ',
  },
  'nl-NL': { ...en, decimal: ',', group: '.', currency: '¤ #', accounting: '(¤ #)', date: 'D-M-Y', time12: false, negativeCurrency: '¤ -#' },
  'sv-SE': { ...en, decimal: ',', group: '\u00a0', currency: '# ¤', accounting: '-# ¤', percent: '# %', minus: '\u2212', date: 'Y-M-D', pad: 'DM', time12: false, comma: ' ' },
  'pl-PL': { ...en, decimal: ',', group: '\u00a0', minimumGroup: 2, currency: '# ¤', accounting: '(# ¤)', date: 'D.M.Y', pad: 'M', time12: false },
  'ru-RU': { ...en, decimal: ',', group: '\u00a0', currency: '# ¤', accounting: '-# ¤', percent: '# %', date: 'D.M.Y', pad: 'DM', time12: false },
  'ja-JP': { ...en, bareHour: true, date: 'Y/M/D', time12: false, comma: ' ' },
  'zh-CN': { ...en, date: 'Y/M/D', time12: false, comma: ' ' },
  'ko-KR': { ...en, date: 'Y. M. D.', time12: false, comma: ' ' },
};
const LANGUAGES = { en: 'en-US', de: 'de-DE', fr: 'fr-FR', es: 'es-ES', it: 'it-IT', pt: 'pt-BR', nl: 'nl-NL', sv: 'sv-SE', pl: 'pl-PL', ru: 'ru-RU', ja: 'ja-JP', zh: 'zh-CN', ko: 'ko-KR' };

export function canonical(tag) {
  if (typeof tag !== 'string' && (tag === null || typeof tag !== 'object')) throw new TypeError('Incorrect locale information provided');
  const text = `${tag}`;
  if (!/^[A-Za-z]{2,8}(?:[-_][A-Za-z0-9]{1,8})*$/.test(text)) throw new RangeError(`Incorrect locale information provided`);
  return text
    .split('-')
    .map((part, i) => (i === 0 ? part.toLowerCase() : part.length === 2 ? part.toUpperCase() : part.length === 4 && !/^\d/.test(part) ? part[0].toUpperCase() + part.slice(1).toLowerCase() : part.toLowerCase()))
    .join('-');
}

// Returns the name of the locale that is used, and its data.
export function locale(requested) {
  const list = requested === undefined ? [] : Array.isArray(requested) ? requested : [requested];
  for (const tag of list) {
    const name = canonical(tag).replace(/-u-.*$/, '');
    if (LOCALES[name]) return { name, data: LOCALES[name] };
    const language = name.split('-')[0];
    if (LANGUAGES[language]) return { name, data: LOCALES[LANGUAGES[language]] };
  }
  return { name: 'en-US', data: en };
}

export const supportedLocalesOf = (requested) =>
  (requested === undefined ? [] : Array.isArray(requested) ? requested : [requested]).map(canonical).filter((name) => LANGUAGES[name.split('-')[0]]);
