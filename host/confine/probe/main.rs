//! A process that confines itself, reports the sandbox layers, and then tries one action: the subject of the tests.
//!
//! Arguments: `allowed|denied` (executable mappings), `alone|threaded` (whether another thread runs before
//! confinement), the action and its operands. Among the operands, `+net` keeps connections, `+openat2` allows that
//! call, and `+r PATH`, `+w PATH` and `+x PATH` (removal of empty directories) are grants. The process prints each layer
//! as `layer NAME STATE DETAIL`, the duration of confinement as `took NANOSECONDS`, and the result of the attempt as
//! `ok ANSWER` or `errno NUMBER`.

#[cfg(target_os = "linux")]
mod attempts;
#[cfg(target_os = "linux")]
mod raw;

#[cfg(target_os = "linux")]
fn main() {
    use codebox_confine::{ExecMappings, Rules, SocketAccess};

    let mut rules = Rules::default();
    let mut rest = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let list = match argument.as_str() {
            "+r" => &mut rules.read,
            "+w" => &mut rules.read_write,
            "+x" => &mut rules.remove_empty_dirs,
            "+openat2" => {
                rules.openat2 = codebox_confine::Openat2::Allowed;
                continue;
            }
            _ => {
                rest.push(argument);
                continue;
            }
        };
        list.push(arguments.next().expect("a grant has a path").into());
    }
    // An embedder creates its connections, and the line over which it receives more, before confinement.
    let sockets =
        rest.iter().any(|word| word == "+net").then(|| attempts::PassedSockets::make().expect("loopback sockets"));
    rest.retain(|word| word != "+net");
    if let Some(sockets) = &sockets {
        rules.network = SocketAccess::PassedSockets(sockets.control_socket());
    }
    let [exec, threads, action, operands @ ..] = rest.as_slice() else {
        panic!("usage: allowed|denied alone|threaded ACTION [OPERAND …] [+r PATH] [+w PATH]");
    };
    rules.exec_mappings = match exec.as_str() {
        "allowed" => ExecMappings::Allowed,
        _ => ExecMappings::Denied,
    };
    if threads == "threaded" {
        std::thread::spawn(|| std::thread::sleep(std::time::Duration::MAX));
    }

    // An embedder would open this file before confinement.
    let pagemap = std::fs::File::open("/proc/self/pagemap").ok();
    let start = std::time::Instant::now();
    let layers = codebox_confine::confine(&rules);
    let took = start.elapsed().as_nanos();
    match layers {
        Ok(layers) => {
            for layer in layers {
                println!("layer {} {:?} {}", layer.name, layer.state, layer.detail);
            }
        }
        Err(error) => {
            println!("refused {error}");
            return;
        }
    }
    println!("took {took}");
    match attempts::attempt(action, operands, pagemap.as_ref(), sockets.as_ref()) {
        Ok(answer) => println!("ok {answer}"),
        Err(error) => match error.raw_os_error() {
            Some(number) => println!("errno {number}"),
            None => println!("error {error}"),
        },
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("{:?}", codebox_confine::confine(&codebox_confine::Rules::default()));
}
