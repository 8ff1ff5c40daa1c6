//! `codebox session`, and the process that keeps the sessions.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use codebox_testkit::Input;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::session_home::{SessionHome, kill};

#[test]
fn sessions_are_written_to_files() {
    let home = SessionHome::new();
    let id = home.new_session();
    home.exec(&id, "x = 41");
    home.ok(&["checkpoint", &id, "--name", "before"]);
    home.exec(&id, "x = 0");
    let file = home.0.path().join("s.codebox");
    let name = file.to_str().expect("it is UTF-8");
    assert_eq!(home.ok(&["export", &id, name]), "");
    let before = home.run(&["export", &id, "-", "--checkpoint", "before"]);
    assert_eq!(before.code, Some(0), "{}", before.stderr_text());
    // The file is the user's alone, and is replaced.
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
    let imported = home.ok(&["import", name]);
    assert!(imported.ends_with('\n') && imported.trim().chars().all(|c| c.is_ascii_hexdigit()), "{imported:?}");
    assert_eq!(home.exec(imported.trim(), "x"), "0\n");
    fs::write(&file, &before.stdout).expect("it is ours");
    let imported = home.ok(&["import", name]);
    assert_eq!(home.exec(imported.trim(), "x + 1"), "42\n");
    // It survives a process that is killed at once.
    let imported = home.ok(&["import", name]);
    kill_process(Pid::from_raw(home.keeper()).expect("a number"), Signal::KILL).expect("it is ours");
    assert_eq!(home.exec(imported.trim(), "x + 1"), "42\n");
    // A file that is refused leaves no session.
    let count = || home.json(&["list", "--json"])["sessions"].as_array().map(Vec::len);
    let sessions = count();
    for damaged in [&before.stdout[..100_000], &before.stdout[..10], b"", &vec![b'x'; 1_000_000]] {
        fs::write(&file, damaged).expect("it is ours");
        let refused = home.run(&["import", name]);
        assert_eq!((refused.code, refused.stdout_text().as_str()), (Some(125), ""));
        let expected = format!("codebox: {name}: cannot import the session: ");
        assert!(refused.stderr_text().starts_with(&expected), "{}", refused.stderr_text());
    }
    // A link stays one, a pipe is written to, and other places of the file are errors.
    let (link, pipe) = (home.0.path().join("link"), home.0.path().join("pipe"));
    let target = home.0.path().join("target");
    fs::write(&target, "").expect("it is ours");
    std::os::unix::fs::symlink(&target, &link).expect("it is ours");
    home.ok(&["export", &id, "--checkpoint", "before", link.to_str().expect("it is UTF-8")]);
    assert!(link.is_symlink() && fs::metadata(&target).expect("a file").len() > 100_000);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600), 0)
        .expect("a pipe");
    let reader = thread::spawn({
        let pipe = pipe.clone();
        move || fs::read(pipe).expect("it is read")
    });
    home.ok(&["export", &id, "--checkpoint", "before", pipe.to_str().expect("it is UTF-8")]);
    assert!(reader.join().expect("it ends").starts_with(b"codebox session 1\n"));
    assert!(!fs::metadata(&pipe).expect("a pipe").is_file());
    let missing = home.run(&["export", "0000000000", name]);
    assert_eq!(missing.code, Some(125));
    // The file of before is still there, because the new one was not complete.
    assert_eq!(fs::metadata(&file).expect("a file").len(), 1_000_000);
    assert_eq!(count(), sessions);
    // A session whose id cannot be printed does not stay.
    fs::write(&file, &before.stdout).expect("it is ours");
    for args in [&["import", name][..], &["new"], &["fork", imported.trim()]] {
        let full = fs::File::options().write(true).open("/dev/full").expect("a device");
        let status = home.command(args).command().stdout(full).status().expect("it runs");
        assert_eq!((status.code(), count()), (Some(125), sessions), "{args:?}");
    }
}

/// A client that does not read its file does not keep the session from others.
#[test]
fn a_slow_export_does_not_block_the_session() {
    let home = SessionHome::new();
    let id = home.new_session();
    home.exec(&id, "import random; data = random.randbytes(50_000_000)");
    let mut export = home.command(&["export", &id, "-"]).command();
    let mut export = export.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut start = [0; 18];
    std::io::Read::read_exact(export.stdout.as_mut().expect("a pipe"), &mut start).expect("it is exported");
    assert_eq!(home.exec(&id, "len(data)"), "50000000\n");
    home.ok(&["stop", &id]);
    export.kill().expect("it is ours");
    export.wait().expect("it ends");
}

#[test]
fn cells_print_their_output_and_value() {
    let home = SessionHome::new();
    let id = home.new_session();
    assert_eq!(home.exec(&id, "x = 41"), "");
    assert_eq!(home.exec(&id, "x + 1"), "42\n");
    assert_eq!(home.exec(&id, "print('out'); 'value'"), "out\n'value'\n");
    assert_eq!(home.exec(&id, "display(1); 2"), "1\n2\n");
    let failed = home.run(&["exec", &id, "-c", "print('so far')\n1/0"]);
    assert_eq!((failed.code, failed.stdout_text().as_str()), (Some(1), "so far\n"));
    assert!(failed.stderr_text().ends_with("ZeroDivisionError: division by zero\n"), "{}", failed.stderr_text());
    let document = home.json(&["exec", &id, "--json", "-c", "print('o'); x"]);
    assert_eq!(document["session"]["kept"], true);
    assert_eq!((&document["stdout"], &document["results"][0]["data"]["text/plain"]), (&"o\n".into(), &"41".into()));
    let layers = document["enforcement"]["walls"].as_array().expect("a list");
    assert!(layers.iter().all(|layer| layer["state"] == "held") && layers.len() == 2, "{layers:?}");
    let cell = home.0.path().join("cell.py");
    fs::write(&cell, "x += 1\nx").expect("a file");
    assert_eq!(home.ok(&["exec", &id, cell.to_str().expect("UTF-8")]), "42\n");
    let piped = home.command(&["exec", &id, "-"]).input(codebox_testkit::Input::Bytes(b"x * 2".to_vec()));
    assert_eq!(piped.run().expect("it runs").stdout_text(), "84\n");
    assert_eq!(home.run(&["exec", &id, "-c", "import sys; sys.exit(7)"]).code, Some(7));
    assert_eq!(home.exec(&id, "x"), "42\n");
}

#[test]
fn sessions_are_forked_saved_and_restored() {
    let home = SessionHome::new();
    let id = home.new_session();
    home.exec(&id, "import os; x = 1; open('f', 'w').write('one')");
    home.ok(&["checkpoint", &id, "--name", "before"]);
    home.exec(&id, "x = 2; open('f', 'w').write('two')");
    let forks = home.ok(&["fork", &id, "-n", "3"]);
    let forks: Vec<&str> = forks.lines().collect();
    assert_eq!(forks.iter().collect::<BTreeSet<_>>().len(), 3);
    for fork in &forks {
        assert_eq!(home.exec(fork, "x, open('f').read()"), "(2, 'two')\n");
    }
    home.exec(forks[0], "x = 3");
    assert_eq!(home.exec(forks[1], "x"), "2\n");
    home.ok(&["restore", &id, "before"]);
    assert_eq!(home.exec(&id, "x, open('f').read()"), "(1, 'one')\n");
    let listed = home.json(&["list", "--json"]);
    let listed = listed["sessions"].as_array().expect("a list");
    let found = listed.iter().find(|session| session["id"] == id.as_str()).expect("the session");
    assert_eq!((found["checkpoints"].to_string().as_str(), &found["state"]), ("[\"before\"]", &"live".into()));
    assert_eq!(listed.len(), 4);
    assert!(home.ok(&["list"]).starts_with("ID "));
    assert!(home.ok(&["show", &id]).contains("checkpoint   before\n"));
    let mut all = vec!["stop"];
    all.extend(&forks);
    all.push(&id);
    assert_eq!(home.ok(&all), "");
    assert!(!home.saved(&id).exists());
    assert_eq!(home.json(&["list", "--json"])["sessions"].as_array().map(Vec::len), Some(0));
}

#[test]
fn mistakes_are_named() {
    let home = SessionHome::new();
    let id = home.new_session();
    let cases: [(&[&str], &str); 8] = [
        (&["exec", "nosuch", "-c", "1"], "there is no session nosuch\n  fix: see codebox session list"),
        (&["exec", "\u{1b}[2J", "-c", "1"], "there is no session ?[2J\n"),
        (&["checkpoint", &id, "--name", "c"], "no cell has run in it"),
        (&["checkpoint", &id, "--name", "../c"], "the checkpoint name \"../c\" is invalid"),
        (&["restore", &id, "nosuch"], "has no checkpoint \"nosuch\""),
        (&["fork", &id, "-n", "0"], "the number must be from 1 to 1024"),
        (&["new", "--lang", "cobol"], "cobol"),
        (&["exec", &id, "/nonexistent.py"], "cannot read the cell from /nonexistent.py"),
    ];
    for (args, expected) in cases {
        let ran = home.run(args);
        let text = ran.stderr_text();
        let is_short =
            text.lines().all(|line| !line.starts_with("codebox: ")) || text.matches("codebox: ").count() == 1;
        assert!(text.contains(expected) && is_short, "{args:?}: {text}");
        assert_ne!(ran.code, Some(0), "{args:?}");
        assert_eq!(ran.stdout_text(), "");
    }
    let denied = home.run(&["new", "--dir", "/nonexistent:/data"]);
    assert!(denied.code != Some(0) && denied.stderr_text().contains("/nonexistent"), "{}", denied.stderr_text());
}

#[test]
fn parked_sessions_survive_the_process() {
    let home = SessionHome::new();
    let id = home.new_session();
    home.exec(&id, "x = list(range(5)); open('f', 'w').write('kept')");
    home.ok(&["park", &id]);
    assert_eq!(home.json(&["show", &id, "--json"])["state"], "parked");
    kill(home.keeper());
    assert_eq!(home.exec(&id, "sum(x), open('f').read()"), "(10, 'kept')\n");
    // A process that ends by itself saves all sessions.
    home.exec(&id, "x.append(90)");
    let keeper = home.keeper();
    home.ok(&["end"]);
    let start = Instant::now();
    while Path::new(&format!("/proc/{keeper}/exe")).exists() {
        assert!(start.elapsed() < Duration::from_secs(20), "it does not end");
        thread::sleep(Duration::from_millis(5));
    }
    let document = home.json(&["exec", &id, "--json", "-c", "sum(x)"]);
    assert_eq!(document["results"][0]["data"]["text/plain"], "100");
    assert_eq!(document["session"].to_string(), "{\"kept\":true}");
}

/// A session that was forked or restored, and in which no cell has run since, is saved as well.
#[test]
fn unused_forks_are_saved() {
    let home = SessionHome::new();
    let id = home.new_session();
    home.exec(&id, "x = 41; open('f', 'w').write('kept')");
    let forks = home.ok(&["fork", &id, "-n", "3"]);
    let forks: Vec<&str> = forks.lines().collect();
    home.ok(&["park", forks[0]]);
    home.ok(&["checkpoint", forks[1], "--name", "c"]);
    home.ok(&["checkpoint", &id, "--name", "c"]);
    home.ok(&["restore", &id, "c"]);
    home.ok(&["park", &id]);
    home.ok(&["end"]);
    for one in [&id.as_str(), &forks[0], &forks[1], &forks[2]] {
        let ran = home.run(&["exec", one, "-c", "x, open('f').read()"]);
        assert_eq!((ran.stdout_text().as_str(), ran.stderr_text().as_str()), ("(41, 'kept')\n", ""));
    }
}

#[test]
fn refused_cells_change_nothing() {
    let home = SessionHome::new();
    let dir = home.0.path().join("granted");
    fs::create_dir(&dir).expect("a directory");
    let id = home.ok(&["new", "--dir", &format!("{}:/data", dir.display())]);
    let id = id.trim();
    let large = home.0.path().join("large.py");
    fs::write(&large, "#".repeat(17 << 20)).expect("a file");
    home.exec(id, "x = 41");
    for parks in [false, true] {
        if parks {
            home.ok(&["park", id]);
        }
        let ran = home.run(&["exec", id, large.to_str().expect("UTF-8")]);
        assert!(ran.stderr_text().contains("larger than 16 MiB"), "{}", ran.stderr_text());
        fs::remove_dir(&dir).expect("it is ours");
        assert_ne!(home.run(&["exec", id, "-c", "1"]).code, Some(0));
        fs::create_dir(&dir).expect("a directory");
        assert_eq!(home.exec(id, "x"), "41\n");
    }
    let refused = home.run(&["new", "--lang", "lua"]);
    assert!(refused.code != Some(0) && refused.stdout_text().is_empty(), "{}", refused.stderr_text());
}

#[test]
fn parked_states_are_those_to_come_back_to() {
    let home = SessionHome::new();
    let id = home.new_session();
    home.exec(&id, "import random; random.seed(42); x = 1");
    home.ok(&["checkpoint", &id, "--name", "one"]);
    home.exec(&id, "x = 2");
    home.ok(&["park", &id]);
    // The numbers go on as if the session had not been parked.
    assert_eq!(home.exec(&id, "random.random()"), "0.6394267984578837\n");
    assert_ne!(home.run(&["exec", &id, "--timeout", "200ms", "-c", "x = 3\nwhile True: pass"]).code, Some(0));
    assert_eq!(home.json(&["show", &id, "--json"])["state"], "lost");
    let ran = home.run(&["exec", &id, "-c", "x"]);
    assert_eq!(ran.stdout_text(), "2\n");
    assert!(ran.stderr_text().contains("was restored from the checkpoint parked"), "{}", ran.stderr_text());
    home.ok(&["restore", &id, "one"]);
    assert_eq!(home.exec(&id, "x"), "1\n");
}

#[test]
fn cells_that_wait_can_be_cancelled() {
    let home = SessionHome::new();
    let id = home.new_session();
    home.exec(&id, "x = 7; import time");
    let mut first = home.command(&["exec", &id, "-c", "time.sleep(1)"]).command().spawn().expect("it starts");
    thread::sleep(Duration::from_millis(200));
    let mut command = home.command(&["exec", &id, "--json", "-c", "x = 8"]).command();
    let second = command.stdout(Stdio::piped()).spawn().expect("it starts");
    thread::sleep(Duration::from_millis(200));
    kill_process(Pid::from_child(&second), Signal::TERM).expect("it is ours");
    let ended = second.wait_with_output().expect("it has ended");
    assert!(first.try_wait().expect("it is ours").is_none(), "the cancelled cell waited for the other one");
    let report: Value = serde_json::from_slice(&ended.stdout).expect("a report");
    assert_eq!((&report["kind"], &report["session"]["kept"]), (&"cancelled".into(), &true.into()));
    assert!(first.wait().expect("it is ours").success());
    assert_eq!(home.exec(&id, "x"), "7\n");
}

#[test]
fn clients_that_do_not_read_delay_no_other_beyond_the_time_limit() {
    let home = SessionHome::new();
    let id = home.new_session();
    home.exec(&id, "1");
    let code = "for i in range(100000): print('x' * 100)";
    let mut command = home.command(&["exec", &id, "--timeout", "500ms", "-c", code]).command();
    let mut stalled = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    thread::sleep(Duration::from_millis(200));
    assert_eq!(home.run(&["exec", &id, "-c", "2"]).stdout_text(), "2\n");
    stalled.kill().expect("it is ours");
    stalled.wait().expect("it has ended");
}

#[test]
fn commands_during_the_end_of_the_process_reach_the_next_one() {
    let home = SessionHome::new();
    let id = home.new_session();
    home.exec(&id, "n = 0; big = bytearray(10 ** 7)");
    for expected in 1..=5 {
        home.ok(&["end"]);
        assert_eq!(home.exec(&id, "n += 1; n"), format!("{expected}\n"));
    }
    home.exec(&id, "file = open('f', 'w')");
    let refused = home.run(&["end"]);
    assert!(refused.stderr_text().contains("the file") && refused.code != Some(0), "{}", refused.stderr_text());
    assert_eq!(home.exec(&id, "n"), "5\n");
}

#[test]
fn a_killed_process_loses_only_what_is_not_saved() {
    let home = SessionHome::new();
    let (saved, unsaved, new) = (home.new_session(), home.new_session(), home.new_session());
    home.exec(&saved, "x = 1");
    home.ok(&["checkpoint", &saved, "--name", "one"]);
    home.exec(&saved, "x = 2");
    home.exec(&unsaved, "x = 2");
    kill(home.keeper());
    let ran = home.run(&["exec", &saved, "-c", "x"]);
    assert_eq!(ran.stdout_text(), "1\n");
    assert!(ran.stderr_text().contains("was restored from the checkpoint one for this cell"), "{}", ran.stderr_text());
    let ran = home.run(&["exec", &unsaved, "-c", "'x' in globals()"]);
    assert_eq!(ran.stdout_text(), "False\n");
    assert!(ran.stderr_text().contains("started without its earlier state"), "{}", ran.stderr_text());
    let ran = home.run(&["exec", &new, "-c", "1"]);
    assert_eq!((ran.stdout_text().as_str(), ran.stderr_text().as_str()), ("1\n", ""));
}

#[test]
fn limits_and_cancellations_end_the_interpreter_and_say_so() {
    let home = SessionHome::new();
    let id = home.new_session();
    home.exec(&id, "x = 1");
    home.ok(&["checkpoint", &id, "--name", "one"]);
    let ran = home.run(&["exec", &id, "--timeout", "300ms", "-c", "while True: pass"]);
    assert_ne!(ran.code, Some(0));
    assert!(ran.stderr_text().contains("its state since the last checkpoint is lost"), "{}", ran.stderr_text());
    assert_eq!(home.run(&["exec", &id, "-c", "x"]).stdout_text(), "1\n");
    // The cell of a client that is killed ends as well.
    let mut client = home.command(&["exec", &id, "-c", "print('go', flush=True)\nwhile True: pass"]).command();
    let mut client = client.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let mut first = [0; 2];
    std::io::Read::read_exact(client.stdout.as_mut().expect("a pipe"), &mut first).expect("output");
    client.kill().expect("it is ours");
    client.wait().expect("it has ended");
    let ran = home.run(&["exec", &id, "-c", "x"]);
    assert_eq!(ran.stdout_text(), "1\n");
    assert!(ran.stderr_text().contains("was restored from the checkpoint one"), "{}", ran.stderr_text());
}

#[test]
fn cells_of_one_session_run_in_order_and_those_of_others_beside_them() {
    let home = SessionHome::new();
    let (one, other) = (home.new_session(), home.new_session());
    home.exec(&one, "order = []; import time");
    home.exec(&other, "1");
    let mut clients: Vec<_> = (0..4)
        .map(|index| {
            let code = format!("time.sleep(0.3); order.append({index})");
            let client = home.command(&["exec", &one, "-c", &code]).command().spawn().expect("it starts");
            thread::sleep(Duration::from_millis(60));
            client
        })
        .collect();
    assert_eq!(home.json(&["show", &one, "--json"])["state"], "busy");
    assert_eq!(home.exec(&other, "2"), "2\n");
    assert!(clients[3].try_wait().expect("it is ours").is_none(), "the other session waited");
    for client in &mut clients {
        assert!(client.wait().expect("it is ours").success());
    }
    assert_eq!(home.exec(&one, "order"), "[0, 1, 2, 3]\n");
}

#[test]
fn sessions_have_only_their_own_grants() {
    let home = SessionHome::new();
    let (mine, others) = (home.0.path().join("mine"), home.0.path().join("others"));
    for dir in [&mine, &others] {
        fs::create_dir(dir).expect("a directory");
        fs::write(dir.join("secret"), dir.display().to_string()).expect("a file");
    }
    let granted =
        |dir: &Path| home.ok(&["new", "--dir", &format!("{}:/data:rw", dir.display()), "--env", "NAME=value"]);
    let (one, other) = (granted(&mine), granted(&others));
    let read = "open('/data/secret').read()";
    assert_eq!(home.exec(one.trim(), read), format!("'{}'\n", mine.display()));
    assert_eq!(home.exec(other.trim(), read), format!("'{}'\n", others.display()));
    assert_eq!(home.exec(one.trim(), "import os; os.environ['NAME']"), "'value'\n");
    let fork = home.ok(&["fork", one.trim()]);
    home.exec(fork.trim(), "open('/data/new', 'w').write('x')");
    assert!(mine.join("new").exists());
    // Grants are admitted again for a session that is restored.
    home.ok(&["park", one.trim()]);
    fs::remove_dir_all(&mine).expect("it is ours");
    let refused = home.run(&["exec", one.trim(), "-c", "1"]);
    assert!(refused.code != Some(0) && refused.stderr_text().contains("mine"), "{}", refused.stderr_text());
}

/// Answers each request with the value of its header `X-Key` in reverse, which is not masked.
fn reversing_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().take(20).flatten() {
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
            let key: String =
                lines.find_map(|line| Some(line.split_once("X-Key: ")?.1.chars().rev().collect())).unwrap_or_default();
            lines.for_each(drop);
            let _ =
                write!(&stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{key}", key.len());
        }
    });
    port
}

#[test]
fn secrets_of_sessions_are_in_memory_alone() {
    const VALUE: &str = "canary-4711";
    let home = SessionHome::new();
    let port = reversing_server();
    let net = format!("127.0.0.1:{port}");
    let command = |words: &[&str]| home.command(words).env("ORIGIN", VALUE).run().expect("it runs");
    let created = command(&["new", "--net", &net, "--secret", "KEY=env:ORIGIN@127.0.0.1"]);
    assert_eq!(created.code, Some(0), "{}", created.stderr_text());
    let id = created.stdout_text().trim().to_owned();
    let fetch = format!(
        "import os, urllib.request as u
u.urlopen(u.Request('http://{net}', headers={{'X-Key': os.environ['KEY']}})).read().decode()"
    );
    let reversed = format!("'{}'\n", VALUE.chars().rev().collect::<String>());
    assert_eq!(home.exec(&id, &fetch), reversed);
    assert_eq!(home.exec(&id, "os.environ['KEY']"), "'codebox-secret.KEY.'\n");
    let fork = home.ok(&["fork", &id]);
    assert_eq!(home.exec(fork.trim(), &fetch), reversed);
    home.ok(&["checkpoint", &id, "--name", "one"]);
    home.ok(&["park", &id]);
    assert_eq!(home.exec(&id, &fetch), reversed);
    let file = home.0.path().join("s.codebox");
    home.ok(&["export", &id, file.to_str().expect("a path")]);
    // Neither records nor states have the value, and a later process does not.
    home.ok(&["end"]);
    let found = Command::new("grep").args(["-rl", VALUE]).arg(home.0.path()).output().expect("grep runs");
    assert_eq!(String::from_utf8_lossy(&found.stdout), "");
    let refused = home.run(&["exec", &id, "-c", "1"]);
    let text = refused.stderr_text();
    assert!(
        text.contains("not kept on disk") && text.contains(&format!("codebox session secret {id} KEY=env:")),
        "{text}"
    );
    let unknown = command(&["secret", &id, "OTHER=env:ORIGIN"]);
    assert!(unknown.stderr_text().contains("has no secret OTHER"), "{}", unknown.stderr_text());
    let given = command(&["secret", &id, "KEY=env:ORIGIN"]);
    assert_eq!(given.code, Some(0), "{}", given.stderr_text());
    assert_eq!(home.exec(&id, &fetch), reversed);
    let live = command(&["secret", &id, "KEY=env:ORIGIN"]);
    assert!(live.stderr_text().contains("park it first"), "{}", live.stderr_text());
    // An imported session has the grants of its import alone.
    let imported = home.ok(&["import", file.to_str().expect("a path")]);
    let report = home.run(&["exec", imported.trim(), "-c", &fetch]);
    assert!(report.code != Some(0) && report.stderr_text().contains("KEY"), "{}", report.stderr_text());
}

#[test]
fn files_are_copied_out_of_sessions() {
    let home = SessionHome::new();
    let granted = home.0.path().join("granted");
    fs::create_dir(&granted).expect("a directory");
    fs::write(home.0.path().join("canary"), "canary").expect("a file");
    let id = home.ok(&["new", "--dir", &format!("{}:/data", granted.display())]).trim().to_owned();
    home.exec(&id, "import os; os.makedirs('a'); open('a/b', 'wb').write(bytes(range(256)) * 40); x = 1");
    home.exec(&id, "open('/tmp/t', 'w').write('text'); os.symlink('a/b', 'link'); os.symlink('a', 'up')");
    let to = home.0.path().join("copied");
    let to = to.to_str().expect("a path");
    assert_eq!(home.ok(&["get", &id, "a/b", to]), "");
    let bytes: Vec<u8> = (0..=255).collect();
    assert_eq!(fs::read(to).expect("a file"), bytes.repeat(40));
    home.ok(&["get", &id, "/tmp/t", to]);
    assert_eq!(home.ok(&["get", &id, "/tmp/t", "-"]), "text");
    home.ok(&["get", &id, "/tmp/t", home.0.path().to_str().expect("a path")]);
    assert_eq!(fs::read_to_string(home.0.path().join("t")).expect("a file"), "text");
    // The session has been released, and keeps its state.
    home.ok(&["park", &id]);
    assert_eq!(home.ok(&["get", &id, "/tmp/t", "-"]), "text");
    assert_eq!(home.exec(&id, "x"), "1\n");
    for (path, expected) in [
        ("link", "there is no such file"),
        ("up/b", "there is no such file"),
        ("a", "there is no such file"),
        ("missing", "there is no such file"),
        ("../canary", "canary"),
        ("/data/x", "it is not in a private directory"),
        ("/etc/passwd", "it is not in a private directory"),
    ] {
        let refused = home.run(&["get", &id, path, to]);
        assert!(
            refused.code == Some(125) && refused.stderr_text().contains(expected),
            "{path}: {}",
            refused.stderr_text()
        );
        assert_eq!(fs::read_to_string(to).expect("it stays"), "text");
    }
    home.exec(&id, "open('large', 'wb').truncate((16 << 20) + 1)");
    let refused = home.run(&["get", &id, "large", to]);
    assert!(refused.stderr_text().contains("it is larger than 16777216 bytes"), "{}", refused.stderr_text());
}

#[test]
fn cells_read_the_standard_input_that_they_are_given() {
    let home = SessionHome::new();
    let id = home.new_session();
    let exec = |words: &[&str]| {
        let words = [&["exec", &id], words].concat();
        home.command(&words).input(Input::Bytes(b"first\nsecond\n".to_vec())).run().expect("it runs")
    };
    assert_eq!(
        exec(&["--stdin", "-c", "import sys; [input(), sys.stdin.read()]"]).stdout_text(),
        "['first', 'second\\n']\n"
    );
    // Without the option a cell reads nothing.
    assert_eq!(exec(&["-c", "sys.stdin.read()"]).stdout_text(), "''\n");
    let refused = exec(&["--stdin", "-"]);
    assert_eq!(refused.code, Some(125));
    assert!(refused.stderr_text().contains("pass the cell with -c or as a file"), "{}", refused.stderr_text());
}
