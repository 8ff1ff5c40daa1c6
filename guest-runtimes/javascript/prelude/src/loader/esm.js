// ES modules: the functions that the engine's loader calls.
import { parse } from 'cjs-module-lexer/lexer.js';
import { native } from '../native.js';
import { coded } from '../node/errors.js';
import { dirname } from '../node/path-posix.js';
import { showAsUrl } from '../engine/frames.js';
import { noteCommonJs, remember } from '../engine/sources.js';
import { builtin, isBuiltin, nameOf, namespaceOf } from './builtins.js';
import { Module, run } from './cjs.js';
import { endingOf, formatOfPath, formatOfText } from './detect.js';
import { readText } from './files.js';
import { isMain, resolveImport, shown } from './resolve.js';
import { textOf } from './texts.js';
import { hrefOf } from './urls.js';
import { SafeSet } from '../engine/uncurry.js';

const pathOf = (id) => (id[0] === '/' ? id.replace(/[?#].*$/s, '') : id);

export function resolve(specifier, importer, attributes) {
  for (const key of Object.keys(attributes ?? {})) {
    if (key !== 'type') throw coded(TypeError, 'ERR_IMPORT_ATTRIBUTE_UNSUPPORTED', `Import attribute "${key}" with value "${attributes[key]}" is not supported`);
  }
  return resolveImport(specifier, importer);
}

function checkAttributes(id, format, attributes) {
  const type = attributes?.type;
  const url = id[0] === '/' ? hrefOf(id) : id;
  if (type !== undefined && type !== 'json') {
    throw coded(TypeError, 'ERR_IMPORT_ATTRIBUTE_UNSUPPORTED', `Import attribute "type" with value "${type}" is not supported`);
  }
  if (format === 'json' && type !== 'json') {
    throw coded(TypeError, 'ERR_IMPORT_ATTRIBUTE_MISSING', `Module "${url}" needs an import attribute of "type: json"`);
  }
  if (format !== 'json' && type === 'json') {
    throw coded(TypeError, 'ERR_IMPORT_ATTRIBUTE_TYPE_INCOMPATIBLE', `Module "${url}" is not of type "json"`);
  }
}

const synthetic = (names, evaluate) => ({ kind: 'synthetic', names, evaluate });

function json(text, id) {
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    error.message = `${hrefOf(id)}: ${error.message}`;
    throw error;
  }
  return synthetic(['default'], () => ({ default: value }));
}

// Returns the names that a CommonJS file exports according to its text, including those of files that it re-exports.
function namesOf(path, text, seen = new SafeSet()) {
  if (seen.has(path)) return [];
  seen.add(path);
  let found;
  try {
    found = parse(text, path);
  } catch {
    return [];
  }
  const names = new SafeSet(found.exports);
  for (const request of found.reexports) {
    try {
      const parent = new Module(path);
      parent.filename = path;
      parent.paths = Module._nodeModulePaths(dirname(path));
      const target = Module._resolveFilename(request, parent, false);
      if (isBuiltin(target)) for (const name of Object.keys(builtin(nameOf(target)))) names.add(name);
      else if (endingOf(target) !== '.json') for (const name of namesOf(target, readText(target), seen)) names.add(name);
    } catch {
      // A missing file is reported when it is required.
    }
  }
  return [...names];
}

function commonjs(path, text) {
  noteCommonJs(path);
  const names = new SafeSet(['default', ...namesOf(path, text)]);
  names.delete('module.exports');
  return synthetic([...names], () => {
    const cached = Module._cache[path];
    let exports;
    if (cached) ({ exports } = cached);
    else {
      const module = new Module(path);
      module.filename = path;
      module.paths = Module._nodeModulePaths(dirname(path));
      Module._cache[path] = module;
      let done = false;
      try {
        run(module, text, path);
        module.loaded = true;
        done = true;
      } finally {
        if (!done) delete Module._cache[path];
      }
      ({ exports } = module);
    }
    const values = {};
    for (const name of names) {
      if (name === 'default') continue;
      try {
        values[name] = exports?.[name];
      } catch {
        values[name] = undefined;
      }
    }
    values.default = exports;
    return values;
  });
}

function fromData(id, attributes) {
  const found = /^data:([^,;]*)((?:;[^,]*)?),(.*)$/s.exec(id);
  if (!found) throw coded(TypeError, 'ERR_INVALID_URL', 'Invalid URL');
  const [, type, parameters, body] = found;
  const text = /;base64$/i.test(parameters) ? native.utf8Decode(Uint8Array.fromBase64(decodeURIComponent(body)), false) : decodeURIComponent(body);
  if (type === 'application/json') {
    checkAttributes(id, 'json', attributes);
    return json(text, id);
  }
  if (type !== 'text/javascript' && type !== 'application/javascript') {
    throw coded(RangeError, 'ERR_UNKNOWN_MODULE_FORMAT', `Unknown module format: ${type} for URL ${id}`);
  }
  checkAttributes(id, 'module', attributes);
  remember(id, text);
  return { kind: 'esm', text };
}

export function load(id, attributes) {
  if (id.startsWith('node:')) {
    const { names, exports } = namespaceOf(id.slice(5));
    return synthetic(names, () => {
      const values = {};
      for (const name of names) values[name] = name === 'default' ? exports : exports[name];
      return values;
    });
  }
  if (id.startsWith('data:')) return fromData(id, attributes);
  const path = pathOf(id);
  let format = formatOfPath(path);
  if (format === undefined) {
    const ending = endingOf(path);
    throw coded(TypeError, 'ERR_UNKNOWN_FILE_EXTENSION', `Unknown file extension "${ending}" for ${path}`);
  }
  if (format === 'addon') throw coded(TypeError, 'ERR_UNKNOWN_FILE_EXTENSION', `Unknown file extension ".node" for ${path}`);
  if (format === 'wasm') throw coded(Error, 'ERR_UNKNOWN_FILE_EXTENSION', `WebAssembly modules cannot be loaded in this sandbox: ${path}`);
  if (format === 'json') {
    checkAttributes(path, format, attributes);
    return json(readText(path), path);
  }
  checkAttributes(path, format, attributes);
  const text = textOf(path);
  if (format === 'text') format = formatOfText(text, path);
  if (format === 'commonjs') return commonjs(path, text);
  showAsUrl(path);
  if (id !== path) {
    remember(id, text);
    showAsUrl(id);
  }
  return { kind: 'esm', text };
}

// Names the file of a module, also as Bun does.
function named(target, path) {
  target.dirname = target.dir = dirname(path);
  target.filename = target.path = path;
}

export function meta(id, target) {
  target.main = isMain(id);
  if (id[0] === '/') {
    const path = pathOf(id);
    named(target, path);
    target.resolve = (specifier) => urlOf(resolveImportOf(specifier, id));
    target.url = hrefOf(path) + id.slice(path.length);
    return;
  }
  target.resolve = (specifier) => urlOf(resolveImportOf(specifier, id));
  target.url = id.startsWith('data:') || id.startsWith('node:') ? id : hrefOf(shown(id));
  // A program without a file has neither name.
  if (!id.startsWith('data:')) {
    named(target, shown(id));
  }
}

// import.meta.resolve returns the location of a file even if the file does not exist.
function resolveImportOf(specifier, id) {
  try {
    return resolveImport(`${specifier}`, id);
  } catch (error) {
    if (error.code === 'ERR_MODULE_NOT_FOUND' && error.url) return error.url;
    throw error;
  }
}

const urlOf = (id) => (id[0] === '/' ? hrefOf(id) : id);
