//! The `codebox` program.

fn main() -> std::process::ExitCode {
    codebox::cli_main()
}
