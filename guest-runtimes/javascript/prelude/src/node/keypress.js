// Keys of a terminal, as events of its stream: `readline.emitKeypressEvents`.
import { StringDecoder } from './string_decoder.js';

const CONTROL = 0x1a;

// Names of keys by the end of their sequence: its kind, its number and its last character.
const NAMES = {
  '[A': 'up', '[B': 'down', '[C': 'right', '[D': 'left', '[E': 'clear', '[F': 'end', '[H': 'home', '[P': 'f1', '[Q': 'f2', '[R': 'f3', '[S': 'f4',
  OA: 'up', OB: 'down', OC: 'right', OD: 'left', OE: 'clear', OF: 'end', OH: 'home', OP: 'f1', OQ: 'f2', OR: 'f3', OS: 'f4',
  '[1~': 'home', '[2~': 'insert', '[3~': 'delete', '[4~': 'end', '[5~': 'pageup', '[6~': 'pagedown', '[7~': 'home', '[8~': 'end',
  '[11~': 'f1', '[12~': 'f2', '[13~': 'f3', '[14~': 'f4', '[15~': 'f5', '[17~': 'f6', '[18~': 'f7', '[19~': 'f8', '[20~': 'f9', '[21~': 'f10',
  '[23~': 'f11', '[24~': 'f12', '[200~': 'paste-start', '[201~': 'paste-end', '[Z': 'tab',
};

const SEQUENCE = /^\x1b\x1b?([[O])(?:(\d*)(?:;(\d+))?)([A-Za-z~^$])/;

const plain = (sequence) => ({ sequence, name: undefined, ctrl: false, meta: false, shift: false });

// Returns the key of one character, after an escape character if there was one.
function character(text, escaped) {
  const key = plain(escaped ? `\x1b${text}` : text);
  key.meta = escaped;
  if (text === '\r') key.name = 'return';
  else if (text === '\n') key.name = 'enter';
  else if (text === '\t') key.name = 'tab';
  else if (text === '\b' || text === '\x7f') key.name = 'backspace';
  else if (text === '\x1b') {
    key.name = 'escape';
    key.meta = true;
  } else if (text === ' ') key.name = 'space';
  else if (text.length === 1 && text.charCodeAt(0) <= CONTROL) {
    key.name = String.fromCharCode(text.charCodeAt(0) + 96);
    key.ctrl = true;
  } else if (/^[0-9A-Za-z]$/.test(text)) {
    key.name = text.toLowerCase();
    key.shift = /^[A-Z]$/.test(text);
  }
  return key;
}

// Splits input into keys: each with its text, which is undefined for a sequence.
export function keysOf(input) {
  const keys = [];
  while (input !== '') {
    const found = SEQUENCE.exec(input);
    if (found !== null) {
      const [sequence, kind, number, modifiers, last] = found;
      const isNumbered = last === '~' || last === '^' || last === '$';
      const code = `${kind}${isNumbered ? number : ''}${last}`;
      const modifier = Number(modifiers ?? (isNumbered ? 1 : number || 1)) - 1;
      const key = plain(sequence);
      Object.assign(key, { code, name: NAMES[code] ?? 'undefined', ctrl: (modifier & 4) !== 0, meta: (modifier & 10) !== 0, shift: (modifier & 1) !== 0 || code === '[Z' });
      keys.push([undefined, key]);
      input = input.slice(sequence.length);
      continue;
    }
    const escaped = input[0] === '\x1b' && input.length > 1;
    const [text] = escaped ? input.slice(1) : input;
    const key = character(text, escaped);
    keys.push([escaped || key.name === 'escape' ? undefined : text, key]);
    input = input.slice(text.length + (escaped ? 1 : 0));
  }
  return keys;
}

const started = new WeakSet();

export function emitKeypressEvents(stream) {
  if (started.has(stream)) return;
  started.add(stream);
  const decoder = new StringDecoder('utf8');
  const onData = (data) => {
    if (stream.listenerCount('keypress') === 0) {
      stream.removeListener('data', onData);
      stream.on('newListener', onNewListener);
      return;
    }
    for (const [text, key] of keysOf(typeof data === 'string' ? data : decoder.write(data))) stream.emit('keypress', text, key);
  };
  const onNewListener = (event) => {
    if (event !== 'keypress') return;
    stream.on('data', onData);
    stream.removeListener('newListener', onNewListener);
  };
  if (stream.listenerCount('keypress') > 0) stream.on('data', onData);
  else stream.on('newListener', onNewListener);
}
