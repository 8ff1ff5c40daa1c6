// The prelude's value: `(native) => hooks`. See the seam's description for what the shim calls when.
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
  // Everything below looks at the shim while it is evaluated, so that it comes after.
  const { hooks } = require('./program.js');
  learnBuiltins();
  learn();
  return hooks;
}
