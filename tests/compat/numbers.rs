//! Integers of numpy, pandas, scipy and scikit-learn, with the same values as on 64-bit systems.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::{Codebox, Input, Kit, ProcessResult, fixtures};
use libtest_mimic::Trial;

use crate::programs::first_difference;
use crate::{Shared, completion, unavailable};

/// Deadline, far above the duration of the longest program.
const DEADLINE: Duration = Duration::from_secs(300);

/// Minimum number of expressions in the fixture.
const MIN_EXPRESSIONS: usize = 900;

pub fn trials(kit: &Kit, ready: &Shared<()>) -> Vec<Trial> {
    type Check = fn(&Kit) -> Result<()>;
    let checks: [(&str, Check); 5] = [
        ("expressions", expressions),
        ("loads_files_with_other_integer_widths", files),
        ("late_import", imported_late),
        ("errors_hide_internal_files", errors),
        ("overflow", overflow),
    ];
    let trial = |(name, check): (&str, Check)| {
        let (kit, ready) = (kit.clone(), ready.clone());
        Trial::ignorable_test(format!("numbers::{name}"), move || match &**ready {
            Ok(()) => completion(check(&kit)),
            Err(reason) => unavailable("wasm", reason),
        })
    };
    checks.into_iter().map(trial).collect()
}

fn folder() -> Result<PathBuf> {
    let folder = fixtures().join("python/numbers");
    folder.canonicalize().with_context(|| format!("find {}", folder.display()))
}

fn run(kit: &Kit) -> Codebox {
    kit.codebox().args(["run", "--isolation", "wasm", "--timeout", "300s"]).deadline(DEADLINE)
}

fn lines(result: &ProcessResult) -> Result<Vec<String>> {
    ensure!(result.code == Some(0), "status is {:?}\n{}", result.code, result.stderr_text());
    Ok(String::from_utf8(result.stdout.clone())?.lines().map(str::to_owned).collect())
}

/// Evaluates every expression of the fixture and compares value and type.
fn expressions(kit: &Kit) -> Result<()> {
    let read = |name: &str| Ok::<_, anyhow::Error>(fs::read_to_string(folder()?.join(name))?);
    let (table, narrow) = (read("expressions.tsv")?, read("narrow.txt")?);
    let mut narrow: BTreeSet<&str> = narrow.lines().collect();
    let expected: Vec<(&str, &str)> = table.lines().filter_map(|line| line.split_once('\t')).collect();
    ensure!(expected.len() >= MIN_EXPRESSIONS, "only {} expressions", expected.len());
    let input: String = expected.iter().map(|(expression, _)| format!("{expression}\n")).collect();
    let program = folder()?.join("evaluate.py");
    let found = lines(&run(kit).arg(program).input(Input::Bytes(input.into_bytes())).run()?)?;
    ensure!(found.len() == expected.len(), "{} values were printed and not {}", found.len(), expected.len());
    let mut wrong = Vec::new();
    for ((expression, value), line) in expected.iter().zip(&found) {
        let printed = line.split_once('\t').map_or("", |(_, value)| value);
        let is_right = match narrow.take(expression) {
            // An expression that is no longer narrow must be removed from the list.
            Some(_) => printed != *value && widen(printed) == widen(value),
            None => printed == *value,
        };
        if !is_right {
            wrong.push(format!("{expression}\n  is  {printed}\n  not {value}"));
        }
    }
    ensure!(wrong.is_empty(), "{} values are wrong:\n{}", wrong.len(), wrong.join("\n"));
    ensure!(narrow.is_empty(), "narrow.txt has expressions that are not in the table: {narrow:?}");
    Ok(())
}

/// Replaces every 32-bit integer type in a value by its 64-bit form.
fn widen(value: &str) -> String {
    value.replace("int32", "int64").replace("<i4", "<i8").replace("<u4", "<u8")
}

/// Loads pickles and arrays that were written with 64-bit and with 32-bit default integers.
fn files(kit: &Kit) -> Result<()> {
    let expected = fs::read(folder()?.join("load.out"))?;
    let command = run(kit).grant(&folder()?.join("files"), "/files", "ro").arg(folder()?.join("load.py"));
    let result = command.arg("/files").run()?;
    ensure!(result.code == Some(0), "status is {:?}\n{}", result.code, result.stderr_text());
    ensure!(result.stdout == expected, "{}\n{}", first_difference(&expected, &result.stdout), result.stderr_text());
    Ok(())
}

/// Imports libraries in a program whose text shows no need for them, so that it starts from an image without them.
fn imported_late(kit: &Kit) -> Result<()> {
    let program = r#"
import sys
print("numpy" in sys.modules)
np = __import__("num" + "py")
pd = __import__("pan" + "das")
print(np.arange(100000).sum(), np.bincount([1, 1]).dtype, np.random.RandomState(1).randint(10**12))
print(pd.Series([2.5e9]).astype(int)[0], pd.Series([2.5e9]).dtype)
frame = pd.DataFrame({"cents": [70000.0]})
frame["square"] = frame.cents.astype(int) ** 2
print(frame.square[0])
"#;
    let found = lines(&run(kit).args(["-c", program]).run()?)?;
    let expected = ["False", "4999950000 int64 163196666091", "2500000000 float64", "4900000000"];
    ensure!(found == expected, "{found:?}");
    Ok(())
}

/// Ends a program with an error of a function that the prelude replaces.
fn errors(kit: &Kit) -> Result<()> {
    let program = "import numpy as np, inspect\n\
        print(np.random.randint.__qualname__, inspect.signature(np.random.randint), np.bincount.__module__)\n\
        print(inspect.signature(np.bincount), np.random.RandomState.poisson.__doc__.strip()[:8])\n\
        np.random.randint(5, 1)";
    let result = run(kit).args(["-c", program]).run()?;
    let shown = String::from_utf8(result.stdout.clone())?;
    let expected = "RandomState.randint (low, high=None, size=None, dtype=<class 'int'>) numpy\n\
        (x, /, weights=None, minlength=0) poisson(\n";
    ensure!(shown == expected, "{shown}");
    let error = result.stderr_text();
    ensure!(error.contains("ValueError: low >= high"), "{error}");
    ensure!(!error.contains("<codebox>"), "{error}");
    Ok(())
}

/// Multiplies positions, which are 32 bits wide: an overflowing product causes one warning, and other products cause
/// none.
fn overflow(kit: &Kit) -> Result<()> {
    let program = r#"
import warnings
import numpy as np

def warned(compute):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compute()
    return [f"{one.category.__name__}: {one.message}" for one in caught]

places = np.argsort(np.arange(100_000))
print(warned(lambda: places * 100_000), warned(lambda: places ** 2), warned(lambda: places[::-7] * places[::7]))
print(warned(lambda: places * 20_000), warned(lambda: places[:46_341] ** 2), warned(lambda: places * np.int64(10**6)))
print(warned(lambda: np.multiply.reduce(places[1:9])), warned(lambda: np.multiply.accumulate(places[1:9])))
print(warned(lambda: np.arange(100_000) * 100_000), warned(lambda: np.arange(100_000) ** 2))
with np.errstate(over="ignore"):
    print(warned(lambda: places * 100_000))
try:
    with np.errstate(over="raise"):
        places.__imul__(100_000)
except FloatingPointError as error:
    print(error)
out = np.zeros(2, dtype=int)
print(np.argmax(np.eye(2), axis=1, out=out), out.dtype, warned(lambda: places // 2 * 100_000))
for _ in range(3):
    places * places
"#;
    let result = run(kit).args(["-c", program]).run()?;
    let found = lines(&result)?;
    let (product, square) =
        ("'RuntimeWarning: overflow encountered in multiply'", "'RuntimeWarning: overflow encountered in square'");
    let expected = [
        &format!("[{product}] [{square}] [{product}]"),
        "[] [] []",
        "[] []",
        "[] []",
        "[]",
        "overflow encountered in multiply",
        &format!("[0 1] int64 [{product}]"),
    ];
    ensure!(found == expected, "{found:#?}");
    let messages = result.stderr_text();
    ensure!(messages.matches("RuntimeWarning: overflow encountered in multiply").count() == 1, "{messages}");
    Ok(())
}
