// CommonJS: Module, require and their parts.
import { native } from '../native.js';
import { coded, invalidArgValue, validateString } from '../node/errors.js';
import { dirname, resolve as resolvePath } from '../node/path-posix.js';
import { isModuleWrapper, showAsUrl } from '../engine/frames.js';
import { remember } from '../engine/sources.js';
import { lacking } from '../missing.js';
import { CODEBOX, builtin, builtinNames, isBuiltin, nameOf } from './builtins.js';
import { aliased, isDirectory, isFile, packageAt, packageOf, readText, realPath, typedTwin, untypedFile, untypedIndex } from './files.js';
import { PARAMETERS, formatOfPath, formatOfText, endingOf } from './detect.js';
import { REQUIRE, findPackage, mainOf, nodeModulesOf, resolveExports, resolveImports, splitName } from './packages.js';
import { isTypeScript, strip, textOf } from './texts.js';
import { fileURLToPath } from './urls.js';

export function Module(id = '', parent) {
  this.id = id;
  this.path = dirname(id);
  this.exports = {};
  Object.defineProperty(this, kParent, { value: parent, writable: true, configurable: true, enumerable: false });
  parent?.children?.push(this);
  this.filename = null;
  this.loaded = false;
  this.children = [];
}
const kParent = Symbol('parent');
Object.defineProperty(Module.prototype, 'parent', {
  get() { return this[kParent]; },
  set(value) { this[kParent] = value; },
  configurable: true,
});

Module._cache = { __proto__: null };
Module._pathCache = { __proto__: null };
Module._extensions = { __proto__: null };
Module.globalPaths = [];
Module.Module = Module;
Module.isBuiltin = isBuiltin;
Module.wrapper = ['(function (exports, require, module, __filename, __dirname) { ', '\n});'];
Module.wrap = (script) => Module.wrapper[0] + script + Module.wrapper[1];
Module._debug = () => {};
Object.defineProperty(Module, 'builtinModules', { get: builtinNames, enumerable: true, configurable: true });

Module._nodeModulePaths = (from) => {
  const paths = [];
  for (let at = from[0] === '/' ? from : resolvePath(from); at !== ''; at = at.slice(0, at.lastIndexOf('/'))) {
    if (at !== '/' && !at.endsWith('/node_modules')) paths.push(`${at}/node_modules`);
  }
  paths.push('/node_modules');
  return paths;
};

Module._resolveLookupPaths = function (request, parent) {
  if (isBuiltin(request)) return null;
  if (request[0] !== '.' || (request.length > 1 && request[1] !== '.' && request[1] !== '/')) return parent?.paths ? [...parent.paths] : [];
  return [parent?.filename ? dirname(parent.filename) : '.'];
};

// Resolves a path to a file, a file with an added extension, a directory's main file, or a directory's index file, in
// this order, as Node does. An index file in TypeScript is the last choice.
function asFile(path, trailing) {
  if (!trailing) {
    if (isFile(path)) return path;
    for (const ending of Object.keys(Module._extensions)) if (isFile(path + ending)) return path + ending;
    const twin = typedTwin(path) ?? untypedFile(path);
    if (twin !== undefined) return twin;
  }
  if (isDirectory(path)) {
    const pack = packageAt(path);
    const main = pack === null ? undefined : mainOf(pack);
    if (main !== undefined) return main;
    for (const ending of Object.keys(Module._extensions)) if (isFile(`${path}/index${ending}`)) return `${path}/index${ending}`;
    return untypedIndex(path);
  }
  return undefined;
}

// Returns the file that an alias of tsconfig.json stands for in a TypeScript module.
function fromAliases(request, directory, parent) {
  if (!isTypeScript(parent?.filename ?? '')) return undefined;
  for (const path of aliased(request, directory)) {
    const found = asFile(path, false);
    if (found !== undefined) return found;
  }
  return undefined;
}

function fromPackages(request, directory) {
  const { name, subpath, valid } = splitName(request);
  if (!valid) return undefined;
  const pack = findPackage(name, directory);
  if (pack?.data.exports !== undefined && pack.data.exports !== null) {
    const path = resolveExports(pack, subpath, REQUIRE);
    if (isFile(path)) return path;
    const twin = typedTwin(path);
    if (twin !== undefined) return twin;
    throw missing(path, undefined);
  }
  for (const place of nodeModulesOf(directory)) {
    const path = asFile(resolvePath(place, request), request.endsWith('/'));
    if (path !== undefined) return path;
  }
  return undefined;
}

function missing(request, parent) {
  const stack = [];
  for (let at = parent; at; at = at[kParent]) if (at.filename || at.id) stack.push(at.filename || at.id);
  let message = `Cannot find module '${request}'`;
  if (stack.length > 0) message += `\nRequire stack:\n- ${stack.join('\n- ')}`;
  const error = new Error(message);
  error.code = 'MODULE_NOT_FOUND';
  error.requireStack = stack;
  return error;
}

Module._findPath = function (request, paths) {
  for (const place of request[0] === '/' ? [''] : paths ?? []) {
    const found = asFile(resolvePath(place, request), request.endsWith('/'));
    if (found !== undefined) return realPath(found);
  }
  return false;
};

Module._resolveFilename = function (request, parent, isMain, options) {
  if (isBuiltin(request)) return request;
  if (request.startsWith('node:')) {
    throw lacking(`module:${request}`, coded(Error, 'ERR_UNKNOWN_BUILTIN_MODULE', `No such built-in module: ${request}`));
  }
  const directories = options?.paths ? options.paths.map((path) => resolvePath(path)) : [parent?.filename ? dirname(parent.filename) : parent?.path ?? '.'];
  const relative = request === '.' || request === '..' || request.startsWith('./') || request.startsWith('../');
  for (const directory of directories) {
    let found;
    if (request[0] === '/' || relative) {
      const trailing = request.endsWith('/') || request === '.' || request === '..' || request.endsWith('/.') || request.endsWith('/..');
      found = asFile(resolvePath(directory, request), trailing);
    } else if (request[0] === '#' && packageOf(`${directory}/x`)?.data.imports) {
      found = resolveImports(request, parent?.filename ?? `${directory}/x`, REQUIRE, (bare) => (isBuiltin(bare) ? bare : fromPackages(bare, directory)));
      if (isBuiltin(found)) return found;
    } else if (request !== '') found = fromAliases(request, directory, parent) ?? fromPackages(request, directory);
    if (found !== undefined) return realPath(found);
  }
  if (request === 'codebox') return CODEBOX;
  const error = missing(request, parent);
  throw relative || request[0] === '/' || request === '' ? error : lacking(`npm:${splitName(request).name}`, error);
};

Module._load = function (request, parent, isMain) {
  if (isBuiltin(request)) return builtin(nameOf(request));
  const filename = Module._resolveFilename(request, parent, isMain);
  if (isBuiltin(filename)) return builtin(nameOf(filename));
  const cached = Module._cache[filename];
  if (cached !== undefined) {
    if (parent && !parent.children?.includes(cached)) parent.children?.push(cached);
    return cached.exports;
  }
  const module = new Module(filename, parent);
  if (isMain) begin(module, '.');
  return loadInto(module, filename);
};

export function loadInto(module, filename) {
  Module._cache[filename] = module;
  let done = false;
  try {
    module.load(filename);
    done = true;
  } finally {
    if (!done) {
      delete Module._cache[filename];
      const siblings = module[kParent]?.children;
      const at = siblings?.indexOf(module) ?? -1;
      if (at >= 0) siblings.splice(at, 1);
    }
  }
  return module.exports;
}

let mainModule;
export function begin(module, id) {
  module.id = id;
  mainModule = module;
  globalThis.process.mainModule = module;
}

Module.prototype.load = function (filename) {
  this.filename = filename;
  this.paths = Module._nodeModulePaths(dirname(filename));
  const ending = endingOf(filename);
  const handler = Module._extensions[ending] ?? Module._extensions['.js'];
  handler(this, filename);
  this.loaded = true;
};

Module.prototype.require = function (id) {
  validateString(id, 'id');
  if (id === '') throw invalidArgValue('id', id, 'must be a non-empty string');
  return Module._load(id, this, false);
};

// `text` is JavaScript; the caller that removed types has remembered the original.
Module.prototype._compile = function (text, filename) {
  remember(filename, text);
  return run(this, text, filename);
};

export function run(module, text, filename) {
  const fn = native.compileFunction(text, filename, PARAMETERS);
  isModuleWrapper(fn);
  const require = makeRequire(module);
  return fn.call(module.exports, module.exports, require, module, filename, dirname(filename));
}

export function makeRequire(module) {
  const require = function require(path) {
    return module.require(path);
  };
  const resolve = (request, options) => {
    validateString(request, 'request');
    return Module._resolveFilename(request, module, false, options);
  };
  resolve.paths = (request) => {
    validateString(request, 'request');
    return Module._resolveLookupPaths(request, module);
  };
  Object.defineProperty(resolve, 'name', { value: 'resolve' });
  Object.defineProperty(require, 'name', { value: 'require' });
  require.resolve = resolve;
  require.main = mainModule;
  require.extensions = Module._extensions;
  require.cache = Module._cache;
  return require;
}

Module._extensions['.js'] = function (module, filename) {
  let format = formatOfPath(filename);
  const text = textOf(filename);
  if (format === 'text') format = formatOfText(text, filename);
  if (format === 'module') {
    module.exports = requireModule(filename);
    return;
  }
  run(module, text, filename);
};
Module._extensions['.json'] = function (module, filename) {
  const text = readText(filename);
  try {
    module.exports = JSON.parse(text);
  } catch (error) {
    error.message = `${filename}: ${error.message}`;
    throw error;
  }
};
Module._extensions['.node'] = function (module, filename) {
  throw lacking('api:native addons', coded(Error, 'ERR_DLOPEN_FAILED', `${filename}: native addons cannot be loaded in this sandbox`));
};

// Loads an ES module, which must not have a top-level await.
function requireModule(filename) {
  showAsUrl(filename);
  const [promise, namespace] = native.importModule(filename);
  const [state, value] = native.promiseState(promise);
  if (state === 'rejected') {
    native.markHandled(promise);
    throw value;
  }
  if (state === 'pending') {
    throw coded(Error, 'ERR_REQUIRE_ASYNC_MODULE', 'require() cannot be used on an ESM graph with top-level await. Use import() instead. To see where the top-level await comes from, use --experimental-print-required-tla.');
  }
  if (Object.hasOwn(namespace, 'module.exports')) return namespace['module.exports'];
  return namespace;
}

Module.createRequire = function createRequire(filename) {
  let path;
  if (filename instanceof URL || (typeof filename === 'string' && !filename.startsWith('/'))) {
    try {
      path = fileURLToPath(filename);
    } catch {
      throw invalidArgValue('filename', filename, 'must be a file URL object, file URL string, or absolute path string');
    }
  } else if (typeof filename === 'string') path = filename;
  else throw invalidArgValue('filename', filename, 'must be a file URL object, file URL string, or absolute path string');
  const module = new Module(path);
  module.filename = path.endsWith('/') ? `${path}noop.js` : path;
  module.paths = Module._nodeModulePaths(dirname(module.filename));
  return makeRequire(module);
};
Module._initPaths = () => {};
Module._preloadModules = () => {};
Module.syncBuiltinESMExports = () => {};
Module.findSourceMap = () => undefined;
Module.register = () => {
  throw coded(Error, 'ERR_METHOD_NOT_IMPLEMENTED', 'The module.register() method is not implemented');
};
Module.runMain = () => {};
Module.enableCompileCache = () => ({ status: 3 });
Module.stripTypeScriptTypes = (text) => strip('<text>.ts', text).text;
Module.findPackageJSON = (specifier, from) => {
  const start = from === undefined ? specifier : from;
  return packageOf(start instanceof URL || String(start).startsWith('file:') ? fileURLToPath(start) : resolvePath(String(start)))?.path;
};

