//! C20: the agent's own socket, which a job can reach and misuse. A misusing job harms only itself, and only for a
//! limited time.

use std::fs;

use anyhow::{Result, ensure};

use crate::ground::Ground;
use crate::row::{Row, row};

pub fn rows() -> Vec<Row> {
    vec![
        row("C20::endless_question", endless_question),
        row("C20::flood_of_questions", flood_of_questions),
        row("C20::hostile_types", hostile_types),
    ]
}

/// Unfinished requests do not block the request that loading a typed module makes, nor output, nor the time limit.
fn endless_question(ground: &Ground) -> Result<()> {
    let program = "import { connect } from 'node:net'
const open = Array.from({ length: 5 }, () => connect({ path: '\\0codebox-ask' }).on('error', () => {}))
await Promise.all(open.map((socket) => new Promise((up) => socket.write('{\"file\": \"a.ts\"', up))))
const { answer }: { answer: number } = await import('./asked.ts')
console.log(answer)
process.exit(0)
";
    asked(ground, program)
}

/// Two hundred concurrent requests, more than the agent forwards at a time, valid and invalid, all end.
fn flood_of_questions(ground: &Ground) -> Result<()> {
    let program = "import { connect } from 'node:net'
let over = 0
for (let n = 0; n < 200; n++) {
  const socket = connect({ path: '\\0codebox-ask' }).on('error', () => {}).on('close', () => over++).resume()
  if (n % 2) socket.end('nonsense')
  else socket.end(JSON.stringify({ file: 'a.ts', text: 'let a: number = 1' }))
}
while (over < 200) await new Promise((done) => setTimeout(done, 10))
const { answer }: { answer: number } = await import('./asked.ts')
console.log(answer)
";
    asked(ground, program)
}

/// Typed modules that are hostile to the parser fail to load, and the next module still loads.
fn hostile_types(ground: &Ground) -> Result<()> {
    let program = "import { writeFileSync } from 'node:fs'
const texts: string[] = ['export{' + 'a,'.repeat(65537) + '}', '({a=b as '.repeat(60) + 'c' + ':0)=>0}:0)=>0'.repeat(60)]
for (const [n, text] of texts.entries()) {
  writeFileSync(`/tmp/${n}.ts`, text)
  try { await import(`/tmp/${n}.ts`); console.log('loaded') } catch {}
}
const { answer }: { answer: number } = await import('./asked.ts')
console.log(answer)
";
    asked(ground, program)
}

fn asked(ground: &Ground, program: &str) -> Result<()> {
    let folder = ground.kit.folder()?;
    fs::write(folder.path().join("main.mts"), program)?;
    fs::write(folder.path().join("asked.ts"), "export const answer: number = 42\n")?;
    let job = ground.run().grant(folder.path(), "/work", "ro").folder(folder.path());
    let report = ground.ends("ok", 0, job.args(["--timeout", "100s", "main.mts"]))?;
    ensure!(report.stdout() == "42\n", "it printed {:?} {:?}", report.stdout(), report.stderr());
    Ok(())
}
