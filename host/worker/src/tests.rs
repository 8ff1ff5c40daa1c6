//! Backends with workers that a guest has taken over, and with honest ones.

use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use codebox_core::{
    Backend, BackendError, BackendId, BoxFuture, ByteSize, Capabilities, CapturedOutput, DirGrant, EscalatedFrom,
    ExecIo, FileKind, GuestPath, HostPath, Instance, InstanceSpec, Isolation, Job, Language, LayerState, Limit,
    MimeBundle, NeedsEscalation, OutFile, Outcome, Provenance, ResultKind, ResultSink, RunReport, RunnerError,
    SandboxLayer, Shown, Stdin, Unavailable,
};
use serde_bytes::ByteBuf;

use crate::connection::{Launch, Launched, ProcessEnd, WorkerProcess};
use crate::frame::Kind;
use crate::message::{Event, Failure, Hello, Request};
use crate::{Work, WorkerBackend, frame, serve, values};

const ID: BackendId = BackendId::new("described");

/// Description of a backend. Its instances write their input to their output.
struct Described;

impl Backend for Described {
    fn id(&self) -> BackendId {
        ID
    }

    fn isolation(&self) -> Isolation {
        Isolation::Wasm
    }

    fn probe(&self) -> BoxFuture<'_, Result<Capabilities, Unavailable>> {
        Box::pin(async { Err(Unavailable { reason: "no engine".to_owned(), fix: "none".to_owned() }) })
    }

    fn open<'a>(&'a self, _spec: &'a InstanceSpec) -> BoxFuture<'a, Result<Box<dyn Instance>, BackendError>> {
        Box::pin(async { Ok(Box::new(Echo) as Box<dyn Instance>) })
    }
}

/// Instance that copies its input to its output until it is cancelled.
struct Echo;

impl Instance for Echo {
    fn exec<'a>(&'a mut self, job: &'a Job, io: &'a mut ExecIo) -> BoxFuture<'a, Result<RunReport, BackendError>> {
        Box::pin(async move {
            let (mut stdin, mut stdout) = (io.stdin.take().expect("input"), io.stdout.take().expect("a sink"));
            let mut buffer = [0; 3];
            loop {
                match stdin.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(count) => stdout.write(&buffer[..count]).expect("a channel"),
                    Err(error) => stdout
                        .write(error.to_string().as_bytes())
                        .map(|()| stdin = Box::new(io::empty()))
                        .expect("a channel"),
                }
            }
            let outcome = if io.cancel.is_cancelled() { Outcome::Cancelled } else { Outcome::Exited(0) };
            Ok(RunReport::new(outcome, Provenance::new(ID, Isolation::Wasm), job.limits))
        })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), BackendError>> {
        Box::pin(async { Ok(()) })
    }
}

/// Launch of a thread that plays a worker.
struct Play<F>(F, ProcessEnd);

const END: ProcessEnd = ProcessEnd::Signalled(9);

impl<F: Fn(UnixStream) + Send + Sync + Clone + 'static> Launch for Play<F> {
    fn launch(&self) -> io::Result<Launched> {
        let (channel, other) = UnixStream::pair()?;
        let keep = other.try_clone()?;
        let play = self.0.clone();
        let end = Process(other.try_clone()?, END);
        thread::spawn(move || {
            play(other);
            drop(end);
        });
        Ok(Launched { channel, process: Box::new(Process(keep, self.1)) })
    }
}

/// End of the thread's channel, as the end of a process.
struct Process(UnixStream, ProcessEnd);

impl WorkerProcess for Process {
    fn wait(&mut self, _timeout: Duration) -> Option<ProcessEnd> {
        Some(self.1)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.shutdown(std::net::Shutdown::Both);
    }
}

fn backend(play: impl Fn(UnixStream) + Send + Sync + Clone + 'static) -> WorkerBackend {
    WorkerBackend::new(Arc::new(Described), Arc::new(Play(play, END)))
}

fn job() -> Job {
    let mut job = Job::python("");
    job.limits.wall = Limit::At(Duration::from_secs(60));
    job.limits.output = Limit::At(ByteSize::bytes(100));
    job
}

async fn run(backend: &WorkerBackend, job: &Job, io: &mut ExecIo) -> Result<RunReport, BackendError> {
    let spec = InstanceSpec {
        limits: job.limits,
        grants: job.grants.clone(),
        ..InstanceSpec::bare(Language::Python, Isolation::Wasm)
    };
    let mut instance = backend.open(&spec).await?;
    let report = instance.exec(job, io).await;
    instance.close().await?;
    report
}

fn send(channel: &mut UnixStream, event: &Event) -> io::Result<()> {
    let is_last = matches!(event, Event::Ended(_) | Event::Failed(_));
    frame::write(channel, if is_last { Kind::Last } else { Kind::Ordinary }, event)
}

/// Plays a worker until its job has started.
fn start(channel: &mut UnixStream) {
    let _: Hello = frame::read(channel).expect("a message").expect("a message");
    let Some(Request::Open(_)) = frame::read(channel).expect("a message") else { panic!("expected a specification") };
    send(channel, &Event::Opened).expect("a channel");
    let Some(Request::Exec(_)) = frame::read(channel).expect("a message") else { panic!("expected a job") };
    send(channel, &Event::Started(vec![layer("real")])).expect("a channel");
}

fn layer(name: &str) -> SandboxLayer {
    SandboxLayer { name: name.to_owned(), state: LayerState::Held, detail: String::new() }
}

fn report() -> RunReport {
    RunReport::new(Outcome::Exited(0), Provenance::new(ID, Isolation::Wasm), job().limits)
}

/// Parts of an honest worker.
struct Honest;

impl Work for Honest {
    fn backend(&self, _spec: &InstanceSpec) -> Result<Arc<dyn Backend>, RunnerError> {
        Ok(Arc::new(Described))
    }

    fn confine(&self, _spec: &InstanceSpec, _job: &Job) -> Result<Vec<SandboxLayer>, RunnerError> {
        Ok(vec![layer("real")])
    }

    fn clean(&self) {}
}

/// Serves a job as a worker does, with the instances of [`Described`].
fn honest(channel: UnixStream) {
    let executor = tokio::runtime::Builder::new_current_thread().build().expect("an executor");
    executor.block_on(serve(channel.into(), &Honest)).expect("a channel");
}

#[tokio::test]
async fn jobs_pass_through_a_worker() {
    let out = Arc::new(Mutex::new(Vec::new()));
    struct Sink(Arc<Mutex<Vec<u8>>>);
    impl codebox_core::OutputSink for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
            self.0.lock().expect("no panic").extend_from_slice(bytes);
            Ok(())
        }
    }
    let mut io = ExecIo {
        stdin: Some(Box::new(&b"some input"[..])),
        stdout: Some(Box::new(Sink(Arc::clone(&out)))),
        ..ExecIo::none()
    };
    let job = Job { stdin: Stdin::Streamed, ..job() };
    let report = run(&backend(honest), &job, &mut io).await.expect("a report");
    assert_eq!((report.outcome, report.enforcement.layers), (Outcome::Exited(0), vec![layer("real")]));
    assert_eq!(*out.lock().expect("no panic"), b"some input");
}

#[tokio::test]
async fn failures_keep_their_kind_and_are_shown_in_one_line() {
    let play = |mut channel: UnixStream| {
        let _: Option<Hello> = frame::read(&mut channel).expect("a message");
        let error = RunnerError::new(ResultKind::Denied, "cannot\u{1b}[2J grant\n/x").with_fix("do\nnot");
        send(&mut channel, &Event::Failed(Failure::from(error))).expect("a channel");
    };
    let error = run(&backend(play), &job(), &mut ExecIo::none()).await.expect_err("a failure");
    assert_eq!((error.kind(), error.fix().as_deref()), (ResultKind::Denied, Some("do\u{fffd}not")));
    assert_eq!(error.to_string(), "cannot\u{fffd}[2J grant\u{fffd}/x");
}

#[tokio::test]
async fn another_version_is_refused_by_the_worker() {
    let (mut channel, other) = UnixStream::pair().expect("a socket");
    thread::spawn(move || honest(other));
    frame::write(&mut channel, Kind::Ordinary, &Hello { version: "0.0.0".to_owned() }).expect("a channel");
    let Some(Event::Failed(failure)) = frame::read(&mut channel).expect("a message") else { panic!("no failure") };
    let error = BackendError::from(failure);
    assert!(error.to_string().contains("the library is codebox 0.0.0"), "{error}");
}

#[tokio::test]
async fn malformed_and_unexpected_messages_end_the_job() {
    for bad in [&b"\0\x05\0\0\0abcde"[..], b"\0\xff\xff\xff\xff", b"\0\x07\0\0\0\xa6Opened", b"\x09\0\0\0\0"] {
        let play = move |mut channel: UnixStream| {
            start(&mut channel);
            send(&mut channel, &Event::Output(0, ByteBuf::from(*b"partial"))).expect("a channel");
            channel.write_all(bad).expect("a channel");
        };
        let error = run(&backend(play), &job(), &mut ExecIo::none()).await.expect_err("an error");
        assert_eq!(error.kind(), ResultKind::EngineLost, "{error}");
        let output = error.partial_output().expect("the output so far");
        assert_eq!(output.stdout.bytes().as_ref(), b"partial");
    }
}

#[tokio::test]
async fn a_worker_that_ends_is_reported() {
    let play = |mut channel: UnixStream| start(&mut channel);
    let error = run(&backend(play), &job(), &mut ExecIo::none()).await.expect_err("an error");
    let text = codebox_core::format_error_chain(&error);
    assert_eq!(text, "cannot run the job: lost connection to its worker process: it was ended by signal 9");
}

#[tokio::test]
async fn a_program_that_is_no_worker_is_named() {
    let ends = [
        (ProcessEnd::Exited(2), ResultKind::InvalidRequest, "is the program codebox"),
        (ProcessEnd::HostEnded, ResultKind::EngineLost, "its host process ended"),
    ];
    for (end, kind, text) in ends {
        let backend = WorkerBackend::new(Arc::new(Described), Arc::new(Play(drop::<UnixStream>, end)));
        let error = run(&backend, &job(), &mut ExecIo::none()).await.expect_err("an error");
        let found = codebox_core::format_error_chain(&error);
        assert!(error.kind() == kind && found.contains(text), "{found}");
    }
}

#[tokio::test]
async fn failures_after_the_start_are_not_trusted() {
    let kinds = [(ResultKind::Ok, ResultKind::InternalError), (ResultKind::Denied, ResultKind::InternalError)];
    for (claimed, kind) in kinds.into_iter().chain([(ResultKind::Busy, ResultKind::Busy)]) {
        let play = move |mut channel: UnixStream| {
            start(&mut channel);
            send(&mut channel, &Event::Output(1, ByteBuf::from(*b"so far"))).expect("a channel");
            let error = RunnerError::new(claimed, "no").with_fix("run this");
            send(&mut channel, &Event::Failed(Failure::from(error))).expect("a channel");
        };
        let error = run(&backend(play), &job(), &mut ExecIo::none()).await.expect_err("a failure");
        assert_eq!((error.kind(), error.fix()), (kind, None));
        assert_eq!(error.partial_output().expect("output").stderr.bytes().as_ref(), b"so far");
    }
}

#[tokio::test]
async fn reports_take_memory_in_proportion_to_their_limits() {
    let claims: [fn(&mut RunReport); 2] = [
        |report| {
            let values = vec![serde_json::Value::Null; values::MAX_VALUES];
            let data = [("application/json".to_owned(), serde_json::Value::Array(values))].into();
            report.results = vec![codebox_core::MimeBundle { data, ..codebox_core::MimeBundle::default() }];
        },
        |report| {
            let traceback = vec![String::new(); values::MAX_VALUES];
            report.error = Some(codebox_core::GuestError { traceback, ..codebox_core::GuestError::default() });
        },
    ];
    for claim in claims {
        let play = move |mut channel: UnixStream| {
            start(&mut channel);
            let mut report = report();
            claim(&mut report);
            // The other side may close the channel.
            let _ = send(&mut channel, &Event::Ended(Box::new(report)));
        };
        let error = run(&backend(play), &job(), &mut ExecIo::none()).await.expect_err("an error");
        let text = codebox_core::format_error_chain(&error);
        assert!(text.contains("too many values"), "{text}");
    }
    let play = |mut channel: UnixStream| {
        start(&mut channel);
        let _ = send(&mut channel, &Event::Output(0, ByteBuf::from(vec![0; 1 << 20])));
    };
    let error = run(&backend(play), &job(), &mut ExecIo::none()).await.expect_err("an error");
    assert!(codebox_core::format_error_chain(&error).contains("longer than"), "{error}");
}

/// Receiver that counts results.
struct Counter(Arc<AtomicUsize>);

impl ResultSink for Counter {
    fn show(&mut self, _: Shown) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn shown_results_are_limited() {
    for (sent, size, shown) in [(5000, 1, 4096), (70, 1 << 20, 64)] {
        let play = move |mut channel: UnixStream| {
            start(&mut channel);
            let data = [("text/plain".to_owned(), "x".repeat(size).into())];
            let result = MimeBundle { data: data.into_iter().collect(), ..MimeBundle::default() };
            for _ in 0..sent {
                // The other side may close the channel.
                let _ = send(&mut channel, &Event::Shown(Box::new(Shown::Result(result.clone()))));
            }
        };
        let counter = Arc::<AtomicUsize>::default();
        let results: Option<Box<dyn ResultSink>> = Some(Box::new(Counter(Arc::clone(&counter))));
        let mut io = ExecIo { results, ..ExecIo::none() };
        run(&backend(play), &job(), &mut io).await.expect_err("an error");
        assert_eq!(counter.load(Ordering::Relaxed), shown);
    }
}

#[tokio::test]
async fn reports_are_checked_against_the_job() {
    let root = tempfile::tempdir().expect("a directory");
    let root = root.path().canonicalize().expect("a directory");
    for dir in ["out", "rw", "ro", "rw/sub"] {
        std::fs::create_dir(root.join(dir)).expect("a directory");
        std::fs::write(root.join(dir).join("a"), "x").expect("a file");
    }
    std::os::unix::fs::symlink("/etc", root.join("rw/link")).expect("a link");
    std::os::unix::fs::symlink("a", root.join("rw/file-link")).expect("a link");
    let at = |name: &str| root.join(name).display().to_string();
    let names = ["out/a", "out/missing", "ro/a", "rw/a", "rw/link/passwd", "rw/file-link", "rw/sub", "rw/sub/a"];
    let claimed: Vec<String> = names.iter().map(|name| at(name)).chain(["/etc/passwd".to_owned()]).collect();
    let play = move |mut channel: UnixStream| {
        start(&mut channel);
        let file = |host: &String| OutFile {
            guest: GuestPath::work(),
            host: HostPath::unix(host).ok(),
            size: 1,
            sha256: None,
            kind: FileKind::Regular,
        };
        let mut claim = report();
        claim.id = Some("other".to_owned());
        claim.stdout = CapturedOutput { head: vec![b'a'; 5000], tail: vec![b'z'; 10], dropped: 3 };
        claim.files.created = claimed.iter().map(file).collect();
        claim.files.modified = claim.files.created.clone();
        claim.files.deleted = claim.files.created.clone();
        claim.results = vec![codebox_core::MimeBundle::default()];
        claim.limits.wall = Limit::Unlimited;
        claim.provenance.backend = BackendId::new("docker");
        claim.provenance.isolation = Isolation::Vm;
        claim.provenance.reason = "because".to_owned();
        claim.provenance.engine = Some("a\u{1b}[2J".to_owned());
        claim.provenance.escalated_from =
            Some(EscalatedFrom { backend: ID, isolation: Isolation::Wasm, reason: String::new() });
        claim.needs_escalation = Some(NeedsEscalation { reason: String::new(), command: "rm".to_owned() });
        claim.enforcement.layers = vec![layer("claimed")];
        send(&mut channel, &Event::Ended(Box::new(claim))).expect("a channel");
    };
    let mut job = job();
    job.out = HostPath::native(&root.join("out")).ok();
    for (dir, access) in [("rw", codebox_core::Access::ReadWrite), ("ro", codebox_core::Access::ReadOnly)] {
        let host = HostPath::native(&root.join(dir)).expect("a path");
        job.grants.dirs.push(DirGrant { host, guest: GuestPath::tmp(), access });
    }
    let report = run(&backend(play), &job, &mut ExecIo::none()).await.expect("a report");
    let hosts = |files: &[OutFile]| -> Vec<String> {
        files.iter().filter_map(|file| file.host.as_ref()).map(|host| host.to_string()).collect()
    };
    let files = ["out/a", "rw/a", "rw/sub/a"].map(at);
    assert_eq!([hosts(&report.files.created), hosts(&report.files.modified)], [files.clone(), files]);
    let deleted = ["out/a", "out/missing", "rw/a", "rw/link/passwd", "rw/file-link", "rw/sub", "rw/sub/a"].map(at);
    assert_eq!(hosts(&report.files.deleted), deleted);
    assert_eq!(report.stdout.bytes().len(), 100);
    assert_eq!(report.stdout.total(), 5013);
    assert_eq!((report.id, report.limits, report.needs_escalation), (None, job.limits, None));
    assert_eq!((report.provenance.backend, report.provenance.isolation), (ID, Isolation::Wasm));
    assert_eq!((report.provenance.reason, report.provenance.engine), (String::new(), Some("a\u{fffd}[2J".to_owned())));
    assert_eq!((report.provenance.escalated_from, report.enforcement.layers), (None, vec![layer("real")]));
    assert!(report.results.is_empty());
}

#[tokio::test]
async fn input_is_not_read_ahead_of_a_worker_that_takes_none() {
    static READS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    struct Endless;
    impl io::Read for Endless {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            READS.fetch_add(1, Ordering::SeqCst);
            Ok(into.len())
        }
    }
    let play = |mut channel: UnixStream| {
        start(&mut channel);
        for _ in 0..2000 {
            send(&mut channel, &Event::InputRequest).expect("a channel");
            thread::sleep(Duration::from_micros(100));
        }
        let _ = send(&mut channel, &Event::Ended(Box::new(report())));
    };
    let mut io = ExecIo { stdin: Some(Box::new(Endless)), ..ExecIo::none() };
    let job = Job { stdin: Stdin::Streamed, ..job() };
    run(&backend(play), &job, &mut io).await.expect("a report");
    // As many pieces of 64 KiB as the socket's own buffer holds, and the one that waits.
    assert!(READS.load(Ordering::SeqCst) < 20, "{READS:?}");
}

#[tokio::test]
async fn output_that_is_not_taken_is_no_success() {
    struct Stalled;
    impl codebox_core::OutputSink for Stalled {
        fn write(&mut self, _bytes: &[u8]) -> io::Result<()> {
            thread::sleep(Duration::from_secs(600));
            Ok(())
        }
    }
    let play = |mut channel: UnixStream| {
        start(&mut channel);
        send(&mut channel, &Event::Output(0, ByteBuf::from(*b"x"))).expect("a channel");
        send(&mut channel, &Event::Ended(Box::new(report()))).expect("a channel");
    };
    let mut job = job();
    job.limits.wall = Limit::At(Duration::from_millis(200));
    let mut io = ExecIo { stdout: Some(Box::new(Stalled)), ..ExecIo::none() };
    let report = run(&backend(play), &job, &mut io).await.expect("a report");
    assert_eq!(report.outcome, Outcome::LimitHit(codebox_core::LimitKind::Wall));
}

#[tokio::test]
async fn a_job_is_cancelled_before_its_worker_starts_it() {
    let play = |mut channel: UnixStream| {
        let _: Hello = frame::read(&mut channel).expect("a message").expect("a message");
        let _: Request = frame::read(&mut channel).expect("a message").expect("a message");
        send(&mut channel, &Event::Opened).expect("a channel");
        // It never starts the program.
        while let Ok(Some(_)) = frame::read::<Request>(&mut channel) {}
    };
    let mut io = ExecIo::none();
    let cancel = io.cancel.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(50)).await;
        cancel.cancel();
    });
    let report = run(&backend(play), &job(), &mut io).await.expect("a report");
    assert_eq!(report.outcome, Outcome::Cancelled);
}

#[tokio::test]
async fn input_is_read_once_for_each_request() {
    static READS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    struct Counted;
    impl io::Read for Counted {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            READS.fetch_add(1, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(20));
            into[0] = b'x';
            Ok(1)
        }
    }
    let play = |mut channel: UnixStream| {
        start(&mut channel);
        for _ in 0..100 {
            send(&mut channel, &Event::InputRequest).expect("a channel");
            send(&mut channel, &Event::Output(1, ByteBuf::from(*b"."))).expect("a channel");
        }
        let Some(Request::Input(Some(input))) = frame::read(&mut channel).expect("a message") else {
            panic!("expected input")
        };
        assert_eq!(input.as_slice(), b"x");
        send(&mut channel, &Event::Ended(Box::new(report()))).expect("a channel");
    };
    let mut io = ExecIo { stdin: Some(Box::new(Counted)), ..ExecIo::none() };
    let job = Job { stdin: Stdin::Streamed, ..job() };
    run(&backend(play), &job, &mut io).await.expect("a report");
    assert_eq!(READS.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_worker_that_ignores_the_end_of_its_job_is_killed() {
    let is_ended = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&is_ended);
    let play = move |mut channel: UnixStream| {
        start(&mut channel);
        send(&mut channel, &Event::Output(0, ByteBuf::from(*b"so far"))).expect("a channel");
        // Until the other side closes the channel.
        while let Ok(Some(Request::Cancel)) = frame::read(&mut channel) {}
        ended.store(true, Ordering::SeqCst);
    };
    let backend = backend(play);
    let mut job = job();
    job.limits.wall = Limit::At(Duration::from_millis(100));
    let report = run(&backend, &job, &mut ExecIo::none()).await.expect("a report");
    assert_eq!(report.outcome, Outcome::LimitHit(codebox_core::LimitKind::Wall));
    assert_eq!(report.stdout.bytes().as_ref(), b"so far");
    assert_eq!(report.enforcement.layers, [layer("real")]);
    let mut io = ExecIo::none();
    io.cancel.cancel();
    io.cancel.forced_token().cancel();
    let job = Job { limits: codebox_core::Limits { wall: Limit::Unlimited, ..job.limits }, ..job };
    let report = run(&backend, &job, &mut io).await.expect("a report");
    assert_eq!(report.outcome, Outcome::Cancelled);
    while !is_ended.load(Ordering::SeqCst) {
        thread::yield_now();
    }
}

#[tokio::test]
async fn paths_that_are_not_text_are_errors() {
    use std::os::unix::ffi::OsStrExt as _;
    let host = Path::new(std::ffi::OsStr::from_bytes(b"/\xff")).to_owned();
    let layer = codebox_core::Layer { host, guest: GuestPath::tmp() };
    let spec = InstanceSpec { layers: vec![layer], ..InstanceSpec::bare(Language::Python, Isolation::Wasm) };
    let error = backend(honest).open(&spec).await.err().expect("an error");
    assert!(error.to_string().contains("pass the job to its worker process"), "{error}");
}
