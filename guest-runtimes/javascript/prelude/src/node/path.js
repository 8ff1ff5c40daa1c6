// node:path, with both kinds of paths as properties.
import * as posixPart from './path-posix.js';
import * as win32Part from './path-win32.js';

const NAMES = [
  'resolve', 'normalize', 'isAbsolute', 'join', 'relative', 'toNamespacedPath', 'dirname', 'basename', 'extname', 'format', 'parse', 'matchesGlob',
  'sep', 'delimiter',
];
const pick = (part) => Object.fromEntries(NAMES.map((name) => [name, part[name]]));

export const posix = pick(posixPart);
export const win32 = pick(win32Part);
posix.posix = win32.posix = posix;
posix.win32 = win32.win32 = win32;

export default posix;
