// V8's messages for syntax errors.
import { argumentsAt } from './callees.js';
import { nameOfBuiltin } from './builtins.js';
import { columnOf, fileOf, functionOf, isNative, lineOf, placedAt } from './sites.js';
import { offsetOf, textOf } from './sources.js';

// Returns the program's text at a call site, and the offset in it.
export function textAt(site) {
  if (!site || isNative(site)) return undefined;
  const text = textOf(fileOf(site));
  if (text === undefined) return undefined;
  const at = offsetOf(text, lineOf(site), columnOf(site));
  return at < 0 ? undefined : { text, at };
}

// Returns the text with the syntax error and the offset in it, if known. The text of an eval is known only if it is a
// literal argument.
function parsedAt(sites) {
  const known = textAt(sites[0]);
  if (known) return known;
  const whole = isNative(sites[0]) ? undefined : textOf(fileOf(sites[0]));
  // A text that ends too early has its error after the last line.
  if (whole !== undefined) return { text: whole, at: whole.length };
  for (let i = 1; i < sites.length; i++) {
    const place = textAt(sites[i]);
    if (!place) continue;
    const given = argumentsAt(place.text, place.at);
    const found = given && /^(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|`([^`\\$]*)`)$/.exec(given);
    if (!found) return undefined;
    const text = (found[1] ?? found[2] ?? found[3]).replace(/\\n/g, '\n').replace(/\\(.)/g, '$1');
    const at = offsetOf(text, lineOf(sites[0]), columnOf(sites[0]));
    return at < 0 ? undefined : { text, at };
  }
  return undefined;
}

function placeIn(text, at) {
  let line = 1;
  let start = 0;
  for (let end = text.indexOf('\n'); end >= 0 && end < at; end = text.indexOf('\n', start)) {
    line++;
    start = end + 1;
  }
  return [line, at - start + 1];
}

// Words a duplicate declaration. The engine reports it at the position after the name.
function taken(sites) {
  const place = parsedAt(sites);
  const from = place && Math.max(0, place.at - 200);
  const found = place && /([A-Za-z_$\u0080-\uffff][\w$\u0080-\uffff]*)[^\w$]*$/.exec(place.text.slice(from, place.at));
  if (!found) return undefined;
  const file = fileOf(sites[0]);
  if (textOf(file) !== undefined) sites[0] = placedAt(file, ...placeIn(place.text, from + found.index));
  return `Identifier '${found[1]}' has already been declared`;
}

const OUTSIDE = 'Cannot use import statement outside a module';
const AWAIT = 'await is only valid in async functions and the top level bodies of modules';
const BAD = 'Invalid or unexpected token';
const KEYWORD =
  /^(?:break|case|catch|class|const|continue|debugger|default|delete|do|else|export|extends|false|finally|for|function|if|import|in|instanceof|new|null|return|super|switch|this|throw|true|try|typeof|var|void|while|with)$/;
const TOKEN = /\s*(?:([A-Za-z_$\u0080-\uffff][\w$\u0080-\uffff]*)|(\d)|(["'])|(`)|(\.\.\.|=>|===?|!==?|\*\*|&&|\|\||\?\?|\?\.|[-+*/%&|^<>]=|\+\+|--|[^\s])|$)/y;

// Names the token that V8 did not expect.
function tokenAt({ text, at }) {
  TOKEN.lastIndex = at;
  const [, word, number, quote, template, sign] = TOKEN.exec(text);
  if (word !== undefined) return KEYWORD.test(word) ? `Unexpected token '${word}'` : `Unexpected ${word === 'enum' ? 'reserved word' : `identifier '${word}'`}`;
  if (number !== undefined) return 'Unexpected number';
  if (quote !== undefined) return 'Unexpected string';
  if (template !== undefined) return 'Unexpected template string';
  return sign === undefined ? 'Unexpected end of input' : sign === '@' || sign === '#' || sign === '\\' ? BAD : `Unexpected token '${sign}'`;
}

// Returns true if the position follows an argument of a call.
function inCall({ text, at }) {
  let depth = 0;
  const before = text.slice(Math.max(0, at - 2000), at).trimEnd();
  if (!/[\w$)\]}"'`]$/.test(before)) return false;
  for (let i = before.length - 1; i >= 0; i--) {
    const c = before[i];
    if (c === '"' || c === "'" || c === '`') {
      i = before.lastIndexOf(c, i - 1);
      if (i < 0) return false;
    } else if (c === ')' || c === ']' || c === '}') depth++;
    else if (c === '(' || c === '[' || c === '{') {
      if (depth-- > 0) continue;
      const callee = /([\w$]+|[)\]])\s*$/.exec(before.slice(Math.max(0, i - 60), i))?.[1];
      return c === '(' && callee !== undefined && !/^(?:if|for|while|switch|catch|with|function|return|typeof|await)$/.test(callee) && !/\bfunction\s*\*?\s*[\w$]*\s*$/.test(before.slice(0, i));
    }
  }
  return false;
}

const precedes = (sites, pattern) => {
  const place = parsedAt(sites);
  return place !== undefined && pattern.test(place.text.slice(Math.max(0, place.at - 100), place.at));
};

function unexpected(sites, fallback) {
  const place = parsedAt(sites);
  if (place === undefined) return fallback;
  if (precedes(sites, /\bimport\s*(?:[\w$]+\s*,?\s*)?$/)) return OUTSIDE;
  if (precedes(sites, /\bawait\s+$/)) return AWAIT;
  // The engine's position is that of a pattern without an initializer.
  if (/^(?:\{[^{}]*\}|\[[^[\]]*\])\s*(?:[;,}\n]|$)/.test(place.text.slice(place.at, place.at + 500)) && precedes(sites, /\b(?:let|const|var)\s+$/)) return 'Missing initializer in destructuring declaration';
  if (precedes(sites, /\.\.\.\s*[\w$]+\s*$/) && place.text[place.at] === ',') return 'Rest parameter must be last formal parameter';
  return inCall(place) ? 'missing ) after argument list' : tokenAt(place);
}

// Names a token by the engine's word for it, for a text that is not known.
function tokenOf(token) {
  if (token === '' || token === '<eof>') return 'Unexpected end of input';
  return tokenAt({ text: token, at: 0 });
}

const REASONS = {
  __proto__: null,
  "expecting ')'": 'Unterminated group',
  'unexpected end': 'Unexpected end',
  'nothing to repeat': 'Nothing to repeat',
  'invalid repetition range': 'numbers out of order in {} quantifier',
  'invalid repetition count': 'numbers out of order in {} quantifier',
  'invalid class range': 'Range out of order in character class',
  'extraneous characters at the end': "Unmatched ')'",
  'invalid group': 'Invalid group',
  'invalid group name': 'Invalid capture group name',
  'expecting group name': 'Invalid named reference',
  'duplicate group name': 'Duplicate capture group name',
  'group name not defined': 'Invalid named capture referenced',
  'invalid escape sequence in regular expression': 'Invalid escape',
  'invalid decimal escape in regular expression': 'Invalid class escape',
  'back reference out of range in regular expression': 'Invalid escape',
  'invalid character in class in regular expression': 'Invalid character in character class',
  'invalid class set operation in regular expression': 'Invalid set operation in character class',
  'invalid operation in regular expression': 'Invalid set operation in character class',
  'unknown unicode property name': 'Invalid property name',
  'unknown unicode property value': 'Invalid property name',
  'unknown unicode general category': 'Invalid property name',
  'unknown unicode script': 'Invalid property name',
  "expecting '{' after \\p": 'Invalid property name',
  'malformed unicode char': 'Invalid Unicode escape',
  'syntax error': 'Lone quantifier brackets',
  'too many captures': 'Too many captures',
};

// Words an invalid regular expression. V8 quotes it, which is possible here if the text contains it.
function badRegExp(reason, sites) {
  let body, flags;
  const literal = isNative(sites[0]) ? undefined : parsedAt(sites);
  let found = literal && /^\/((?:[^\/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\]|\[)+)\/(\w*)/.exec(literal.text.slice(literal.at));
  if (found) [, body, flags] = found;
  else {
    const place = textAt(isNative(sites[0]) ? sites[1] : sites[0]);
    const given = place && argumentsAt(place.text, place.at);
    found = given && /^(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")\s*(?:,\s*['"](\w*)['"])?$/.exec(given);
    if (!found) return `Invalid regular expression: ${reason}`;
    body = (found[1] ?? found[2]).replace(/\\(.)/g, '$1');
    flags = found[3] ?? '';
  }
  const why = reason === 'Unexpected end' ? (/\[[^\]]*$/.test(body) || /v/.test(flags) ? 'Unterminated character class' : 'Unterminated group') : reason;
  return `Invalid regular expression: /${body}/${flags}: ${why}`;
}

const PLAIN = {
  __proto__: null,
  'missing initializer for const variable': 'Missing initializer in const declaration',
  'return not in a function': 'Illegal return statement',
  'return in a static initializer block': 'Illegal return statement',
  'break must be inside loop or switch': 'Illegal break statement',
  'continue must be inside loop': 'Illegal continue statement: no surrounding iteration statement',
  'import.meta only valid in module code': "Cannot use 'import.meta' outside a module",
  "'super' is only valid in a method": "'super' keyword unexpected here",
  'super() is only valid in a derived class constructor': "'super' keyword unexpected here",
  "invalid use of 'super'": "'super' keyword unexpected here",
  'new.target only allowed within functions': 'new.target expression is not allowed here',
  'expecting catch or finally': 'Missing catch or finally after try',
  'unexpected end of string': BAD,
  'unexpected character': BAD,
  'unexpected end of comment': BAD,
  'invalid number literal': BAD,
  'invalid first character of private name': BAD,
  'unexpected end of regexp': 'Invalid regular expression: missing /',
  'unexpected line terminator in regexp': 'Invalid regular expression: missing /',
  'invalid assignment left-hand side': 'Invalid left-hand side in assignment',
  'invalid for in/of left hand-side': 'Invalid left-hand side in for-loop',
  'cannot delete a direct reference in strict mode': 'Delete of an unqualified identifier in strict mode.',
  'duplicate __proto__ property name': 'Duplicate __proto__ fields are not allowed in object literals',
  'duplicate default': 'More than one default clause in switch statement',
  'rest element must be the last one': 'Rest element must be last element',
  'line terminator not allowed after throw': 'Illegal newline after throw',
  "'let' is not a valid lexical identifier": 'let is disallowed as a lexically bound name',
  "invalid lexical variable name 'let'": 'let is disallowed as a lexically bound name',
  'property constructor appears more than once': 'A class may only have one constructor',
  'Octal literals are not allowed in strict mode': 'Octal literals are not allowed in strict mode.',
  'invalid keyword: with': 'Strict mode code may not include a with statement',
  "unexpected 'await' keyword": AWAIT,
  'function name expected': 'Function statements require a function name',
  "unparenthesized unary expression can't appear on the left-hand side of '**'":
    'Unary operator used immediately before exponentiation expression. Parenthesis must be used to disambiguate operator precedence',
  'invalid lvalue in strict mode': 'Unexpected eval or arguments in strict mode',
  'invalid argument name in strict code': 'Unexpected eval or arguments in strict mode',
  'invalid variable name in strict mode': 'Unexpected eval or arguments in strict mode',
};

const before = (sites, pattern) => {
  const place = parsedAt(sites);
  return place && pattern.exec(place.text.slice(Math.max(0, place.at - 200), place.at))?.[1];
};
const following = (sites, pattern) => {
  const place = parsedAt(sites);
  return place && pattern.exec(place.text.slice(place.at, place.at + 200))?.[1];
};

const PATTERNS = [
  [/^unexpected token in expression: '(.*)'$/s, (found, sites) => unexpected(sites, tokenOf(found[1]))],
  [/^unexpected token: '(.*)'$/s, (found, sites) => unexpected(sites, tokenOf(found[1]))],
  [/^Unexpected (?:token '.*'|identifier '.*'|string|number|end of input)$/, (found, sites) => unexpected(sites)],
  [/^expecting '.*'$|^(?:variable|class statement requires a) name(?: expected)?$|^identifier expected$/, (found, sites) => unexpected(sites)],
  [/^cannot mix \?\? with/, (found, sites) => unexpected(sites)],
  [/^invalid redefinition of /, (found, sites) => taken(sites)],
  [/^'(.*)' already declared$/, (found) => `Identifier '${found[1]}' has already been declared`],
  [/^private class field is already defined$/, (found, sites) => taken(sites)?.replace("'", "'#")],
  [/^undefined private field '(.*)'$/, (found) => `Private field '${found[1]}' must be declared in an enclosing class`],
  [/^unsupported keyword: (.*)$/, (found) => (found[1] === 'import' ? OUTSIDE : `Unexpected token '${found[1]}'`)],
  [/^missing initializer for variable$/, (found, sites) => (before(sites, /\bconst\s+([\w$]+)\s*;?\s*$/) ? 'Missing initializer in const declaration' : 'Missing initializer in destructuring declaration')],
  [/^invalid increment\/decrement operand$/, (found, sites) => `Invalid left-hand side expression in ${before(sites, /((?:\+\+|--)\s*[\w$"'.]+\s*)$/) || following(sites, /^((?:\+\+|--)\s*\w)/) ? 'prefix' : 'postfix'} operation`],
  [/^lexical declarations can't appear in single-statement context$/, (found, sites) => (following(sites, /^(const\b)/) ? "Unexpected token 'const'" : 'Lexical declaration cannot appear in a single-statement context')],
  [/^a declaration in the head of a for-(of|in) loop can't have an initializer$/, (found) => `for-${found[1]} loop variable declaration may not have an initializer.`],
  [/^invalid number of arguments for getter or setter$/, (found, sites) => (before(sites, /\b(set)\s+[\w$]+\s*\([^)]*\)?\s*$/) ? 'Setter must have exactly one formal parameter.' : 'Getter must not have any formal parameters.')],
  [/^duplicate label name$/, (found, sites) => `Label '${before(sites, /([\w$]+)\s*:?\s*$/) ?? following(sites, /^([\w$]+)/) ?? ''}' has already been declared`],
  [/^break\/continue label not found$/, (found, sites) => `Undefined label '${following(sites, /^([\w$]+)/) ?? before(sites, /([\w$]+)\s*;?\s*$/) ?? ''}'`],
];

// Returns V8's message, or undefined for a message that stays as it is.
export function syntax(message, sites) {
  // The prelude has its own messages for JSON.
  if (sites.length > 1 && isNative(sites[1]) && nameOfBuiltin(functionOf(sites[1])) === 'JSON.parse') return undefined;
  const reason = REASONS[message];
  if (reason !== undefined && !(message === "expecting ')'" && !isNative(sites[0]) && parsedAt(sites)?.text[parsedAt(sites).at] !== '/')) return badRegExp(reason, sites);
  if (PLAIN[message] !== undefined) return PLAIN[message];
  for (const [pattern, format] of PATTERNS) {
    const found = pattern.exec(message);
    if (found) return format(found, sites);
  }
  return undefined;
}
