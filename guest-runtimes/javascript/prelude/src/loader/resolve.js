// Resolves the specifier that an ES module imports to the absolute name of a module.
import { coded, invalidArgType } from '../node/errors.js';
import { dirname, resolve as resolvePath } from '../node/path-posix.js';
import { originalOf } from '../engine/sources.js';
import { lacking, runnerOf } from '../missing.js';
import { CODEBOX, isBuiltin, nameOf } from './builtins.js';
import { aliased, isDirectory, isFile, normal, realPath, typedTwin, untypedTwin } from './files.js';
import { isTypeScript } from './texts.js';
import { IMPORT, findPackage, legacyMain, resolveExports, resolveImports, splitName } from './packages.js';
import { fileURLToPath } from './urls.js';

let main;
// Sets the main module, whose text is part of the job.
export const useMain = (id) => {
  main = id;
};
export const isMain = (id) => id === main;

let base = '/work';
// Sets the directory in which programs without a file look for modules.
export const useBase = (directory) => {
  base = directory;
};

const pathOf = (id) => id.replace(/[?#].*$/s, '');
export const directoryOf = (importer) => (importer?.[0] === '/' ? dirname(pathOf(importer)) : base);

// Returns the name of an importing module for messages.
const shown = (importer) => (importer?.[0] === '/' ? pathOf(importer) : resolvePath(base, importer ?? '[eval1]'));

function notFound(what, importer, isPackage, near) {
  const error = coded(Error, 'ERR_MODULE_NOT_FOUND', `Cannot find ${isPackage ? 'package' : 'module'} '${what}' imported from ${shown(importer)}${near ? `\nDid you mean to import "${near}"?` : ''}`);
  if (!isPackage) error.url = `file://${what}`;
  return error;
}

function finish(path, suffix, importer) {
  if (/%2f|%5c/i.test(path)) throw coded(TypeError, 'ERR_INVALID_MODULE_SPECIFIER', `Invalid module "${path}" must not include encoded "/" or "\\" characters imported from ${shown(importer)}`);
  if (!isFile(path)) {
    const twin = typedTwin(path) ?? (isTypeScript(importer) ? untypedTwin(path) : undefined);
    if (twin !== undefined) return realPath(twin) + suffix;
    if (isDirectory(path)) {
      const error = coded(Error, 'ERR_UNSUPPORTED_DIR_IMPORT', `Directory import '${path}' is not supported resolving ES modules imported from ${shown(importer)}`);
      error.url = `file://${path}`;
      throw error;
    }
    throw notFound(path, importer, false);
  }
  return realPath(path) + suffix;
}

function splitSuffix(specifier) {
  const at = specifier.search(/[?#]/);
  return at < 0 ? [specifier, ''] : [specifier.slice(0, at), specifier.slice(at)];
}

function unescape(path) {
  if (!path.includes('%')) return path;
  try {
    return decodeURIComponent(path.replace(/%2f|%5c/gi, (found) => `%25${found.slice(1)}`));
  } catch {
    return path;
  }
}

// Returns the file that an alias of tsconfig.json stands for in a TypeScript module.
function aliasOf(specifier, importer) {
  if (typeof importer !== 'string' || !isTypeScript(pathOf(importer))) return undefined;
  for (const path of aliased(specifier, directoryOf(importer))) {
    const file = isFile(path) ? path : typedTwin(path) ?? untypedTwin(path);
    if (file !== undefined) return realPath(file);
  }
  return undefined;
}

// Package of an import as Deno has it: the name with its scope, the version, and the path in it.
const NPM = /^npm:\/?((?:@[^/@]+\/)?[^/@]+)(?:@([^/]*))?(\/.*)?$/;

// Resolves the name of a package, of which an import by `npm:` can name a version.
function resolveBare(specifier, importer, version) {
  if (version === undefined && isBuiltin(specifier)) return `node:${nameOf(specifier)}`;
  const alias = aliasOf(specifier, importer);
  if (alias !== undefined) return alias;
  const { name, subpath, valid } = splitName(specifier);
  if (!valid) throw coded(TypeError, 'ERR_INVALID_MODULE_SPECIFIER', `Invalid module "${specifier}" is not a valid package name imported from ${shown(importer)}`);
  const pack = findPackage(name, directoryOf(importer));
  if (pack === undefined) {
    if (specifier === 'codebox') return `node:${CODEBOX}`;
    if (name === 'bun') throw lacking('bun:api', notFound(name, importer, true));
    // The registry of Deno has packages of this scope, and a program for another runner needs more than packages.
    const runner = name.startsWith('@std/') ? 'deno:imports' : runnerOf(originalOf(importer) ?? '');
    if (runner !== undefined) throw lacking(runner, notFound(name, importer, true));
    throw lacking(`npm:${name}${version ? `@${version}` : ''}`, notFound(name, importer, true));
  }
  if (pack.data.exports !== undefined && pack.data.exports !== null) return finish(resolveExports(pack, subpath, IMPORT, shown(importer)), '', importer);
  if (subpath !== '.') return finish(`${pack.directory}/${subpath.slice(2)}`, '', importer);
  const main = legacyMain(pack);
  if (main === undefined) {
    throw lacking(`npm:${name}`, notFound(pack.directory, importer, true));
  }
  return realPath(main);
}

export function resolveImport(specifier, importer) {
  if (typeof specifier !== 'string') throw invalidArgType('specifier', 'string', specifier);
  if (specifier.startsWith('node:')) {
    if (isBuiltin(specifier)) return specifier;
    throw lacking(`module:${specifier}`, coded(Error, 'ERR_UNKNOWN_BUILTIN_MODULE', `No such built-in module: ${specifier}`));
  }
  if (specifier === main) return main;
  const first = specifier[0];
  if (first === '.' || first === '/') {
    if (first === '/' || specifier === '.' || specifier === '..' || specifier.startsWith('./') || specifier.startsWith('../')) {
      const [path, suffix] = splitSuffix(specifier);
      return finish(normal(first === '/' ? unescape(path) : `${directoryOf(importer)}/${unescape(path)}`), suffix, importer);
    }
  }
  if (first === '#') {
    const target = resolveImports(specifier, importer?.[0] === '/' ? pathOf(importer) : `${base}/x`, IMPORT, resolveBare);
    return target.startsWith('node:') ? target : finish(target, '', importer);
  }
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(specifier)?.[1];
  if (scheme === 'file') {
    const [url, suffix] = splitSuffix(specifier);
    return finish(fileURLToPath(url), suffix, importer);
  }
  if (scheme === 'data') return specifier;
  const [, name, version = '', path = ''] = NPM.exec(specifier) ?? [];
  if (name !== undefined) return resolveBare(`${name}${path}`, importer, version);
  if (scheme !== undefined) {
    const error = coded(
      Error,
      'ERR_UNSUPPORTED_ESM_URL_SCHEME',
      `Only URLs with a scheme in: file, data, and node are supported by the default ESM loader. Received protocol '${scheme}:'`,
    );
    if (scheme === 'bun') throw lacking('bun:api', error);
    throw ['http', 'https', 'jsr'].includes(scheme) ? lacking('deno:imports', error) : error;
  }
  return resolveBare(specifier, importer);
}

export { notFound, shown };
