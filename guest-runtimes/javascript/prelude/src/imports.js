// Static imports and exports of cells, which are no modules.
const QUOTED = `(?:'[^'\\n]*'|"[^"\\n]*")`;
const ATTRIBUTES = `(?:\\s*(?:with|assert)\\s*\\{[^}]*\\})?`;
const IMPORT = new RegExp(`^([ \\t]*)import\\b\\s*(?:([\\w$\\s{},*]+?)\\s*\\bfrom\\b\\s*)?(${QUOTED})(${ATTRIBUTES})[ \\t]*;?`, 'gm');
const EXPORT = /^([ \t]*)export[ \t]+(?=(?:async|class|const|function|let|var)\b)/gm;
const DEFAULT = /^([ \t]*)export[ \t]+default\b/gm;

// Returns the dynamic import of a static one, in as many lines.
function dynamic(whole, indent, clause, specifier, attributes) {
  const found = /\{[^}]*\}/.exec(attributes);
  const loaded = found ? `await import(${specifier}, { with: ${found[0]} })` : `await import(${specifier})`;
  const rest = '\n'.repeat(whole.split('\n').length - 1);
  if (clause === undefined) return `${indent}${loaded};${rest}`;
  const names = [];
  let space;
  let one = clause.trim();
  const plain = /^([\w$]+)\s*(?:,|$)/.exec(one);
  if (plain) {
    names.push(`default: ${plain[1]}`);
    one = one.slice(plain[0].length).trim();
  }
  const star = /^\*\s*as\s+([\w$]+)$/.exec(one);
  if (star) space = star[1];
  const list = /^\{([^}]*)\}$/.exec(one);
  if (list) names.push(...list[1].split(',').map((name) => name.trim().replace(/\s+as\s+/, ': ')).filter((name) => name !== ''));
  if (!star && !list && one !== '') return whole;
  if (space !== undefined && names.length === 0) return `${indent}const ${space} = ${loaded};${rest}`;
  if (space !== undefined) return `${indent}const ${space} = ${loaded}, { ${names.join(', ')} } = ${space};${rest}`;
  return `${indent}const { ${names.join(', ')} } = ${loaded};${rest}`;
}

// Returns a cell without static imports and exports, which only modules have.
export const withoutModules = (text) => text.replace(IMPORT, dynamic).replace(DEFAULT, '$1').replace(EXPORT, '$1');
