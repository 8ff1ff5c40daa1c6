//! The check that a component fulfils the contract: it exports the world's interfaces and imports only what is offered.

use std::path::Path;

use wasmparser::{ComponentInstance, Payload};
use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;

use crate::error::WasmError;

/// The contract's package, and the version that this host supports.
const PACKAGE: &str = "codebox:guest/";
pub(crate) const VERSION: &str = "0.1.0";

/// Maximum number of components inside a component, and of instantiations of such components. wit-component makes one
/// of each for each exported interface.
const MAX_COMPONENTS: usize = 16;
const MAX_INSTANCES: usize = 32;

/// The contract's interfaces that a component must export.
const REQUIRED_EXPORTS: [&str; 3] = ["start", "turn", "shutdown"];

/// The contract's interfaces that a component may import: functions, and the types that its exports name.
const ALLOWED_IMPORTS: [&str; 4] = ["host", "limits", NETWORK, "start"];

/// The interface of connections to granted hosts.
const NETWORK: &str = "network";

/// Parts of WASI that give no access beyond the grants: streams, clocks, random numbers and the granted directories.
const ALLOWED_WASI_INTERFACES: [&str; 5] =
    ["wasi:cli/", "wasi:clocks/", "wasi:filesystem/", "wasi:io/", "wasi:random/"];

/// The supported version of WASI. Its patch releases only add to the interfaces.
const WASI_VERSION: &str = "0.2.";

/// Checks that a file is a component.
///
/// # Errors
/// [`WasmError::Module`], with the actual kind of the file.
pub(crate) fn check_kind(path: &Path, wasm: &[u8]) -> Result<(), WasmError> {
    let module_error = |reason: String| WasmError::Module { path: path.to_owned(), reason };
    if !wasmparser::Parser::is_component(wasm) {
        let kind = if wasmparser::Parser::is_core_wasm(wasm) { "a core module, not a" } else { "not a WebAssembly" };
        return Err(module_error(format!("it is {kind} component: make one with wit-component or wasm-tools")));
    }
    check_parts(wasm).map_err(module_error)
}

/// Refuses a component with too many nested components or instances. Each component may instantiate another several
/// times, so the cost of compiling grows exponentially with the nesting.
pub(crate) fn check_parts(wasm: &[u8]) -> Result<(), String> {
    let (mut components, mut instances) = (0, 0);
    for payload in wasmparser::Parser::new(0).parse_all(wasm) {
        match payload.map_err(|e| e.to_string())? {
            Payload::ComponentSection { .. } => components += 1,
            Payload::ComponentInstanceSection(section) => {
                for instance in section {
                    if let ComponentInstance::Instantiate { .. } = instance.map_err(|e| e.to_string())? {
                        instances += 1;
                    }
                }
            }
            _ => {}
        }
        if components > MAX_COMPONENTS || instances > MAX_INSTANCES {
            return Err(format!(
                "it contains more than {MAX_COMPONENTS} components, or {MAX_INSTANCES} instances of them"
            ));
        }
    }
    Ok(())
}

/// Returns true if a component imports the contract's connections.
pub(crate) fn imports_network(wasm: &[u8]) -> bool {
    let wanted = format!("{PACKAGE}{NETWORK}@{VERSION}");
    let payloads = wasmparser::Parser::new(0).parse_all(wasm).map_while(Result::ok);
    let imports = payloads.filter_map(|payload| match payload {
        Payload::ComponentImportSection(section) => Some(section),
        _ => None,
    });
    imports.flatten().filter_map(Result::ok).any(|import| import.name.name == wanted)
}

/// Checks a component's imports and exports, and that their types match the contract.
///
/// # Errors
/// [`WasmError::Module`] with the missing export or the import that is not offered.
pub(crate) fn check(engine: &wasmtime::Engine, path: &Path, component: &Component) -> Result<(), WasmError> {
    let module_error = |reason: String| WasmError::Module { path: path.to_owned(), reason };
    let ty = component.component_type();
    for (name, item) in ty.imports(engine) {
        if let ComponentItem::ComponentInstance(_) = item.ty {
            check_import(name).map_err(module_error)?;
        } else {
            return Err(module_error(format!("it imports {name}, which the contract does not provide")));
        }
    }
    for interface in REQUIRED_EXPORTS {
        let required = format!("{PACKAGE}{interface}@{VERSION}");
        if ty.get_export(engine, &required).is_none() {
            let mut exports = ty.exports(engine).map(|(name, _)| name.to_owned());
            let other = exports.find(|name| name.starts_with(&format!("{PACKAGE}{interface}@")));
            return Err(module_error(match other {
                Some(other) => {
                    format!("it exports {other}, but this codebox supports version {VERSION} of the contract")
                }
                None => format!("it does not export {required}"),
            }));
        }
    }
    super::ComponentCode::link(engine, component)
        .map_err(|e| module_error(format!("it does not match the contract: {e:#}")))?;
    Ok(())
}

fn check_import(name: &str) -> Result<(), String> {
    let (interface, version) = name.split_once('@').unwrap_or((name, ""));
    if let Some(own) = interface.strip_prefix(PACKAGE) {
        return match (ALLOWED_IMPORTS.contains(&own), version == VERSION) {
            (true, true) => Ok(()),
            (true, false) => {
                Err(format!("it imports {name}, but this codebox supports version {VERSION} of the contract"))
            }
            (false, _) => Err(format!("it imports {name}, which the contract does not provide")),
        };
    }
    check_wasi_import(name)
}

/// Checks that a part of WASI is offered.
pub(crate) fn check_wasi_import(name: &str) -> Result<(), String> {
    let (interface, version) = name.split_once('@').unwrap_or((name, ""));
    match ALLOWED_WASI_INTERFACES.iter().any(|part| interface.starts_with(part)) {
        true if version.starts_with(WASI_VERSION) => Ok(()),
        true => Err(format!("it imports {name}, but this codebox supports WASI {WASI_VERSION}x")),
        false => Err(format!("it imports {name}, which is not offered")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_imports_outside_contract() {
        for name in ["codebox:guest/host@0.1.0", "wasi:io/streams@0.2.6", "wasi:filesystem/types@0.2.0"] {
            assert_eq!(check_import(name), Ok(()), "{name}");
        }
        for name in [
            "wasi:sockets/tcp@0.2.6",
            "wasi:http/outgoing-handler@0.2.6",
            "wasi:io/streams@0.3.0",
            "wasi:clix/environment@0.2.0",
            "codebox:guest/host@0.2.0",
            "codebox:guest/secrets@0.1.0",
            "env",
        ] {
            assert!(check_import(name).is_err(), "{name}");
        }
    }

    #[test]
    fn rejects_invalid_components() {
        let engine = crate::engine::Engine::new().expect("an engine");
        let compile_error = |wasm: &[u8]| {
            let compiled = super::super::ComponentCode::compile(&engine, Path::new("x.wasm"), wasm);
            compiled.expect_err("it is refused").to_string()
        };
        assert!(compile_error(b"hello").contains("not a WebAssembly component"));
        assert!(compile_error(&wat::parse_str("(module)").expect("text")).contains("core module"));
        assert!(compile_error(&wat::parse_str("(component)").expect("text")).contains("codebox:guest/start@0.1.0"));
        let socket = r#"(component (import "wasi:sockets/network@0.2.6" (instance)))"#;
        assert!(compile_error(&wat::parse_str(socket).expect("text")).contains("wasi:sockets/network@0.2.6"));
        let function = r#"(component (import "give-me" (func)))"#;
        assert!(compile_error(&wat::parse_str(function).expect("text")).contains("give-me"));
        let twice = (0..18).fold("(component $c)".to_owned(), |inner, _| {
            format!("(component $c {inner} (instance (instantiate $c)) (instance (instantiate $c)))")
        });
        let twice = wat::parse_str(twice.replacen("(component $c", "(component", 1)).expect("text");
        assert!(compile_error(&twice).contains("more than 16 components"));
        let later = r#"(component (instance $i) (export "codebox:guest/start@0.9.0" (instance $i)))"#;
        assert!(compile_error(&wat::parse_str(later).expect("text")).contains("0.9.0"));
    }
}
