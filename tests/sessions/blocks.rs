//! Blocks of Markdown texts, by the command line and by the library.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use codebox::blocks::{BlockStatus, Options, Silent, parse, run};
use codebox::{Limit, LimitOverrides, Outcome, Request};
use codebox_testkit::{BASE_IMAGE, Input, ProcessResult, check_engine, is_required};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Home, PLACES, kit};

/// Container engine of blocks of a shell.
const ENGINE: &str = "podman";

const TEXT: &str = "\
# Analysis

```python
import pandas as pd
frame = pd.DataFrame({'a': [1, 2]})
def share(n):
    return 1 / n
frame.shape
```

Then in other languages:

1. JavaScript

   ```js
   const doubled = [1, 2].map(n => n * 2)
   console.log(doubled)
   ```

```ts
let n: number = 5; n
```

```js
doubled.length
```

```rust
fn main() {}
```

```py skip
raise SystemExit(9)
```

```py expect-error
raise ValueError('expected')
```

```python
print(len(frame))
share(0)
```

```python
'after'
```
";

/// Runs the command on a text.
fn blocks(text: &str, args: &[&str]) -> ProcessResult {
    let folder = kit().folder().expect("a directory");
    kit().share_runtimes(&folder.path().join("home")).expect("shared runtimes");
    blocks_in(&folder, text, args)
}

fn blocks_in(folder: &TempDir, text: &str, args: &[&str]) -> ProcessResult {
    let file = folder.path().join("text.md");
    fs::write(&file, text).expect("it is ours");
    let command = kit().codebox().home(&folder.path().join("home")).arg("blocks").arg(file);
    command.args(args.iter().map(|arg| (*arg).to_owned())).run().expect("it runs")
}

#[test]
fn blocks_of_a_language_share_their_state() {
    let ran = blocks(TEXT, &[]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr_text());
    assert_eq!(ran.stdout_text(), "(2, 1)\n[ 2, 4 ]\n5\n2\n2\n");
    let stderr = ran.stderr_text();
    assert!(stderr.contains("ValueError: expected") && stderr.contains("ZeroDivisionError"), "{stderr}");
    assert!(stderr.contains("codebox: block 7 (python, line 41) failed\ncodebox: 1 block was not run\n"), "{stderr}");
    // A text on standard input, and one that has nothing to run.
    let stdin = kit()
        .codebox()
        .args(["blocks", "-"])
        .input(Input::Bytes("```py\nprint(6 * 7)\n```\n".into()))
        .run()
        .expect("it runs");
    assert_eq!((stdin.code, stdin.stdout_text().as_str()), (Some(0), "42\n"), "{}", stdin.stderr_text());
    let none = blocks("# Nothing\n```rust\nfn main() {}\n```\n", &[]);
    assert_eq!((none.code, none.stdout_text().as_str()), (Some(0), ""));
    assert!(none.stderr_text().contains("no blocks"), "{}", none.stderr_text());
}

#[test]
fn feedback_is_short_markdown() {
    let ran = blocks(TEXT, &["--feedback", "--keep-going"]);
    assert_eq!((ran.code, ran.stderr_text().as_str()), (Some(1), ""));
    let expected = "\
8 blocks: 6 passed, 1 failed, 1 skipped.

### Block 1 (python, line 4): succeeded

Value: `(2, 1)`

### Block 2 (javascript, line 16): succeeded

Output: `[ 2, 4 ]`

### Block 3 (typescript, line 21): succeeded

Value: `5`

### Block 4 (javascript, line 25): succeeded

Value: `2`

### Block 6 (python, line 37): failed, as expected

Error: `ValueError: expected`
- line 37: `raise ValueError('expected')`

### Block 7 (python, line 41): failed

Output: `2`

Error: `ZeroDivisionError: division by zero`
- line 42: `share(0)`
- line 7 (block 1): `return 1 / n`

### Block 8 (python, line 46): succeeded

Value: `'after'`

Ran in wasm, limits: wall time 1m, memory 1 GiB, output 16 MiB.
";
    assert_eq!(ran.stdout_text(), expected);
}

#[test]
fn reports_are_one_document() {
    let ran = blocks(TEXT, &["--json"]);
    assert_eq!(ran.code, Some(1));
    let document: Value = serde_json::from_str(&ran.stdout_text()).expect("one document");
    assert_eq!((&document["version"], &document["success"]), (&1.into(), &false.into()));
    let status = |block: &Value| block["status"].as_str().expect("a status").to_owned();
    let all: Vec<String> = document["blocks"].as_array().expect("a list").iter().map(status).collect();
    assert_eq!(all, ["passed", "passed", "passed", "passed", "skipped", "passed", "failed", "not_run"]);
    let failed = &document["blocks"][6];
    assert_eq!((&failed["language"], &failed["line"], &failed["number"]), (&"python".into(), &41.into(), &7.into()));
    assert_eq!(failed["report"]["error"]["name"], "ZeroDivisionError");
    assert_eq!(document["blocks"][0]["report"]["results"][0]["data"]["text/plain"], "(2, 1)");
}

#[test]
fn isolated_blocks_share_nothing() {
    let ran = blocks("```py\nx = 1\nx\n```\n\n```py\nx\n```\n", &["--isolated", "--feedback"]);
    assert_eq!(ran.code, Some(1));
    let feedback = ran.stdout_text();
    assert!(feedback.contains("Value: `1`") && feedback.contains("NameError"), "{feedback}");
    assert!(feedback.contains("- line 7: `x`"), "{feedback}");
}

#[test]
fn grants_and_limits_apply_to_all_blocks() {
    let folder = kit().folder().expect("a directory");
    kit().share_runtimes(&folder.path().join("home")).expect("shared runtimes");
    let data = folder.path().join("data");
    fs::create_dir(&data).expect("a directory");
    fs::write(data.join("a"), "text").expect("it is ours");
    let grant = format!("{}:/data", data.display());
    let text = "```py\nprint(open('/data/a').read())\n```\n\n```js\nconsole.log(require('fs').readFileSync('/data/a', 'utf8'))\n```\n";
    let ran = blocks_in(&folder, text, &["--dir", &grant]);
    assert_eq!((ran.code, ran.stdout_text().as_str()), (Some(0), "text\ntext\n"), "{}", ran.stderr_text());
    assert_eq!(blocks_in(&folder, text, &[]).code, Some(1));
    // A limit ends the interpreter, which an error does not, and the next block starts without state.
    let text = "```py\nx = 1\n```\n\n```py expect-error\nwhile True: pass\n```\n\n```py\nx\n```\n";
    let ran = blocks_in(&folder, text, &["--timeout", "300ms", "--keep-going", "--feedback"]);
    assert_eq!(ran.code, Some(124));
    let feedback = ran.stdout_text();
    assert!(feedback.contains("ended by the wall time limit of 300ms") && feedback.contains("NameError"), "{feedback}");
    assert!(feedback.contains("- line 10: `x`"), "{feedback}");
}

#[test]
fn blocks_of_a_shell_run_in_containers() {
    if let Err(reason) = check_engine(kit(), ENGINE) {
        assert!(!is_required(ENGINE), "{reason}");
        return;
    }
    let folder = kit().folder().expect("a directory");
    kit().home_with_engine(&folder.path().join("home"), ENGINE, "").expect("a home");
    let text =
        "```sh\necho \"$((6 * 7))\" > /tmp/a; cat /tmp/a\n```\n\n```sh\ncat /tmp/a || exit 3\n```\n\n```py\n1\n```\n";
    let ran = blocks_in(&folder, text, &["--image", BASE_IMAGE, "--feedback", "--keep-going"]);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr_text());
    let feedback = ran.stdout_text();
    assert!(feedback.contains("### Block 1 (sh, line 2): succeeded\n\nOutput: `42`"), "{feedback}");
    assert!(feedback.contains("failed with exit status 3"), "{feedback}");
    assert!(feedback.contains("Ran in container (podman"), "{feedback}");
    assert!(feedback.contains("(blocks 1, 2)") && feedback.contains("(blocks 3)"), "{feedback}");
}

#[test]
fn interrupted_blocks_end() {
    let folder = kit().folder().expect("a directory");
    kit().share_runtimes(&folder.path().join("home")).expect("shared runtimes");
    let file = folder.path().join("text.md");
    fs::write(&file, "```py\nprint('started', flush=True)\nwhile True: pass\n```\n\n```py\nprint('next')\n```\n")
        .expect("it is ours");
    let command = kit().codebox().home(&folder.path().join("home")).args(["blocks", "--keep-going"]).arg(&file);
    let mut command = command.command();
    // A terminal sends the signal to all processes of the group.
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut started = [0; 8];
    std::io::Read::read_exact(child.stdout.as_mut().expect("a pipe"), &mut started).expect("output");
    let pid = rustix::process::Pid::from_raw(child.id() as i32).expect("a number");
    rustix::process::kill_process_group(pid, rustix::process::Signal::INT).expect("it is ours");
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(130), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(ended.stdout, b"");
}

#[test]
fn values_that_cannot_be_written_are_reported() {
    let folder = kit().folder().expect("a directory");
    kit().share_runtimes(&folder.path().join("home")).expect("shared runtimes");
    let file = folder.path().join("text.md");
    fs::write(&file, "```py\n2\n```\n\n```py\n3\n```\n").expect("it is ours");
    let full = fs::File::options().write(true).open("/dev/full").expect("a device");
    let command = kit().codebox().home(&folder.path().join("home")).arg("blocks").arg(&file);
    let ended = command.command().stdout(full).output().expect("it runs");
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(125), "{stderr}");
    assert!(stderr.contains("cannot write to standard output: No space left"), "{stderr}");
}

#[test]
fn lines_of_evaluated_texts_are_not_those_of_a_block() {
    let text = "```py\nexec('\\n\\n\\n\\n1/0')\n```\n\n```py\n1\n```\n";
    let ran = blocks(text, &["--feedback"]);
    let feedback = ran.stdout_text();
    assert!(feedback.contains("- line 2: `exec(") && feedback.contains("- <string>, line 5"), "{feedback}");
}

#[test]
fn library_returns_the_reports() {
    let home = Home::new();
    for place in PLACES {
        let mut request = Request::python("");
        request.limits = LimitOverrides { wall: Some(Limit::At(Duration::from_secs(20))), ..LimitOverrides::default() };
        let options = Options { request, node_packages: Vec::new(), isolated: false, keep_going: false };
        let blocks = parse(TEXT).expect("few blocks");
        let runner = home.runner(place);
        let report = home.wait(run(&runner, blocks, &options, &mut Silent));
        assert!(!report.is_success());
        let failed = report.first_failed().expect("one failed");
        assert_eq!((failed.block.number, failed.block.line), (7, 41));
        let result = failed.result.as_ref().expect("it was run").as_ref().expect("a report");
        assert_eq!(result.outcome, Outcome::Exited(1));
        assert_eq!(report.blocks[7].status, BlockStatus::NotRun);
    }
}
