use std::path::{Path, PathBuf};

use super::*;

const NUMPY: &str = include_str!("../../../../../guest-runtimes/python/patches/numpy-int64.toml");

/// Replaces the 7 that is passed to `$describe`, and the load of one word.
const PATCH: &str = r#"
[addresses]
function = "fill"
count = 3
names = { second = 1, third = 2 }

[[edit]]
function = "choose"
find = ["i32.const 7", "call describe"]
replace = ["i32.const 9", "call describe"]

[[edit]]
function = "choose"
find = ["i32.load offset=second"]
replace = ["i32.load offset=third"]

[[edit]]
function = "choose"
find = ["i32.load8_u offset=*", "local.set 0"]
replace = ["i32.load8_u offset=*", "i32.const 2", "i32.add", "local.set 0"]
"#;

fn module(fill: &str, choose: &str) -> Vec<u8> {
    let text = format!(
        r#"(module
            (import "host" "describe" (func $describe (param i32) (result i32)))
            (memory (export "memory") 40)
            (func $fill {fill})
            (func $choose (export "choose") (result i32) (local i32) {choose}))"#
    );
    wat::parse_str(text).expect("a module")
}

const FILL: &str = "(i32.store offset=2000000 (i32.const 0) (i32.const 1))
    (i32.store offset=2000004 (i32.const 0) (i32.const 2))
    (i32.store offset=2000008 (i32.const 0) (i32.const 3))
    (i32.store offset=8 (i32.const 0) (i32.const 4))";

const CHOOSE: &str = "(local.set 0 (i32.load8_u offset=77 (i32.const 3)))
    (drop (call $describe (i32.const 5)))
    (drop (i32.load offset=2000004 (i32.const 0)))
    (call $describe (i32.const 7))";

const PATCHED_CHOOSE: &str = "(local.set 0 (i32.add (i32.load8_u offset=77 (i32.const 3)) (i32.const 2)))
    (drop (call $describe (i32.const 5)))
    (drop (i32.load offset=2000008 (i32.const 0)))
    (call $describe (i32.const 9))";

fn apply_patch(patch: &str, wasm: &[u8]) -> Result<Vec<u8>, PatchError> {
    apply(&Patch::parse(patch).expect("a patch"), wasm)
}

#[test]
fn replaces_only_matched_operators() {
    let found = apply_patch(PATCH, &module(FILL, CHOOSE)).expect("it fits");
    assert_eq!(canonical(&found), canonical(&module(FILL, PATCHED_CHOOSE)));
}

/// Encodes the module again with the encoder, so that two encodings of one module compare equal.
fn canonical(wasm: &[u8]) -> Vec<u8> {
    use wasm_encoder::reencode::{Reencode, RoundtripReencoder};

    let mut module = wasm_encoder::Module::new();
    RoundtripReencoder.parse_core_module(&mut module, wasmparser::Parser::new(0), wasm).expect("a module");
    module.finish()
}

#[test]
fn rejects_module_with_different_count() {
    let twice = format!("{CHOOSE} drop (call $describe (i32.const 7))");
    for (choose, found) in [(twice.as_str(), 2), ("(i32.const 0)", 0)] {
        let error = apply_patch(PATCH, &module(FILL, choose)).expect_err("a count differs");
        assert_eq!(
            error.to_string(),
            format!("expected 1 of `i32.const 7, call describe` in function choose, found {found}")
        );
    }
}

#[test]
fn rejects_missing_or_ambiguous_function() {
    let missing = PATCH.replace("\"choose\"", "\"chosen\"");
    let error = apply_patch(&missing, &module(FILL, CHOOSE)).expect_err("there is no such function");
    assert_eq!(error, PatchError::Function { name: "chosen".into(), found: 0 });
    let imported = PATCH.replace("\"choose\"", "\"describe\"");
    assert!(apply_patch(&imported, &module(FILL, CHOOSE)).is_err(), "an imported function has no body");

    let two = wat::parse_str(
        r#"(module (func $choose (@name "one") (i32.const 7) drop) (func (@name "one") (i32.const 7) drop))"#,
    );
    let patch = "[[edit]]\nfunction = \"one\"\nfind = [\"i32.const 7\"]\nreplace = [\"i32.const 9\"]";
    let error = apply_patch(patch, &two.expect("a module")).expect_err("the name is ambiguous");
    assert_eq!(error.to_string(), "expected 1 function named one, found 2");
}

#[test]
fn rejects_nonconsecutive_or_missing_words() {
    for (from, to, found) in [("2000008", "2000012", 2), ("offset=8 ", "offset=2000012 ", 4)] {
        let error = apply_patch(PATCH, &module(&FILL.replace(from, to), CHOOSE)).expect_err("the words do not match");
        assert_eq!(error, PatchError::Words { function: "fill".into(), expected: 3, found });
    }
}

#[test]
fn rejects_overlapping_edits() {
    let edit =
        "\n[[edit]]\nfunction = \"choose\"\nfind = [\"i32.const 5\", \"call describe\", \"i32.const 7\"]\nreplace = []";
    let more = "\n[[edit]]\nfunction = \"choose\"\nfind = [\"i32.const 7\", \"call describe\"]\nreplace = []";
    let choose = "(call $describe (i32.const 5)) (call $describe (i32.const 7)) drop";
    let error = apply_patch(&format!("{edit}{more}"), &module(FILL, choose)).expect_err("they overlap");
    assert_eq!(error, PatchError::Overlap("choose".into()));
}

#[test]
fn rejects_unknown_operators_and_empty_patches() {
    for text in ["", "[[edit]]\nfunction = \"f\"\nfind = []\nreplace = []"] {
        assert!(Patch::parse(text).is_err(), "{text}");
    }
    for operator in ["i32.mul", "i32.const x", "i32.load", "i32.load offset=", "call", "i32.add 1"] {
        let text = format!("[[edit]]\nfunction = \"f\"\nfind = [\"{operator}\"]\nreplace = []");
        let error = Patch::parse(&text).expect_err(operator);
        assert!(error.contains("unknown operator"), "{error}");
    }
}

#[test]
fn parses_numpy_patch() {
    let patch = Patch::parse(NUMPY).expect("a patch");
    let functions: std::collections::BTreeSet<_> = patch.edits.iter().map(|edit| &edit.function).collect();
    assert_eq!(functions.len(), 17);
}

/// Returns the runtime's module from the home that the tests share, if the runtime is installed there.
fn installed_module() -> Option<PathBuf> {
    let home = std::env::var_os("CODEBOX_TEST_HOME").map(PathBuf::from);
    let home = home.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/codebox-home"));
    let spec = include_str!("../../../../../guest-runtimes/python/runtime.toml");
    let spec = crate::RuntimeSpec::parse(spec).expect("a description");
    let module = home.join("data/runtimes").join(spec.folder()).join("module.wasm");
    module.is_file().then_some(module)
}

#[test]
fn applies_numpy_patch_exactly_once() {
    let Some(module) = installed_module() else {
        eprintln!("skipped: the Python runtime is not installed in the tests' home");
        return;
    };
    let wasm = std::fs::read(module).expect("the module");
    let found = apply_patch(NUMPY, &wasm).expect("it fits the pinned module");
    assert_ne!(found, wasm);
    assert!(matches!(apply_patch(NUMPY, &found), Err(PatchError::Count { .. })), "it was applied already");
}

/// A loop that only counts its calls in a local of its own; its operands are in the memory.
const LOOP: &str = r#"(module
    (memory (export "memory") 1)
    (global $raised (export "raised") (mut i32) (i32.const 0))
    (func $raise (global.set $raised (i32.add (global.get $raised) (i32.const 1))))
    (func $multiply (export "multiply") (param i32 i32 i32 i32) (local i64 i32)
        (local.set 5 (i32.add (local.get 5) (i32.const 1)))
        (i32.store offset=1000 (i32.const 0) (local.get 5))))"#;

const CHECKED: &str = "[[overflow]]\nfunction = \"multiply\"\nfactors = [0, 1]\ncall = \"raise\"";

/// Runs the checked loop and returns its calls of `raise`, for operands at these addresses with these steps.
fn count_raised(patch: &str, words: &[i32], (places, steps): ([i32; 3], [i32; 3]), count: i32) -> i32 {
    let wasm = apply_patch(patch, &wat::parse_str(LOOP).expect("a module")).expect("it fits");
    let engine = wasmtime::Engine::default();
    let mut store = wasmtime::Store::new(&engine, ());
    let module = wasmtime::Module::new(&engine, wasm).expect("a valid module");
    let instance = wasmtime::Instance::new(&mut store, &module, &[]).expect("it imports nothing");
    let memory = instance.get_memory(&mut store, "memory").expect("a memory");
    let mut put = |at: usize, words: &[i32]| {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        memory.write(&mut store, at, &bytes).expect("the range is in bounds");
    };
    put(0, &places);
    put(16, &[count]);
    put(32, &steps);
    put(64, words);
    let multiply = instance.get_typed_func::<(i32, i32, i32, i32), ()>(&mut store, "multiply").expect("a function");
    multiply.call(&mut store, (0, 16, 32, 0)).expect("no trap");
    let mut run_count = [0; 4];
    memory.read(&store, 1000, &mut run_count).expect("the range is in bounds");
    assert_eq!(i32::from_le_bytes(run_count), 1, "the function's own locals begin at zero, and its body runs");
    instance.get_global(&mut store, "raised").and_then(|global| global.get(&mut store).i32()).expect("a global")
}

#[test]
fn reports_overflow_once_per_loop_call() {
    let contiguous = ([64, 96, 128], [4, 4, 4]);
    let words = |left: [i32; 3], right: [i32; 3]| {
        let mut words = [0; 16];
        words[..3].copy_from_slice(&left);
        words[8..11].copy_from_slice(&right);
        words
    };
    let big = 1 << 16;
    assert_eq!(count_raised(CHECKED, &words([1, -3, i32::MAX], [7, big, 1]), contiguous, 3), 0);
    assert_eq!(count_raised(CHECKED, &words([i32::MIN, 2, 3], [1, 2, 3]), contiguous, 3), 0);
    assert_eq!(count_raised(CHECKED, &words([i32::MIN, 2, 3], [-1, 2, 3]), contiguous, 3), 1);
    assert_eq!(count_raised(CHECKED, &words([big, big, big], [big, big, big]), contiguous, 3), 1);
    // The check stops after `count` products.
    assert_eq!(count_raised(CHECKED, &words([1, 1, big], [1, 1, big]), contiguous, 2), 0);
    assert_eq!(count_raised(CHECKED, &words([big; 3], [big; 3]), contiguous, 0), 0);
    // One factor for all products, which are stored in place.
    assert_eq!(count_raised(CHECKED, &words([1, 2, big], [big; 3]), ([64, 96, 64], [4, 0, 4]), 3), 1);
    // A reduction and an accumulation: the first factor is the previous product.
    assert_eq!(count_raised(CHECKED, &words([big; 3], [big; 3]), ([64, 96, 64], [0, 4, 0]), 3), 0);
    assert_eq!(count_raised(CHECKED, &words([big; 3], [big; 3]), ([64, 96, 68], [4, 4, 4]), 3), 0);
    let square = CHECKED.replace("[0, 1]", "[0, 0]");
    assert_eq!(count_raised(&square, &words([46_340; 3], [0; 3]), ([64, 128, 0], [4, 4, 0]), 3), 0);
    assert_eq!(count_raised(&square, &words([1, 2, 46_341], [0; 3]), ([64, 128, 0], [4, 4, 0]), 3), 1);
}
