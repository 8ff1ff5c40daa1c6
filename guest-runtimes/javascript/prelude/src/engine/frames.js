// Lines of stacks as V8 writes them: the call sites that are shown, their names, and their positions in the source
// text.
import { SafeSet, SafeWeakSet, uncurry } from './uncurry.js';
import { nameOfBuiltin } from './builtins.js';
import { callAround, startOfChain } from './callees.js';
import { columnOf, fileOf, functionOf, isConstructor, isNative, lineOf, nameOf } from './sites.js';
import { offsetOf, positionOf, textOf as sourceText } from './sources.js';
import { originalPosition } from './sourcemaps.js';

export const isOurs = (file) => typeof file === 'string' && (file[0] === 'n' ? startsWith(file, 'node:') : file[0] === 'c' && startsWith(file, 'codebox:'));
const startsWith = uncurry(String.prototype.startsWith);

// The engine's name for text without a file: the argument of eval, Function and JSON.parse.
export const UNNAMED = '<input>';
const callerIsOurs = (at, sites) => {
  for (let i = at + 1; i < sites.length; i++) if (!isNative(sites[i])) return isOurs(fileOf(sites[i]));
  return true;
};

// Returns true if the call site is shown. Built-in functions are shown where the program called them, including the
// prelude's replacements.
export function shown(at, sites) {
  const site = sites[at];
  if (!isNative(site)) {
    const file = fileOf(site);
    // The position of a syntax error is not a frame.
    if (file === UNNAMED) return typeof functionOf(site) === 'function';
    if (!isOurs(file)) return true;
  }
  return nameOfBuiltin(functionOf(site)) !== undefined && !callerIsOurs(at, sites);
}

// Files that stacks show by URL: ES modules. All others are shown by path.
const urls = new SafeSet();
export const showAsUrl = (file) => urls.add(file);
const shownFile = (file) => (urls.has(file) ? `file://${file}` : file);

const wrappers = new SafeWeakSet();
export const isModuleWrapper = (fn) => wrappers.add(fn);
const nameless = (site) => {
  const fn = functionOf(site);
  return typeof fn === 'function' && wrappers.has(fn);
};

// Returns the position of the call that a site is in. V8 reports the position of `new`, the engine that of the class or
// of its last argument.
function newBefore(file, line, column, maker) {
  const text = sourceText(file);
  const at = text === undefined ? -1 : offsetOf(text, line, column);
  if (at < 0) return [line, column];
  if (text.slice(at - 4, at) === 'new ') return [line, column - 4];
  if (maker === undefined) return [line, column];
  for (let open = callAround(text, at), tries = 0; open >= 0 && tries < 5; open = callAround(text, open), tries++) {
    const start = startOfChain(text, open);
    const name = text.slice(start, open).trimEnd();
    if (name !== maker && !name.endsWith(`.${maker}`)) continue;
    const before = /\bnew\s+$/.exec(text.slice(Math.max(0, start - 12), start));
    return positionOf(text, before ? start - before[0].length : start, line);
  }
  return [line, column];
}

// Returns the position of a site. `maker` is the class of the error that was created there, if any.
export function placeOf(site, maker) {
  const file = fileOf(site);
  if (!file) return undefined;
  const [line, column] = originalPosition(file, ...newBefore(file, lineOf(site), columnOf(site), maker));
  return { file, shown: shownFile(file), line, column };
}

// Returns the name of the class that created an error.
export function makerOf(error) {
  try {
    const name = error.constructor?.name;
    return typeof name === 'string' && name !== '' ? name : undefined;
  } catch {
    return undefined;
  }
}

// Returns the site that evaluates the text that a site is in, if the evaluation is still running.
function evaluatedAt(at, sites) {
  let evaluated = false;
  for (let i = at; i < sites.length; i++) {
    if (isNative(sites[i])) continue;
    if (fileOf(sites[i]) !== UNNAMED) return evaluated ? sites[i] : undefined;
    if (nameOf(sites[i]) === '<eval>') evaluated = true;
  }
  return undefined;
}

export function frameText(site, maker, at = 0, sites = [site]) {
  const fn = functionOf(site);
  const file = fileOf(site);
  if (isNative(site) || isOurs(file)) return `${nameOfBuiltin(fn) ?? nameOf(site)} (<anonymous>)`;
  const place = placeOf(site, maker);
  let name = nameOf(site);
  if (file === UNNAMED) {
    if (name === '<eval>') name = 'eval';
    const from = evaluatedAt(at, sites);
    const where = `<anonymous>:${place.line}:${place.column}`;
    if (from === undefined) return name ? `${name} (${where})` : where;
    const text = frameText(from);
    return `${name || '<anonymous>'} (eval at ${text[text.length - 1] === ')' && text[0] !== '<' ? (nameless(from) ? `<anonymous> ${text.slice(text.indexOf('('))}` : text) : `<anonymous> (${text})`}, ${where})`;
  }
  const where = place === undefined ? '<anonymous>' : place.line > 0 ? `${place.shown}:${place.line}:${place.column}` : place.shown;
  if (nameless(site)) return `Object.<anonymous> (${where})`;
  if (name === '<eval>' || name === '<anonymous>' || name === '<module>' || name === '<static_initializer>') name = null;
  if (!name) return where;
  return `${isConstructor(site) ? 'new ' : ''}${name} (${where})`;
}
