// node:path for POSIX paths.
import { validateObject, validateString } from './errors.js';

let cwd = () => '/';
export const useCwd = (fn) => {
  cwd = fn;
};

// Returns the segments of a path without `.` and, as far as possible, without `..`.
function normalizeSegments(path, absolute) {
  const out = [];
  for (const part of path.split('/')) {
    if (part === '' || part === '.') continue;
    if (part !== '..') out.push(part);
    else if (out.length > 0 && out[out.length - 1] !== '..') out.pop();
    else if (!absolute) out.push('..');
  }
  return out.join('/');
}

export function resolve(...paths) {
  let path = '';
  for (let i = paths.length - 1; i >= -1; i--) {
    const part = i >= 0 ? paths[i] : cwd();
    if (i >= 0) validateString(part, `paths[${i}]`);
    if (part === '') continue;
    path = path === '' ? part : `${part}/${path}`;
    if (part[0] === '/') return `/${normalizeSegments(path, true)}`;
  }
  return normalizeSegments(path, false) || '.';
}

export function normalize(path) {
  validateString(path, 'path');
  if (path === '') return '.';
  const absolute = path[0] === '/';
  const trailing = path[path.length - 1] === '/';
  let normal = normalizeSegments(path, absolute);
  if (normal === '') {
    if (absolute) return '/';
    return trailing ? './' : '.';
  }
  if (trailing) normal += '/';
  return absolute ? `/${normal}` : normal;
}

export function isAbsolute(path) {
  validateString(path, 'path');
  return path[0] === '/';
}

export function join(...paths) {
  let joined;
  for (let i = 0; i < paths.length; i++) {
    validateString(paths[i], 'path');
    if (paths[i] !== '') joined = joined === undefined ? paths[i] : `${joined}/${paths[i]}`;
  }
  return joined === undefined ? '.' : normalize(joined);
}

export function relative(from, to) {
  validateString(from, 'from');
  validateString(to, 'to');
  if (from === to) return '';
  from = resolve(from);
  to = resolve(to);
  if (from === to) return '';
  const a = from === '/' ? [] : from.slice(1).split('/');
  const b = to === '/' ? [] : to.slice(1).split('/');
  let same = 0;
  while (same < a.length && same < b.length && a[same] === b[same]) same++;
  return [...Array(a.length - same).fill('..'), ...b.slice(same)].join('/');
}

export const toNamespacedPath = (path) => path;

function withoutTrailing(path) {
  let end = path.length;
  while (end > 1 && path[end - 1] === '/') end--;
  return path.slice(0, end);
}

export function dirname(path) {
  validateString(path, 'path');
  if (path === '') return '.';
  const rooted = path[0] === '/';
  const slash = withoutTrailing(path).lastIndexOf('/');
  if (slash < 0 || (slash === 0 && !rooted)) return rooted ? '/' : '.';
  if (slash === 0) return '/';
  return rooted && slash === 1 ? '//' : path.slice(0, slash);
}

export function basename(path, suffix) {
  if (suffix !== undefined) validateString(suffix, 'suffix');
  validateString(path, 'path');
  const bare = withoutTrailing(path);
  const name = bare === '/' ? '' : bare.slice(bare.lastIndexOf('/') + 1);
  if (suffix && name !== suffix && name.endsWith(suffix)) return name.slice(0, -suffix.length);
  if (suffix && name === suffix && path === suffix) return '';
  return name;
}

export function extname(path) {
  validateString(path, 'path');
  const name = basename(path);
  const dot = name.lastIndexOf('.');
  return dot <= 0 || name === '..' ? '' : name.slice(dot);
}

export function parse(path) {
  validateString(path, 'path');
  const root = path[0] === '/' ? '/' : '';
  const base = basename(path);
  const ext = extname(path);
  const name = ext === '' ? base : base.slice(0, -ext.length);
  const bare = withoutTrailing(path);
  const slash = bare.lastIndexOf('/');
  const dir = slash < 0 ? '' : slash === 0 ? '/' : bare.slice(0, slash);
  return { root, dir: base === '' ? root : dir, base, ext, name };
}

export function format(object) {
  validateObject(object, 'pathObject');
  const dir = object.dir || object.root;
  const extension = object.ext ? `${object.ext[0] === '.' ? '' : '.'}${object.ext}` : '';
  const base = object.base || `${object.name || ''}${extension}`;
  if (!dir) return base;
  return dir === object.root ? `${dir}${base}` : `${dir}/${base}`;
}

const GLOB = /[\\^$.|+()]/g;

// Matches a glob: * and ? do not match a separator, ** does.
export function matchesGlob(path, pattern, separator = '/') {
  validateString(path, 'path');
  validateString(pattern, 'pattern');
  const other = separator === '/' ? '[^/]' : '[^\\\\/]';
  let source = '';
  for (let i = 0; i < pattern.length; i++) {
    const c = pattern[i];
    if (c === '*') {
      if (pattern[i + 1] === '*') {
        i++;
        if (pattern[i + 1] === '/') {
          i++;
          source += `(?:.*[/])?`;
        } else source += '.*';
      } else source += `${other}*`;
    } else if (c === '?') source += other;
    else if (c === '{') {
      const end = pattern.indexOf('}', i);
      if (end < 0) source += '\\{';
      else {
        source += `(?:${pattern.slice(i + 1, end).split(',').map((option) => option.replace(GLOB, '\\$&').replace(/\*/g, `${other}*`)).join('|')})`;
        i = end;
      }
    } else if (c === '[') {
      const end = pattern.indexOf(']', i + 2);
      if (end < 0) source += '\\[';
      else {
        source += `[${pattern.slice(i + 1, end).replace(/^!/, '^').replace(/\\/g, '\\\\')}]`;
        i = end;
      }
    } else source += c.replace(GLOB, '\\$&').replace(/[{}\]]/, '\\$&');
  }
  return new RegExp(`^${source}$`, 's').test(path);
}

export const sep = '/';
export const delimiter = ':';
