// Runs the cells of a session: texts that share one global scope, as in a notebook. `await` is allowed at the top level, a name may be
// declared again by a later cell, and static imports become dynamic ones.
import { native } from './native.js';
import * as cjs from './loader/cjs.js';
import * as results from './display.js';
import { cwd } from './process.js';
import { dirname } from './node/path-posix.js';

const REDECLARED = /^(?:redeclaration of|Identifier) '([^']+)'/;

// Most names of one cell that earlier cells have declared.
const MOST_NAMES = 10000;

const QUOTED = `(?:'[^'\\n]*'|"[^"\\n]*")`;
const ATTRIBUTES = `(?:\\s*(?:with|assert)\\s*\\{[^}]*\\})?`;
const IMPORT = new RegExp(`^([ \\t]*)import\\b\\s*(?:([\\w$\\s{},*]+?)\\s*\\bfrom\\b\\s*)?(${QUOTED})(${ATTRIBUTES})[ \\t]*;?`, 'gm');
const EXPORT = /^([ \t]*)export[ \t]+(?=(?:async|class|const|function|let|var)\b)/gm;
const DEFAULT = /^([ \t]*)export[ \t]+default\b/gm;

let count = 0;

// Returns the name of the next cell.
export const nextName = () => `<cell ${++count}>`;

// Defines the functions of CommonJS modules as globals.
export function begin() {
  const module = new cjs.Module('<session>');
  cjs.begin(module, '.');
  module.filename = `${cwd()}/session.js`;
  module.paths = cjs.Module._nodeModulePaths(dirname(module.filename));
  const globals = { require: cjs.makeRequire(module), module, exports: module.exports, __filename: module.filename, __dirname: cwd() };
  for (const [name, value] of Object.entries(globals)) {
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });
  }
}

// Returns the dynamic import of a static one, in as many lines.
function dynamic(whole, indent, clause, specifier, attributes) {
  const found = /\{[^}]*\}/.exec(attributes);
  const loaded = found ? `await import(${specifier}, { with: ${found[0]} })` : `await import(${specifier})`;
  const rest = '\n'.repeat(whole.split('\n').length - 1);
  if (clause === undefined) return `${indent}${loaded};${rest}`;
  const names = [];
  let space;
  let one = clause.trim();
  const plain = /^([\w$]+)\s*(?:,|$)/.exec(one);
  if (plain) {
    names.push(`default: ${plain[1]}`);
    one = one.slice(plain[0].length).trim();
  }
  const star = /^\*\s*as\s+([\w$]+)$/.exec(one);
  if (star) space = star[1];
  const list = /^\{([^}]*)\}$/.exec(one);
  if (list) names.push(...list[1].split(',').map((name) => name.trim().replace(/\s+as\s+/, ': ')).filter((name) => name !== ''));
  if (!star && !list && one !== '') return whole;
  if (space !== undefined && names.length === 0) return `${indent}const ${space} = ${loaded};${rest}`;
  if (space !== undefined) return `${indent}const ${space} = ${loaded}, { ${names.join(', ')} } = ${space};${rest}`;
  return `${indent}const { ${names.join(', ')} } = ${loaded};${rest}`;
}

// Returns a cell without static imports and exports, which only modules have.
const withoutModules = (text) => text.replace(IMPORT, dynamic).replace(DEFAULT, '$1').replace(EXPORT, '$1');

// Starts a cell and returns the promise of its end. Throws the error of a text that cannot be compiled.
function start(text, file) {
  for (let names = 0; ; names++) {
    // A name that is declared twice in the text itself is an error of the compilation.
    const promise = native.evalCell(text, file);
    const [state, error] = native.promiseState(promise);
    if (state !== 'rejected' || !(error instanceof SyntaxError)) return promise;
    // The declarations of a cell are checked before it runs.
    const found = REDECLARED.exec(error.message);
    if (found === null || names === MOST_NAMES || !native.undeclare(found[1])) return promise;
    native.markHandled(promise);
  }
}

// Runs a cell and returns the promise of its end. `remembered` is called with the text that is compiled.
export function run(text, file, remembered) {
  try {
    return start(text, file);
  } catch (error) {
    const changed = error instanceof SyntaxError ? withoutModules(text) : text;
    if (changed === text) throw error;
    remembered(changed);
    return start(changed, file);
  }
}

// Shows the value of a cell's last expression.
export function finish(value) {
  if (value !== undefined) results.showValue(value);
}
