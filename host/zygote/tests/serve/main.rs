//! Host processes with small limits. This program is also their host process and their clients.

#[cfg(target_os = "linux")]
mod roles;
#[cfg(target_os = "linux")]
mod test_host;
#[cfg(target_os = "linux")]
mod trials;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    if let Some(status) = roles::play() {
        return std::process::ExitCode::from(status);
    }
    libtest_mimic::run(&libtest_mimic::Arguments::from_args(), trials::all()).exit()
}

#[cfg(not(target_os = "linux"))]
fn main() {}
