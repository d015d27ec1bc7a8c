//! The `sortie` command: arguments in, exit code out. Everything else is in `cli` and in the library.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main(std::env::args_os())
}
