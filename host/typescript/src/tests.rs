use super::*;

fn code(text: &str) -> String {
    strip("main.ts", text).expect("it is TypeScript").code
}

fn syntax(text: &str) -> (String, u32, u32) {
    match strip("main.ts", text) {
        Err(StripError::Syntax { message, location }) => (message, location.line, location.column),
        other => panic!("{other:?}"),
    }
}

#[test]
fn removes_types_and_keeps_code() {
    let text = "interface A { a: string }\ntype B = A | null;\ndeclare const c: B;\nexport function f<T extends A>(x: T, y?: number): x is T { return (x as A)!.a satisfies string; }\n";
    assert_eq!(code(text), "export function f(x, y) {\nreturn x.a;\n}\n");
}

#[test]
fn lowers_enums_namespaces_and_parameter_properties() {
    let enums =
        code("enum Colour { Red, Green = 'g', Blue = 1 << 2 }\nconst enum Fixed { One = 1 }\nconsole.log(Fixed.One)");
    assert!(enums.contains("Colour[\"Red\"] = 0") && enums.contains("Fixed"), "{enums}");
    let namespace = code("namespace N { export const a: number = 1 }");
    assert!(namespace.contains("N.a = 1"), "{namespace}");
    let class = code("class P { constructor(private readonly x: number, public y = 2) {} }");
    assert!(class.contains("this.x = x") && class.contains("this.y = y"), "{class}");
}

#[test]
fn qualifies_references_between_namespace_parts() {
    let text = "namespace A { export const x = 1; export namespace B { export function f() {} } }
namespace A { export const y = x + 1; const z = { x, y: x }; B.f(); function g(x: number) { return x } }
namespace A.B { f(); x; unknown }";
    let lines = code(text);
    for part in ["_A.x + 1", "x: _A.x", "y: _A.x", "_A.B.f()", "return x;", "unknown"] {
        assert!(lines.contains(part), "{part}: {lines}");
    }
}

#[test]
fn exported_namespace_variables_become_properties() {
    let text = "namespace N { export let n: number = 0, m; export const { a, b: [c = n] } = o; export function f() { n++; [m] = [a]; return { n }; } }";
    let lines = code(text);
    let parts = [
        "_N.n = 0;",
        "{a: _N.a, b: [_N.c = _N.n]} = o",
        "_N.n++",
        "[_N.m] = [_N.a]",
        "return { n: _N.n };",
        "_N.f = f;",
    ];
    for part in parts {
        assert!(lines.replace("{ a", "{a").replace(" } = o", "} = o").contains(part), "{part}: {lines}");
    }
    assert!(!lines.contains("let n"), "{lines}");
}

#[test]
fn namespace_parameters_have_unique_names() {
    let lines = code("let _N = 1; namespace N { export let x = _N; export function f(_N2: number) { x = _N2 } }");
    assert!(lines.contains("function(_N3)") && lines.contains("_N3.x = _N2"), "{lines}");
}

#[test]
fn string_members_have_no_reverse_mapping() {
    let lines = code("const s = 'x'; enum E { A = 'a', B = `${A}b`, C = s, D = 1, F = D << 2, G, H = D + 'n' }");
    for part in [
        "_E[\"A\"] = \"a\";",
        "_E[\"B\"] = `",
        "_E[\"C\"] = s;",
        "_E[_E[\"F\"] = _E.D << 2] = \"F\";",
        "_E[_E[\"G\"] = 5] = \"G\";",
        "_E[\"H\"] =",
    ] {
        assert!(lines.contains(part) && !lines.contains(&format!("[{part}")), "{part}: {lines}");
    }
}

#[test]
fn removes_declare_only_parts() {
    for text in [
        "declare namespace G { let v: number }\nnamespace G { export const w = 1 }",
        "declare enum G { A }\nenum G { B = 1 }",
    ] {
        assert!(code(text).contains("var G"), "{text}");
    }
}

#[test]
fn removes_type_imports() {
    let text = "import type { A } from './a.ts';\nimport { type B, c } from './b.ts';\nimport { D } from './d.ts';\nconst x: D = c;";
    assert_eq!(code(text), "import { c } from \"./b.ts\";\nconst x = c;\n");
}

#[test]
fn converts_commonjs_imports_and_exports() {
    let text = "import fs = require('fs');\nexport = fs;";
    let stripped = strip("a.cts", text).expect("it is TypeScript").code;
    assert_eq!(stripped, "const fs = require(\"fs\");\nmodule.exports = fs;\n");
}

#[test]
fn reports_location_of_syntax_errors() {
    assert_eq!(syntax("let a = 1;\nlet b: = 2;").1, 2);
    let (message, line, column) = syntax("const x = 1;\nfunction f( {\n");
    assert!(line >= 2 && column >= 1 && !message.contains('\n'), "{message} {line}:{column}");
    for (text, line, column, part) in [
        ("class A {\n  m(@log x: string) {}\n}", 2, 5, "Decorators of parameters"),
        ("class A {\n  @log #m() {}\n}", 2, 3, "private"),
        ("class A {\n  static accessor [x] = 1;\n}", 2, 3, "computed"),
        ("namespace N {\n  @log class A {}\n}", 2, 3, "namespaces"),
        ("namespace N {\n  export { a };\n}", 2, 3, "Export"),
        ("namespace N {\n  export * from 'a';\n}", 2, 3, "Export"),
        ("function f() {\n  namespace N { export let a = 1 }\n}", 2, 3, "namespace"),
        ("namespace N { import fs = require('fs') }", 1, 15, "namespace"),
        ("enum E { A, [b] = 1 }", 1, 14, "Computed"),
    ] {
        let found = syntax(text);
        assert_eq!((found.1, found.2), (line, column), "{found:?}: {text}");
        assert!(found.0.contains(part), "{found:?}: {text}");
    }
    assert!(strip("a.ts", "const a = <b>text</b>;").is_err(), "only some files have JSX");
}

#[test]
fn elements_become_calls() {
    let code = |text: &str| strip("a.tsx", text).expect("it is TSX").code;
    let automatic = code("export const a: Element = <b id={1 as number}>text</b>;");
    assert!(automatic.starts_with("import { jsx as _jsx } from \"react/jsx-runtime\";"), "{automatic}");
    assert!(automatic.contains("_jsx(\"b\", {"), "{automatic}");
    let source = code("/** @jsxImportSource preact */\nexport const a = <b/>;");
    assert!(source.contains("\"preact/jsx-runtime\""), "{source}");
    let imported = code("import React from 'react';\nexport const a = <b/>;");
    assert!(imported.contains("react/jsx-runtime"), "{imported}");
    for (text, call) in [
        ("/** @jsx h */\nconst a = <b/>;", "h(\"b\", null)"),
        ("const React = { createElement() {} };\nconst a = <b/>;", "React.createElement(\"b\", null)"),
        ("/** @jsxRuntime classic */\nconst a = <><b/></>;", "React.createElement(React.Fragment, null, "),
    ] {
        let code = code(text);
        assert!(code.contains(call) && !code.contains("jsx-runtime"), "{text}: {code}");
    }
    // Type parameters of arrow functions and enums are still TypeScript.
    let mixed = code("enum E { A }\nconst f = <T,>(x: T) => x;\nexport const a = <b e={E.A}>{f(1)}</b>;");
    assert!(mixed.contains("f(1)") && !mixed.contains("enum"), "{mixed}");
    assert!(strip("a.jsx", "export const a = <b/>;").is_ok());
}

#[test]
fn maps_output_to_source() {
    let stripped = strip("main.ts", "interface A {\n}\n\nthrow new Error('x');\n").expect("it is TypeScript");
    assert_eq!(stripped.code, "throw new Error(\"x\");\n");
    // The first segment maps column 0 of line 1 to column 0 of line 4 of the only source.
    assert!(stripped.mappings.starts_with("AAGA"), "{}", stripped.mappings);
    let lowered_program = strip("main.ts", "namespace N { export let n = 1; n.x; }").expect("it is TypeScript");
    let map = format!(r#"{{"version":3,"sources":["main.ts"],"names":[],"mappings":"{}"}}"#, lowered_program.mappings);
    let map = oxc_sourcemap::SourceMap::from_json_string(&map).expect("it is a source map");
    let line = lowered_program.code.lines().position(|line| line == "_N.n.x;").expect("the line exists");
    let token = map.get_tokens().find(|token| token.get_dst_line() as usize == line).expect("it is mapped");
    assert_eq!((token.get_src_line(), token.get_src_col()), (0, 32), "{lowered_program:?}");
}

#[test]
fn rejects_long_texts() {
    let long = " ".repeat(MAX_TEXT_LEN + 1);
    assert!(matches!(strip("a.ts", &long), Err(StripError::Long { .. })));
    let members = (0..50_000).map(|n| format!("a{n}")).collect::<Vec<_>>().join(", ");
    let members = format!("enum {} {{ {members} }}", "名".repeat(1_000));
    assert!(matches!(strip("a.ts", &members), Err(StripError::Long { .. })));
}

#[test]
fn bounds_output_for_long_enum_values() {
    let doubled = (0..60).map(|n| format!("b{} = b{n} + b{n}", n + 1)).collect::<Vec<_>>().join(", ");
    assert!(code(&format!("enum A {{ b0 = 'xxxxxxxx', {doubled} }}")).len() < 10_000);
    let path = vec!["a"; 400].join(".");
    let names = format!("namespace {path} {{ export const b = 1 }}\nnamespace {path} {{ {} }}", "b;".repeat(1_000));
    assert!(strip("a.ts", &names).is_ok());
}

#[test]
fn parses_operators_and_slashes() {
    for text in [
        format!("const flags: number[] = [{}];", (0..64).map(|n| format!("1 << {n}")).collect::<Vec<_>>().join(", ")),
        (0..150).map(|n| format!("let a{n} = n < {n}\n")).collect(),
        format!(
            "const f = {{ {} }};",
            (0..150).map(|n| format!("f{n}: (a: number) => a < {n}")).collect::<Vec<_>>().join(", ")
        ),
        format!("{}1{};", "(".repeat(300), ")".repeat(300)),
        "for (const m of /['\"]/g[Symbol.matchAll]('x')) {}".to_owned(),
        "if (a) {}\n/['(`]/.test(b);".to_owned(),
        "let n = a! / b / c++ / d;".to_owned(),
    ] {
        assert!(strip("main.ts", &text).is_ok(), "{text}");
    }
}

#[test]
fn decorators_keep_lines_and_types() {
    let text =
        "@a class A<T> {\n  @b x?: number\n  @c(1) m<U>(u: U): T { return null as T }\n  accessor y: string = 'z'\n}\n";
    let stripped = strip("a.ts", text).expect("it is TypeScript");
    let code = &stripped.code;
    assert!(!code.contains('@') && !code.contains("accessor y") && !code.contains("number"), "{code}");
    assert!(code.contains("let A;") && code.contains("function __codebox_decorate"), "{code}");
    let plain = strip("a.ts", "class A { accessor x = 1 }").expect("it is TypeScript").code;
    assert!(!plain.contains("__codebox_decorate"), "{plain}");
    let members =
        strip("a.ts", "export abstract class A { @b m() {} abstract n(): void }").expect("it is TypeScript").code;
    assert!(members.contains("export class A"), "{members}");
}

#[test]
fn legacy_decorators_are_selected_by_the_first_comment() {
    let class = "@a class A {\n  @b x?: number;\n  constructor(@c y: string) {}\n}\n";
    let pragma = "/** @experimentalDecorators @emitDecoratorMetadata */";
    let code = strip("a.ts", &format!("{pragma}{class}")).expect("it is TypeScript").code;
    for part in ["__codebox_decorateParam(0, c)", "__codebox_decorateMetadata(\"design:type\", Number)"] {
        assert!(code.contains(part), "{part}: {code}");
    }
    assert!(!code.contains("babelHelpers") && code.contains("function __codebox_decorate("), "{code}");
    let (message, ..) = syntax(class);
    assert!(message.contains("experimentalDecorators"), "{message}");
    // A text without decorators has no helpers.
    let code = strip("a.ts", &format!("{pragma}let x: number = 1")).expect("it is TypeScript").code;
    assert!(!code.contains("__codebox"), "{code}");
    let accessor = format!("{pragma}class A {{ accessor x = 1; @b m() {{}} }}");
    let code = strip("a.ts", &accessor).expect("it is TypeScript").code;
    assert!(code.contains("get x()") && code.contains("__codebox_decorate(["), "{code}");
    let (message, ..) = syntax(&format!("{pragma}class A {{ @b accessor x = 1 }}"));
    assert!(message.contains("getter and a setter"), "{message}");
}

#[test]
fn modules_have_the_names_of_commonjs() {
    let code = code("import fs from 'fs';\nif (require.main === module) console.log(__dirname, fs);\n");
    let first = code.lines().next().unwrap_or_default();
    for part in ["__dirname = import.meta.dirname", "const ", "require.main = module", "createRequire"] {
        assert!(first.contains(part), "{part}: {first}");
    }
    assert!(!first.contains("__filename ="), "{first}");
    // The first line is the only one that is new.
    let mappings = strip("main.ts", "import fs from 'fs';\nconsole.log(__dirname, fs);\n").expect("a program").mappings;
    assert!(mappings.starts_with(";AAAA"), "{mappings}");
    for text in [
        "console.log(__dirname)",
        "import fs from 'fs';\nconst __dirname = '/';\nconsole.log(__dirname, fs)",
        "export const a = (require: string) => require",
    ] {
        assert!(!super::strip("main.ts", text).expect("a program").code.contains("import.meta"), "{text}");
    }
    let ambient = "import fs from 'fs';\ndeclare const __dirname: string;\nconsole.log(__dirname, fs)";
    assert!(super::strip("main.ts", ambient).expect("a program").code.starts_with("const __dirname"));
    let explicit = strip("main.mts", "import fs from 'fs';\nconsole.log(__dirname, fs);\n").expect("a program").code;
    assert!(!explicit.contains("import.meta"), "{explicit}");
    let script = strip("main.ts", "#!/usr/bin/env tsx\nimport fs from 'fs';\nconsole.log(__dirname, fs);\n");
    let script = script.expect("a program").code;
    assert!(script.starts_with("#!/usr/bin/env tsx\nconst __dirname"), "{script}");
}
