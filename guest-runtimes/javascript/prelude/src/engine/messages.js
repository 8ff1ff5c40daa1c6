// Engine messages in V8's words, as far as call sites and source text provide what V8 knows.
import { allTexts, isCommonJs } from './sources.js';
import { argumentsAt, callAround, callAt, chainAt, expressionBefore, followsNew } from './callees.js';
import { pristinely } from './pristine.js';
import { defineProperty, getOwnPropertyDescriptor } from './uncurry.js';
import { nameOfBuiltin } from './builtins.js';
import { functionOf, isNative, nameOf } from './sites.js';
import { syntax, textAt } from './syntax.js';

// Returns the first argument of a built-in function's call if it is a literal: V8 quotes the value, which is not
// available here.
function literalArgument(sites, index = 0) {
  const place = textAt(sites[1]);
  const given = place && argumentsAt(place.text, place.at);
  if (given === undefined) return undefined;
  if (given === '') return 'undefined';
  const first = /^(?:'([^'\\]*)'|"([^"\\]*)"|(-?[\w.$]+))(?:,\s*(?:'([^']*)'|"([^"]*)"))?$/.exec(given);
  if (!first) return undefined;
  if (index === 1) return first[4] ?? first[5];
  if (first[1] !== undefined || first[2] !== undefined) return first[1] ?? first[2];
  return /^(-?[\d.]+|null|undefined|true|false|NaN|-?Infinity)$/.test(first[3]) ? first[3] : undefined;
}

function callee(sites) {
  const place = textAt(sites[0]);
  if (!place) return undefined;
  const { text, at } = place;
  if (followsNew(text, at)) {
    const chain = chainAt(text, at);
    return { text: chain ? chain.text : '(intermediate value)', made: true };
  }
  let call = callAt(text, at);
  if (call < 0) call = callAround(text, at);
  if (call < 0) return undefined;
  const name = expressionBefore(text, call);
  if (!name) return undefined;
  // V8 names the value that is looked up, not the call that follows.
  return { text: name, made: false };
}

const memberName = (site) => (nameOfBuiltin(functionOf(site)) ?? '').replace(/^new /, '');

function notFunction(sites) {
  const top = sites[0];
  if (isNative(top)) {
    const name = memberName(top);
    if (name === 'Promise') return `Promise resolver ${literalArgument(sites) ?? 'undefined'} is not a function`;
    if (/\.(sort|toSorted)$/.test(name)) return 'The comparison function must be either a function or undefined';
    if (name === 'Function.call' || name === 'Function.apply') return undefined;
    return `${literalArgument(sites) ?? 'undefined'} is not a function`;
  }
  const found = callee(sites);
  if (!found) return undefined;
  return `${found.text} is not a ${found.made ? 'constructor' : 'function'}`;
}

const UNNAMED = ' is not iterable (cannot read property Symbol(Symbol.iterator))';

function notIterable(sites, value) {
  const plain = `${value ?? 'object'}${UNNAMED}`;
  if (isNative(sites[0])) {
    const given = literalArgument(sites);
    if (given === undefined) return plain;
    if (given === 'null') return `object null${UNNAMED}`;
    const kind = /^-?[\d.]+$/.test(given) ? 'number ' : given === 'true' || given === 'false' ? 'boolean ' : '';
    return `${kind}${given}${UNNAMED}`;
  }
  const place = textAt(sites[0]);
  if (!place) return value === undefined ? 'object is not iterable' : plain;
  const { text, at } = place;
  if (value === undefined && /[\w$)\]]\s*\(\s*(?:[^()]*,\s*)?\.\.\.$/.test(text.slice(Math.max(0, at - 60), at))) {
    return 'Spread syntax requires ...iterable[Symbol.iterator] to be a function';
  }
  const before = text.slice(Math.max(0, at - 40), at);
  if (/(\bof\s+|\.\.\.\s*|\]\s*=\s*|\byield\s*\*\s*)$/.test(before)) return iterated(text, at) ?? plain;
  // The position is that of the code before a pattern or loop, so the next pattern or loop is used.
  const ahead = text.slice(at, at + 300);
  const found = /(?:\]\s*=(?!=)\s*|\bof\s+|\.\.\.)/.exec(ahead);
  return (found && iterated(text, at + found.index + found[0].length)) ?? plain;
}

function iterated(text, at) {
  if (text[at] === '{') return '{(intermediate value)} is not iterable';
  const chain = chainAt(text, at);
  if (!chain || chain.text === 'undefined' || chain.text === 'null') return undefined;
  return `${chain.text}${text[chain.end] === '(' ? '(...)' : ''} is not iterable`;
}

function destructured(sites) {
  const top = sites[0];
  if (isNative(top)) return undefined;
  const place = textAt(top);
  if (!place) return undefined;
  const from = place.text.slice(place.at, place.at + 400);
  const parameter = /^(?:async\s*)?(?:function\b\s*\*?\s*[\w$]*\s*)?(?:[\w$]+\s*)?\(\s*(?:[\w$]+\s*,\s*)*\{\s*([\w$]+)/.exec(from);
  const found = /(?:\b(?:const|let|var)\s*|\(\s*)\{\s*([\w$]+)\s*(:\s*\{\s*([\w$]+))?[^=;]*?(?:=[^;{}]*?)?\}\s*=(?!=)\s*([A-Za-z_$][\w$.]*(\()?|[^;\n]*)/.exec(from);
  if (found) {
    if (found[3]) return `Cannot read properties of undefined (reading '${found[3]}')`;
    const source = found[5] ? `${found[4].slice(0, -1)}(...)` : /^[A-Za-z_$][\w$.]*$/.test(found[4]) ? found[4] : '(intermediate value)';
    return `Cannot destructure property '${found[1]}' of '${source}' as it is ${found[4] === 'null' ? 'null' : 'undefined'}.`;
  }
  return parameter ? `Cannot destructure property '${parameter[1]}' of 'undefined' as it is undefined.` : undefined;
}

function readOnly(sites, name) {
  const place = textAt(sites[0]);
  if (place) {
    const around = place.text.slice(Math.max(0, place.at - 1), place.at + 200);
    const escaped = name.replace(/[$]/g, '\\$&');
    const asMember = new RegExp(`(?:\\.|\\[\\s*['"]?)\\s*${escaped}\\b`).test(around) || /^\d+$/.test(name);
    if (!asMember && !/^.?\s*\[/.test(around)) return 'Assignment to constant variable.';
  }
  const holder = /^\d+$/.test(name) ? '[object Array]' : '#<Object>';
  return `Cannot assign to read only property '${name}' of object '${holder}'`;
}

function notExtensible(sites) {
  const place = textAt(sites[0]);
  if (!place) {
    const name = isNative(sites[0]) ? memberName(sites[0]) : '';
    if (name.endsWith('.defineProperty')) {
      const key = literalKey(sites);
      return `Cannot define property ${key ?? ''}, object is not extensible`;
    }
    return undefined;
  }
  const rest = place.text.slice(place.at, place.at + 200);
  const member = /^[^=;\n]*?(?:\.\s*([\w$]+)|\[\s*['"]([^'"]*)['"]\s*\]|\[\s*(\d+)\s*\])\s*=[^=]/.exec(rest);
  const key = member?.[1] ?? member?.[2] ?? member?.[3];
  return key === undefined ? undefined : `Cannot add property ${key}, object is not extensible`;
}

function literalKey(sites) {
  const place = textAt(sites[1]);
  const given = place && argumentsAt(place.text, place.at);
  return given && /^[^,]*,\s*['"]([^'"]*)['"]/.exec(given)?.[1];
}

const secondLiteral = (sites) => {
  const place = textAt(sites[1]);
  const given = place && argumentsAt(place.text, place.at);
  return given && /,\s*(-?[\w.]+)\s*$/.exec(given)?.[1];
};

const accessorLiteral = (sites, which) => {
  const place = textAt(sites[1]);
  const given = place && argumentsAt(place.text, place.at);
  return (given && new RegExp(`\\b${which}:\\s*([^,}\\s]+)`).exec(given)?.[1]) ?? 'undefined';
};

function notObject(sites) {
  const name = isNative(sites[0]) ? memberName(sites[0]) : '';
  if (name === 'Function.setPrototypeOf') return `Object prototype may only be an Object or null: ${secondLiteral(sites) ?? 'undefined'}`;
  if (/^Function\.(define\w+|setPrototypeOf)$/.test(name)) return `Object.${name.slice(9)} called on non-object`;
  if (name.startsWith('Reflect.')) return `${name} called on non-object`;
  if (name === 'Proxy') return 'Cannot create proxy with a non-object as target or handler';
  if (name === 'Function.fromEntries' || name === 'Map') return `Iterator value ${literalElement(sites) ?? 'undefined'} is not an entry object`;
  if (name === 'Error.captureStackTrace') return 'Invalid argument';
  return undefined;
}

const literalElement = (sites) => {
  const place = textAt(sites[1]);
  const given = place && argumentsAt(place.text, place.at);
  return given && /^\[\s*(?:'([^']*)'|"([^"]*)"|([\w.]+))/.exec(given)?.slice(1).find((x) => x !== undefined);
};

function numberOfDigits(sites) {
  const name = memberName(sites[0]).split('.').pop();
  if (name === 'toFixed') return 'toFixed() digits argument must be between 0 and 100';
  if (name === 'toPrecision') return 'toPrecision() argument must be between 1 and 100';
  if (name === 'toExponential') return 'toExponential() argument must be between 0 and 100';
  return undefined;
}

const nameAt = (sites) => memberName(sites[0]);
const operand = (sites) => {
  const place = textAt(sites[0]);
  const found = place && /(?:(['"])([^'"]*)\1|([\w$]+))\s+in\s+(?:(['"])([^'"]*)\4|(\d+)|[\w$.]+)/.exec(place.text.slice(Math.max(0, place.at - 60), place.at + 60));
  if (!found) return "Cannot use 'in' operator";
  return `Cannot use 'in' operator to search for '${found[2] ?? found[3]}' in ${found[5] ?? found[6] ?? 'undefined'}`;
};

const EXACT = {
  __proto__: null,
  'not a function': notFunction,
  'not a constructor': (sites) => {
    if (isNative(sites[0])) return `${memberName(sites[0])} is not a constructor`;
    return `${callee(sites)?.text ?? '(intermediate value)'} is not a constructor`;
  },
  'value is not iterable': (sites) => notIterable(sites),
  "cannot read property 'Symbol.iterator' of undefined": (sites) => notIterable(sites, 'undefined'),
  "cannot read property 'Symbol.iterator' of null": (sites) => notIterable(sites, 'object null'),
  'Cannot convert undefined or null to object': (sites) => {
    const name = isNative(sites[0]) ? memberName(sites[0]) : '';
    if (/^(Array|String)\.\w+$/.test(name)) return `${name.replace('.', '.prototype.')} called on null or undefined`;
    return destructured(sites);
  },
  'null or undefined are forbidden': (sites) => `${memberName(sites[0]).replace('.', '.prototype.')} called on null or undefined`,
  'not a number': (sites) => `${memberName(sites[0]).replace('.', '.prototype.')} requires that 'this' be a Number`,
  'not a string': (sites) => `${memberName(sites[0]).replace('.', '.prototype.')} requires that 'this' be a String`,
  'not a Date object': () => 'this is not a Date object.',
  'object is not extensible': notExtensible,
  "class constructors must be invoked with 'new'": (sites) => `Class constructor ${nameOf(sites[0]) ?? ''} cannot be invoked without 'new'`,
  'parent class must be constructor': (sites) => {
    const place = textAt(sites[0]);
    const base = place && /\bextends\s+([\w$.]+)/.exec(place.text.slice(Math.max(0, place.at - 40), place.at + 200));
    const literal = base && /^(\d+|null|undefined|true|false)$/.test(base[1]) ? base[1] : 'undefined';
    return `Class extends value ${literal} is not a constructor or null`;
  },
  "invalid 'in' operand": operand,
  "invalid 'instanceof' right operand": (sites) => {
    const place = textAt(sites[0]);
    const rest = place ? place.text.slice(place.at, place.at + 20) : '';
    return `Right-hand side of 'instanceof' is not ${/^(\d|'|"|null|undefined|true|false)/.test(rest) ? 'an object' : 'callable'}`;
  },
  'cannot convert symbol to string': () => 'Cannot convert a Symbol value to a string',
  'cannot convert symbol to number': () => 'Cannot convert a Symbol value to a number',
  'cannot convert BigInt to number': (sites) =>
    isNative(sites[0]) ? 'Cannot convert a BigInt value to a number' : 'Cannot mix BigInt and other types, use explicit conversions',
  'bigint argument with unary +': () => 'Cannot convert a BigInt value to a number',
  'BigInt operands are forbidden for >>>': () => 'BigInts have no unsigned right shift, use >> instead',
  'cannot convert to BigInt': (sites) => `Cannot convert ${literalArgument(sites) ?? 'undefined'} to a BigInt`,
  'cannot convert to bigint': (sites) => `Cannot convert ${literalArgument(sites) ?? 'undefined'} to a BigInt`,
  'cannot convert to BigInt: not an integer': (sites) => {
    const given = literalArgument(sites);
    return given === undefined ? undefined : `The number ${given} cannot be converted to a BigInt because it is not an integer`;
  },
  'invalid BigInt literal': (sites) => {
    const given = literalArgument(sites);
    return given === undefined ? undefined : `Cannot convert ${given} to a BigInt`;
  },
  'BigInt division by zero': () => 'Division by zero',
  'BigInt negative exponent': () => 'Exponent must be non-negative',
  'BigInt is too large to allocate': () => 'Maximum BigInt size exceeded',
  'invalid array length': () => 'Invalid array length',
  'invalid array index': (sites) => {
    const name = memberName(sites[0]);
    if (name === 'ArrayBuffer') return literalArgument(sites)?.startsWith('-') ? 'Invalid array buffer length' : 'Array buffer allocation failed';
    const given = literalArgument(sites);
    return given === undefined ? undefined : `Invalid typed array length: ${given}`;
  },
  'invalid array buffer length': (sites) => (literalArgument(sites)?.startsWith('-') ? 'Invalid array buffer length' : 'Array buffer allocation failed'),
  'invalid string length': () => 'Invalid string length',
  'invalid repeat count': (sites) => {
    const given = literalArgument(sites);
    return given === undefined ? 'Invalid count value: -1' : `Invalid count value: ${given}`;
  },
  'invalid number of digits': numberOfDigits,
  'bad normalization form': () => 'The normalization form should be one of NFC, NFD, NFKC, NFKD.',
  'invalid code point': (sites) => `Invalid code point ${literalArgument(sites) ?? ''}`.trimEnd(),
  'Date value is NaN': () => 'Invalid time value',
  'empty array': () => 'Reduce of empty array with no initial value',
  'empty iterator': () => 'Reduce of a done iterator with no initial value',
  'not an object': notObject,
  'invalid value used as WeakMap key': () => 'Invalid value used as weak map key',
  'invalid value used as WeakSet key': () => 'Invalid value used in weak set',
  'invalid target': () => 'WeakRef: invalid target',
  'must be called with new': (sites) => {
    const name = nameAt(sites);
    return name === 'Promise' ? "Promise constructor cannot be invoked without 'new'" : `Constructor ${name} requires 'new'`;
  },
  "constructor requires 'new'": (sites) => `Constructor ${nameAt(sites) || nameOf(sites[0])} requires 'new'`,
  'cannot invoke a running generator': () => 'Generator is already running',
  'expecting hex digit': () => 'URI malformed',
  'expecting %': () => 'URI malformed',
  'expecting surrogate pair': () => 'URI malformed',
  'malformed UTF-8': () => 'URI malformed',
  'invalid character': () => 'URI malformed',
  "regexp must have the 'g' flag": (sites) => `String.prototype.${nameAt(sites).split('.').pop()} called with a non-global RegExp argument`,
  'regexp not supported': (sites) => `First argument to String.prototype.${nameAt(sites).split('.').pop()} must not be a regular expression`,
  'object prototype may only be an Object or null': (sites) => {
    const given = literalArgument(sites);
    return given === undefined ? 'Object prototype may only be an Object or null' : `Object prototype may only be an Object or null: ${given}`;
  },
  'circular prototype chain': () => 'Cyclic __proto__ value',
  'this is not initialized': () => "Must call super constructor in derived class before accessing 'this' or returning from derived constructor",
  'no setter for property': (sites) => {
    const place = textAt(sites[0]);
    const member = place && /(?:\.\s*(#?[\w$]+)|\[\s*['"]([^'"]*)['"]\s*\])\s*(?:[-+*/%&|^]|\*\*|<<|>>>?|\?\?|&&|\|\|)?=[^=]/.exec(place.text.slice(place.at, place.at + 200));
    return `Cannot set property ${member?.[1] ?? member?.[2] ?? 'of object'} of ${ownerOf(place)} which has only a getter`;
  },
  'could not delete property': (sites) => {
    const place = textAt(sites[0]);
    const member = place && /delete\s+[\w$.]*?(?:\.([\w$]+)|\[\s*['"]?([^'"\]]*)['"]?\s*\])/.exec(place.text.slice(Math.max(0, place.at - 20), place.at + 100));
    return `Cannot delete property '${member?.[1] ?? member?.[2] ?? ''}' of #<Object>`;
  },
  'property is not configurable': (sites) => {
    const key = literalKey(sites);
    return key === undefined ? undefined : `Cannot redefine property: ${key}`;
  },
  'Getter must be a function': (sites) => `Getter must be a function: ${accessorLiteral(sites, 'get')}`,
  'Setter must be a function': (sites) => `Setter must be a function: ${accessorLiteral(sites, 'set')}`,
  'Invalid property descriptor. Cannot both specify accessors and a value or writable attribute': () =>
    'Invalid property descriptor. Cannot both specify accessors and a value or writable attribute, #<Object>',
  'revoked proxy': () => 'Cannot perform operation on a proxy that has been revoked',
  'ArrayBuffer is detached': () => 'Cannot perform Construct on a detached ArrayBuffer',
  'out of bound': () => 'Offset is outside the bounds of the DataView',
  'promise self resolution': () => 'Chaining cycle detected for promise #<Promise>',
  'array buffer is not resizable': () => 'Method ArrayBuffer.prototype.resize called on incompatible receiver #<ArrayBuffer>',
  'invalid regular expression flags': (sites) => {
    const flags = literalArgument(sites, 1);
    return flags === undefined ? 'Invalid regular expression flags' : `Invalid flags supplied to RegExp constructor '${flags}'`;
  },
};

function ownerOf(place) {
  if (!place) return '#<Object>';
  const chain = chainAt(place.text, place.at);
  if (chain?.text.startsWith('this.')) {
    const before = place.text.slice(0, place.at);
    const all = [...before.matchAll(/\bclass\s+([\w$]+)/g)];
    if (all.length) return `#<${all[all.length - 1][1]}>`;
  }
  return '#<Object>';
}

const PATTERNS = [
  [/^cannot read property '(.*)' of (undefined|null)$/s, (found) => {
    const key = found[1].startsWith('Symbol.') ? `Symbol(${found[1]})` : found[1];
    return `Cannot read properties of ${found[2]} (reading '${key}')`;
  }],
  [/^cannot set property '(.*)' of (undefined|null)$/s, (found) => `Cannot set properties of ${found[2]} (setting '${found[1]}')`],
  [/^'(.*)' is read-only$/s, (found, sites) => readOnly(sites, found[1])],
  [/^(\S+) is not initialized$/, (found) => `Cannot access '${found[1]}' before initialization`],
  [/^private class field '(.*)' does not exist$/, (found, sites) => {
    const place = textAt(sites[0]);
    const sets = place && new RegExp(`${found[1]}\\s*(?:[-+*/]|\\?\\?|&&|\\|\\|)?=[^=]`).test(place.text.slice(place.at, place.at + 80));
    return `Cannot ${sets ? 'write' : 'read'} private member ${found[1]} ${sets ? 'to' : 'from'} an object whose class did not declare it`;
  }],
  [/^private class field '(.*)' already exists$/, () => 'Cannot initialize private methods of class twice on the same object'],
  [/^([A-Za-z]\w+) object expected$/, (found, sites) => `Method ${nameAt(sites).replace('.', '.prototype.') || found[1]} called on incompatible receiver undefined`],
];

const PREFIXES = /^(?:cannot |'|private |[A-Za-z]\w+ object expected|\S+ is not initialized)/;

function messageInV8(error, message, sites) {
  const exact = EXACT[message];
  if (exact) return exact(sites);
  if (PREFIXES.test(message)) {
    for (const [pattern, format] of PATTERNS) {
      const found = pattern.exec(message);
      if (found) return format(found, sites);
    }
  }
  if (error instanceof SyntaxError) {
    return syntax(message, sites);
  }
  return undefined;
}

// Words the import of a name that is not exported: V8 quotes the specifier that the importing module wrote.
function missingExport(name, file) {
  const base = file.slice(file.lastIndexOf('/') + 1);
  const quoted = base.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const pattern = new RegExp(`\\b${name.replace(/\$/g, '\\$&')}\\b[^;'"]*from\\s*['"]([^'"]*${quoted})['"]`);
  let specifier = `./${base}`;
  for (const text of allTexts()) {
    const found = pattern.exec(text);
    if (found) {
      [, specifier] = found;
      break;
    }
  }
  if (!isCommonJs(file)) return `The requested module '${specifier}' does not provide an export named '${name}'`;
  return (
    `Named export '${name}' not found. The requested module '${specifier}' is a CommonJS module, which may not support all module.exports as named exports.\n` +
    `CommonJS modules can always be imported via the default export, for example using:\n\nimport pkg from '${specifier}';\nconst { ${name} } = pkg;\n`
  );
}

function translateMessage(error, sites) {
  const own = getOwnPropertyDescriptor(error, 'message');
  const message = own?.value;
  if (typeof message !== 'string' || message.length > 300) return;
  const lacking = message.startsWith('Could not find export ') && error instanceof SyntaxError && /^Could not find export '(.*)' in module '(.*)'$/.exec(message);
  let text;
  if (lacking) {
    const [, name, file] = lacking;
    text = file.startsWith('node:') ? `The requested module '${file}' does not provide an export named '${name}'` : missingExport(name, file);
  } else if (sites.length > 0) text = messageInV8(error, message, sites);
  if (text !== undefined && text !== message) {
    defineProperty(error, 'message', { __proto__: null, value: text, writable: true, configurable: true, enumerable: false });
  }
}

export function rewriteMessage(error, sites) {
  try {
    translateMessage(error, sites);
    return;
  } catch {
    // The program's changes of the built-ins interfered.
  }
  try {
    pristinely(() => translateMessage(error, sites));
  } catch {
    // Keeps the engine's message.
  }
}
