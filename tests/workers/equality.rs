//! Reports of jobs in workers, compared with those of jobs in this process.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::thread;
use std::time::Duration;

use codebox::{
    Access, ByteSize, DirGrantSpec, EnforcementLevel, EnvRequest, ExecIo, GuestPath, InputFile, Isolation, LayerState,
    Limit, LimitKind, LimitOverrides, Outcome, Preference, Request, RunReport, Stdin,
};

use crate::support::{Home, OutputBuffer, content};

fn grant(host: &Path, guest: &str, access: Access) -> DirGrantSpec {
    let guest = GuestPath::new(guest).expect("a path");
    DirGrantSpec { host: host.display().to_string(), guest, access }
}

/// Returns the requests to compare, each with its name. The directory has the file `in.txt`.
fn requests(data: &Path) -> Vec<(&'static str, Request)> {
    let python = Request::python;
    vec![
        ("output", python("import sys; print(6 * 7); print('e', file=sys.stderr)")),
        ("exit status", python("raise SystemExit(7)")),
        ("exception", python("def f():\n    1 / 0\nf()")),
        ("syntax error", python("def f(:")),
        (
            "bytes as input",
            Request {
                stdin: Stdin::Bytes(b"some\ninput\0\xff".to_vec()),
                ..python("import sys; print(sys.stdin.buffer.read())")
            },
        ),
        (
            "arguments",
            Request {
                args: vec!["--flag".into(), String::new(), "\u{e9}".into()],
                ..python("import sys; print(sys.argv)")
            },
        ),
        (
            "environment",
            Request {
                env: vec![EnvRequest::Set("A".parse().expect("a name"), "b=c".into())],
                ..python("import os; print(sorted(os.environ.items()))")
            },
        ),
        (
            "input files",
            Request {
                files: vec![InputFile::new(GuestPath::new("/work/a.txt").expect("a path"), vec![0, 255])],
                ..python("print(open('a.txt', 'rb').read()); open('b.txt', 'w').write('x')")
            },
        ),
        (
            "readable directory",
            Request {
                dirs: vec![grant(data, "/data", Access::ReadOnly)],
                ..python("print(open('/data/in.txt').read()); open('/data/x', 'w')")
            },
        ),
        (
            "time limit",
            Request {
                limits: LimitOverrides {
                    wall: Some(Limit::At(Duration::from_millis(300))),
                    ..LimitOverrides::default()
                },
                ..python("print('so far', flush=True)\nwhile True: pass")
            },
        ),
        (
            "memory limit",
            Request {
                limits: LimitOverrides { memory: Some(Limit::At(ByteSize::mib(64))), ..LimitOverrides::default() },
                ..python("x = bytearray(1 << 28)")
            },
        ),
        (
            "output limit",
            Request {
                limits: LimitOverrides { output: Some(Limit::At(ByteSize::kib(1))), ..LimitOverrides::default() },
                ..python("for i in range(1000): print(i)")
            },
        ),
        (
            "missing feature",
            Request {
                isolation: Preference::Only(Isolation::Wasm),
                ..python("import threading; threading.Thread(target=print).start()")
            },
        ),
        ("pandas", python("import numpy, pandas; print(pandas.DataFrame({'a': numpy.arange(3)}).sum())")),
        (
            "rich results",
            Request {
                results: true,
                ..python("import matplotlib.pyplot as plt; plt.plot([1]); display({'text/html': 'x'}, raw=True); 42")
            },
        ),
        (
            "code in parts",
            python("m = 'scipy.linalg'; l = __import__(m, fromlist=['x']); print(l.det([[1, 2], [3, 4]]))"),
        ),
        ("JavaScript", Request::javascript("console.log(6 * 7); process.exit(3)")),
        ("TypeScript", Request::typescript("const x: number = 42; console.log(x)")),
        (
            "TypeScript modules",
            Request {
                files: vec![InputFile::new(
                    GuestPath::new("/work/m.ts").expect("a path"),
                    b"export const f = (x: number): number => x * 2;\n".to_vec(),
                )],
                ..Request::typescript("import { f } from './m.ts'; console.log(f(21))")
            },
        ),
    ]
}

/// Returns the members of a report that do not depend on time.
fn comparable(report: &RunReport) -> String {
    let mut report = report.clone();
    report.usage = codebox::Usage::default();
    report.enforcement.layers.clear();
    // A process that runs one job enforces this limit better than one that runs several.
    report.enforcement.limits.remove(&LimitKind::Cpu);
    format!("{report:#?}")
}

fn check_equality(home: &Home) {
    let data = home.dir("data");
    fs::write(data.join("in.txt"), "content").expect("a file");
    let (workers, own) = (home.runner(), home.runner_in_this_process());
    for (name, request) in requests(&data) {
        let [first, second] = [&workers, &own].map(|runner| runner.run(request.clone()));
        let (first, second) = (first.expect(name), second.expect(name));
        assert_eq!(comparable(&first), comparable(&second), "{name}");
        assert!(second.enforcement.layers.is_empty());
        let levels = [&first, &second].map(|report| report.enforcement.limits[&LimitKind::Cpu]);
        assert_eq!(levels, [EnforcementLevel::Enforced, EnforcementLevel::BestEffort]);
        let held = |layer: &str| {
            first.enforcement.layers.iter().any(|found| found.name.contains(layer) && found.state == LayerState::Held)
        };
        assert!(held("landlock") && held("seccomp"), "{name}: {:?}", first.enforcement.layers);
        assert!(first.usage.peak_memory.is_some() && !first.usage.wall.is_zero(), "{name}");
    }
    assert!(home.workers().is_empty());
}

#[test]
fn workers_of_the_host_process_report_the_same() {
    let home = Home::with_host();
    check_equality(&home);
    let host = home.host.as_ref().expect("a host process");
    let count = requests(Path::new("/")).len() as u64;
    assert!(host.runs().expect("a host process") >= count);
}

#[test]
fn started_workers_report_the_same() {
    let home = Home::without_host();
    check_equality(&home);
    assert!(!home.dirs().cache.join("host/socket").exists());
}

#[test]
fn files_are_written_and_brought_out() {
    for home in [Home::with_host(), Home::without_host()] {
        let (data, out) = (home.dir("data"), home.dir("out"));
        let request = Request {
            dirs: vec![grant(&data, "/data", Access::ReadWrite)],
            out: Some(out.clone()),
            ..Request::python("open('/data/x', 'w').write('in data'); open('y', 'w').write('brought out')")
        };
        let report = home.runner().run(request).expect("a report");
        assert!(report.is_success(), "{report:?}");
        assert_eq!((content(&data, "x").as_str(), content(&out, "y").as_str()), ("in data", "brought out"));
        let [file] = &report.files.created[..] else { panic!("{:?}", report.files) };
        assert_eq!(file.host.as_ref().map(|host| host.to_path_buf()), Some(out.join("y")));
    }
}

#[test]
fn granted_hosts_are_reached_through_a_broker() {
    let home = Home::with_host();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let port = listener.local_addr().expect("an address").port();
    let serve = thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("a client");
        let _ = client.read(&mut [0; 4096]);
        client.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi").expect("an answer");
    });
    let program = format!(
        "import urllib.request\nprint(urllib.request.urlopen('http://127.0.0.1:{port}/').read())\n\
         try:\n    urllib.request.urlopen('http://127.0.0.2:{port}/')\nexcept OSError as error: print('refused')"
    );
    let net = vec![format!("127.0.0.1:{port}").parse().expect("a grant")];
    let report = home.runner().run(Request { net, ..Request::python(program) }).expect("a report");
    assert_eq!(report.stdout.to_text_lossy(), "b'hi'\nrefused\n", "{report:?}");
    assert_eq!(report.network.attempts.len(), 2, "{:?}", report.network);
    serve.join().expect("the server ends");
}

/// Input that counts the reads.
struct Lines {
    left: Vec<&'static str>,
    reads: std::sync::Arc<std::sync::atomic::AtomicUsize>,
}

impl std::io::Read for Lines {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.reads.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let Some(line) = self.left.pop() else { return Ok(0) };
        into[..line.len()].copy_from_slice(line.as_bytes());
        Ok(line.len())
    }
}

#[test]
fn streams_are_live_and_input_is_read_on_request() {
    let home = Home::with_host();
    let runner = home.runner();
    let reads = std::sync::Arc::default();
    let (out, err) = (OutputBuffer::default(), OutputBuffer::default());
    let program = "import sys\nfor i in range(50): print(i, file=sys.stderr)\n\
                   print(sys.stdin.readline().strip())\nfor i in range(50): print(i, file=sys.stderr)\n\
                   print(sys.stdin.readline().strip())";
    let mut io = ExecIo {
        stdin: Some(Box::new(Lines { left: vec!["three\n", "two\n", "one\n"], reads: std::sync::Arc::clone(&reads) })),
        stdout: Some(Box::new(out.clone())),
        stderr: Some(Box::new(err.clone())),
        ..ExecIo::none()
    };
    let request = Request { stdin: Stdin::Streamed, ..Request::python(program) };
    let report = runner.run_with(request, &mut io).expect("a report");
    assert_eq!(report.outcome, Outcome::Exited(0));
    assert_eq!((out.text(), err.text().lines().count()), ("one\ntwo\n".to_owned(), 100));
    assert_eq!(report.stdout.to_text_lossy(), "one\ntwo\n");
    assert_eq!(reads.load(std::sync::atomic::Ordering::SeqCst), 2);
}
