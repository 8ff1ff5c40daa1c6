//! Extraction of the imports with which a program starts.

use codebox_analysis::{FirstImport, MAX_FIRST_IMPORTS};
use ruff_python_ast::{Expr, Stmt};

/// Returns the absolute imports before the first other statement, except for a docstring. A module that these statements
/// import finds the state that the interpreter started with.
pub(super) fn from_suite(suite: &[Stmt]) -> Vec<FirstImport> {
    let mut imports = Vec::new();
    let mut count = 0;
    for (index, statement) in suite.iter().enumerate() {
        let found: Vec<FirstImport> = match statement {
            Stmt::Expr(docstring) if index == 0 && matches!(&*docstring.value, Expr::StringLiteral(_)) => continue,
            Stmt::Import(import) if !import.is_lazy => {
                let modules = import.names.iter().map(|alias| alias.name.to_string());
                modules.map(|module| FirstImport { module, names: Vec::new() }).collect()
            }
            Stmt::ImportFrom(import) if import.level == 0 && !import.is_lazy => {
                let Some(module) = &import.module else { break };
                let names = import.names.iter().map(|alias| alias.name.to_string()).collect();
                vec![FirstImport { module: module.to_string(), names }]
            }
            _ => break,
        };
        count += found.iter().map(|import| 1 + import.names.len()).sum::<usize>();
        // The order matters, so an import that is left out ends the list.
        if count > MAX_FIRST_IMPORTS || !found.iter().all(FirstImport::is_well_formed) {
            break;
        }
        imports.extend(found.into_iter().filter(|import| import.module != "__future__"));
    }
    imports
}
