//! Namespaces in several parts.
//!
//! A part sees what the others export by its bare name. What it becomes in JavaScript is a function of its own, so such a
//! name has to say whose it is. oxc leaves that out, as every compiler does that looks at one part at a time.

use std::collections::{BTreeMap, BTreeSet};

use oxc::ast::ast::{
    BindingPattern, Declaration, IdentifierReference, ObjectProperty, Program, Statement, TSNamespaceDeclaration,
    TSNamespaceDeclarationBody,
};
use oxc::ast_visit::{Visit, walk};
use oxc::semantic::Scoping;

use crate::error::StripError;
use crate::place::Place;
use crate::room::LONGEST;

/// The text with such names qualified; nothing where there are none.
///
/// # Errors
/// [`StripError::Long`] where that makes it longer than twice the most that is parsed.
pub(crate) fn qualified(text: &str, program: &Program<'_>, scoping: &Scoping) -> Result<Option<String>, StripError> {
    if text.matches("namespace ").nth(1).is_none() && text.matches("module ").nth(1).is_none() {
        return Ok(None);
    }
    let mut exports = Exports::default();
    exports.statements(&program.body, "");
    if let Some(offset) = exports.deep {
        return Err(StripError::Syntax { message: "It nests too deeply".to_owned(), place: Place::of(text, offset) });
    }
    let mut names =
        Names { exports: &exports.of, scoping, within: Vec::new(), shorthand: None, edits: Vec::new(), grown: 0 };
    names.visit_program(program);
    if names.edits.is_empty() {
        return Ok(None);
    }
    if names.grown > LONGEST {
        return Err(StripError::Long { length: text.len() + names.grown, most: LONGEST });
    }
    let mut qualified = text.to_owned();
    // From the end, so that the places before stay where they are.
    names.edits.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    for (at, inserted) in names.edits {
        qualified.insert_str(at, &inserted);
    }
    Ok(Some(qualified))
}

/// The longest name of a namespace with those around it, for every part of one is kept by it.
const LONGEST_PATH: usize = 1024;

/// The values that each namespace exports, by how code outside of its parts names it.
#[derive(Default)]
struct Exports {
    of: BTreeMap<String, BTreeSet<String>>,
    /// Where namespaces nest too deeply.
    deep: Option<usize>,
}

impl Exports {
    fn statements(&mut self, statements: &[Statement<'_>], within: &str) {
        for statement in statements {
            match statement {
                Statement::ExportDeclaration(export) => self.exported(&export.declaration, within),
                Statement::TSNamespaceDeclaration(namespace) => self.namespace(namespace, ""),
                _ => {}
            }
        }
    }

    fn exported(&mut self, declaration: &Declaration<'_>, within: &str) {
        let mut names = Vec::new();
        match declaration {
            Declaration::VariableDeclaration(variables) => {
                for variable in &variables.declarations {
                    if let BindingPattern::BindingIdentifier(name) = &variable.id {
                        names.push(name.name.as_str());
                    }
                }
            }
            Declaration::FunctionDeclaration(function) => names.extend(function.id.as_ref().map(|id| id.name.as_str())),
            Declaration::ClassDeclaration(class) => names.extend(class.id.as_ref().map(|id| id.name.as_str())),
            Declaration::TSEnumDeclaration(item) => names.push(item.id.name.as_str()),
            Declaration::TSNamespaceDeclaration(namespace) => {
                names.push(namespace.id.name.as_str());
                self.namespace(namespace, within);
            }
            _ => {}
        }
        if !within.is_empty() {
            self.of.entry(within.to_owned()).or_default().extend(names.into_iter().map(str::to_owned));
        }
    }

    fn namespace(&mut self, namespace: &TSNamespaceDeclaration<'_>, within: &str) {
        let path = joined(within, namespace.id.name.as_str());
        if path.len() > LONGEST_PATH {
            self.deep = Some(namespace.span.start as usize);
            return;
        }
        match &namespace.body {
            TSNamespaceDeclarationBody::TSNamespaceDeclaration(inner) => {
                self.of.entry(path.clone()).or_default().insert(inner.id.name.to_string());
                self.namespace(inner, &path);
            }
            TSNamespaceDeclarationBody::TSModuleBlock(block) => self.statements(&block.body, &path),
        }
    }
}

fn joined(within: &str, name: &str) -> String {
    if within.is_empty() { name.to_owned() } else { format!("{within}.{name}") }
}

/// Looks for names that are found nowhere but in another part of a namespace around them.
struct Names<'e> {
    exports: &'e BTreeMap<String, BTreeSet<String>>,
    scoping: &'e Scoping,
    /// The namespaces around, outermost first, as [`Exports`] names them.
    within: Vec<String>,
    /// Where a property's name is its value too.
    shorthand: Option<u32>,
    /// What to insert where.
    edits: Vec<(usize, String)>,
    /// How much is inserted; where it is too much, nothing more is.
    grown: usize,
}

impl<'a> Visit<'a> for Names<'_> {
    fn visit_ts_namespace_declaration(&mut self, namespace: &TSNamespaceDeclaration<'a>) {
        let name = namespace.id.name.as_str();
        // One that its own namespace exports is known by both names, any other by its own.
        let outer = self.within.last().filter(|outer| self.exports.get(*outer).is_some_and(|all| all.contains(name)));
        self.within.push(joined(outer.map_or("", String::as_str), name));
        walk::walk_ts_namespace_declaration(self, namespace);
        self.within.pop();
    }

    fn visit_object_property(&mut self, property: &ObjectProperty<'a>) {
        self.shorthand = property.shorthand.then_some(property.span.start);
        walk::walk_object_property(self, property);
        self.shorthand = None;
    }

    fn visit_identifier_reference(&mut self, name: &IdentifierReference<'a>) {
        let Some(id) = name.reference_id.get() else { return };
        let reference = self.scoping.get_reference(id);
        if reference.symbol_id().is_some() || !reference.flags().is_value() {
            return;
        }
        let exported = |within: &&String| self.exports.get(*within).is_some_and(|all| all.contains(name.name.as_str()));
        let Some(within) = self.within.iter().rev().find(exported) else { return };
        self.grown += name.name.len() + within.len();
        if self.grown > LONGEST {
            return;
        }
        let inserted = match self.shorthand == Some(name.span.start) {
            true => format!("{}: {within}.", name.name),
            false => format!("{within}."),
        };
        self.edits.push((name.span.start as usize, inserted));
    }
}
