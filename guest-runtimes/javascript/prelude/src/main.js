// The prelude's value, `(native) => hooks`. HOST_INTERFACE.md describes which hooks the shim calls and when.
import { setNative } from './native.js';
import * as language from './engine/language.js';
import { install as installStacks } from './engine/stacks.js';
import { install as installJson } from './engine/json.js';
import { learnBuiltins } from './engine/builtins.js';
import { learn } from './engine/pristine.js';

export function start(given) {
  setNative(given);
  learnBuiltins();
  language.install();
  installJson();
  installStacks();
  // The modules below use the shim during their evaluation, so they are loaded after it is set.
  const { hooks } = require('./program.js');
  learnBuiltins();
  learn();
  return hooks;
}
