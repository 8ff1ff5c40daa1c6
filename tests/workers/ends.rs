//! Ends of jobs in workers: cancelled, dropped, killed.

use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use codebox::{ExecIo, Limit, LimitOverrides, Outcome, Request, ResultKind};
use codebox_testkit::{Soak, soak};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Home, OutputBuffer, wait_until};

const COMPUTES: &str = "print('so far', flush=True)\nwhile True: pass";

fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).expect("a process number"), Signal::KILL).expect("it is ours");
}

#[test]
fn cancelled_jobs_end_with_their_output() {
    for home in [Home::with_host(), Home::without_host()] {
        let idle = home.scratch_entries();
        let out = OutputBuffer::default();
        let mut io = ExecIo { stdout: Some(Box::new(out.clone())), ..ExecIo::none() };
        let cancel = io.cancel.clone();
        let canceller = thread::spawn(move || {
            wait_until("no output", || !out.text().is_empty());
            cancel.cancel();
        });
        let report = home.runner().run_with(Request::python(COMPUTES), &mut io).expect("a report");
        canceller.join().expect("it ends");
        assert_eq!((report.outcome, report.stdout.bytes().as_ref()), (Outcome::Cancelled, &b"so far\n"[..]));
        wait_until("the worker is still there", || home.workers().is_empty());
        wait_until("directories are left", || home.scratch_entries() <= idle);
    }
}

#[test]
fn dropping_the_future_ends_the_worker() {
    for home in [Home::with_host(), Home::without_host()] {
        let runner = home.runner();
        let executor = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("an executor");
        executor.block_on(async {
            let run = runner.run_async(Request::python(COMPUTES));
            let ended = tokio::time::timeout(Duration::from_millis(400), run).await;
            assert!(ended.is_err(), "{ended:?}");
        });
        wait_until("the worker is still there", || home.workers().is_empty());
        let report = runner.run(Request::python("print(1)")).expect("a report");
        assert_eq!(report.stdout.bytes().as_ref(), b"1\n");
    }
}

#[test]
fn killed_workers_are_reported_with_their_output() {
    for home in [Home::with_host(), Home::without_host()] {
        let out = OutputBuffer::default();
        let runner = home.runner();
        let error = thread::scope(|scope| {
            let run = scope.spawn(|| {
                let mut io = ExecIo { stdout: Some(Box::new(out.clone())), ..ExecIo::none() };
                runner.run_with(Request::python(COMPUTES), &mut io).expect_err("a lost worker")
            });
            wait_until("no output", || !out.text().is_empty());
            let workers = home.workers();
            assert_eq!(workers.len(), 1, "{workers:?}");
            kill(workers[0]);
            run.join().expect("it ends")
        });
        assert_eq!(error.kind(), ResultKind::EngineLost);
        assert!(error.message().contains("it was ended by signal 9"), "{error}");
        assert!(error.to_wire().partial.is_some(), "{error:?}");
        // Other jobs are not affected.
        assert!(runner.run(Request::python("print(1)")).expect("a report").is_success());
    }
}

#[test]
fn a_host_process_that_ends_is_replaced() {
    let home = Home::with_host();
    let runner = home.runner();
    let pid = home.host.as_ref().expect("a host process").pid().expect("a number");
    assert!(runner.run(Request::python("print(1)")).expect("a report").is_success());
    kill(pid);
    for _ in 0..2 {
        // The first job starts its worker and another host process.
        assert!(runner.run(Request::python("print(1)")).expect("a report").is_success());
    }
    let host = home.host.as_ref().expect("a host process");
    wait_until("no other host process", || host.pid().is_ok_and(|other| other != pid));
    wait_until("it serves no job", || {
        assert!(runner.run(Request::python("print(1)")).expect("a report").is_success());
        host.runs().is_ok_and(|runs| runs > 0)
    });
}

#[test]
fn a_stopped_host_process_delays_no_job() {
    let home = Home::with_host();
    let pid = home.host.as_ref().expect("a host process").pid().expect("a number");
    let pid = Pid::from_raw(pid).expect("a number");
    kill_process(pid, Signal::STOP).expect("it is ours");
    let report = home.runner().run(Request::python("print(1)"));
    kill_process(pid, Signal::CONT).expect("it is ours");
    assert!(report.expect("a report").is_success());
}

#[test]
fn jobs_run_at_the_same_time_in_processes_of_their_own() {
    let home = Home::with_host();
    let runner = Arc::new(home.runner());
    let limits = LimitOverrides { wall: Some(Limit::At(Duration::from_secs(60))), ..LimitOverrides::default() };
    let run = |number: usize| {
        let program = format!("import time; time.sleep(0.2); print({number})");
        let report = runner.run(Request { limits, ..Request::python(program) }).expect("a report");
        assert_eq!(report.stdout.to_text_lossy(), format!("{number}\n"));
    };
    let most = thread::scope(|scope| {
        let runs: Vec<_> = (0..8).map(|number| scope.spawn(move || run(number))).collect();
        let mut most = 0;
        while runs.iter().any(|run| !run.is_finished()) {
            most = most.max(home.workers().len());
        }
        most
    });
    assert!(most > 1, "{most}");
}

#[test]
fn many_jobs_leave_nothing_behind() {
    let count = match soak() {
        Soak::Short => 60,
        Soak::Long => 2000,
    };
    for home in [Home::with_host(), Home::without_host()] {
        let runner = home.runner();
        let run = || assert!(runner.run(Request::python("print(1)")).expect("a report").is_success());
        (0..5).for_each(|_| run());
        let used = || {
            let entries = |dir: &str| fs::read_dir(dir).expect("a list").count();
            (entries("/proc/self/fd"), entries("/proc/self/task"), home.scratch_entries())
        };
        let before = used();
        (0..count).for_each(|_| run());
        wait_until("descriptors, threads or directories are left", || used() <= before);
        wait_until("workers are left", || home.workers().is_empty());
    }
}

/// Runs a program that computes, inspects its worker meanwhile, and cancels it.
fn inspect_worker(home: &Home, inspect: impl FnOnce(i32)) {
    let out = OutputBuffer::default();
    let mut io = ExecIo { stdout: Some(Box::new(out.clone())), ..ExecIo::none() };
    let cancel = io.cancel.clone();
    let runner = home.runner();
    thread::scope(|scope| {
        let run = scope.spawn(|| runner.run_with(Request::python(COMPUTES), &mut io).expect("a report"));
        wait_until("no output", || !out.text().is_empty());
        let workers = home.workers();
        assert_eq!(workers.len(), 1, "{workers:?}");
        inspect(workers[0]);
        cancel.cancel();
        run.join().expect("it ends")
    });
}

#[test]
fn the_environment_of_the_program_does_not_reach_workers() {
    let own = fs::read("/proc/self/environ").expect("an environment");
    assert!(own.windows(5).any(|part| part == b"PATH="), "the test needs a variable");
    inspect_worker(&Home::without_host(), |worker| {
        let environ = fs::read(format!("/proc/{worker}/environ")).expect("an environment");
        let names: Vec<_> = environ.split(|byte| *byte == 0).filter(|variable| !variable.is_empty()).collect();
        assert!(names.iter().all(|variable| variable.starts_with(b"HOME=") || variable.starts_with(b"SSL_")));
    });
}

#[test]
fn descriptors_of_the_program_do_not_reach_workers() {
    for home in [Home::with_host(), Home::without_host()] {
        let secret = home.folder.path().join("secret");
        fs::write(&secret, "secret").expect("a file");
        let file = fs::File::open(&secret).expect("a file");
        rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).expect("a descriptor that is inherited");
        inspect_worker(&home, |worker| {
            for entry in fs::read_dir(format!("/proc/{worker}/fd")).expect("a list").flatten() {
                let target = fs::read_link(entry.path()).unwrap_or_default();
                assert!(!target.ends_with("secret"), "{target:?}");
            }
        });
    }
}

#[test]
fn a_program_of_another_kind_is_an_error() {
    let home = Home::without_host();
    for program in ["/no/such/program", "/bin/true"] {
        let runner = codebox::builder(home.dirs()).workers(program).build();
        let error = runner.run(Request::python("print(1)")).expect_err(program);
        assert!(error.message().contains("worker"), "{error}");
        assert!(!error.message().contains('\n'), "{error}");
    }
    // The command is found through links, as installers make them.
    let link = home.folder.path().join("codebox");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_codebox"), &link).expect("a link");
    let runner = codebox::builder(home.dirs()).workers(&link).build();
    assert!(runner.run(Request::python("print(1)")).expect("a report").is_success());
}

#[test]
fn guests_cannot_write_the_program_of_the_workers() {
    let home = Home::without_host();
    let program = home.dir("program");
    for name in ["codebox", "codebox-run", "codebox-full"] {
        let built = std::path::Path::new(env!("CARGO_BIN_EXE_codebox")).with_file_name(name);
        fs::copy(built, program.join(name)).expect("a copy");
    }
    let runner = codebox::builder(home.dirs()).workers(program.join("codebox")).build();
    let dirs = vec![format!("{}:/p:rw", program.display()).parse().expect("a grant")];
    let error = runner.run(Request { dirs, ..Request::python("print(1)") }).expect_err("a refusal");
    assert_eq!(error.kind(), ResultKind::PathRejected, "{error}");
    assert!(runner.run(Request::python("print(1)")).expect("a report").is_success());
    // The copies run nothing else afterwards.
    let status = Command::new(program.join("codebox")).arg("--version").status().expect("it starts");
    assert!(status.success());
}
