//! The complete program, which `codebox` executes for everything that its host process does not serve.

fn main() -> std::process::ExitCode {
    codebox::cli_main()
}
