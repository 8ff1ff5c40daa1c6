//! Time to analyze a program and choose its tier, as a share of the cold process that does both.

use std::fmt::Write as _;
use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::BenchInputs;
use super::table::{Measurement, Row};
use super::timing::{Medians, median};

const PYTHON: &str = "look through 500 lines of Python and choose a tier, of the cold process that does it";
const TYPESCRIPT: &str = "look through 500 lines of TypeScript and choose a tier, of the cold process that does it";

/// Part of the Python script that is repeated to its full length; `_N` stands for the part's number.
const PYTHON_PART: &str = "\
import json
import os.path
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Iterable, Optional


@dataclass
class Entity_N:
    name: str
    tags: list[str] = field(default_factory=list)
    parent: Optional[\"Entity_N\"] = None

    def path(self) -> str:
        parts, at = [], self
        while at is not None:
            parts.append(at.name)
            at = at.parent
        return os.path.join(*reversed(parts))


class Store_N:
    opened = 0

    def __init__(self, items: Iterable[Entity_N], limit: int = 10):
        self.items = {item.name: item for item in items}
        self.limit = limit
        Store_N.opened += len(self.items)

    def find(self, **wanted) -> list[Entity_N]:
        found = [item for item in self.items.values() if all(getattr(item, key) == value for key, value in wanted.items())]
        return sorted(found, key=lambda item: (len(item.tags), item.name))[: self.limit]

    def by_tag(self) -> dict[str, list[str]]:
        groups = defaultdict(list)
        for item in self.items.values():
            for tag in item.tags or [\"none\"]:
                groups[tag].append(item.path())
        return dict(groups)

    def dump(self) -> str:
        try:
            return json.dumps(self.by_tag(), indent=2, sort_keys=True)
        except (TypeError, ValueError) as error:
            raise RuntimeError(f\"store {type(self).__name__} of {len(self.items)} cannot be dumped: {error}\") from error


root_N = Entity_N(\"root\")
store_N = Store_N([root_N, Entity_N(\"leaf\", [\"a\", \"b\"], root_N)])
assert store_N.by_tag()[\"a\"] == [\"root/leaf\"]
";

/// Part of the TypeScript script that is repeated to its full length; `_N` stands for the part's number.
const TYPESCRIPT_PART: &str = "\
import { join as join_N } from 'node:path';
interface Named_N { readonly name: string; tags?: string[]; parent?: Named_N | null }
type Found_N<T> = { ok: true; value: T } | { ok: false; error: Error };

enum State_N {
  Open = 1,
  Closed = Open << 1,
  Named = 'named',
}

class Entity_N implements Named_N {
  constructor(public readonly name: string, public tags: string[] = [], public parent: Named_N | null = null) {}
  path(): string {
    const parts: string[] = [];
    for (let at: Named_N | null | undefined = this; at; at = at.parent) parts.push(at.name);
    return join_N(...parts.reverse());
  }
}

abstract class Base_N<T extends Named_N> {
  protected static opened: number = 0;
  constructor(protected readonly items: T[], public state: State_N = State_N.Open) {
    Base_N.opened += items.length;
  }
  abstract describe(item: T): string;
  get size(): number { return this.items.length; }
  find<K extends keyof T>(key: K, value: T[K]): Found_N<T> {
    const found = this.items.find((item): item is T => item[key] === value);
    return found ? { ok: true, value: found } : { ok: false, error: new Error(`no ${String(key)} here`) };
  }
  *[Symbol.iterator](): Iterator<T> { yield* this.items; }
}

class Store_N extends Base_N<Entity_N> {
  describe(item: Entity_N): string { return `${item.path()} (${item.tags.join(', ') || 'none'})`; }
  byTag(limit = 10): Map<string, string[]> {
    const groups = new Map<string, string[]>();
    for (const item of this.items.slice(0, limit)) {
      for (const tag of item.tags) groups.set(tag, [...(groups.get(tag) ?? []), item.path()]);
    }
    return groups as Map<string, string[]>;
  }
}

const root_N = new Entity_N('root');
const store_N = new Store_N([root_N, new Entity_N('leaf', ['a', 'b'], root_N)]);
if (store_N.byTag().get('a')?.[0] !== 'root/leaf') throw new Error('store _N');
if (!store_N.find('name', 'leaf').ok) throw new Error('nothing found');
";

/// Number of lines of each script.
const LINES: usize = 500;

/// Compares with a Python script.
///
/// # Errors
/// Fails if the script cannot be run or codebox does not report the time that the choice took.
pub fn python(inputs: &BenchInputs) -> Result<Row> {
    compare(inputs, PYTHON, "script.py", PYTHON_PART)
}

/// Compares with a TypeScript script.
///
/// # Errors
/// Fails if the script cannot be run or codebox does not report the time that the choice took.
pub fn typescript(inputs: &BenchInputs) -> Result<Row> {
    compare(inputs, TYPESCRIPT, "script.ts", TYPESCRIPT_PART)
}

fn compare(inputs: &BenchInputs, what: &'static str, name: &str, part: &str) -> Result<Row> {
    let folder = tempfile::tempdir().context("make a folder for the script")?;
    let script = folder.path().join(name);
    fs::write(&script, script_text(part)?).context("write the script")?;
    let (mut decision_times, mut process_times) = (Vec::new(), Vec::new());
    for _ in 0..inputs.runs.short {
        let mut codebox = inputs.codebox();
        codebox.arg("--verbose").arg(&script).stdin(Stdio::null());
        let began = Instant::now();
        let output = codebox.output().context("start codebox")?;
        process_times.push(began.elapsed());
        let log = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success() && log.contains("ran in wasm"), "did not run in wasm: {log}");
        decision_times
            .push(reported_duration(&log).with_context(|| format!("cannot find the duration in the log: {log}"))?);
    }
    let medians = Medians { one: median(&mut decision_times), other: median(&mut process_times) };
    let runs = format!("{} processes", inputs.runs.short);
    Ok(Row { what, max_ratio: Some(0.15), measurement: Ok(Measurement::of(&medians, runs)) })
}

/// Builds a script of [`LINES`] lines.
fn script_text(part: &str) -> Result<String> {
    let lines = part.lines().count();
    let mut script_text = String::new();
    for number in 0..LINES / lines {
        script_text.push_str(&part.replace("_N", &number.to_string()));
    }
    for line in script_text.lines().count()..LINES {
        let comment = if part.starts_with("import {") { "//" } else { "#" };
        writeln!(script_text, "{comment} line {line}")?;
    }
    Ok(script_text)
}

/// Reads the time that codebox reports with `--verbose`.
fn reported_duration(log: &str) -> Option<Duration> {
    let line = log.lines().find_map(|line| line.split_once("program analyzed and backend selected in "))?;
    let number = line.1.strip_suffix(" µs")?;
    Some(Duration::from_micros(number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_have_the_stated_length() {
        for part in [PYTHON_PART, TYPESCRIPT_PART] {
            let script_text = script_text(part).expect("write succeeds");
            assert_eq!(script_text.lines().count(), LINES);
            assert!(
                script_text.lines().filter(|line| line.contains("# line ") || line.contains("// line ")).count() < 50
            );
        }
    }

    #[test]
    fn parses_reported_duration() {
        let log = "codebox: program analyzed and backend selected in 412 µs\ncodebox: ran in wasm";
        assert_eq!(reported_duration(log), Some(Duration::from_micros(412)));
        assert_eq!(reported_duration("codebox: ran in wasm"), None);
    }
}
