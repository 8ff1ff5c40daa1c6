//! Names that CommonJS gives to modules, in ES modules.
//!
//! The TypeScript compiler converts modules with imports to CommonJS by default, so programs use `__dirname` and `require`
//! beside imports, and other runners of TypeScript define them.

use oxc::ast::ast::Program;
use oxc::semantic::{Scoping, SymbolFlags};

/// The names and their values, in the order of their definition.
const NAMES: [(&str, &str); 4] = [
    ("__filename", "import.meta.filename"),
    ("__dirname", "import.meta.dirname"),
    ("module", "{ exports: {}, filename: import.meta.filename, children: [], loaded: false }"),
    ("require", "__codebox_createRequire(import.meta.url)"),
];

/// Returns the definitions of those of the names that an ES module uses and does not define, in one line; an empty text if there are none.
pub(crate) fn definitions(file: &str, program: &Program<'_>, scoping: &Scoping) -> String {
    if file.ends_with(".mts") || !program.source_type.is_module() {
        return String::new();
    }
    // A declaration with `declare` defines nothing.
    let is_declared = |name: &str| {
        scoping
            .get_root_binding(name.into())
            .is_some_and(|symbol| scoping.symbol_flags(symbol).contains(SymbolFlags::Ambient))
    };
    let is_used =
        |name: &str| is_declared(name) || scoping.root_unresolved_references().keys().any(|used| used.as_str() == name);
    let own: Vec<String> =
        NAMES.iter().filter(|(name, _)| is_used(name)).map(|(name, value)| format!("{name} = {value}")).collect();
    if own.is_empty() {
        return String::new();
    }
    let mut line = format!("const {};", own.join(", "));
    if is_used("require") {
        line.insert_str(0, "import { createRequire as __codebox_createRequire } from \"node:module\"; ");
        if is_used("module") {
            // As `require.main === module` in the program that was started.
            line.push_str(" if (process.argv[1] === import.meta.filename) require.main = module;");
        }
    }
    line
}

/// Inserts a line at the beginning of converted code, after the line that names an interpreter.
pub(crate) fn insert_line(line: &str, code: &str, mappings: &str) -> (String, String) {
    match code.strip_prefix("#!").and_then(|rest| rest.split_once('\n')) {
        Some((interpreter, rest)) => (format!("#!{interpreter}\n{line}\n{rest}"), format!(";{mappings}")),
        None => (format!("{line}\n{code}"), format!(";{mappings}")),
    }
}
