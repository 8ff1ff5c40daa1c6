//! Tests of modules that break the rules, through the steps of every runtime: split, compile, map and call.

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};

use codebox_core::{CancelToken, Limit, LimitKind};
use codebox_streams::{Output, Sinks, Stdin};

use super::*;
use crate::code::{CodeFile, PartSpec, Plan, SplitSpec, split};
use crate::engine::Engine;
use crate::guest::Channel;
use crate::image::MemoryImage;
use crate::interrupt::{CpuClock, HostCpuTime};
use crate::region::Capacity;

/// Builds a module whose `turn` has this body, with the other exports of the ABI.
fn module(rest: &str, turn: &str) -> Vec<u8> {
    let text = format!(
        r#"(module
            {rest}
            (func (export "host_alloc") (param i32) (result i32) i32.const 1024)
            (func (export "run") (result i32) i32.const 0)
            (func (export "shutdown") (result i32) i32.const 0)
            (func (export "turn") (param i32 i32) (result i32) {turn}))"#
    );
    wat::parse_str(text).expect("a module")
}

const MEMORY: &str = r#"(memory (export "memory") 2)"#;

/// Returns the code of a module, and a pool of regions with its memory.
fn load(engine: &Engine, dir: &Path, wasm: &[u8]) -> Result<(CodeImage, Arc<RegionPool>), WasmError> {
    let parts = split(dir, wasm)?;
    let file = |name: &str, bytes: &[u8]| {
        let path = dir.join(name);
        std::fs::write(&path, bytes).expect("the file is written");
        (File::open(&path).expect("the file exists"), path)
    };
    let (compiled, path) = file("code", &CodeImage::compile(engine, &parts.code)?);
    let code = CodeImage::load(engine, CodeFile { path, file: compiled }, None)?;
    let (initial, path) = file("initial", &parts.memory);
    let image = MemoryImage::open(&path, initial, ImageFacts::default())?;
    Ok((code, RegionPool::new(Arc::new(image), Capacity::Regions(0), Arc::default())))
}

fn setup(root: &Path, memory: Option<u64>) -> Setup<'_> {
    Setup {
        root,
        mounts: &[],
        memory,
        quota: Quota::new(None, None, None),
        streams: JobStreams {
            stdin: Stdin::bytes(Vec::new()),
            stdout: Output::new(Limit::Unlimited),
            stderr: Output::new(Limit::Unlimited),
            sinks: Sinks::default(),
            is_terminal: false,
            channel: Channel::default(),
        },
        net: None,
        code: CodeScope::Image,
        witness: None,
        seed: None,
    }
}

/// Calls `turn` with a time limit of two seconds. Returns the result and the guest's peak memory.
fn call(wasm: &[u8], memory: Option<u64>) -> Result<(Result<wasmtime::Result<i32>, StopReason>, u64), WasmError> {
    let dir = tempfile::tempdir().expect("a directory");
    let engine = Engine::new().expect("an engine");
    let (code, pool) = load(&engine, dir.path(), wasm)?;
    let mut instance = GuestInstance::start(&code, &pool, setup(dir.path(), memory))?;
    let interrupt = limited(Some(Duration::from_secs(2)), None);
    let (end, _) = executor().block_on(instance.run_turn(&interrupt, Entry::Copied(0, 0)))?;
    Ok((end, instance.end().limiter.peak()))
}

fn status(wasm: &[u8], memory: Option<u64>) -> i32 {
    let (end, _) = call(wasm, memory).expect("the module is taken");
    end.expect("it ends in time").expect("it does not trap")
}

fn rejection(wasm: &[u8]) -> String {
    call(wasm, None).expect_err("the module is refused").to_string()
}

fn assert_hits_deadline(wasm: &[u8]) {
    let (end, _) = call(wasm, None).expect("the module is taken");
    assert!(matches!(end, Err(StopReason::Limit(LimitKind::Wall))), "{end:?}");
}

#[test]
fn runs_valid_module() {
    assert_eq!(status(&module(MEMORY, "i32.const 7"), None), 7);
}

/// A guest that starts with a later part of its code runs generated code during instantiation, which fills the table. If
/// code checks for interruption, it must not yield.
#[test]
fn starts_with_later_part_while_the_epoch_advances() {
    let dir = tempfile::tempdir().expect("a directory");
    let engine = Engine::new().expect("an engine");
    let elements = "$second ".repeat(2000);
    let rest = format!(
        "{MEMORY} (func $entry_second (call $second)) (func $second)
        (table 2001 funcref) (elem (i32.const 1) {elements})"
    );
    let wasm = module(&rest, "(call $entry_second) i32.const 7");
    let part = |name: &str, functions: &[(u32, u32)]| PartSpec { name: name.to_owned(), functions: functions.to_vec() };
    let spec = SplitSpec { entry_prefix: "entry_".into(), parts: vec![part("first", &[(2, 6)]), part("second", &[])] };
    let split = split(dir.path(), &wasm).expect("the module is taken");
    let plan = Plan::new(&split.code, &wasm, &spec).expect("the module can be divided");
    let file = |name: &str, wasm: Vec<u8>| {
        let path = dir.path().join(name);
        std::fs::write(&path, CodeImage::compile(&engine, &wasm).expect("it compiles")).expect("the file is written");
        CodeFile { file: File::open(&path).expect("the file exists"), path }
    };
    let [first, second] = [plan.primary(0), plan.secondary(1)].map(|part| part.expect("it can be encoded"));
    let later = Some((1, vec![Some(file("second", second))]));
    let code = CodeImage::load(&engine, file("first", first), later).expect("it can be loaded");
    let path = dir.path().join("memory");
    std::fs::write(&path, &split.memory).expect("the file is written");
    let image = MemoryImage::open(&path, File::open(&path).expect("it exists"), ImageFacts::default());
    let pool = RegionPool::new(Arc::new(image.expect("an image")), Capacity::Regions(0), Arc::default());
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                engine.inner().increment_epoch();
            }
        });
        let start = |_| {
            let setup = Setup { code: CodeScope::All, ..setup(dir.path(), None) };
            GuestInstance::start(&code, &pool, setup).map(drop)
        };
        let started = (0..50).map(start).collect::<Result<Vec<()>, _>>();
        is_done.store(true, Ordering::Relaxed);
        started.expect("every guest starts");
    });
}

#[test]
fn r4_sums_memory_growth() {
    // Grows by one page at a time until growth is denied. The status is the number of pages.
    let body = r"(local $n i32)
        (loop $more
            (br_if $more (i32.and
                (i32.ne (memory.grow (i32.const 1)) (i32.const -1))
                (i32.ne (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 60000)))))
        (memory.size)";
    let wasm = module(MEMORY, body);
    let limit = 4 << 20;
    assert_eq!(status(&wasm, Some(limit)), 64);
    let (_, peak) = call(&wasm, Some(limit)).expect("the module is taken");
    assert_eq!(peak, limit);
}

#[test]
fn r4_rejects_second_memory() {
    assert!(rejection(&module(r#"(memory (export "memory") 1) (memory 1)"#, "i32.const 0")).contains("memory"));
}

#[test]
fn r5_rejects_table_mutation() {
    for body in [
        "(drop (table.grow $t (ref.null func) (i32.const -1))) i32.const 0",
        "(table.set $t (i32.const 0) (ref.null func)) i32.const 0",
        "(table.fill $t (i32.const 0) (ref.null func) (i32.const 1)) i32.const 0",
    ] {
        let wasm = module(&format!("{MEMORY} (table $t 1 funcref)"), body);
        assert!(rejection(&wasm).contains("which changes state"), "{body}");
    }
}

#[test]
fn r5_rejects_huge_tables() {
    for size in ["1048577", "0x7fffffff", "0xffffffff"] {
        rejection(&module(&format!("{MEMORY} (table {size} funcref)"), "i32.const 0"));
    }
    let many: String = (0..64).map(|_| "(table 100000 funcref)").collect();
    rejection(&module(&format!("{MEMORY} {many}"), "i32.const 0"));
}

#[test]
fn r10_interrupts_bulk_memory_operations() {
    let memory = r#"(memory (export "memory") 8192)"#;
    for operation in ["memory.fill (i32.const 0) (i32.const 1)", "memory.copy (i32.const 0) (i32.const 1)"] {
        let body = format!("(loop $more ({operation} (i32.const 0x1fff_fff0)) (br $more)) i32.const 0");
        assert_hits_deadline(&module(memory, &body));
    }
}

#[test]
fn h2_interrupts_busy_polling() {
    let import = r#"(import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))"#;
    // A clock subscription with a timeout of zero, polled in a loop.
    let body =
        "(loop $more (drop (call $poll (i32.const 64) (i32.const 256) (i32.const 1) (i32.const 512))) (br $more))
        i32.const 0";
    assert_hits_deadline(&module(&format!("{import} {MEMORY}"), body));
}

#[test]
fn h2_rejects_unknown_imports() {
    let import = r#"(import "wasi_unstable" "poll_oneoff" (func (param i32 i32 i32 i32) (result i32)))"#;
    assert!(rejection(&module(&format!("{import} {MEMORY}"), "i32.const 0")).contains("wasi_unstable.poll_oneoff"));
    let import = r#"(import "wasi_snapshot_preview1" "no_such_call" (func))"#;
    rejection(&module(&format!("{import} {MEMORY}"), "i32.const 0"));
}

#[test]
fn rejects_too_many_io_vectors() {
    const EINVAL: i32 = 28;
    let call = |name: &str, fd: u32, count: u32| {
        let offset = if name.starts_with("fd_p") { ("i64", "(i64.const 0)") } else { ("", "") };
        let import = format!(
            r#"(import "wasi_snapshot_preview1" "{name}" (func $call (param i32 i32 i32 {} i32) (result i32)))"#,
            offset.0
        );
        let body =
            format!("(call $call (i32.const {fd}) (i32.const 0) (i32.const {count}) {} (i32.const 65536))", offset.1);
        status(&module(&format!("{import} {MEMORY}"), &body), None)
    };
    for (name, fd) in [("fd_write", 1), ("fd_read", 0), ("fd_pwrite", 1), ("fd_pread", 0)] {
        assert_eq!(call(name, fd, 1025), EINVAL, "{name}");
        assert_eq!(call(name, fd, u32::MAX), EINVAL, "{name}");
    }
    for (name, fd) in [("fd_write", 1), ("fd_read", 0)] {
        assert_eq!(call(name, fd, 1024), 0, "{name}");
    }
}

/// Returns the interrupt of a job with limits on wall and processor time.
fn limited(wall: Option<Duration>, cpu: Option<Duration>) -> Interrupt {
    Interrupt {
        wall,
        cpu,
        clock: CpuClock::Thread,
        cancel: CancelToken::new(),
        abandoned: CancelToken::new(),
        egress: None,
        host_cpu_time: HostCpuTime::default(),
    }
}

fn executor() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("an executor")
}

#[test]
fn l2_interrupts_loops_without_memory_access() {
    for body in ["(loop $more (br $more)) i32.const 0", "(loop $more (call $f) (br $more)) i32.const 0"] {
        assert_hits_deadline(&module(&format!("{MEMORY} (func $f)"), body));
    }
    let body = "(loop $more (drop (memory.grow (i32.const 0))) (br $more)) i32.const 0";
    assert_hits_deadline(&module(MEMORY, body));
    assert_hits_deadline(&module(&format!("{MEMORY} (func $f (result i32) (return_call $f))"), "(call $f)"));
}

#[test]
fn l2_interrupts_loops_that_catch_exceptions() {
    let rest = format!("{MEMORY} (tag $e) (func $f (throw $e))");
    let body = "(loop $more (block $caught (try_table (catch_all $caught) (call $f))) (br $more)) i32.const 0";
    assert_hits_deadline(&module(&rest, body));
}

#[test]
fn l2_limits_processor_time_of_loop() {
    let dir = tempfile::tempdir().expect("a directory");
    let engine = Engine::new().expect("an engine");
    let (code, pool) =
        load(&engine, dir.path(), &module(MEMORY, "(loop $more (br $more)) i32.const 0")).expect("the module is taken");
    let mut instance = GuestInstance::start(&code, &pool, setup(dir.path(), None)).expect("it starts");
    let cpu = Duration::from_millis(50);
    let (end, used) =
        executor().block_on(instance.run_turn(&limited(None, Some(cpu)), Entry::Copied(0, 0))).expect("it runs");
    assert_eq!(end.err(), Some(StopReason::Limit(LimitKind::Cpu)));
    assert!(used >= cpu, "{used:?}");
}

/// Stops guests at any point of calls between guest and host. A diversion at a wrong point ends this process.
#[test]
fn l2_stops_guests_at_any_point() {
    let import = r#"(import "wasi_snapshot_preview1" "clock_time_get" (func $time (param i32 i64 i32) (result i32)))"#;
    let body = "(local $n i32)
        (loop $more
            (local.set $n (i32.add (local.get $n) (call $f (local.get $n))))
            (drop (call $time (i32.const 1) (i64.const 0) (i32.const 64)))
            (memory.copy (i32.const 128) (i32.const 1024) (i32.and (local.get $n) (i32.const 0xffff)))
            (drop (memory.grow (i32.const 0)))
            (br $more))
        i32.const 0";
    let rest = format!("{import} {MEMORY} (func $f (param i32) (result i32) (i32.add (local.get 0) (i32.const 7)))");
    let dir = tempfile::tempdir().expect("a directory");
    let engine = Engine::new().expect("an engine");
    let (code, pool) = load(&engine, dir.path(), &module(&rest, body)).expect("the module is taken");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (code, pool, dir) = (&code, &pool, dir.path());
            scope.spawn(move || {
                let executor = executor();
                for trial in 0..50 {
                    let mut instance = GuestInstance::start(code, pool, setup(dir, None)).expect("it starts");
                    let wall = Duration::from_micros(trial * 173 + thread * 41);
                    let ended = executor.block_on(instance.run_turn(&limited(Some(wall), None), Entry::Copied(0, 0)));
                    let (end, _) = ended.expect("it runs");
                    assert_eq!(end.err(), Some(StopReason::Limit(LimitKind::Wall)));
                }
            });
        }
    });
}
