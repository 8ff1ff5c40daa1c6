//! A compiled program, linked to the host.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use wasmtime::InstancePre;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, Linker};
use wasmtime_wasi::p2::bindings::CommandPre;

use crate::code::{compile_component, compile_module, on_own_threads};
use crate::component::{State, check_parts, check_wasi_import, link_component};
use crate::engine::Engine;
use crate::error::WasmError;
use crate::guest::{Guest, WASI, wasi_linker};
use crate::interrupt::Ticker;

/// Function of a module that runs the program.
pub(super) const START: &str = "_start";

/// Interface of a component that runs the program.
const RUN: &str = "wasi:cli/run@0.2.";

/// Maximum size of a function in bytes: interpreters of other languages have functions of 150 KiB.
const MAX_FUNCTION_SIZE: usize = 256 << 10;

/// Maximum number of variables of a function.
const MAX_LOCALS: u64 = 10_000;

/// Interfaces of sockets.
const SOCKETS: &str = "wasi:sockets/";

/// A program that can be instantiated.
#[derive(Clone)]
pub(crate) struct ProgramCode {
    pub ticker: Arc<Ticker>,
    pub form: ProgramForm,
}

/// Form of a program.
#[derive(Clone)]
pub(crate) enum ProgramForm {
    Module(InstancePre<Guest>),
    Component(CommandPre<State>),
}

impl ProgramCode {
    /// Compiles and links a program, in at most this time.
    ///
    /// The compiler cannot be interrupted. If it takes longer, it goes on until it has finished or the process ends, with work that the
    /// [limits](check_sizes) on the program's parts bound.
    ///
    /// # Errors
    /// [`WasmError::Input`] if it is not a command of WASI, is too large to compile, or takes too long.
    pub(crate) fn compile(engine: &Engine, wasm: &[u8], limit: Duration) -> Result<Self, WasmError> {
        let (sender, compiled) = mpsc::channel();
        let (engine, wasm) = (engine.clone(), wasm.to_owned());
        let work = move || {
            let _ = sender.send(Self::compile_all(&engine, &wasm));
        };
        let thread = thread::Builder::new().name("codebox-compiler".to_owned()).spawn(work);
        let thread = thread.map_err(|error| WasmError::engine("start the compiler")(error.into()))?;
        match compiled.recv_timeout(limit) {
            Ok(compiled) => {
                // A process that confines itself must have no other threads.
                let _ = thread.join();
                compiled
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let reason = format!("it is not compiled within {} s; raise --timeout", limit.as_secs());
                Err(WasmError::input("the program", reason))
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                Err(WasmError::input("the program", "the compiler has failed".to_owned()))
            }
        }
    }

    fn compile_all(engine: &Engine, wasm: &[u8]) -> Result<Self, WasmError> {
        let refused = |reason: String| WasmError::input("the program", reason);
        check_sizes(wasm).map_err(refused)?;
        // Code of this engine checks for interruption itself.
        let inner = engine.for_components()?;
        let form = match (wasmparser::Parser::is_component(wasm), wasmparser::Parser::is_core_wasm(wasm)) {
            (true, _) => component(inner, wasm).map(ProgramForm::Component),
            (false, true) => module(inner, wasm).map(ProgramForm::Module),
            (false, false) => Err("it is not WebAssembly in binary form".to_owned()),
        };
        Ok(Self { ticker: engine.ticker().clone(), form: form.map_err(refused)? })
    }
}

/// Refuses functions that take the compiler very long, whose time and memory can grow faster than their size.
fn check_sizes(wasm: &[u8]) -> Result<(), String> {
    for payload in wasmparser::Parser::new(0).parse_all(wasm) {
        let Ok(wasmparser::Payload::CodeSectionEntry(body)) = payload else { continue };
        let size = body.range().len();
        let mut locals: u64 = 0;
        for group in body.get_locals_reader().into_iter().flatten() {
            locals = locals.saturating_add(group.map_or(0, |(count, _)| count.into()));
        }
        if size > MAX_FUNCTION_SIZE || locals > MAX_LOCALS {
            return Err(format!(
                "a function has {size} bytes and {locals} variables, and at most {MAX_FUNCTION_SIZE} and {MAX_LOCALS} are compiled"
            ));
        }
    }
    Ok(())
}

fn module(engine: &wasmtime::Engine, wasm: &[u8]) -> Result<InstancePre<Guest>, String> {
    let shown = |error: wasmtime::Error| format!("{error:#}");
    let compiled = on_own_threads(|| compile_module(engine, wasm)).map_err(|error| error.to_string())?;
    let module = compiled.map_err(shown)?;
    if let Some(import) = module.imports().find(|import| import.module() != WASI) {
        return Err(format!("it imports {} of {}, and only {WASI} is offered", import.name(), import.module()));
    }
    let start = module.get_export(START).and_then(|export| export.func().cloned());
    let is_command = start.is_some_and(|ty| ty.params().len() + ty.results().len() == 0);
    if !is_command {
        return Err(format!("it is not a command: it exports no function {START}"));
    }
    wasi_linker(engine).and_then(|linker| linker.instantiate_pre(&module)).map_err(shown)
}

fn component(engine: &wasmtime::Engine, wasm: &[u8]) -> Result<CommandPre<State>, String> {
    let shown = |error: wasmtime::Error| format!("{error:#}");
    check_parts(wasm)?;
    let compiled = on_own_threads(|| compile_component(engine, wasm)).map_err(|error| error.to_string())?;
    let component: Component = compiled.map_err(shown)?;
    let ty = component.component_type();
    for (name, item) in ty.imports(engine) {
        match item.ty {
            // The libraries of languages import sockets for functions that the program does not use. None can be made.
            ComponentItem::ComponentInstance(_) if name.starts_with(SOCKETS) => {}
            ComponentItem::ComponentInstance(_) => check_wasi_import(name)?,
            _ => return Err(format!("it imports {name}, which is not offered")),
        }
    }
    if !ty.exports(engine).any(|(name, _)| name.starts_with(RUN)) {
        return Err("it is not a command: it does not export wasi:cli/run".to_owned());
    }
    let mut linker = Linker::new(engine);
    link_component(&mut linker).map_err(shown)?;
    linker.instantiate_pre(&component).and_then(CommandPre::new).map_err(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_commands_are_accepted() {
        let engine = Engine::new().expect("an engine");
        let huge = format!("(module (func (export \"_start\") {}))", "(drop (i32.const 1000000))".repeat(60_000));
        let wide = format!("(module (func (export \"_start\") (local {})))", "i64 ".repeat(20_000));
        let refusal = |text: &str| {
            let wasm = wat::parse_str(text).expect("text");
            ProgramCode::compile(&engine, &wasm, Duration::from_secs(60)).err().expect(text).to_string()
        };
        for (text, reason) in [
            ("(module)", "it exports no function _start"),
            (r#"(module (func (export "_start") (result i32) (i32.const 1)))"#, "it exports no function _start"),
            (&huge, "a function has"),
            (&wide, "20000 variables"),
            (r#"(module (func (export "_start") (param i32)))"#, "it exports no function _start"),
            (r#"(module (import "env" "f" (func)) (func (export "_start")))"#, "it imports f of env"),
            (r#"(module (import "codebox" "call" (func)) (func (export "_start")))"#, "it imports call of codebox"),
            ("(component)", "it does not export wasi:cli/run"),
            (r#"(component (import "wasi:http/types@0.2.6" (instance)))"#, "wasi:http/types"),
            (r#"(component (import "codebox:guest/host@0.1.0" (instance)))"#, "codebox:guest/host"),
        ] {
            assert!(refusal(text).contains(reason), "{}", refusal(text));
        }
        let text =
            ProgramCode::compile(&engine, b"(module)", Duration::from_secs(60)).err().expect("it is text").to_string();
        assert!(text.contains("not WebAssembly in binary form"), "{text}");
        let wasm = wat::parse_str(r#"(module (func (export "_start")))"#).expect("text");
        assert!(ProgramCode::compile(&engine, &wasm, Duration::from_secs(60)).is_ok());
    }
}
