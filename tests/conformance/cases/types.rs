//! TypeScript's additions to JavaScript: types, which are stripped, and the few features that are more than types.

use crate::case::{Case, code, file};
use crate::expect::ExpectationBuilder as _;
use crate::program::program;

pub fn cases() -> Vec<Case> {
    vec![
        code("types::annotations")
            .prints("3 b\n")
            .typescript("let x: number = 1\nfunction add(a: number, b?: number, ...rest: number[]): number { return a + (b ?? 0) + rest.length }\nconst f = (s: string): string => s\nvar later!: string\nconsole.log(add(x, 2), f('b'))"),
        code("types::interfaces_and_aliases")
            .prints("{ x: 1 }\n")
            .typescript("interface P { x: number; readonly y?: string }\ntype Q<T> = T extends P ? keyof T : never\ntype R = { [K in keyof P]: P[K] } & Q<P>\ndeclare const nothing: R\ndeclare function none(): void\nconst p: P = { x: 1 }\nconsole.log(p)"),
        code("types::generics")
            .prints("1 [ 'a' ]\n")
            .typescript("function first<T, const U extends readonly T[] = readonly T[]>(from: U): T { return from[0]! }\nclass Box<T extends { length: number }> { constructor(readonly held: T) {} map = <R,>(f: (t: T) => R): R => f(this.held) }\nconsole.log(first<number>([1]), new Box<string[]>(['a']).map<string[]>(s => s))"),
        code("types::assertions")
            .prints("1 2 3 4 5\n")
            .typescript("const a = 1 as unknown as number\nconst b = <number>2\nconst c = { n: 3 } as const\nconst d = ({ n: 4 } satisfies { n: number }).n!\nlet e: number | undefined = 5\nconsole.log(a, b, c.n, d, e!)"),
        code("types::enums")
            .prints("0 Green 4 up true\n")
            .typescript("enum Colour { Red, Green, Blue = 1 << 2 }\nenum Way { Up = 'up' }\nconsole.log(Colour.Red, Colour[1], Colour.Blue, Way.Up, Object.keys(Way).length === 1)"),
        code("types::const_enums")
            .prints("2 c\n")
            .typescript("const enum N { A = 1, B }\nconst enum S { C = 'c' }\nconsole.log(N.B, S.C)"),
        code("types::enums_merge")
            .prints("{ '0': 'A', '1': 'B', A: 0, B: 1 }\n")
            .typescript("enum E { A }\nenum E { B = 1 }\nconsole.log(E)"),
        code("types::namespaces")
            .prints("3 inner undefined\n")
            .typescript("namespace Outer {\n  export const n: number = 3\n  const hidden = 4\n  export namespace Inner { export const name = 'inner' }\n  export type T = string\n}\nconsole.log(Outer.n, Outer.Inner.name, (Outer as any).hidden)"),
        code("types::parameter_properties")
            .prints("1 b true 2 4\n")
            .typescript("class C {\n  w: number\n  constructor(public x: number, private readonly y: string, protected z = true) { this.w = x + 1 }\n}\nconst c: any = new C(1, 'b')\nconsole.log(c.x, c.y, c.z, c.w, Object.keys(c).length)"),
        code("types::classes")
            .prints("D area 4 undefined\n")
            .typescript("interface HasArea { area(): number }\nabstract class A implements HasArea {\n  declare ghost: string\n  private static count: number = 0\n  protected abstract side: number\n  abstract area(): number\n  get name(): string { A.count++; return this.constructor.name }\n}\nclass D extends A implements HasArea {\n  protected override side = 2\n  override area(this: D): number { return this.side ** 2 }\n}\nconst d = new D()\nconsole.log(d.name, 'area', d.area(), d.ghost)"),
        code("types::overloads")
            .prints("number string\n")
            .typescript("function kind(x: number): string\nfunction kind(x: string): string\nfunction kind(x: unknown): string { return typeof x }\nclass M { m(): void; m(n: number): void; m(n?: number): void {} }\nnew M().m()\nconsole.log(kind(1), kind('a'))"),
        code("types::guards")
            .prints("3 none\n")
            .typescript("const isText = (x: unknown): x is string => typeof x === 'string'\nfunction check(x: unknown): asserts x is string { if (!isText(x)) throw new TypeError('none') }\ntry { check('a'); check(1) } catch (e: unknown) { console.log('abc'.length, (e as Error).message) }"),
        file("types::type_imports")
            .grant(".", "/work", "ro", &[("near.ts", "console.log('evaluated')\nexport interface Held { n: number }\nexport class Used { n = 1 }"), ("types.ts", "console.log('never evaluated')\nexport type T = number")])
            .prints("evaluated\n1\n")
            .typescript("import type { T } from './types.ts'\nimport { type Held, Used } from './near.ts'\nexport type { T }\nconst held: Held = new Used()\nconst n: T = held.n\nconsole.log(n)"),
        file("types::modules_of_types_alone")
            .grant(".", "/work", "ro", &[("near.ts", "export interface Held { n: number }")])
            .prints("1\n")
            .typescript("import { Held } from './near.ts'\nconst held: Held = { n: 1 }\nconsole.log(held.n)"),
        file("types::exports_are_kept")
            .grant(".", "/work", "ro", &[("near.ts", "enum E { A = 7 }\nnamespace N { export const b = 8 }\nexport { E, N }\nexport default class<T> { held?: T }")])
            .prints("7 8 true\n")
            .typescript("import Held, { E, N } from './near.ts'\nconsole.log(E.A, N.b, new Held<number>() instanceof Held)"),
        file("types::commonjs_imports")
            .grant(".", "/work", "ro", &[("near.cts", "const held: { n: number } = { n: 7 }\nexport = held")])
            .prints("7 /\n")
            .typescript(program("import near = require('./near.cts')\nimport path = require('path')\nconst { sep }: { sep: string } = path\nconsole.log(near.n, sep)").with_name("main.cts")),
        file("types::imports_javascript")
            .grant(".", "/work", "ro", &[("near.mjs", "export const n = 7"), ("back.ts", "export const back: string = 'back'")])
            .prints("7 back\n")
            .javascript(program("import { n } from './near.mjs'\nimport { back } from './back.ts'\nconsole.log(n, back)").with_name("main.mjs"))
            .typescript("import { n } from './near.mjs'\nimport { back } from './back.ts'\nconsole.log(n as number, back)"),
        file("types::javascript_imports_enum")
            .grant(".", "/work", "ro", &[("level.ts", "export enum Level { Low = 1, High }"), ("both.js", "exports.from = 'js'"), ("both.ts", "export const from = 'ts'")])
            .prints("2 js js\n")
            .javascript(program("import { createRequire } from 'node:module'\nimport { Level } from './level.ts'\nimport both from './both.js'\nconst require = createRequire(import.meta.url)\nconsole.log(Level.High, both.from, require('./both').from)").with_name("main.mjs")),
        code("types::code_resembling_types")
            .prints("true 3 true\n")
            .typescript("const a = 1, b = 2, c = 3\nconst type = a < b, as = c, declare = 4\nlet label = (a < (b > c as any)) as boolean\nvar interface_: any = type ? as : declare\nconsole.log(type, interface_, !label)"),
        code("types::templates_and_regexes")
            .prints("x: number 1 as any\n")
            .typescript("const n: number = 1\nconsole.log(`x: number ${n as number} as any`.replace(/: string/, ''))"),
        code("types::async_and_generators")
            .prints("[ 1, 2 ] 3\n")
            .typescript("function* g<T>(...of: T[]): Generator<T, void, unknown> { yield* of }\nconst later = async <T,>(x: T): Promise<T> => x\nlater<number>(3).then((n: number): void => console.log([...g<number>(1, 2)], n))"),
        code("types::top_level_await")
            .prints("1\n2\n")
            .typescript("async function* g(): AsyncGenerator<number> { yield 2 }\nconsole.log(await Promise.resolve<number>(1))\nfor await (const n of g()) console.log(n as number)"),
        file("types::tsx_extension")
            .prints("1\n")
            .typescript(program("const one = <T,>(x: T): T => x\nconsole.log(one<number>(1))").with_name("main.tsx")),
        code("types::erased_statements")
            .prints("on\n")
            .typescript("declare global { interface Window { x: number } }\ndeclare module 'nowhere' { export const y: number }\ndeclare namespace N { const z: number }\ndeclare enum E { A }\nexport {}\nconsole.log('on')"),
        code("types::no_semicolons")
            .prints("1\n2\n3\n")
            .typescript("type A = number\n;[1].forEach((n: A) => console.log(n))\nlet x = 2 as A\n;(console.log)(x)\ninterface B {}\n`${console.log(3)}`"),
        code("types::types_are_not_checked")
            .prints("text\n")
            .typescript("const n: number = 'text' as any\nconst wrong: number = 'no checker runs'\nconsole.log(n)"),
    ]
}
