// Asynchronous context: the stores of AsyncLocalStorage, carried to callbacks that run later.
import { hidden } from './uncurry.js';

const { apply } = Reflect;

export let current;
let watching = false;

export function setCurrent(next) {
  current = next;
  if (next !== undefined && !watching) watch();
}

// Makes callbacks of `then` run with the stores of the place that passed them, once there are any stores. The engine
// does not report that it continues after an `await`, so the stores are lost there.
function watch() {
  watching = true;
  const engineThen = Promise.prototype.then;
  const { then } = {
    then(fulfilled, rejected) {
      const stores = current;
      if (stores === undefined) return apply(engineThen, this, [fulfilled, rejected]);
      const carry = (fn) => (typeof fn === 'function' ? (value) => runWith(stores, fn, undefined, [value]) : fn);
      return apply(engineThen, this, [carry(fulfilled), carry(rejected)]);
    },
  };
  hidden(Promise.prototype, 'then', then);
}

export function runWith(stores, fn, self, args) {
  const before = current;
  current = stores;
  try {
    return apply(fn, self, args ?? []);
  } finally {
    current = before;
  }
}
