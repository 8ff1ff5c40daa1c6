// node:path for Windows paths.
import { validateObject, validateString } from './errors.js';
import { matchesGlob as globbed } from './path-posix.js';

const isSlash = (c) => c === '/' || c === '\\';
const isDrive = (path) => /^[A-Za-z]:/.test(path);

// Returns the device (`C:` or `\\server\share`), a flag for a slash after it, and the rest.
function split(path) {
  const unc = /^[\\/]{2}([^\\/]+)[\\/]+([^\\/]+)/.exec(path);
  if (unc && unc[1] !== '.' && unc[1] !== '?') {
    const rest = path.slice(unc[0].length);
    return { device: `\\\\${unc[1]}\\${unc[2]}`, raw: unc[0], rooted: true, rest: rest.replace(/^[\\/]+/, ''), unc: true };
  }
  if (isDrive(path)) {
    const rooted = isSlash(path[2] ?? '');
    return { device: path.slice(0, 2), raw: path.slice(0, 2), rooted, rest: path.slice(2).replace(/^[\\/]+/, ''), unc: false };
  }
  const rooted = isSlash(path[0] ?? '');
  return { device: '', raw: '', rooted, rest: path.replace(/^[\\/]+/, ''), unc: false };
}

function segments(path, rooted) {
  const out = [];
  for (const part of path.split(/[\\/]+/)) {
    if (part === '' || part === '.') continue;
    if (part !== '..') out.push(part);
    else if (out.length > 0 && out[out.length - 1] !== '..') out.pop();
    else if (!rooted) out.push('..');
  }
  return out.join('\\');
}

export function resolve(...paths) {
  let device = '';
  let tail = '';
  let rooted = false;
  for (let i = paths.length - 1; i >= -1; i--) {
    let path;
    if (i >= 0) {
      path = paths[i];
      validateString(path, `paths[${i}]`);
      if (path === '') continue;
    } else path = device === '' ? 'C:\\' : `${device}\\`;
    const parts = split(path);
    if (parts.device !== '') {
      if (device !== '') {
        if (parts.device.toLowerCase() !== device.toLowerCase()) continue;
      } else device = parts.device;
    }
    if (rooted) {
      if (device !== '') break;
    } else {
      tail = `${parts.rest}\\${tail}`;
      rooted = parts.rooted;
      if (parts.rooted && device !== '') break;
    }
  }
  tail = segments(tail, rooted);
  return rooted ? `${device}\\${tail}` : `${device}${tail}` || '.';
}

export function normalize(path) {
  validateString(path, 'path');
  if (path === '') return '.';
  const parts = split(path);
  let tail = segments(parts.rest, parts.rooted);
  if (tail === '' && !parts.rooted) tail = '.';
  if (tail !== '' && isSlash(path[path.length - 1]) && !(tail === '.' && parts.rest === '')) tail += '\\';
  return `${parts.device}${parts.rooted ? '\\' : ''}${tail}`;
}

export function isAbsolute(path) {
  validateString(path, 'path');
  return isSlash(path[0] ?? '') || (isDrive(path) && isSlash(path[2] ?? ''));
}

export function join(...paths) {
  const kept = [];
  for (const path of paths) {
    validateString(path, 'path');
    if (path !== '') kept.push(path);
  }
  if (kept.length === 0) return '.';
  let joined = kept.join('\\');
  // Two slashes that result from joining do not start a server name.
  if (!/^[\\/]{2}[^\\/]/.test(kept[0])) joined = joined.replace(/^[\\/]{2,}/, '\\');
  return normalize(joined);
}

export function relative(from, to) {
  validateString(from, 'from');
  validateString(to, 'to');
  if (from === to) return '';
  const a = resolve(from);
  const b = resolve(to);
  if (a.toLowerCase() === b.toLowerCase()) return '';
  const left = a.split('\\').filter(Boolean);
  const right = b.split('\\').filter(Boolean);
  let same = 0;
  while (same < left.length && same < right.length && left[same].toLowerCase() === right[same].toLowerCase()) same++;
  if (same === 0) return b;
  return [...Array(left.length - same).fill('..'), ...right.slice(same)].join('\\');
}

export function toNamespacedPath(path) {
  if (typeof path !== 'string' || path === '') return path;
  const full = resolve(path);
  if (/^[A-Za-z]:\\/.test(full)) return `\\\\?\\${full}`;
  return /^\\\\[^.?]/.test(full) ? `\\\\?\\UNC\\${full.slice(2)}` : path;
}

const rootOf = (path) => {
  const parts = split(path);
  if (parts.unc) return path.slice(0, parts.raw.length + (isSlash(path[parts.raw.length] ?? '') ? 1 : 0));
  return path.slice(0, parts.device.length + (parts.rooted ? 1 : 0));
};

function bare(path, from) {
  let end = path.length;
  while (end > from && isSlash(path[end - 1])) end--;
  return path.slice(0, end);
}

function lastSlash(path, from) {
  for (let i = path.length - 1; i >= from; i--) if (isSlash(path[i])) return i;
  return -1;
}

export function dirname(path) {
  validateString(path, 'path');
  if (path === '') return '.';
  const root = rootOf(path);
  const whole = bare(path, root.length);
  const slash = lastSlash(whole, root.length);
  if (slash < 0) return root || '.';
  return bare(whole.slice(0, slash), root.length);
}

export function basename(path, suffix) {
  if (suffix !== undefined) validateString(suffix, 'suffix');
  validateString(path, 'path');
  const start = isDrive(path) ? 2 : 0;
  const whole = bare(path, start);
  const name = whole.slice(Math.max(start, lastSlash(whole, start) + 1));
  return suffix && name !== suffix && name.endsWith(suffix) ? name.slice(0, -suffix.length) : name;
}

export function extname(path) {
  validateString(path, 'path');
  const name = basename(path);
  const dot = name.lastIndexOf('.');
  return dot <= 0 || name === '..' ? '' : name.slice(dot);
}

export function parse(path) {
  validateString(path, 'path');
  const root = rootOf(path);
  const base = path.length === root.length ? '' : basename(path);
  const ext = extname(base);
  const whole = bare(path, root.length);
  const slash = lastSlash(whole, root.length);
  return { root, dir: slash < 0 ? root : whole.slice(0, slash), base, ext, name: ext === '' ? base : base.slice(0, -ext.length) };
}

export function format(object) {
  validateObject(object, 'pathObject');
  const dir = object.dir || object.root;
  const extension = object.ext ? `${object.ext[0] === '.' ? '' : '.'}${object.ext}` : '';
  const base = object.base || `${object.name || ''}${extension}`;
  if (!dir) return base;
  return dir === object.root ? `${dir}${base}` : `${dir}\\${base}`;
}

export const matchesGlob = (path, pattern) => globbed(path.replace(/\\/g, '/'), pattern.replace(/\\/g, '/'));
export const sep = '\\';
export const delimiter = ';';
