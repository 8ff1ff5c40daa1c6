//! The processes of a test: the host process and its clients, which run this program with a role as first argument.

use std::env;
use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use codebox_zygote::{Options, Place, Served, Work, run, serve};

/// First argument of a host process. The directory and its limits follow.
pub const HOST: &str = "role-host";

/// First argument of a client. The directory and the words of the run follow.
pub const CLIENT: &str = "role-client";

/// Exit status of a host process that started another one in its place.
pub const RENEWED: u8 = 30;

/// Exit status of a client whose run was not served.
pub const NOT_SERVED: u8 = 40;

/// Exit status of a client that lost its host process.
pub const LOST: u8 = 41;

/// Name of the file that a host process creates when it starts another one.
pub const RENEWAL: &str = "renewal";

/// Name of the file that a worker creates when it has no run.
pub const DISCARDED: &str = "discarded";

/// Time that a worker without a run takes to end.
const DISCARD_TIME: Duration = Duration::from_millis(200);

/// Plays the role that the arguments name, and returns its exit status; `None` in the test itself.
pub fn play() -> Option<u8> {
    let args: Vec<OsString> = env::args_os().collect();
    let role = args.get(1)?.to_str()?;
    let dir = PathBuf::from(args.get(2).filter(|_| [HOST, CLIENT].contains(&role))?);
    match role {
        HOST => {
            let limits: Vec<u64> = args[3..].iter().filter_map(|limit| limit.to_str()?.parse().ok()).collect();
            let &[max_active, max_runs, max_age] = &limits[..] else { return Some(1) };
            Some(serve_runs(&dir, max_active as usize, max_runs, Duration::from_secs(max_age)))
        }
        _ => Some(client(&dir, &args[3..])),
    }
}

fn serve_runs(dir: &Path, max_active: usize, max_runs: u64, max_age: Duration) -> u8 {
    let options = Options { idle_limit: Duration::from_secs(60), max_active, max_runs, max_age, watched: Vec::new() };
    let create = |name: &str| {
        let _ = std::fs::write(dir.join(name), "");
    };
    let work = Work {
        load: &|| (),
        prepare: &|()| (),
        run: &|(), words| work(&words),
        discard: &|()| {
            std::thread::sleep(DISCARD_TIME);
            create(DISCARDED);
        },
        fail: &|_| 1,
        renew: &|| create(RENEWAL),
    };
    // SAFETY: this process has one thread, and has opened nothing that it still uses.
    match unsafe { serve(&Place::below(dir), &options, &work) } {
        Ok(codebox_zygote::Ended::Renewed) => RENEWED,
        Ok(_) => 0,
        Err(error) => {
            eprintln!("{error}");
            1
        }
    }
}

/// Word that a run prints as the number of its process.
pub const PID: &str = "PID";

/// Prints the words of the run, waits for the end of the input, and returns the number of words.
fn work(words: &[OsString]) -> u8 {
    let text: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    println!("{}", text.join(" ").replace(PID, &std::process::id().to_string()));
    let done = io::stdout().flush().and_then(|()| io::stdin().read_to_end(&mut Vec::new()));
    done.map_or(1, |_| words.len() as u8)
}

fn client(dir: &Path, words: &[OsString]) -> u8 {
    let Ok(program) = env::current_exe() else { return 1 };
    match run(&Place::below(dir), &program, words) {
        Served::Exited(status) => status,
        Served::No => NOT_SERVED,
        Served::Lost => LOST,
    }
}
