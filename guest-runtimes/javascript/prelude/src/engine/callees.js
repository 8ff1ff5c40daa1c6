// Finds the expression in a line of source that an error is about, and writes it as V8 does in its messages.
const WORD = /[\w$\u0080-\uffff]/;
const KEYWORDS = new Set(['return', 'await', 'typeof', 'void', 'delete', 'throw', 'in', 'of', 'new', 'case', 'else', 'do', 'yield', 'instanceof']);

const isSpace = (c) => c === ' ' || c === '\t' || c === '\n' || c === '\r';

function skipSpace(text, at) {
  while (at < text.length && isSpace(text[at])) at++;
  return at;
}

function skipBack(text, at) {
  while (at > 0 && isSpace(text[at - 1])) at--;
  return at;
}

const CLOSERS = { '(': ')', '[': ']', '{': '}' };
const OPENERS = { ')': '(', ']': '[', '}': '{' };

// Returns the index after the bracket that closes the one at `at`, or -1.
function closing(text, at) {
  const stack = [];
  for (let i = at; i < text.length && i < at + 4000; i++) {
    const c = text[i];
    if (c === '"' || c === "'" || c === '`') {
      i = endOfString(text, i) - 1;
      if (i < 0) return -1;
    } else if (CLOSERS[c]) stack.push(CLOSERS[c]);
    else if (OPENERS[c]) {
      if (stack.pop() !== c) return -1;
      if (stack.length === 0) return i + 1;
    }
  }
  return -1;
}

function endOfString(text, at) {
  const quote = text[at];
  for (let i = at + 1; i < text.length; i++) {
    if (text[i] === '\\') i++;
    else if (text[i] === quote) return i + 1;
    else if (text[i] === '\n' && quote !== '`') return -1;
  }
  return -1;
}

// Returns the index of the bracket that opens the group that ends just before `at`, or -1.
function opening(text, at) {
  const stack = [];
  for (let i = at - 1; i >= 0 && i > at - 4000; i--) {
    const c = text[i];
    if (c === '"' || c === "'" || c === '`') {
      let start = i - 1;
      while (start >= 0 && (text[start] !== c || text[start - 1] === '\\')) start--;
      if (start < 0) return -1;
      i = start;
    } else if (OPENERS[c]) stack.push(OPENERS[c]);
    else if (CLOSERS[c]) {
      if (stack.pop() !== c) return -1;
      if (stack.length === 0) return i;
    }
  }
  return -1;
}

// Returns the end of the token that contains or begins at `at`.
function endOfToken(text, at) {
  if (text[at] === '"' || text[at] === "'" || text[at] === '`') return endOfString(text, at);
  let end = at;
  while (end < text.length && WORD.test(text[end])) end++;
  return end;
}

// Returns the index of the call's parenthesis (or template) for a call reported at `at`, or -1.
export function callAt(text, at) {
  let i = at;
  if (text[i] === '?' && text[i + 1] === '.') i += 2;
  else if (text[i] === '.') i++;
  i = skipSpace(text, i);
  if (text[i] === '(' || text[i] === '`') return i;
  if (text[i] === '#') i++;
  if (WORD.test(text[i] ?? '') || text[i] === '"' || text[i] === "'") i = endOfToken(text, i);
  else if (text[i] === '}' || text[i] === ')' || text[i] === ']') i++;
  else if (text[i] !== '[') return -1;
  if (i < 0) return -1;
  for (let guard = 0; guard < 50; guard++) {
    i = skipSpace(text, i);
    if (text[i] === '(' || text[i] === '`') return i;
    if (text[i] === '?' && text[i + 1] === '.' && text[i + 2] === '(') return i + 2;
    if (text[i] === '[') {
      i = closing(text, i);
      if (i < 0) return -1;
    } else if (text[i] === '.' && text[i + 1] !== '.') i = endOfToken(text, skipSpace(text, i + 1));
    else if (text[i] === ']') i++;
    else return -1;
  }
  return -1;
}

function literal(inner) {
  const text = inner.trim();
  const string = /^(['"])((?:[^\\'"])*)\1$/.exec(text);
  if (string) return `.${string[2]}`;
  if (/^[\w$.]+$/.test(text)) return `[${text}]`;
  return '[...]';
}

// Returns V8's text for the expression that ends just before `at`.
export function expressionBefore(text, at) {
  const parts = [];
  let i = skipBack(text, at);
  for (let guard = 0; guard < 50; guard++) {
    const c = text[i - 1];
    if (c === ']') {
      const open = opening(text, i);
      if (open < 0) return undefined;
      const before = skipBack(text, open);
      const base = text[before - 1] ?? '';
      if (!WORD.test(base) && base !== ')' && base !== ']' && base !== '.') {
        parts.unshift(text.slice(open, i));
        break;
      }
      parts.unshift(literal(text.slice(open + 1, i - 1)));
      i = before;
      if (text[i - 1] === '.' && text[i - 2] === '?') i = skipBack(text, i - 2);
      continue;
    }
    if (c === ')') {
      const open = opening(text, i);
      if (open < 0) return undefined;
      const before = skipBack(text, open);
      const base = text[before - 1] ?? '';
      let callee = false;
      if (WORD.test(base)) {
        let start = before;
        while (start > 0 && WORD.test(text[start - 1])) start--;
        callee = !KEYWORDS.has(text.slice(start, before));
      } else callee = base === ')' || base === ']';
      if (!callee) {
        const inner = text.slice(open + 1, i - 1).trim();
        parts.unshift(/^[\w$.]+$/.test(inner) ? inner : '(intermediate value)');
        break;
      }
      parts.unshift('(...)');
      i = before;
      if (isNew(text, i)) {
        parts.shift();
        return '(intermediate value)' + parts.join('');
      }
      continue;
    }
    if (c === '"' || c === "'") {
      let start = i - 2;
      while (start >= 0 && text[start] !== c) start--;
      parts.unshift(`"${text.slice(start + 1, i - 1)}"`);
      break;
    }
    if (c !== undefined && WORD.test(c)) {
      let start = i;
      while (start > 0 && (WORD.test(text[start - 1]) || text[start - 1] === '#')) start--;
      const word = text.slice(start, i);
      const before = skipBack(text, start);
      if (word === 'super') return '(intermediate value)' + parts.join('');
      if (text[before - 1] === '.' && text[before - 2] === '?') {
        parts.unshift(`?.${word}`);
        i = skipBack(text, before - 2);
        continue;
      }
      if (text[before - 1] === '.' && text[before - 2] !== '.') {
        parts.unshift(`.${word}`);
        i = skipBack(text, before - 1);
        continue;
      }
      parts.unshift(word);
      break;
    }
    parts.unshift('(intermediate value)');
    break;
  }
  return parts.join('');
}

function isNew(text, calleeEnd) {
  let i = calleeEnd;
  while (i > 0 && (WORD.test(text[i - 1]) || text[i - 1] === '.')) i--;
  return /\bnew\s*$/.test(text.slice(Math.max(0, i - 12), i));
}

export const followsNew = (text, at) => /\bnew\s*$/.test(text.slice(Math.max(0, at - 12), at));

// Returns the chain of names that begins at `at`, and its end.
export function chainAt(text, at) {
  const found = /^(?:this|[A-Za-z_$\u0080-\uffff][\w$\u0080-\uffff]*)(?:\s*\??\.\s*#?[\w$]+|\[[^\[\]]*\])*/.exec(text.slice(at, at + 300));
  if (!found || KEYWORDS.has(found[0])) return undefined;
  return { text: found[0].replace(/\s+/g, ''), end: at + found[0].length };
}

// Returns the text of the arguments of the call that is reported at `at`.
export function argumentsAt(text, at) {
  let open = callAt(text, at);
  if (open < 0) open = callAround(text, at);
  if (open < 0 || text[open] !== '(') return undefined;
  const end = closing(text, open);
  return end < 0 ? undefined : text.slice(open + 1, end - 1).trim();
}

export const endOfCall = (text, open) => closing(text, open);

// Returns the start of the chain of names that ends at a call's parenthesis.
export function startOfChain(text, open) {
  let i = skipBack(text, open);
  while (i > 0 && (WORD.test(text[i - 1]) || text[i - 1] === '.')) i--;
  return i;
}

// Returns the index of the parenthesis of the call that `at` is an argument of, or -1: the engine often places a call
// at one of its arguments.
export function callAround(text, at) {
  let depth = 0;
  for (let i = at - 1; i >= 0 && i > at - 2000; i--) {
    const c = text[i];
    if (c === '"' || c === "'" || c === '`') {
      let start = i - 1;
      while (start >= 0 && (text[start] !== c || text[start - 1] === '\\')) start--;
      if (start < 0) return -1;
      i = start;
    } else if (c === ')' || c === ']' || c === '}') depth++;
    else if (c === '(' || c === '[' || c === '{') {
      if (depth-- > 0) continue;
      depth = 0;
      const before = skipBack(text, i);
      if (c === '(' && before > 0 && (WORD.test(text[before - 1]) || text[before - 1] === ')' || text[before - 1] === ']')) {
        const word = /[\w$]+$/.exec(text.slice(Math.max(0, before - 40), before))?.[0];
        if (!/^(?:if|for|while|switch|catch|return|typeof|await|yield|in|of)$/.test(word ?? '')) return i;
      }
      if (c === '{' && /=>\s*$|\)\s*$/.test(text.slice(Math.max(0, i - 4), i))) return -1;
    }
  }
  return -1;
}
