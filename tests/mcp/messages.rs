//! The tools, by their messages.

use std::fs;

use codebox_testkit::{check_engine, is_required};
use serde_json::{Value, json};

use crate::client::{Client, kit};

fn text(result: &Value) -> String {
    result["content"][0]["text"].as_str().expect("a text").to_owned()
}

#[test]
fn programs_return_output_value_images_and_files() {
    let mut client = Client::start(&[]);
    let run =
        client.structured("run", json!({ "code": "import sys\nprint('out')\nprint('err', file=sys.stderr)\n6 * 7" }));
    assert_eq!((&run["stdout"], &run["stderr"], &run["value"]), (&json!("out\n"), &json!("err\n"), &json!("42")));
    assert_eq!(
        (&run["outcome"], &run["exit_status"], &run["isolation"]),
        (&json!("exited"), &json!(0), &json!("wasm"))
    );
    // Images that the program shows, and files that it leaves.
    let code = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nopen('a.csv', 'w').write('x,y')\nopen('b.bin', 'wb').write(b'\\xff\\0')\n\
        import os; os.symlink('/etc/passwd', 'link')";
    let outputs = json!(["a.csv", "b.bin", "link", "../a", "missing", "/etc/passwd"]);
    let result = client.call("run", json!({ "code": code, "outputs": outputs }));
    let content = result["content"].as_array().expect("a list");
    let kinds: Vec<&str> = content.iter().map(|one| one["type"].as_str().expect("a type")).collect();
    assert_eq!(kinds, ["text", "image", "resource", "resource", "text", "text", "text", "text"], "{result}");
    assert_eq!(content[1]["mimeType"], "image/png");
    assert_eq!(content[2]["resource"]["text"], "x,y");
    assert_eq!(content[3]["resource"]["blob"], "/wA=");
    assert!(!result.to_string().contains("root:"), "{result}");
    // Files that it gets.
    let files = json!([{ "path": "dir/a.txt", "text": "text" }, { "path": "/work/b", "base64": "AQI=" }]);
    let code = "const fs = require('fs'); console.log(fs.readFileSync('dir/a.txt', 'utf8'), fs.readFileSync('b').length, process.argv[1])";
    let arguments = json!({ "code": code, "language": "javascript", "files": files, "args": ["x"] });
    assert_eq!(client.structured("run", arguments)["stdout"], "text 2 x\n");
    let input = json!({ "code": "console.log((require('fs').readFileSync(0, 'utf8') as string).length)", "language": "typescript", "stdin": "abc" });
    assert_eq!(client.structured("run", input)["stdout"], "3\n");
}

#[test]
fn failures_are_errors_that_a_model_can_read() {
    let mut client = Client::start(&[]);
    let failed = client.call("run", json!({ "code": "x = 0\n1 / x" }));
    assert_eq!((&failed["isError"], &failed["structuredContent"]["success"]), (&json!(true), &json!(false)));
    assert_eq!(failed["structuredContent"]["error"]["name"], "ZeroDivisionError");
    assert!(
        text(&failed).contains("Error: `ZeroDivisionError: division by zero`\n- <string>, line 2: `1 / x`"),
        "{failed}"
    );
    let limit = client.call("run", json!({ "code": "while True: pass", "timeout_seconds": 0.3 }));
    assert_eq!((&limit["isError"], &limit["structuredContent"]["limit"]), (&json!(true), &json!("wall")), "{limit}");
    let long = client.structured("run", json!({ "code": "print('line\\n' * 100000)" }));
    let stdout = long["stdout"].as_str().expect("a text");
    assert!(stdout.ends_with("...[truncated]") && stdout.len() < 4100, "{} bytes", stdout.len());
    // The whole text is in a file.
    let note = long["notes"][0].as_str().expect("a note");
    let file = note.strip_prefix("the output to stdout (500001 bytes) is in ").unwrap_or_else(|| panic!("{note}"));
    assert_eq!(std::fs::read_to_string(file).expect("the file is kept"), "line\n".repeat(100_000) + "\n");
    std::fs::remove_file(file).expect("it is ours");
    // Wrong arguments are named.
    let hostile = "\u{1b}[2J".repeat(10_000);
    let wrong: [(&str, Value, &str); 10] = [
        ("run", json!({}), "missing field `code`"),
        ("run", json!({ "code": 1 }), "invalid type"),
        ("run", json!({ "code": "1", "dirs": ["/:/host"] }), "unknown field `dirs`"),
        ("run", json!({ "code": "1", "language": "cobol" }), "unknown variant"),
        ("run", json!({ "code": "1", "timeout_seconds": -1 }), "timeout_seconds"),
        ("run", json!({ "code": "1", hostile.clone(): 1 }), "unknown field"),
        ("run", json!({ "code": "1", "files": [{ "path": "/etc/passwd", "text": "" }] }), "/etc"),
        ("run", json!({ "code": "1", "files": [{ "path": "a" }] }), "text or base64"),
        ("run", json!({ "code": "1", "packages": ["../../x"] }), "../../x"),
        ("session_exec", json!({ "session": hostile, "code": "1" }), "there is no session"),
    ];
    for (tool, arguments, expected) in wrong {
        let result = client.call(tool, arguments);
        let shown = text(&result);
        assert_eq!(result["isError"], true, "{shown}");
        assert!(shown.contains(expected) && !shown.contains('\u{1b}') && shown.len() < 2000, "{shown:?}");
    }
    let unknown = client.request("tools/call", json!({ "name": "none", "arguments": {} }));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
}

#[test]
fn sessions_keep_their_state() {
    let mut client = Client::start(&[]);
    let created = client.structured("session_new", json!({}));
    let id = created["sessions"][0].as_str().expect("an id").to_owned();
    let exec = |client: &mut Client, id: &str, code: &str| {
        client.structured("session_exec", json!({ "session": id, "code": code }))
    };
    exec(&mut client, &id, "x = 41");
    assert_eq!(exec(&mut client, &id, "x + 1")["value"], "42");
    client.structured("session_checkpoint", json!({ "session": id, "name": "before" }));
    let forks = client.structured("session_fork", json!({ "session": id, "count": 2 }));
    let fork = forks["sessions"][1].as_str().expect("an id").to_owned();
    exec(&mut client, &fork, "x = 1");
    exec(&mut client, &id, "x = 0");
    client.structured("session_restore", json!({ "session": id, "name": "before" }));
    assert_eq!(
        (&exec(&mut client, &id, "x")["value"], &exec(&mut client, &fork, "x")["value"]),
        (&json!("41"), &json!("1"))
    );
    let failed = client.call("session_exec", json!({ "session": id, "code": "1 / 0" }));
    assert_eq!((&failed["isError"], &failed["structuredContent"]["state_kept"]), (&json!(true), &json!(true)));
    let listed = client.structured("session_list", json!({}));
    assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(3), "{listed}");
    client.structured("session_stop", json!({ "session": fork }));
    let listed = client.structured("session_list", json!({}));
    assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(2), "{listed}");
}

#[test]
fn cells_have_input_and_files() {
    let mut client = Client::start(&[]);
    let created = client.structured("session_new", json!({}));
    let id = &created["sessions"][0];
    let cell = json!({
        "session": id,
        "code": "input() + open('in/a.txt').read() + str(len(open('b', 'rb').read()))",
        "stdin": "line\n",
        "files": [{ "path": "in/a.txt", "text": "text" }, { "path": "/work/b", "base64": "AAEC" }],
    });
    assert_eq!(client.structured("session_exec", cell)["value"], "'linetext3'");
    for (files, expected) in [
        (json!([{ "path": "/etc/passwd", "text": "" }]), "/etc/passwd"),
        (json!([{ "path": "a" }]), "text or base64"),
        (json!([{ "path": "../a", "text": "" }]), "../a"),
    ] {
        let refused = client.call("session_exec", json!({ "session": id, "code": "1", "files": files }));
        assert!(refused["isError"] == true && text(&refused).contains(expected), "{refused}");
    }
    let code = "_ = open('out.txt', 'w').write('new'); open('out.bin', 'wb').write(bytes([255, 0]))";
    assert_eq!(client.structured("session_exec", json!({ "session": id, "code": code }))["value"], "2");
    for outputs in [json!(["in/../../x"]), json!(["/etc/passwd"]), json!(vec!["x"; 17])] {
        let cell = json!({ "session": id, "code": "1", "outputs": outputs });
        assert_eq!(client.call("session_exec", cell)["isError"], true, "{outputs}");
    }
    let cell = json!({ "session": id, "code": "1", "outputs": ["out.txt", "/work/out.bin", "missing", "/tmp/x"] });
    let returned = client.call("session_exec", cell);
    assert_eq!(returned["content"][1]["resource"]["text"], "new", "{returned}");
    assert_eq!(returned["content"][2]["resource"]["blob"], "/wA=");
    for (index, name) in [(3, "missing"), (4, "/tmp/x")] {
        let reason = returned["content"][index]["text"].as_str().expect("a reason");
        assert!(reason.contains(name) && reason.contains("there is no such file"), "{reason}");
    }
    let large = json!({ "session": id, "code": "1", "stdin": "x".repeat(25 << 20) });
    let refused = client.call("session_exec", large);
    assert!(text(&refused).contains("more than 25165824 bytes"), "{refused}");
    assert_eq!(client.structured("session_exec", json!({ "session": id, "code": "1 + 1" }))["value"], "2");
}

#[test]
fn sessions_in_containers_have_files() {
    for engine in ["podman", "docker"] {
        if let Err(reason) = check_engine(kit(), engine) {
            assert!(!is_required(engine), "{reason}");
            continue;
        }
        let folder = kit().folder().expect("a directory");
        let home = folder.path().join("home");
        kit().home_with_engine(&home, engine, "").expect("a home");
        let mut client = Client::start_in(&home, &[]);
        let created = client.structured("session_new", json!({ "isolation": "container" }));
        let id = &created["sessions"][0];
        for content in ["one", "two"] {
            let file = json!([{ "path": "in/a.txt", "text": content }]);
            let cell = json!({ "session": id, "code": "x = 1; open('in/a.txt').read()", "files": file });
            let ran = client.structured("session_exec", cell);
            let cell = json!({ "session": id, "code": "1", "outputs": ["in/a.txt", "/tmp/none"] });
            let returned = client.call("session_exec", cell);
            assert_eq!(returned["content"][1]["resource"]["text"], content, "{returned}");
            assert!(
                returned["content"][2]["text"].as_str().is_some_and(|why| why.contains("no such file")),
                "{returned}"
            );
            assert_eq!((&ran["value"], &ran["isolation"]), (&json!(format!("'{content}'")), &json!("container")));
        }
        for refused in [json!({ "stdin": "text" }), json!({ "files": [{ "path": "/etc/a", "text": "" }] })] {
            let mut cell = json!({ "session": id, "code": "1" });
            let members = refused.as_object().expect("an object").clone();
            cell.as_object_mut().expect("an object").extend(members);
            assert_eq!(client.call("session_exec", cell)["isError"], true, "{refused}");
        }
        assert_eq!(client.structured("session_exec", json!({ "session": id, "code": "x" }))["value"], "1");
        client.structured("session_stop", json!({ "session": id }));
    }
}

#[test]
fn packages_are_listed() {
    let mut client = Client::start(&[]);
    let packages = client.structured("packages", json!({}));
    let built_in = packages["built_in"].as_array().expect("a list");
    assert!(built_in.iter().any(|package| package["name"] == "numpy" && package["version"].is_string()), "{packages}");
    let packages = client.structured("packages", json!({ "language": "javascript" }));
    assert_eq!(packages["built_in"], json!([]), "{packages}");
}

#[test]
fn blocks_and_explanations_are_tools() {
    let mut client = Client::start(&[]);
    let blocks =
        client.call("run_blocks", json!({ "text": "```py\nx = 1\n```\n\n```py\nx / 0\n```\n\n```py\n2\n```\n" }));
    let statuses: Vec<&Value> = (0..3).map(|at| &blocks["structuredContent"]["blocks"][at]["status"]).collect();
    assert_eq!(statuses, ["passed", "failed", "not_run"]);
    assert!(text(&blocks).contains("- line 6: `x / 0`"), "{blocks}");
    let explained = client.structured("explain", json!({ "code": "print(1)" }));
    assert_eq!((&explained["isolation"], &explained["backend"]), (&json!("wasm"), &json!("wasm")));
}

#[test]
fn programs_have_the_grants_of_the_operator_alone() {
    let read = json!({ "code": "print(open('/data/a').read())" });
    let mut without = Client::start(&[]);
    assert_eq!(without.call("run", read.clone())["isError"], true);
    let mut granted = Client::start(&["--dir", "FOLDER/data:/data", "--timeout", "2s"]);
    fs::write(granted.folder.path().join("data/a"), "text").expect("it is ours");
    assert_eq!(granted.structured("run", read.clone())["stdout"], "text\n");
    assert_eq!(granted.call("run", json!({ "code": "open('/data/b', 'w')" }))["isError"], true);
    // Sessions and blocks have the same grants.
    let created = granted.structured("session_new", json!({}));
    let cell = json!({ "session": created["sessions"][0], "code": read["code"] });
    assert_eq!(granted.structured("session_exec", cell)["stdout"], "text\n");
    let limit = granted.call("run", json!({ "code": "while True: pass" }));
    assert_eq!(limit["structuredContent"]["outcome"], "limit_hit");
    let longer = granted.call("run", json!({ "code": "1", "timeout_seconds": 3 }));
    assert!(text(&longer).contains("at most 2"), "{longer}");
}

#[test]
fn roots_are_granted_only_if_the_operator_allows_it() {
    for (args, is_read, is_written) in
        [(&[][..], false, false), (&["--roots", "ro"][..], true, false), (&["--roots", "rw"][..], true, true)]
    {
        let mut client = Client::start(args);
        let root = client.folder.path().join("a root");
        fs::create_dir(&root).expect("a directory");
        fs::write(root.join("a"), "text").expect("it is ours");
        let shown = root.to_str().expect("it is UTF-8").to_owned();
        client.roots = vec![format!("file://{}", shown.replace(' ', "%20"))];
        let read = client.call("run", json!({ "code": format!("print(open({shown:?} + '/a').read())") }));
        assert_eq!(read["structuredContent"]["success"], is_read, "{args:?}: {read}");
        let write = client.call("run", json!({ "code": format!("open({shown:?} + '/b', 'w').write('')") }));
        assert_eq!(write["structuredContent"]["success"], is_written, "{args:?}: {write}");
        if args.is_empty() {
            continue;
        }
        // A root that is granted already is granted once, and a session needs none.
        client.roots = vec![client.roots[0].clone(), client.roots[0].clone() + "/"];
        assert_eq!(client.structured("run", json!({ "code": "6 * 7" }))["value"], "42");
        let created = client.structured("session_new", json!({}));
        client.roots = vec!["bad".to_owned()];
        let cell = json!({ "session": created["sessions"][0], "code": "6 * 7" });
        assert_eq!(client.structured("session_exec", cell)["value"], "42");
        // A root that cannot be granted is named.
        for uri in ["https://example.org/a", "file:///", "file://host/a", "file:///proc"] {
            client.roots = vec![uri.to_owned()];
            let refused = client.call("run", json!({ "code": "1" }));
            assert_eq!(refused["isError"], true, "{uri}: {refused}");
        }
        // The directories of codebox are no roots.
        client.roots = vec![format!("file://{}", client.folder.path().join("home").display())];
        assert_eq!(client.call("run", json!({ "code": "1" }))["isError"], true);
    }
}

#[test]
fn calls_can_be_cancelled_and_show_progress() {
    // Without a cancellation, the programs would not end within the time of the tests.
    let mut client = Client::start(&["--max-calls", "1", "--timeout", "1h"]);
    let code =
        "import time, itertools\nfor i in itertools.count():\n    print('step', i, flush=True)\n    time.sleep(0.01)";
    let params = json!({ "name": "run", "arguments": { "code": code }, "_meta": { "progressToken": "p" } });
    let id = client.begin("tools/call", params);
    let progress = loop {
        let message = client.receive().expect("a message");
        if message["method"] == "notifications/progress" {
            break message;
        }
    };
    assert_eq!(progress["params"]["progressToken"], "p");
    assert!(progress["params"]["message"].as_str().expect("a text").starts_with("step "), "{progress}");
    let reason = json!({ "requestId": id, "reason": "test" });
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": reason }));
    // The only place for calls is free again.
    assert_eq!(client.structured("run", json!({ "code": "1" }))["value"], "1");
    // A session whose cell is cancelled says so in its next cell.
    let created = client.structured("session_new", json!({}));
    let cell = json!({ "session": created["sessions"][0], "code": "print('started', flush=True)\nwhile True: pass" });
    let params = json!({ "name": "session_exec", "arguments": cell, "_meta": { "progressToken": 7 } });
    let id = client.begin("tools/call", params);
    while client.receive().expect("a message")["params"]["progressToken"] != 7 {}
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }));
    let cell = json!({ "session": created["sessions"][0], "code": "1 + 1" });
    assert_eq!(client.structured("session_exec", cell)["value"], "2");
}

#[test]
fn last_line_of_output_is_told_before_the_result() {
    let mut client = Client::start(&[]);
    let code = "for i in range(100):\n    print(i, flush=True)\nprint('last', flush=True)";
    let text = format!("```py\n{code}\n```\n");
    for (tool, arguments) in [("run", json!({ "code": code })), ("run_blocks", json!({ "text": text }))] {
        client.notifications.clear();
        let params = json!({ "name": tool, "arguments": arguments, "_meta": { "progressToken": 1 } });
        let id = client.begin("tools/call", params);
        client.answer(id);
        let last = client.notifications.last().expect("a notification");
        assert_eq!(last["params"]["message"], "last", "{tool}: {:?}", client.notifications);
    }
}

#[test]
fn sessions_of_others_cannot_be_used() {
    let mut owner = Client::start(&["--dir", "FOLDER/data:/data:rw"]);
    let created = owner.structured("session_new", json!({}));
    let id = created["sessions"][0].clone();
    let home = owner.folder.path().join("home");
    let cell = json!({ "session": id, "code": "open('/data/written', 'w').write('')" });
    let mut other = Client::start_in(&home, &[]);
    for (tool, arguments) in [
        ("session_exec", cell.clone()),
        ("session_fork", json!({ "session": id })),
        ("session_checkpoint", json!({ "session": id, "name": "a" })),
        ("session_restore", json!({ "session": id, "name": "a" })),
        ("session_stop", json!({ "session": id })),
    ] {
        let refused = other.call(tool, arguments);
        assert!(refused["isError"] == true && text(&refused).contains("no session"), "{tool}: {refused}");
    }
    assert_eq!(other.structured("session_list", json!({}))["sessions"], json!([]));
    assert!(!owner.folder.path().join("data/written").exists());
    let mut allowed = Client::start_in(&home, &["--all-sessions"]);
    assert_eq!(allowed.structured("session_list", json!({}))["sessions"][0]["id"], id);
    allowed.structured("session_exec", cell);
    assert!(owner.folder.path().join("data/written").exists());
}

#[test]
fn lost_states_are_reported() {
    let mut client = Client::start(&[]);
    let created = client.structured("session_new", json!({}));
    let exec = |client: &mut Client, code: &str, timeout: f64| {
        let cell = json!({ "session": created["sessions"][0], "code": code, "timeout_seconds": timeout });
        client.call("session_exec", cell)
    };
    exec(&mut client, "x = 1", 10.0);
    client.structured("session_checkpoint", json!({ "session": created["sessions"][0], "name": "before" }));
    exec(&mut client, "x = 2", 10.0);
    let ended = exec(&mut client, "while True: pass", 0.3);
    assert_eq!(ended["structuredContent"]["state_kept"], false);
    assert!(text(&ended).contains("the interpreter has ended"), "{ended}");
    let next = exec(&mut client, "x", 10.0);
    let content = &next["structuredContent"];
    assert_eq!((&content["value"], &content["restored_from"]), (&json!("1"), &json!("before")), "{next}");
    assert!(text(&next).contains("started from its checkpoint before"), "{next}");
}

#[test]
fn mistakes_of_the_operator_are_reported_at_the_start() {
    let mut client = Client::start_without_handshake(&["--dir", "/nonexistent:/data"]);
    assert!(client.receive().is_none());
    assert_eq!(client.child.wait().expect("it ends").code(), Some(126));
    let mut client = Client::start_without_handshake(&[]);
    client.close();
    assert_eq!(client.child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn clients_without_a_handshake_are_served() {
    let mut client = Client::start_without_handshake(&[]);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "name": "run", "arguments": { "code": "6 * 7" }, "_meta": meta });
    let answer = client.request("tools/call", params);
    assert_eq!(answer["result"]["structuredContent"]["value"], "42", "{answer}");
}

#[test]
fn messages_that_break_the_protocol_end_no_program_of_others() {
    for line in ["{", "null", "[]", "\u{0}", "{\"jsonrpc\":\"2.0\"}", "{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":1}"] {
        let mut client = Client::start(&[]);
        client.send_line(line);
        let id = client.begin("tools/call", json!({ "name": "run", "arguments": { "code": "1" } }));
        // The message is ignored or answered, or the server ends; it does not hang.
        while let Some(message) = client.receive() {
            if message["id"] == id {
                assert_eq!(message["result"]["structuredContent"]["value"], "1", "{line:?}: {message}");
                break;
            }
        }
    }
}

#[test]
fn server_ends_with_its_input() {
    let mut client = Client::start(&[]);
    client.begin("tools/call", json!({ "name": "run", "arguments": { "code": "while True: pass" } }));
    client.close();
    while client.receive().is_some() {}
    assert_eq!(client.child.wait().expect("it ends").code(), Some(0));
}

/// The tools that the operator grants to programs are tools of the server as well.
#[test]
fn granted_tools_are_served() {
    let first = Client::start(&[]);
    let home = first.folder.path().join("home");
    let config = home.join("config");
    std::fs::create_dir_all(&config).expect("a directory");
    let tools = "[tools.double]\ndescription = 'Doubles a number.'\nrun = 'double.py'\n\
                 input = { type = 'object', properties = { n = { type = 'integer' } }, required = ['n'] }\n\
                 [tools.run]\nrun = 'double.py'\n[tools.other]\nrun = 'double.py'\n";
    std::fs::write(config.join("config.toml"), tools).expect("it is ours");
    let program = "import json, sys\nprint(json.dumps({'value': json.load(sys.stdin)['n'] * 2}))";
    std::fs::write(config.join("double.py"), program).expect("it is ours");
    let mut client = Client::start_in(&home, &["--tool", "double", "--tool", "run"]);
    let listed = client.request("tools/list", json!({}));
    let listed = listed["result"]["tools"].as_array().expect("a list");
    let named = |name: &str| listed.iter().filter(|tool| tool["name"] == name).collect::<Vec<_>>();
    assert_eq!(named("double")[0]["description"], "Doubles a number.");
    assert_eq!(named("double")[0]["inputSchema"]["required"], json!(["n"]));
    assert_eq!((named("run").len(), named("other").len()), (1, 0));
    assert_eq!(client.call("double", json!({ "n": 21 }))["structuredContent"], json!({ "value": 42 }));
    let refused = client.call("double", json!({ "n": "x" }));
    assert_eq!(refused["isError"], true);
    assert!(text(&refused).starts_with("invalid_input: "), "{refused}");
    let audited = kit().codebox().home(&home).args(["audit", "list", "--json"]).run().expect("a list").stdout_text();
    let audited: Value = serde_json::from_str(&audited).expect("a document");
    let events = audited["records"].as_array().expect("a list").iter().map(|record| &record["event"]);
    let kinds = |name: &str| events.clone().filter(|event| event["type"] == name).count();
    assert_eq!((kinds("called"), kinds("returned")), (2, 2), "{audited}");
    assert_eq!(client.structured("run", json!({ "code": "1 + 1" }))["value"], "2");
}
