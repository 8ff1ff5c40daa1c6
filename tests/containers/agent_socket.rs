//! C20: the agent's own socket, which a job can reach and misuse. A misusing job harms only itself, and only for a
//! limited time.

use std::fs;

use anyhow::{Result, ensure};

use crate::row::{Row, row};
use crate::test_env::TestEnvironment;

pub fn rows() -> Vec<Row> {
    vec![
        row("C20::unfinished_requests", unfinished_requests),
        row("C20::request_flood", request_flood),
        row("C20::hostile_typescript", hostile_typescript),
    ]
}

/// Unfinished requests do not block the request that loading a typed module makes, nor output, nor the time limit.
fn unfinished_requests(test_env: &TestEnvironment) -> Result<()> {
    let program = "import { connect } from 'node:net'
const open = Array.from({ length: 5 }, () => connect({ path: '\\0codebox-query' }).on('error', () => {}))
await Promise.all(open.map((socket) => new Promise((up) => socket.write('{\"file\": \"a.ts\"', up))))
const { answer }: { answer: number } = await import('./answer.ts')
console.log(answer)
process.exit(0)
";
    run_typed_program(test_env, program)
}

/// Two hundred concurrent requests, more than the agent forwards at a time, valid and invalid, all end.
fn request_flood(test_env: &TestEnvironment) -> Result<()> {
    let program = "import { connect } from 'node:net'
let over = 0
for (let n = 0; n < 200; n++) {
  const socket = connect({ path: '\\0codebox-query' }).on('error', () => {}).on('close', () => over++).resume()
  if (n % 2) socket.end('nonsense')
  else socket.end(JSON.stringify({ file: 'a.ts', text: 'let a: number = 1' }))
}
while (over < 200) await new Promise((done) => setTimeout(done, 10))
const { answer }: { answer: number } = await import('./answer.ts')
console.log(answer)
";
    run_typed_program(test_env, program)
}

/// Typed modules that are hostile to the parser fail to load, and the next module still loads.
fn hostile_typescript(test_env: &TestEnvironment) -> Result<()> {
    let program = "import { writeFileSync } from 'node:fs'
const texts: string[] = ['export{' + 'a,'.repeat(65537) + '}', '({a=b as '.repeat(60) + 'c' + ':0)=>0}:0)=>0'.repeat(60)]
for (const [n, text] of texts.entries()) {
  writeFileSync(`/tmp/${n}.ts`, text)
  try { await import(`/tmp/${n}.ts`); console.log('loaded') } catch {}
}
const { answer }: { answer: number } = await import('./answer.ts')
console.log(answer)
";
    run_typed_program(test_env, program)
}

fn run_typed_program(test_env: &TestEnvironment, program: &str) -> Result<()> {
    let folder = test_env.kit.folder()?;
    fs::write(folder.path().join("main.mts"), program)?;
    fs::write(folder.path().join("answer.ts"), "export const answer: number = 42\n")?;
    let job = test_env.run().grant(folder.path(), "/work", "ro").folder(folder.path());
    let report = test_env.run_expecting("ok", 0, job.args(["--timeout", "100s", "main.mts"]))?;
    ensure!(report.stdout() == "42\n", "output is {:?} {:?}", report.stdout(), report.stderr());
    Ok(())
}
