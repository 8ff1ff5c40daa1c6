//! Lowering of decorators (as of 2023-11, which TypeScript has since 5.0) and of `accessor` fields.
//!
//! Everything stays in its place, so that the order of evaluation and the lines do: the decorators of a member are evaluated in the computed
//! name of a static method before it, which the first static block of the class removes. That block also calls the decorators, before static
//! fields are initialized. A class with decorators of its own becomes the value of a variable.

use oxc::ast::ast::{
    AccessorProperty, AccessorPropertyType, Class, ClassElement, Decorator, Expression, MethodDefinition,
    MethodDefinitionKind, MethodDefinitionType, PropertyDefinition, PropertyDefinitionType, PropertyKey,
};
use oxc::ast_visit::{Visit, walk};
use oxc::span::{GetSpan, Span};

use super::rewrite::Rewriter;

/// Functions that the edited text calls. Declarations of functions can follow their use.
pub(super) const HELPERS: &str = include_str!("decorators.js");

/// Text that occurs where the helpers are called.
pub(super) const HELPER_MARK: &str = "__codebox_d";

/// Prefix of names in the edited text.
const PREFIX: &str = "__codebox_";

/// Place of a class in its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClassPlace {
    /// A declaration, of which the statement starts here, after `export` and `default`.
    Declaration {
        start: u32,
        export: ClassExport,
    },
    Expression,
}

/// Export of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClassExport {
    No,
    Named,
    Default,
}

/// Returns true if a class needs this lowering. Legacy decorators do not.
pub(crate) fn needs_lowering(class: &Class<'_>, are_legacy: bool) -> bool {
    (!are_legacy && has_decorators(class)) || class.body.body.iter().any(|element| accessor(element).is_some())
}

fn has_decorators(class: &Class<'_>) -> bool {
    !class.decorators.is_empty() || class.body.body.iter().any(|element| !decorators(element).is_empty())
}

fn decorators<'e, 'a>(element: &'e ClassElement<'a>) -> &'e [Decorator<'a>] {
    match element {
        ClassElement::MethodDefinition(method) => &method.decorators,
        ClassElement::PropertyDefinition(field) => &field.decorators,
        ClassElement::AccessorProperty(field) => &field.decorators,
        ClassElement::StaticBlock(_) | ClassElement::TSIndexSignature(_) => &[],
    }
}

fn accessor<'e, 'a>(element: &'e ClassElement<'a>) -> Option<&'e AccessorProperty<'a>> {
    match element {
        ClassElement::AccessorProperty(field) if field.r#type == AccessorPropertyType::AccessorProperty => Some(field),
        _ => None,
    }
}

/// Search for a class that needs this lowering.
pub(super) struct Search {
    pub are_legacy: bool,
    pub is_found: bool,
}

impl<'a> Visit<'a> for Search {
    fn visit_class(&mut self, class: &Class<'a>) {
        self.is_found |= needs_lowering(class, self.are_legacy);
        walk::walk_class(self, class);
    }
}

impl<'a> Rewriter<'_, '_, 'a> {
    /// Makes the edits of a class, without those inside of its parts.
    pub(super) fn lower_class(&mut self, class: &Class<'a>, place: ClassPlace) {
        let number = self.classes;
        self.classes += 1;
        let own = format!("{PREFIX}d{number}");
        let decorated = !self.are_legacy && has_decorators(class);
        let is_replaced = decorated && !class.decorators.is_empty();
        if decorated {
            self.lower_head(class, place, &own, is_replaced);
        }
        let mut members = Vec::new();
        let mut has_instance_members = false;
        for (at, element) in class.body.body.iter().enumerate() {
            let list = if decorated { decorators(element) } else { &[] };
            if is_replaced && is_abstract(element) {
                // An expression cannot be an abstract class.
                self.edits.replace(element.span().start, element.span().end, "");
                continue;
            }
            if !list.is_empty() {
                self.lower_list(list, &own, at);
                let key = self.key(element, &own, at);
                members.push(member(element, at, key));
                has_instance_members |= is_instance_function(element);
            }
            match element {
                ClassElement::PropertyDefinition(field) if !list.is_empty() => self.lower_field(field, &own, at),
                _ => {}
            }
            if let Some(field) = accessor(element) {
                self.lower_accessor(field, (&own, number), at, !list.is_empty());
            }
        }
        if !decorated {
            return;
        }
        let name = class.id.as_ref().map(|id| id.name.as_str());
        let binding = match (is_replaced, self.binding(class, place, number)) {
            (true, Some(binding)) => format!("v=>{{{binding}=v}}"),
            _ => "null".to_owned(),
        };
        let shown_name = match place {
            ClassPlace::Declaration { export: ClassExport::Default, .. } => Some(name.unwrap_or("default")),
            _ => name,
        };
        // A class that becomes the value of a variable has no name of its own.
        let shown_name = shown_name.filter(|_| is_replaced || name.is_none());
        let shown_name = shown_name.map_or("null".to_owned(), |name| format!("{name:?}"));
        let mut start = format!("static{{{own}.a(this,{shown_name},[{}],{binding})}}", members.join(","));
        if has_instance_members {
            start.push_str(&format!("#{PREFIX}i{number}={own}.s(this);"));
        }
        self.edits.insert(class.body.span.start + 1, start);
        if is_replaced {
            self.edits.insert(class.body.span.end - 1, format!(";static{{{own}.z()}}"));
        }
    }

    /// Returns the variable of a class with decorators of its own.
    fn binding(&self, class: &Class<'a>, place: ClassPlace, number: u32) -> Option<String> {
        let name = class.id.as_ref().map(|id| id.name.to_string());
        match place {
            ClassPlace::Declaration { .. } => Some(name.unwrap_or_else(|| format!("{PREFIX}c{number}"))),
            ClassPlace::Expression => name,
        }
    }

    /// Makes the edits before the body of a class and after it.
    fn lower_head(&mut self, class: &Class<'a>, place: ClassPlace, own: &str, is_replaced: bool) {
        let number = self.classes - 1;
        let keyword = self.class_keyword(class);
        let binding = self.binding(class, place, number);
        let list_start = class.decorators.first().map(|first| first.span.start);
        let end = class.span.end;
        match place {
            ClassPlace::Declaration { start, export } => {
                let after = match (export, &binding) {
                    (ClassExport::Default, Some(binding)) => format!("export{{{binding} as default}};"),
                    _ => String::new(),
                };
                // `export` and `default` come after the list of decorators.
                let first = list_start.map_or(start, |list| list.min(start));
                if !is_replaced {
                    self.edits.insert(first, format!("const {own}={PREFIX}decorate([]);"));
                    return;
                }
                self.edits.insert(first, format!("const {own}={PREFIX}decorate(["));
                self.blank_exports(class, start, keyword);
                self.lower_class_list(class);
                let end_of_list = class.decorators.last().map_or(first, |last| last.span.end);
                self.edits.insert(end_of_list, "]);");
                let Some(binding) = binding else { return };
                let exported = if export == ClassExport::Named { "export " } else { "" };
                let name_end = class.id.as_ref().map_or(keyword + 5, |id| id.span.end);
                self.edits.replace(keyword, name_end, format!("{exported}let {binding};{binding}=class"));
                self.edits.insert(end, format!(";{binding}={own}.v;{after}"));
            }
            ClassPlace::Expression => {
                let first = list_start.unwrap_or(class.span.start).min(class.span.start);
                self.edits.insert(first, format!("{PREFIX}with(["));
                self.lower_class_list(class);
                let end_of_list = class.decorators.last().map_or(first, |last| last.span.end);
                match (is_replaced, &binding) {
                    (true, Some(binding)) => {
                        let name_end = class.id.as_ref().map_or(keyword + 5, |id| id.span.end);
                        self.edits.insert(end_of_list, format!("],{own}=>{{let {binding};{binding}="));
                        self.edits.replace(keyword, name_end, "class");
                        self.edits.insert(end, format!(";return {own}.v}})"));
                    }
                    (true, None) => {
                        self.edits.insert(end_of_list, format!("],{own}=>{{("));
                        self.edits.insert(end, format!(");return {own}.v}})"));
                    }
                    (false, _) => {
                        self.edits.insert(end_of_list, format!("],{own}=>"));
                        self.edits.insert(end, ")");
                    }
                }
            }
        }
    }

    /// Removes `export`, `default` and `abstract` before a class, which are written again where they belong.
    fn blank_exports(&mut self, class: &Class<'a>, start: u32, keyword: u32) {
        let mut gaps = Vec::new();
        let mut at = start;
        for decorator in &class.decorators {
            if decorator.span.start > at {
                gaps.push((at, decorator.span.start));
            }
            at = at.max(decorator.span.end);
        }
        gaps.push((at, keyword));
        for (from, to) in gaps {
            for word in ["export", "default", "abstract"] {
                if let Some(found) = self.find_word(from, to, word) {
                    self.edits.replace(found, found + u32::try_from(word.len()).unwrap_or(0), "");
                }
            }
        }
    }

    /// Turns the signs of a class's decorators into the commas of a list.
    fn lower_class_list(&mut self, class: &Class<'a>) {
        for (at, decorator) in class.decorators.iter().enumerate() {
            self.edits.replace(decorator.span.start, decorator.span.start + 1, if at == 0 { "" } else { "," });
        }
    }

    /// Makes a static method of the decorators of a member: its name evaluates them.
    fn lower_list(&mut self, list: &[Decorator<'a>], own: &str, at: usize) {
        for (index, decorator) in list.iter().enumerate() {
            let text = if index == 0 { format!("static[({own}.d[{at}]=[") } else { ",".to_owned() };
            self.edits.replace(decorator.span.start, decorator.span.start + 1, text);
        }
        if let Some(last) = list.last() {
            self.edits.insert(last.span.end, format!("],\"{PREFIX}m{at}\")](){{}}"));
        }
    }

    /// Returns the name of a member as an expression of the first static block.
    fn key(&mut self, element: &ClassElement<'a>, own: &str, at: usize) -> String {
        let (key, is_computed) = match element {
            ClassElement::MethodDefinition(method) => (&method.key, method.computed),
            ClassElement::PropertyDefinition(field) => (&field.key, field.computed),
            ClassElement::AccessorProperty(field) => (&field.key, field.computed),
            ClassElement::StaticBlock(_) | ClassElement::TSIndexSignature(_) => return String::new(),
        };
        match key {
            PropertyKey::PrivateIdentifier(name) => format!("\"#{}\"", name.name),
            PropertyKey::StaticIdentifier(name) => format!("{:?}", name.name.as_str()),
            key if is_computed => {
                let span = key.span();
                self.edits.insert(span.start, format!("{own}.k[{at}]={PREFIX}key("));
                self.edits.insert(span.end, ")");
                format!("{own}.k[{at}]")
            }
            // Numbers and strings.
            key => format!("{PREFIX}key({})", self.source(key.span())),
        }
    }

    fn lower_field(&mut self, field: &PropertyDefinition<'a>, own: &str, at: usize) {
        match &field.value {
            Some(value) => self.wrap_value(value, own, at),
            None => self.edits.insert(self.end_of_field(field.span), format!("={own}.i({at},this)")),
        }
        let keyword = if field.r#static { "static " } else { "" };
        let end = self.end_of_field(field.span);
        self.edits.insert(end, format!(";{keyword}#{PREFIX}e{at}={own}.e({at},this);"));
    }

    fn wrap_value(&mut self, value: &Expression<'a>, own: &str, at: usize) {
        let span = value.span();
        self.edits.insert(span.start, format!("{own}.i({at},this,"));
        self.edits.insert(span.end, ")");
    }

    fn lower_accessor(
        &mut self,
        field: &AccessorProperty<'a>,
        (own, number): (&str, u32),
        at: usize,
        is_decorated: bool,
    ) {
        let start = field.decorators.last().map_or(field.span.start, |last| last.span.end);
        let keyword = if field.r#static { "static " } else { "" };
        let storage = format!("#{PREFIX}a{number}_{at}");
        let key_span = field.key.span();
        let key = self.source(key_span).to_owned();
        self.edits.replace(start, key_span.end, format!("{keyword}{storage}"));
        if is_decorated {
            match &field.value {
                Some(value) => self.wrap_value(value, own, at),
                None => self.edits.insert(self.end_of_field(field.span), format!("={own}.i({at},this)")),
            }
        }
        let end = self.end_of_field(field.span);
        let extra = match is_decorated {
            true => format!(";{keyword}#{PREFIX}e{at}={own}.e({at},this)"),
            false => String::new(),
        };
        let pair =
            format!("{extra};{keyword}get {key}(){{return this.{storage}}}{keyword}set {key}(v){{this.{storage}=v}}");
        self.edits.insert(end, pair);
    }

    /// Returns the end of a field without its semicolon.
    fn end_of_field(&self, span: Span) -> u32 {
        let text = self.source(span);
        span.start + u32::try_from(text.trim_end().trim_end_matches(';').trim_end().len()).unwrap_or(0)
    }

    fn source(&self, span: Span) -> &str {
        &self.text[span.start as usize..span.end as usize]
    }

    /// Returns the place of the word `class`.
    fn class_keyword(&self, class: &Class<'a>) -> u32 {
        let from = class.decorators.last().map_or(class.span.start, |last| last.span.end.max(class.span.start));
        self.find_word(from, class.body.span.start, "class").unwrap_or(from)
    }

    /// Returns the place of a word outside of comments.
    fn find_word(&self, from: u32, to: u32, word: &str) -> Option<u32> {
        let text = self.text.get(from as usize..to as usize)?;
        let mut at = 0;
        while at < text.len() {
            let rest = &text[at..];
            if rest.starts_with("//") {
                at += rest.find('\n').unwrap_or(rest.len());
            } else if let Some(comment) = rest.strip_prefix("/*") {
                at += comment.find("*/").map_or(rest.len(), |end| end + 4);
            } else if rest.starts_with(word) {
                return Some(from + u32::try_from(at).unwrap_or(0));
            } else {
                at += rest.chars().next().map_or(1, char::len_utf8);
            }
        }
        None
    }
}

fn is_abstract(element: &ClassElement<'_>) -> bool {
    match element {
        ClassElement::MethodDefinition(method) => method.r#type == MethodDefinitionType::TSAbstractMethodDefinition,
        ClassElement::PropertyDefinition(field) => field.r#type == PropertyDefinitionType::TSAbstractPropertyDefinition,
        ClassElement::AccessorProperty(field) => field.r#type == AccessorPropertyType::TSAbstractAccessorProperty,
        ClassElement::StaticBlock(_) | ClassElement::TSIndexSignature(_) => false,
    }
}

fn is_instance_function(element: &ClassElement<'_>) -> bool {
    matches!(element, ClassElement::MethodDefinition(method) if !method.r#static)
}

/// Returns a member: its place, kind, name, and whether it is static and private, and functions that reach a private one.
fn member(element: &ClassElement<'_>, at: usize, key: String) -> String {
    let (kind, is_static, name) = match element {
        ClassElement::MethodDefinition(method) => (kind_of(method), method.r#static, &method.key),
        ClassElement::PropertyDefinition(field) => ("field", field.r#static, &field.key),
        ClassElement::AccessorProperty(field) => ("accessor", field.r#static, &field.key),
        ClassElement::StaticBlock(_) | ClassElement::TSIndexSignature(_) => return String::new(),
    };
    let access = match name {
        PropertyKey::PrivateIdentifier(name) => {
            let name = name.name.as_str();
            format!(",{{has:o=>#{name} in o,get:o=>o.#{name},set:(o,v)=>{{o.#{name}=v}}}}")
        }
        _ => String::new(),
    };
    format!("[{at},\"{kind}\",{key},{is_static}{access}]")
}

fn kind_of(method: &MethodDefinition<'_>) -> &'static str {
    match method.kind {
        MethodDefinitionKind::Get => "getter",
        MethodDefinitionKind::Set => "setter",
        MethodDefinitionKind::Method | MethodDefinitionKind::Constructor => "method",
    }
}
