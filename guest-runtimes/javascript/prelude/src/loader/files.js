// Operations of the loader on the file system.
import { native } from '../native.js';
import { dirname } from '../node/path-posix.js';
import { SafeMap } from '../engine/uncurry.js';
import { tsconfigOver } from './tsconfig.js';

export const isFile = (path) => {
  const type = native.statType(path);
  return type === 'file' || type === 'char' || type === 'fifo';
};
export const isDirectory = (path) => native.statType(path) === 'dir';

export function readText(path) {
  const text = native.utf8Decode(native.readFile(path), false);
  return text.charCodeAt(0) === 0xfeff ? text.slice(1) : text;
}

const real = new SafeMap();
// Returns the path without symbolic links. Results are cached: a program's own modules do not move while it runs.
export function realPath(path) {
  if (path === '/') return '/';
  const known = real.get(path);
  if (known !== undefined) return known;
  const parent = realPath(dirname(path));
  let full = `${parent === '/' ? '' : parent}/${path.slice(path.lastIndexOf('/') + 1)}`;
  try {
    if (native.lstat(full).type === 'symlink') {
      const target = native.readlink(full);
      full = realPath(normal(target[0] === '/' ? target : `${parent}/${target}`));
    }
  } catch {
    // A path that cannot be read is used unchanged.
  }
  real.set(path, full);
  return full;
}

// Records the location of the program's folder, which the host states.
export const presume = (path) => real.set(path, path);

export function normal(path) {
  const out = [];
  for (const part of path.split('/')) {
    if (part === '..') out.pop();
    else if (part !== '' && part !== '.') out.push(part);
  }
  return `/${out.join('/')}`;
}

const packages = new SafeMap();
// Returns the package.json of a directory, or null.
export function packageAt(directory) {
  let found = packages.get(directory);
  if (found !== undefined) return found;
  found = null;
  const path = `${directory === '/' ? '' : directory}/package.json`;
  if (isFile(path)) {
    let data;
    try {
      data = JSON.parse(readText(path));
    } catch (error) {
      error.path = path;
      error.message = `Invalid package config ${path}. ${error.message}`;
      error.code = 'ERR_INVALID_PACKAGE_CONFIG';
      throw error;
    }
    if (data === null || typeof data !== 'object') data = {};
    found = { path, directory, data };
  }
  packages.set(directory, found);
  return found;
}

// Returns the nearest package.json above a file.
export function packageOf(path) {
  for (let directory = dirname(path); ; directory = dirname(directory)) {
    if (!directory.endsWith('/node_modules')) {
      const found = packageAt(directory);
      if (found) return found;
    }
    if (directory === '/' || directory === '.') return null;
  }
}

export function packageType(path) {
  const type = packageOf(path)?.data.type;
  return type === 'module' || type === 'commonjs' ? type : undefined;
}

// Aliases of paths and pragmas of JSX by the tsconfig.json of a program.
export const { aliased, withPragmas } = tsconfigOver({ isFile, readText, normal, dirname, known: new SafeMap() });

// Extensions and index files that TypeScript omits: `import './b'` for b.ts, or for a directory with an index.ts.
const EXTENSIONS = ['.ts', '.tsx', '.mts', '.cts', '.js', '.jsx', '.mjs', '.cjs', '.json'];
const INDEX_FILES = ['/index.ts', '/index.tsx', '/index.js', '/index.jsx'];
function withEnding(path, endings) {
  const ending = endings.find((end) => isFile(path + end));
  return ending === undefined ? undefined : path + ending;
}
export const untypedFile = (path) => withEnding(path, EXTENSIONS);
export const untypedIndex = (path) => withEnding(path, INDEX_FILES);
export const untypedTwin = (path) => untypedFile(path) ?? untypedIndex(path);

// Extensions of TypeScript for `import './b.js'`, if only b.ts exists.
const TYPED = { '.js': ['.ts', '.tsx'], '.mjs': ['.mts'], '.cjs': ['.cts'], '.jsx': ['.tsx'] };
export function typedTwin(path) {
  const dot = path.lastIndexOf('.');
  for (const ending of TYPED[path.slice(dot)] ?? []) {
    const twin = path.slice(0, dot) + ending;
    if (isFile(twin)) return twin;
  }
  return undefined;
}
