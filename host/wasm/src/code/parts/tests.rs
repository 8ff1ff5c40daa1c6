//! Divides small modules, and compares the parts with the whole.

use wasmtime::{Engine, Extern, Func, Instance, Linker, Module, Store};

use super::*;
use crate::code::{CodeFile, CodeImage, LaterParts, NotCompiled};

/// A module with a function of each part, in the order first, second, third. `first` can be called from outside.
const MODULE: &str = r#"(module
    (import "host" "add" (func $add (param i32 i32) (result i32)))
    (type $binary (func (param i32 i32) (result i32)))
    (table 5 5 funcref)
    (elem (i32.const 1) $double $twice $entry_in_table)
    (memory (export "memory") 1)
    (global $top (mut i32) (i32.const 7))
    (tag $thrown (param i32))
    ;; First part.
    (func $first (export "first") (param i32) (result i32)
        (call $add (call $entry_second (local.get 0) (i32.const 2)) (i32.load (i32.const 8))))
    (func $catch (export "catch") (param i32) (result i32)
        (block $caught (result i32)
            (try_table (result i32) (catch $thrown $caught) (call $entry_second (i32.const -1) (local.get 0)))))
    (func $through_table (export "through_table") (param i32 i32) (result i32)
        (call_indirect (type $binary) (local.get 0) (i32.const 1) (local.get 1)))
    (func $double (param i32 i32) (result i32) (i32.mul (local.get 0) (i32.const 2)))
    (func $unlisted (param i32) (result i32) (i32.add (local.get 0) (i32.const 100)))
    ;; Second part. The call of $add is only in $helper, which is therefore in the first part.
    (func $entry_second (param i32 i32) (result i32)
        (if (i32.lt_s (local.get 0) (i32.const 0)) (then (throw $thrown (i32.mul (local.get 1) (i32.const 3)))))
        (i32.store (i32.const 8) (i32.const 1000))
        (global.set $top (i32.add (global.get $top) (i32.const 1)))
        (call $helper (call $unlisted (call $entry_third (local.get 0))) (local.get 1)))
    (func $helper (param i32 i32) (result i32) (call $add (local.get 0) (local.get 1)))
    (func $twice (param i32 i32) (result i32) (i32.mul (local.get 0) (i32.const 20)))
    ;; Third part.
    (func $entry_third (param i32) (result i32)
        (call_indirect (type $binary) (local.get 0) (global.get $top) (i32.const 2)))
    (func $entry_in_table (param i32 i32) (result i32) (call $entry_second (local.get 0) (local.get 1)))
    (func (export "top") (result i32) (global.get $top)))"#;

fn spec(functions: [&[(u32, u32)]; 3]) -> SplitSpec {
    let names = ["first", "second", "third"];
    let part = |(name, functions): (&str, &[(u32, u32)])| PartSpec { name: name.into(), functions: functions.to_vec() };
    SplitSpec { entry_prefix: "entry_".into(), parts: names.into_iter().zip(functions).map(part).collect() }
}

/// The functions of [`MODULE`], of which index 0 is the imported one.
fn parts() -> SplitSpec {
    spec([&[(1, 6), (11, 12)], &[(6, 9)], &[]])
}

fn engine() -> Engine {
    let mut config = wasmtime::Config::new();
    config.wasm_exceptions(true);
    Engine::new(&config).expect("an engine")
}

struct Running {
    store: Store<Loaded>,
    instance: Instance,
}

#[derive(Default)]
struct Loaded {
    primary: Option<Instance>,
    /// Numbers of the loaded parts, in order.
    parts: Vec<usize>,
}

/// Instantiates the module up to a part. Later parts are loaded as a guest loads them.
fn run(spec: &SplitSpec, last: usize) -> Running {
    let wasm = wat::parse_str(MODULE).expect("a module");
    let plan = Plan::new(&wasm, &wasm, spec).expect("the module can be divided");
    let engine = engine();
    let compile = |wasm: Vec<u8>| Module::new(&engine, wasm).expect("a valid module");
    let primary = compile(plan.primary(last).expect("the part can be encoded"));
    let secondary: Vec<_> =
        (last + 1..spec.parts.len()).map(|part| compile(plan.secondary(part).expect("it can be encoded"))).collect();
    let mut linker: Linker<Loaded> = Linker::new(&engine);
    linker.func_wrap("host", "add", |a: i32, b: i32| a + b).expect("a new name");
    let load = move |mut caller: wasmtime::Caller<'_, Loaded>, part: i32| {
        let instance = caller.data().primary.expect("the primary module runs");
        for (index, module) in (last + 1..).zip(&secondary).take_while(|(index, _)| *index <= part as usize) {
            if caller.data().parts.contains(&index) {
                continue;
            }
            let table = instance.get_table(&mut caller, TABLE).expect("a table");
            let function = |caller: &mut wasmtime::Caller<'_, Loaded>, slot: &str| -> Func {
                let found = table.get(caller, slot.parse().expect("a slot")).expect("it is in the table");
                *found.unwrap_func().expect("it is a function")
            };
            let mut imports: Vec<Extern> = Vec::new();
            for import in module.imports() {
                imports.push(match import.module() {
                    FUNCTION_MODULE => function(&mut caller, import.name()).into(),
                    PRIMARY_MODULE => instance.get_export(&mut caller, import.name()).expect("an export"),
                    other => panic!("imports {other}"),
                });
            }
            Instance::new(&mut caller, module, &imports).expect("it can be instantiated");
            caller.data_mut().parts.push(index);
        }
    };
    linker.func_wrap(PART_MODULE, LOAD_PARTS, load).expect("a new name");
    let mut store = Store::new(&engine, Loaded::default());
    let instance = linker.instantiate(&mut store, &primary).expect("it can be instantiated");
    store.data_mut().primary = Some(instance);
    Running { store, instance }
}

impl Running {
    fn call(&mut self, name: &str, arguments: &[i32]) -> wasmtime::Result<i32> {
        let function = self.instance.get_func(&mut self.store, name).expect("an export");
        let arguments: Vec<_> = arguments.iter().map(|value| wasmtime::Val::I32(*value)).collect();
        let mut result = [wasmtime::Val::I32(0)];
        function.call(&mut self.store, &arguments, &mut result)?;
        Ok(result[0].unwrap_i32())
    }
}

#[test]
fn parts_have_results_of_whole() {
    for last in 0..3 {
        let mut running = run(&parts(), last);
        // 5 * 20 + 100 + 2, and the word that the second part stored.
        assert_eq!(running.call("first", &[5]).expect("no trap"), 1202, "up to part {last}");
        assert_eq!(running.call("top", &[]).expect("no trap"), 8);
        assert_eq!(running.call("first", &[6]).expect("no trap"), 1222);
        assert_eq!(running.store.data().parts, (last + 1..3).collect::<Vec<_>>());
    }
}

#[test]
fn loads_only_needed_parts() {
    let mut running = run(&parts(), 0);
    assert_eq!(running.call("through_table", &[4, 1]).expect("no trap"), 8);
    assert_eq!(running.store.data().parts, [0; 0]);
    // An exception of a later part is caught in the first one.
    assert_eq!(running.call("catch", &[5]).expect("no trap"), 15);
    assert_eq!(running.store.data().parts, [1]);
    assert_eq!(running.call("through_table", &[4, 2]).expect("no trap"), 80);
    assert_eq!(running.call("first", &[5]).expect("no trap"), 1202);
    assert_eq!(running.store.data().parts, [1, 2]);
}

#[test]
fn loads_part_of_entry_in_table() {
    let mut running = run(&parts(), 0);
    assert_eq!(running.call("through_table", &[5, 3]).expect("no trap"), 201);
    assert_eq!(running.store.data().parts, [1, 2]);
}

#[test]
fn missing_function_traps() {
    let mut running = run(&parts(), 0);
    let error = running.call("through_table", &[4, 2]).expect_err("the slot is null");
    assert_eq!(error.downcast_ref(), Some(&wasmtime::Trap::IndirectCallToNull));
}

#[test]
fn primary_module_has_only_its_functions_and_types() {
    let wasm = wat::parse_str(MODULE).expect("a module");
    let plan = Plan::new(&wasm, &wasm, &parts()).expect("the module can be divided");
    let engine = engine();
    let functions = |wasm: Vec<u8>| {
        let module = Module::new(&engine, wasm).expect("a valid module");
        (module.resources_required().max_initial_table_size, module.imports().len())
    };
    // The table has a slot for each of four functions that are called across parts. The imports are those of the whole
    // and the loader of parts.
    assert_eq!(functions(plan.primary(0).expect("it can be encoded")), (Some(9), 2));
    // $unlisted and $helper are in the first part, because it has the range of one and the other calls the host.
    let of = |name: &str| {
        let position = ["first", "catch", "through_table", "double", "unlisted", "entry_second", "helper", "twice"];
        plan.part(1 + position.iter().position(|one| *one == name).expect("a function") as u32)
    };
    assert_eq!((of("unlisted"), of("entry_second"), of("helper"), of("twice")), (0, 1, 0, 1));
}

#[test]
fn threads_share_a_part() {
    let dir = tempfile::tempdir().expect("a directory");
    let wasm = wat::parse_str(MODULE).expect("a module");
    let plan = Plan::new(&wasm, &wasm, &parts()).expect("the module can be divided");
    let engine = crate::engine::Engine::new().expect("an engine");
    let file = |name: &str, wasm: Vec<u8>| {
        let path = dir.path().join(name);
        std::fs::write(&path, CodeImage::compile(&engine, &wasm).expect("a valid module"))
            .expect("the file is written");
        CodeFile { file: std::fs::File::open(&path).expect("the file exists"), path }
    };
    for _ in 0..20 {
        let secondary = |part: usize| file(&part.to_string(), plan.secondary(part).expect("it can be encoded"));
        let files = (1..3).map(|part| Some(secondary(part))).collect();
        let later = LaterParts::map(&engine, 1, files).expect("the files can be mapped");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (1..3).for_each(|part| drop(later.module(part).expect("it can be loaded"))));
            }
        });
        assert!(later.module(3).is_err() && later.module(0).is_err());
    }
}

#[test]
fn part_that_is_not_compiled_is_named_in_the_error() {
    let engine = crate::engine::Engine::new().expect("an engine");
    let later = LaterParts::map(&engine, 1, vec![None, None]).expect("there is nothing to map");
    assert!(!later.is_complete() && later.count() == 3);
    let error = later.module(2).map(|_| ()).expect_err("it has no file");
    assert!(error.is::<NotCompiled>() && error.to_string() == "part 2 of the code is not compiled", "{error}");
}

#[test]
fn refuses_modules_that_cannot_be_divided() {
    for (rest, message) in [
        ("(table 1 funcref) (table 1 funcref)", "more than one table"),
        ("(table 1 funcref) (func $f (export \"f\")) (func (drop (ref.func $f)))", "ref.func"),
        ("(table 1 funcref) (func $f) (elem declare func $f)", "not active ones"),
        ("(global (import \"host\" \"g\") i32) (table 1 funcref)", "not a function"),
        ("(import \"host\" \"f\" (func $f)) (table 1 funcref) (elem (i32.const 0) $f)", "an imported function"),
        ("(table 1 externref) (elem (i32.const 0) externref (ref.null extern))", "not functions"),
    ] {
        let wasm = wat::parse_str(format!("(module {rest})")).expect("a module");
        let refused = Plan::new(&wasm, &wasm, &parts()).map(|_| ()).expect_err(rest);
        assert!(refused.contains(message), "{refused}");
    }
    let wasm = wat::parse_str(MODULE).expect("a module");
    for (functions, message) in [
        ([&[(1, 90)][..], &[(2, 3)], &[]], "no functions 1 to 90"),
        ([&[(0, 5)], &[(6, 9)], &[]], "no functions 0 to 5"),
        ([&[(1, 6)], &[(5, 9)], &[]], "two parts have functions of 5 to 9"),
        ([&[(1, 7)], &[(7, 9)], &[]], "the range 1 to 7 ends with an entry"),
    ] {
        let refused = Plan::new(&wasm, &wasm, &spec(functions)).map(|_| ()).expect_err(message);
        assert!(refused.contains(message), "{refused}");
    }
    let spec = SplitSpec { entry_prefix: "absent_".into(), ..parts() };
    let refused = Plan::new(&wasm, &wasm, &spec).map(|_| ()).expect_err("there is no entry");
    assert!(refused.contains("starts with absent_"), "{refused}");
}
