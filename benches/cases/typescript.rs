//! TypeScript file of a given length with typical content.

use std::fmt::Write as _;

/// Part of the file, 50 lines long; `#` stands for the part's number, so that no name is declared twice.
const TEMPLATE: &str = "\
interface Entity# {
  readonly id: number;
  name: string;
  tags?: string[];
  parent?: Entity# | null;
}
type Lookup#<K extends string | number, V> = { [key in K]?: V };
type Fields# = Exclude<keyof Entity#, 'id'>;
type Result#<T> = { ok: true; value: T } | { ok: false; error: Error };

enum State# {
  Open = 1,
  Closed = Open << 1,
  Named = 'named',
}

export abstract class Store#<T extends Entity#> implements Iterable<T> {
  protected static opened: number = 0;
  #found = 0;
  constructor(private readonly items: T[], public state: State# = State#.Open, protected name?: string) {
    Store#.opened += items.length;
  }
  abstract describe(item: T): string;
  get size(): number { return this.items.length; }
  find<K extends keyof T>(key: K, value: T[K]): Result#<T> {
    const found = this.items.find((item): item is T => item[key] === value);
    this.#found++;
    return found ? { ok: true, value: found } : { ok: false, error: new Error(`no ${String(key)} in ${this.name!}`) };
  }
  *[Symbol.iterator](): Iterator<T> { yield* this.items; }
}

export namespace Names# {
  export const prefix: string = 'entity-';
  const known = new Map<string, Entity#>();
  export function add(entity: Entity#): void { known.set(prefix + entity.name, entity); }
  export const count = (): number => known.size;
}

export function group#<T, K extends PropertyKey>(items: readonly T[], key: (item: T) => K): Map<K, T[]>;
export function group#<T>(items: readonly T[], key: (item: T) => unknown, limit = 10): Map<unknown, T[]> {
  const groups = new Map<unknown, T[]>();
  for (const item of items.slice(0, limit)) {
    const known = groups.get(key(item));
    if (known) known.push(item);
    else groups.set(key(item), [item]);
  }
  return groups as Map<unknown, T[]>;
}
declare const outside#: unique symbol;
";

/// Generates a file of this many lines.
pub fn program(lines: usize) -> String {
    let part = TEMPLATE.lines().count();
    assert_eq!(lines % part, 0, "a part of {part} lines is not cut");
    let mut text = String::new();
    for number in 0..lines / part {
        // `#found` is the only name that itself starts with `#`.
        let numbered = TEMPLATE.replace("#found", "@").replace('#', &number.to_string()).replace('@', "#found");
        // Writing to a string cannot fail.
        let _ = write!(text, "{numbered}");
    }
    text
}
