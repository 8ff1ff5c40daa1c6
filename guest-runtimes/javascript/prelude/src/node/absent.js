// Functions and classes of Node that this sandbox does not have, by the table `absent.json`. They exist, so that programs load that
// name them in passing; their use fails, and the report says what was missing.
import table from '../absent.json';
import { unavailable } from '../missing.js';

function standIn(full, name) {
  const fail = function () {
    throw unavailable(full);
  };
  return Object.defineProperty(fail, 'name', { value: name, configurable: true });
}

// Adds what the table lists for a module.
export function complete(module, exports) {
  if (!Object.hasOwn(table.modules, module)) return;
  for (const name of table.modules[module]) {
    const value = standIn(`${module}.${name}`, name);
    Object.defineProperty(exports, name, { value, writable: true, configurable: true, enumerable: true });
  }
}

// Hashes that Node has by OpenSSL.
export const isHash = (name) => table.hashes.includes(name);
