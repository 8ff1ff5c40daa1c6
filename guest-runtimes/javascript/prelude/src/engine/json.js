// JSON.parse and JSON.stringify with V8's messages. The engine does the work; only its errors are analysed.
import { defineProperty, hidden } from './uncurry.js';
import { setHeader } from './stacks.js';
import { headerOf } from './titles.js';

const { parse, stringify } = JSON;

function explain(error, message) {
  defineProperty(error, 'message', { __proto__: null, value: message, writable: true, configurable: true, enumerable: false });
  setHeader(error, headerOf(error));
  return error;
}

class Bad extends Error {}

// Walks the text as V8's parser does, up to the position where it stops.
function complaint(text) {
  let at = 0;
  const end = text.length;
  const fail = (what) => {
    throw new Bad(what);
  };
  const place = () => ` in JSON at position ${at}`;
  const space = () => {
    for (; at < end; at++) {
      const c = text.charCodeAt(at);
      if (c !== 32 && c !== 10 && c !== 13 && c !== 9) break;
    }
  };
  const stop = () => {
    if (at >= end) fail('Unexpected end of JSON input');
    const c = text[at];
    if (c >= '0' && c <= '9' || c === '-') fail(`Unexpected number${place()}`);
    if (c === '"') fail(`Unexpected string${place()}`);
    let shown = text;
    if (text === 'undefined' || text === 'NaN' || text === 'Infinity' || text === '[object Object]') fail(`"${text}" is not valid JSON`);
    if (end > 40) {
      const from = at - 10;
      const to = at + 10;
      shown = from <= 0 ? `${JSON_QUOTE}${text.slice(0, to)}${JSON_QUOTE}...` : to >= end ? `...${JSON_QUOTE}${text.slice(from)}${JSON_QUOTE}` : `...${JSON_QUOTE}${text.slice(from, to)}${JSON_QUOTE}...`;
    } else shown = JSON_QUOTE + text + JSON_QUOTE;
    fail(`Unexpected token '${c}', ${shown} is not valid JSON`);
  };
  const string = () => {
    for (at++; at < end; at++) {
      const c = text.charCodeAt(at);
      if (c === 34) {
        at++;
        return;
      }
      if (c < 32) fail(`Bad control character in string literal${place()}`);
      if (c === 92) {
        at++;
        const e = text[at];
        if (e === undefined) break;
        if (e === 'u') {
          for (let i = 0; i < 4; i++) {
            at++;
            if (at >= end) fail(`Bad Unicode escape${place()}`);
            if (!/[0-9a-fA-F]/.test(text[at])) fail(`Bad Unicode escape${place()}`);
          }
        } else if (!'"\\/bfnrt'.includes(e)) fail(`Bad escaped character${place()}`);
      }
    }
    fail(`Unterminated string${place()}`);
  };
  const digit = () => at < end && text[at] >= '0' && text[at] <= '9';
  const number = () => {
    if (text[at] === '-') {
      at++;
      if (!digit()) fail(`No number after minus sign${place()}`);
    }
    if (text[at] === '0') {
      at++;
      if (digit()) fail(`Unexpected number${place()}`);
    } else while (digit()) at++;
    if (text[at] === '.') {
      at++;
      if (!digit()) fail(`Unterminated fractional number${place()}`);
      while (digit()) at++;
    }
    if (text[at] === 'e' || text[at] === 'E') {
      at++;
      if (text[at] === '+' || text[at] === '-') at++;
      if (!digit()) fail(`Exponent part is missing a number${place()}`);
      while (digit()) at++;
    }
  };
  const word = (expected) => {
    for (let i = 0; i < expected.length; i++, at++) if (text[at] !== expected[i]) stop();
  };
  const value = () => {
    space();
    const c = text[at];
    if (c === '{') return object();
    if (c === '[') return array();
    if (c === '"') return string();
    if (c === 't') return word('true');
    if (c === 'f') return word('false');
    if (c === 'n') return word('null');
    if (c !== undefined && (c === '-' || (c >= '0' && c <= '9'))) return number();
    return stop();
  };
  const object = () => {
    at++;
    space();
    if (text[at] === '}') return void at++;
    for (let first = true; ; first = false) {
      space();
      if (text[at] !== '"') {
        fail(first ? `Expected property name or '}'${place()}` : `Expected double-quoted property name${place()}`);
      }
      string();
      space();
      if (text[at] !== ':') fail(`Expected ':' after property name${place()}`);
      at++;
      value();
      space();
      if (text[at] === ',') at++;
      else if (text[at] === '}') return void at++;
      else fail(`Expected ',' or '}' after property value${place()}`);
    }
  };
  const array = () => {
    at++;
    space();
    if (text[at] === ']') return void at++;
    for (;;) {
      value();
      space();
      if (text[at] === ',') at++;
      else if (text[at] === ']') return void at++;
      else fail(`Expected ',' or ']' after array element${place()}`);
    }
  };
  try {
    value();
    space();
    if (at < end) fail(`Unexpected non-whitespace character after JSON at position ${at}`);
  } catch (error) {
    if (error instanceof Bad) return error.message;
  }
  return undefined;
}

const JSON_QUOTE = '"';

const makerOf = (value) => {
  try {
    const maker = value.constructor?.name;
    return typeof maker === 'string' && maker !== '' ? maker : 'Object';
  } catch {
    return 'Object';
  }
};

// Returns the path by which a value refers to itself.
function circle(root) {
  const path = [];
  const walk = (value, key) => {
    if (value === null || typeof value !== 'object') return undefined;
    if (typeof value.toJSON === 'function') value = value.toJSON(key);
    if (value === null || typeof value !== 'object') return undefined;
    const start = path.findIndex((step) => step.value === value);
    if (start >= 0) return { start, key };
    path.push({ value, key });
    for (const name of Object.keys(value)) {
      const found = walk(value[name], Array.isArray(value) ? Number(name) : name);
      if (found) return found;
    }
    path.pop();
    return undefined;
  };
  const found = walk(root, '');
  if (!found) return undefined;
  const label = (key) => (typeof key === 'number' ? `index ${key}` : `property '${key}'`);
  const steps = path.slice(found.start);
  let text = `Converting circular structure to JSON\n    --> starting at object with constructor '${makerOf(steps[0].value)}'`;
  const line = (step) => `\n    |     ${label(step.key)} -> object with constructor '${makerOf(step.value)}'`;
  const between = steps.slice(1);
  if (between.length <= 2) text += between.map(line).join('');
  else text += `${line(between[0])}\n    |     ...${line(between[between.length - 1])}`;
  return `${text}\n    --- ${label(found.key)} closes the circle`;
}

export function install() {
  hidden(JSON, 'parse', function (text, reviver) {
    try {
      return arguments.length > 1 ? parse(text, reviver) : parse(text);
    } catch (error) {
      if (error instanceof SyntaxError) {
        const message = complaint(`${text}`);
        if (message !== undefined) explain(error, message);
      }
      throw error;
    }
  });
  hidden(JSON, 'stringify', function (value, replacer, space) {
    try {
      return stringify(value, replacer, space);
    } catch (error) {
      if (error instanceof TypeError) {
        if (error.message === 'circular reference') {
          let message;
          try {
            message = circle(value);
          } catch {
            // A getter or toJSON of the program threw during the search.
          }
          explain(error, message ?? 'Converting circular structure to JSON');
        } else if (error.message === 'BigInt are forbidden in JSON.stringify') explain(error, 'Do not know how to serialize a BigInt');
      }
      throw error;
    }
  });
  defineProperty(JSON.parse, 'name', { value: 'parse', configurable: true });
  defineProperty(JSON.stringify, 'name', { value: 'stringify', configurable: true });
  defineProperty(JSON.stringify, 'length', { value: 3, configurable: true });
}
