// Returns the program's source text of the call that an error came from and whose name satisfies `wanted`.
import { offsetOf, textOf } from './sources.js';
import { columnOf, fileOf, isNative, lineOf } from './sites.js';
import { sitesOf } from './stacks.js';
import { callAround, callAt, endOfCall, startOfChain } from './callees.js';

export function callText(error, wanted) {
  for (const site of sitesOf(error)) {
    if (isNative(site)) continue;
    const text = textOf(fileOf(site));
    if (text === undefined) continue;
    const at = offsetOf(text, lineOf(site), columnOf(site));
    if (at < 0) return undefined;
    const named = (open) => open >= 0 && wanted.test(text.slice(startOfChain(text, open), open));
    let open = callAt(text, at);
    if (!named(open)) {
      open = callAround(text, at);
      while (open >= 0 && !named(open)) open = callAround(text, open);
    }
    const end = open < 0 ? -1 : endOfCall(text, open);
    if (end < 0) return undefined;
    const start = startOfChain(text, open);
    const code = text.slice(start, end);
    // Further lines lose the indentation of the first.
    const column = start - (text.lastIndexOf('\n', start - 1) + 1);
    return code.includes('\n') ? code.split('\n').map((line, i) => (i === 0 ? line : line.replace(new RegExp(`^\\s{0,${column}}`), ''))).join('\n') : code;
  }
  return undefined;
}
