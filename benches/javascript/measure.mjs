// The end of every program: `measure(NAME, work, ANSWER)` times the work alone, checks its result, and prints
// `NAME SECONDS`. The programs run in any engine that has modules, `console.log` and `performance.now`.

export function measure(name, work, answer) {
  const began = performance.now();
  const found = String(work());
  const took = performance.now() - began;
  if (found !== answer) throw new Error(`${name} computed ${found} and not ${answer}`);
  console.log(`${name} ${(took / 1000).toFixed(6)}`);
}
