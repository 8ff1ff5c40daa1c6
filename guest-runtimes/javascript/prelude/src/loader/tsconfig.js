// Options of the tsconfig.json nearest to a file: aliases of paths, the kind of decorators, and the functions that JSX calls. This file has no imports, because
// Node in containers has it too.

// The most files that extend each other.
const MAX_EXTENDS = 8;
// The most files of one configuration.
const MAX_FILES = 32;

// Parses JSON with comments and trailing commas. Returns undefined for any other text.
function parse(text) {
  const plain = text
    .replace(/^\uFEFF/, '')
    .replace(/("(?:\\.|[^"\\])*")|\/\/[^\n]*|\/\*[\s\S]*?\*\//g, (found, quoted) => quoted ?? '')
    .replace(/("(?:\\.|[^"\\])*")|,(?=\s*[}\]])/g, (found, quoted) => quoted ?? '');
  try {
    return JSON.parse(plain);
  } catch {
    return undefined;
  }
}

// Returns the functions of this file over a file system. `known` keeps the options of directories.
export function tsconfigOver({ isFile, readText, normal, dirname, known }) {
  let files = 0;
  function optionsOf(path, depth) {
    files += 1;
    const data = parse(readText(path));
    if (data === null || typeof data !== 'object') return {};
    const directory = dirname(path);
    let inherited = {};
    for (const other of [data.extends ?? []].flat()) {
      if (typeof other !== 'string' || other[0] !== '.' || depth === MAX_EXTENDS || files > MAX_FILES) continue;
      const file = normal(`${directory}/${other}`);
      const found = [file, `${file}.json`].find(isFile);
      if (found !== undefined) inherited = { ...inherited, ...optionsOf(found, depth + 1) };
    }
    const own = { ...data.compilerOptions };
    if (typeof own.baseUrl === 'string') own.baseUrl = normal(`${directory}/${own.baseUrl}`);
    if (own.paths !== null && typeof own.paths === 'object') own.pathsBase = own.baseUrl ?? inherited.baseUrl ?? directory;
    return { ...inherited, ...own };
  }

  // Returns the compilerOptions for the files of a directory. Packages have none.
  function compilerOptions(directory) {
    if (directory[0] !== '/' || directory.includes('/node_modules')) return {};
    let found = known.get(directory);
    if (found === undefined) {
      const path = `${directory === '/' ? '' : directory}/tsconfig.json`;
      files = 0;
      if (isFile(path)) found = optionsOf(path, 0);
      else found = directory === '/' ? {} : compilerOptions(dirname(directory));
      known.set(directory, found);
    }
    return found;
  }

  // Returns the paths that a specifier may stand for, the best first.
  function aliased(specifier, directory) {
    const { paths, pathsBase, baseUrl } = compilerOptions(directory);
    const candidates = [];
    let best = -1;
    for (const [pattern, targets] of Object.entries(pathsBase === undefined ? {} : paths ?? {})) {
      const star = pattern.indexOf('*');
      const before = star < 0 ? pattern : pattern.slice(0, star);
      const after = star < 0 ? '' : pattern.slice(star + 1);
      const fits = star < 0
        ? specifier === pattern
        : specifier.length >= before.length + after.length && specifier.startsWith(before) && specifier.endsWith(after);
      // The exact pattern comes first, and then the one with the longest beginning.
      const rank = star < 0 ? Infinity : before.length;
      if (!fits || rank <= best || !Array.isArray(targets)) continue;
      best = rank;
      const middle = specifier.slice(before.length, specifier.length - after.length);
      candidates.length = 0;
      for (const target of targets) {
        if (typeof target === 'string') candidates.push(normal(target[0] === '/' ? target : `${pathsBase}/${target.replace('*', () => middle)}`));
      }
    }
    if (typeof baseUrl === 'string') candidates.push(normal(`${baseUrl}/${specifier}`));
    return candidates;
  }

  // Returns a text with the comment that selects its decorators and the functions that its JSX calls, after the line of an interpreter.
  function withPragmas(path, text) {
    const hasJsx = /\.[jt]sx$/.test(path) && !text.includes('@jsx');
    const hasDecorators = text.includes('@');
    if (!hasJsx && !hasDecorators) return text;
    const own = compilerOptions(dirname(path));
    const found = [...(hasJsx ? jsxPragmas(own) : []), ...(hasDecorators ? decoratorPragmas(own) : [])];
    if (found.length === 0) return text;
    const start = text.startsWith('#!') ? text.indexOf('\n') + 1 || text.length : 0;
    return `${text.slice(0, start)}/** ${found.join(' ')} */${text.slice(start)}`;
  }

  function decoratorPragmas({ experimentalDecorators, emitDecoratorMetadata, strict, strictNullChecks }) {
    if (experimentalDecorators !== true) return [];
    const pragmas = ['@experimentalDecorators'];
    if (emitDecoratorMetadata === true) pragmas.push('@emitDecoratorMetadata');
    if ((strictNullChecks ?? strict) === true) pragmas.push('@strictNullChecks');
    return pragmas;
  }

  function jsxPragmas({ jsx, jsxImportSource, jsxFactory, jsxFragmentFactory }) {
    const word = (value) => (typeof value === 'string' && /^[\w$./@-]+$/.test(value) ? value : undefined);
    const pragmas = [];
    if (jsx === 'react') {
      pragmas.push('@jsxRuntime classic');
      if (word(jsxFactory)) pragmas.push(`@jsx ${jsxFactory}`);
      if (word(jsxFragmentFactory)) pragmas.push(`@jsxFrag ${jsxFragmentFactory}`);
    } else if (typeof jsx === 'string' && jsx.startsWith('react-jsx')) pragmas.push('@jsxRuntime automatic');
    if (jsx !== 'react' && word(jsxImportSource)) pragmas.push(`@jsxImportSource ${jsxImportSource}`);
    return pragmas;
  }

  return { aliased, withPragmas };
}
