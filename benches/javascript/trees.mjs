// Binary trees: many short-lived and one long-lived, made and counted. The allocator.
import { measure } from './measure.mjs';

const grow = (depth) => (depth === 0 ? { left: null, right: null } : { left: grow(depth - 1), right: grow(depth - 1) });
const count = (tree) => (tree.left === null ? 1 : 1 + count(tree.left) + count(tree.right));

function trees(deepest) {
  const kept = grow(deepest);
  const counted = [];
  for (let depth = 4; depth <= deepest; depth += 2) {
    let nodes = 0;
    for (let times = 1 << (deepest + 2 - depth); times > 0; times--) nodes += count(grow(depth));
    counted.push(nodes);
  }
  return [...counted, count(kept)];
}

measure('trees', () => trees(14), '126976,130048,130816,131008,131056,131068,32767');
