// Language features that Node has and that the engine lacks or implements differently.
import { hidden } from './uncurry.js';
import { install as installIntl } from '../intl/install.js';

// Adds the name of the time zone after the time; there is only one zone.
function nameZone() {
  const { toString, toTimeString } = Date.prototype;
  const named = (text) => (text === 'Invalid Date' ? text : `${text} (Coordinated Universal Time)`);
  hidden(Date.prototype, 'toString', { toString() { return named(toString.call(this)); } }.toString);
  hidden(Date.prototype, 'toTimeString', { toTimeString() { return named(toTimeString.call(this)); } }.toTimeString);
}

// Rounds the sum of squares as V8 does, so that the last digit is the same.
function hypotenuse() {
  hidden(Math, 'hypot', {
    hypot(...values) {
      let most = 0;
      let nothing = false;
      for (let i = 0; i < values.length; i++) {
        const size = Math.abs((values[i] = +values[i]));
        if (size > most) most = size;
        else if (size !== size) nothing = true;
      }
      if (most === Infinity) return Infinity;
      if (nothing) return NaN;
      if (most === 0) return 0;
      let sum = 0;
      let lost = 0;
      for (const value of values) {
        const part = value / most;
        const next = part * part - lost;
        const total = sum + next;
        lost = total - sum - next;
        sum = total;
      }
      return Math.sqrt(sum) * most;
    },
  }.hypot);
  Object.defineProperty(Math.hypot, 'length', { value: 2, configurable: true });
}

export function install() {
  nameZone();
  hypotenuse();
  installIntl();
}
