// Functions and classes of Node that this sandbox does not have, from the table `absent.json`. They exist, so that
// programs that only mention them load. Using one fails and reports it as missing.
import table from '../absent.json';
import { unavailable } from '../missing.js';

function standIn(full, name) {
  const fail = function () {
    throw unavailable(full);
  };
  return Object.defineProperty(fail, 'name', { value: name, configurable: true });
}

// Adds the functions and classes that the table lists for a module.
export function complete(module, exports) {
  if (!Object.hasOwn(table.modules, module)) return;
  for (const name of table.modules[module]) {
    const value = standIn(`${module}.${name}`, name);
    Object.defineProperty(exports, name, { value, writable: true, configurable: true, enumerable: true });
  }
}

// Returns true for a hash that Node has from OpenSSL and this sandbox lacks.
export const isHash = (name) => table.hashes.includes(name);
