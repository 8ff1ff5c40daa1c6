// Words found with regular expressions and counted in a map, JSON there and back, sorting, replacing and joining.
import { measure } from './measure.mjs';

function generator(seed) {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    return (state >>> 8) % below;
  };
}

function write(words) {
  const next = generator(42);
  const known = Array.from({ length: 500 }, (_, at) => `w${((at * 7919) % 500).toString(36)}${'x'.repeat(at % 5)}`);
  let text = '';
  for (let at = 0; at < words; at++) text += known[next(known.length)] + (at % 11 ? ' ' : ', ');
  return text;
}

function tally(text) {
  const counts = new Map();
  for (const [word] of text.matchAll(/\bw[0-9a-z]+?x*\b/g)) counts.set(word, (counts.get(word) ?? 0) + 1);
  return [...counts].sort(([one, many], [other, more]) => more - many || (one < other ? -1 : 1));
}

function store(sorted, times) {
  let size = 0;
  for (let at = 0; at < times; at++) {
    const rows = sorted.map(([word, count], rank) => ({ word, count, rank, tags: [word.length, count % 3], more: { word } }));
    size += JSON.stringify(JSON.parse(JSON.stringify(rows))).length;
  }
  return size;
}

function texts() {
  const text = write(40000);
  const sorted = tally(text);
  const lines = text.replace(/x+/g, (found) => found.length).split(/, /);
  const shouted = lines.map((line) => line.toUpperCase().trim()).join('-');
  return [sorted.length, sorted[0], store(sorted, 60), shouted.length, /(\d+)[^\d]*$/.exec(shouted)[1]];
}

measure('texts', texts, '500,w9sxxx,115,2269440,188286,4');
