use super::*;

fn code(text: &str) -> String {
    strip("main.ts", text).expect("it is TypeScript").code
}

fn syntax(text: &str) -> (String, u32, u32) {
    match strip("main.ts", text) {
        Err(StripError::Syntax { message, place }) => (message, place.line, place.column),
        other => panic!("{other:?}"),
    }
}

#[test]
fn types_go_and_code_stays() {
    let text = "interface A { a: string }\ntype B = A | null;\ndeclare const c: B;\nexport function f<T extends A>(x: T, y?: number): x is T { return (x as A)!.a satisfies string; }\n";
    assert_eq!(code(text), "export function f(x, y) {\nreturn x.a;\n}\n");
}

#[test]
fn enums_namespaces_and_parameter_properties_become_code() {
    let enums =
        code("enum Colour { Red, Green = 'g', Blue = 1 << 2 }\nconst enum Fixed { One = 1 }\nconsole.log(Fixed.One)");
    assert!(enums.contains("Colour[\"Red\"] = 0") && enums.contains("Fixed"), "{enums}");
    let namespace = code("namespace N { export const a: number = 1 }");
    assert!(namespace.contains("N.a = 1"), "{namespace}");
    let class = code("class P { constructor(private readonly x: number, public y = 2) {} }");
    assert!(class.contains("this.x = x") && class.contains("this.y = y"), "{class}");
}

#[test]
fn parts_of_a_namespace_see_each_other() {
    let text = "namespace A { export const x = 1; export namespace B { export function f() {} } }
namespace A { export const y = x + 1; const z = { x, y: x }; B.f(); function g(x: number) { return x } }
namespace A.B { f(); x; unknown }";
    let lines = code(text);
    for part in ["A.x + 1", "x: A.x", "y: A.x", "A.B.f()", "return x;", "unknown"] {
        assert!(lines.contains(part), "{part}: {lines}");
    }
}

#[test]
fn imports_of_types_go() {
    let text = "import type { A } from './a.ts';\nimport { type B, c } from './b.ts';\nimport { D } from './d.ts';\nconst x: D = c;";
    assert_eq!(code(text), "import { c } from \"./b.ts\";\nconst x = c;\n");
}

#[test]
fn commonjs_has_its_own_forms() {
    let text = "import fs = require('fs');\nexport = fs;";
    let stripped = strip("a.cts", text).expect("it is TypeScript").code;
    assert_eq!(stripped, "const fs = require(\"fs\");\nmodule.exports = fs;\n");
}

#[test]
fn syntax_errors_have_a_place() {
    assert_eq!(syntax("let a = 1;\nlet b: = 2;").1, 2);
    let (message, line, column) = syntax("const x = 1;\nfunction f( {\n");
    assert!(line >= 2 && column >= 1 && !message.contains('\n'), "{message} {line}:{column}");
    assert_eq!(syntax("@log class A {}").2, 1);
    let jsx = strip("a.tsx", "const a = <b>text</b>;").expect_err("JSX is refused").to_string();
    assert!(jsx.contains("JSX"), "{jsx}");
}

#[test]
fn mappings_lead_back() {
    let stripped = strip("main.ts", "interface A {\n}\n\nthrow new Error('x');\n").expect("it is TypeScript");
    assert_eq!(stripped.code, "throw new Error(\"x\");\n");
    // The first segment: column 0 of line 1 is column 0 of line 4 of the only source.
    assert!(stripped.mappings.starts_with("AAGA"), "{}", stripped.mappings);
}

#[test]
fn what_nests_too_deeply_is_refused() {
    let doubled = (0..60).map(|n| format!("b{} = b{n} + b{n}", n + 1)).collect::<Vec<_>>().join(", ");
    assert!(strip("a.ts", &format!("enum A {{ b0 = 'xxxxxxxx', {doubled} }}")).is_ok());
    let long = " ".repeat(LONGEST + 1);
    assert!(matches!(strip("a.ts", &long), Err(StripError::Long { .. })));
    assert!(syntax(&"(".repeat(100_000)).0.contains("deeply"));
    assert!(syntax(&format!("namespace {} {{}} namespace b {{}}", vec!["a"; 20_000].join("."))).0.contains("deeply"));
    let path = vec!["a"; 400].join(".");
    let names = format!("namespace {path} {{ export const b = 1 }}\nnamespace {path} {{ {} }}", "b;".repeat(1_000));
    assert!(matches!(strip("a.ts", &names), Err(StripError::Long { .. })));
}
