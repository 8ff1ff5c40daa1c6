// Runs the cells of a session: texts that share one global scope, as in a notebook. `await` is allowed at the top level, a name may be
// declared again by a later cell, and static imports become dynamic ones.
import { native } from './native.js';
import * as cjs from './loader/cjs.js';
import * as results from './display.js';
import { cwd } from './process.js';
import { dirname } from './node/path-posix.js';
import { withoutModules } from './imports.js';

const REDECLARED = /^(?:redeclaration of|Identifier) '([^']+)'/;

// Most names of one cell that earlier cells have declared.
const MOST_NAMES = 10000;

let count = 0;

// Returns the name of the next cell, with the number that the host gives it.
export const nextName = (number) => `<cell ${number ?? ++count}>`;

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
