// Completes or describes the name before the cursor. `code`, `cursor` (in characters) and `task` are given. Prints a JSON document.
((code, cursor, task) => {
  const before = Array.from(code).slice(0, cursor).join('');
  const names = before.match(/[\w$.]*$/u)[0].split('.');
  const valueOf = (names) => {
    let value = (0, eval)(names[0]);
    for (const name of names.slice(1)) value = value[name];
    return value;
  };
  const complete = () => {
    const prefix = names.pop();
    const found = new Set();
    try {
      let value = names.length ? valueOf(names) : globalThis;
      for (let depth = 0; value !== null && value !== undefined && depth < 20; depth += 1) {
        Object.getOwnPropertyNames(Object(value)).forEach((name) => found.add(name));
        value = Object.getPrototypeOf(Object(value));
      }
    } catch {}
    const matches = [...found].filter((name) => /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u.test(name) && name.startsWith(prefix)).sort();
    return { matches: matches.slice(0, 1000) };
  };
  const describe = () => {
    const after = Array.from(code).slice(cursor).join('').match(/^[\w$]*/u)[0];
    names.push(names.pop() + after);
    try {
      const value = valueOf(names);
      const text = typeof value === 'function' ? Function.prototype.toString.call(value).slice(0, 2000) : String(value).slice(0, 2000);
      return { text: `${names.join('.')}: ${typeof value}\n\n${text}` };
    } catch {
      return { text: null };
    }
  };
  process.stdout.write(JSON.stringify(task === 'complete' ? complete() : describe()) + '\n');
})
