// package.json: "exports", "imports" and "main", as Node's documentation specifies.
import { coded } from '../node/errors.js';
import { dirname } from '../node/path-posix.js';
import { isDirectory, isFile, packageAt, packageOf } from './files.js';

export const IMPORT = ['node', 'import', 'module-sync', 'node-addons'];
export const REQUIRE = ['node', 'require', 'module-sync', 'node-addons'];

const quoted = (value) => JSON.stringify(value);

function notExported(pack, subpath, from) {
  const where = from ? ` imported from ${from}` : '';
  const message =
    subpath === '.'
      ? `No "exports" main defined in ${pack.path}${where}`
      : `Package subpath '${subpath}' is not defined by "exports" in ${pack.path}${where}`;
  return coded(Error, 'ERR_PACKAGE_PATH_NOT_EXPORTED', message);
}

function invalidTarget(pack, key, target, internal) {
  return coded(
    Error,
    'ERR_INVALID_PACKAGE_TARGET',
    `Invalid "${internal ? 'imports' : 'exports'}" target ${quoted(target)} defined ${internal || key !== '.' ? `for '${key}' ` : ''}in the package config ${pack.path}`,
  );
}

const FORBIDDEN = /(?:^|\/|\\)(?:\.\.?|node_modules)(?:\/|\\|$)/i;

// Returns a path, null for a target that forbids access, or undefined if no target matches.
function resolveTarget(pack, target, match, key, internal, conditions, resolveBare) {
  if (typeof target === 'string') {
    if (!target.startsWith('./')) {
      if (internal && !target.startsWith('../') && !target.startsWith('/')) {
        return resolveBare(match === undefined ? target : target.replaceAll('*', () => match), pack.path);
      }
      throw invalidTarget(pack, key, target, internal);
    }
    if (FORBIDDEN.test(target.slice(2))) throw invalidTarget(pack, key, target, internal);
    if (match !== undefined && FORBIDDEN.test(match)) throw coded(TypeError, 'ERR_INVALID_MODULE_SPECIFIER', `Invalid module "${match}" request is not a valid match in pattern "${key}" in ${pack.path}`);
    return `${pack.directory}/${(match === undefined ? target : target.replaceAll('*', () => match)).slice(2)}`;
  }
  if (Array.isArray(target)) {
    let last;
    for (const each of target) {
      try {
        const found = resolveTarget(pack, each, match, key, internal, conditions, resolveBare);
        if (found === undefined) continue;
        if (found !== null) return found;
        last = null;
      } catch (error) {
        if (error.code !== 'ERR_INVALID_PACKAGE_TARGET') throw error;
        last = error;
      }
    }
    if (last instanceof Error) throw last;
    return last;
  }
  if (target !== null && typeof target === 'object') {
    for (const name of Object.keys(target)) {
      if (name !== 'default' && !conditions.includes(name)) continue;
      const found = resolveTarget(pack, target[name], match, key, internal, conditions, resolveBare);
      if (found !== undefined) return found;
    }
    return undefined;
  }
  if (target === null) return null;
  throw invalidTarget(pack, key, target, internal);
}

function resolveKeys(pack, subpath, table, internal, conditions, resolveBare) {
  if (Object.hasOwn(table, subpath) && !subpath.includes('*') && !subpath.endsWith('/')) {
    return resolveTarget(pack, table[subpath], undefined, subpath, internal, conditions, resolveBare);
  }
  let best;
  let match;
  for (const key of Object.keys(table)) {
    const star = key.indexOf('*');
    if (star < 0 || key.lastIndexOf('*') !== star) continue;
    const before = key.slice(0, star);
    const after = key.slice(star + 1);
    if (!subpath.startsWith(before) || subpath === before || subpath.length < key.length || !subpath.endsWith(after)) continue;
    if (best === undefined || star > best.indexOf('*') || (star === best.indexOf('*') && key.length > best.length)) {
      best = key;
      match = subpath.slice(star, subpath.length - after.length);
    }
  }
  if (best === undefined) return undefined;
  return resolveTarget(pack, table[best], match, best, internal, conditions, resolveBare);
}

export function resolveExports(pack, subpath, conditions, from) {
  const { exports } = pack.data;
  const single = typeof exports === 'string' || Array.isArray(exports) || Object.keys(exports).every((key) => key[0] !== '.');
  const table = single ? { '.': exports } : exports;
  const found = resolveKeys(pack, subpath, table, false, conditions);
  if (found === undefined || found === null) throw notExported(pack, subpath, from);
  return found;
}

export function resolveImports(name, from, conditions, resolveBare) {
  const pack = packageOf(from);
  const table = pack?.data.imports;
  if (name !== '#' && !name.startsWith('#/') && table) {
    const found = resolveKeys(pack, name, table, true, conditions, resolveBare);
    if (found !== undefined && found !== null) return found;
  }
  throw coded(
    TypeError,
    'ERR_PACKAGE_IMPORT_NOT_DEFINED',
    `Package import specifier "${name}" is not defined${pack ? ` in package ${pack.path}` : ''} imported from ${from}`,
  );
}

export function splitName(specifier) {
  const parts = specifier.split('/');
  const name = specifier[0] === '@' ? parts.slice(0, 2).join('/') : parts[0];
  const valid = name !== '' && name[0] !== '.' && !/[\\%]/.test(name) && (specifier[0] !== '@' || parts.length > 1);
  return { name, subpath: `.${specifier.slice(name.length)}`, valid };
}

export function* nodeModulesOf(directory) {
  for (let at = directory; ; at = dirname(at)) {
    if (!at.endsWith('/node_modules')) yield at === '/' ? '/node_modules' : `${at}/node_modules`;
    if (at === '/' || at === '.') return;
  }
}

// Returns the package of that name that a file in `directory` finds.
export function findPackage(name, directory) {
  const own = packageOf(`${directory}/x`);
  if (own?.data.exports !== undefined && own.data.exports !== null && own.data.name === name) return own;
  for (const place of nodeModulesOf(directory)) {
    const at = `${place}/${name}`;
    if (isDirectory(at)) return packageAt(at) ?? { path: `${at}/package.json`, directory: at, data: {} };
  }
  return undefined;
}

function firstFile(pack, names) {
  for (const name of names) {
    const path = `${pack.directory}/${name.replace(/^\.\//, '')}`;
    if (isFile(path)) return path;
  }
  return undefined;
}

// Resolves "main", or returns undefined if the package has none or its file does not exist.
export function mainOf(pack) {
  const { main } = pack.data;
  if (typeof main !== 'string' || main === '') return undefined;
  return firstFile(pack, [main, `${main}.js`, `${main}.json`, `${main}.node`, `${main}/index.js`, `${main}/index.json`]);
}

// Resolves "main" and index files, for packages without "exports".
export const legacyMain = (pack) => mainOf(pack) ?? firstFile(pack, ['index.js', 'index.json']);
