// The little of quickjs-libc's modules that tests of the language import.

export const platform = 'wasi';
export const now = () => performance.now();

// The engine collects by itself once enough has been allocated; an unreachable cycle shows when it has collected.
export function gc() {
  const cycle = () => {
    const one = { filling: new Array(1024).fill(0) };
    one.self = one;
    return one;
  };
  const first = new WeakRef(cycle());
  while (first.deref() !== undefined) cycle();
}
