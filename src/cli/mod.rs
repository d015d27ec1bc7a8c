//! The command line: one file per subcommand, and the only code that knows clap, environment and exit codes.
//!
//! What was typed becomes, once, a validated value; nothing below sees flags. Data goes to standard output,
//! everything else to standard error.

mod ask;
mod diagnostics;
mod doctor;
mod models;
mod open;
mod out;
mod plan;
mod run;
mod runs;
mod secrets;
mod settings;
mod show;
mod signals;
mod state;
mod trace;
mod trust;
mod wire;

use clap::{Parser, Subcommand};
use out::Out;
use sortie::error::{Error, exit};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// Sends out subagents and brings back one merged answer.
#[derive(Debug, Parser)]
#[command(name = "sortie", version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::RunArgs),
    /// Check and draw plan files
    #[command(subcommand)]
    Plan(plan::PlanCommand),
    Runs(runs::RunsArgs),
    Show(show::ShowArgs),
    /// Show what models were sent and answered, send a request again, compare two runs
    #[command(subcommand)]
    Trace(trace::TraceCommand),
    Models(models::ModelsArgs),
    Doctor(doctor::DoctorArgs),
}

// Where the workspace is; shared by the subcommands that need one. Not a doc comment: clap would show it as their help.
#[derive(Debug, clap::Args)]
struct WorkspaceArgs {
    /// The workspace: the directory to work in, taken as it is
    #[arg(short = 'C', long = "directory", value_name = "DIR", default_value = ".")]
    directory: PathBuf,
}

/// Parses the arguments, runs the subcommand, prints its error.
pub(crate) fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are data; a closed pipe while printing them is success.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { exit::USAGE } else { exit::OK });
        }
    };
    let mut out = Out::new();
    let result = diagnostics::init().and_then(|()| match cli.command {
        Command::Run(args) => run::main(args, &mut out),
        Command::Plan(command) => plan::main(command, &mut out),
        Command::Runs(args) => runs::main(args, &mut out),
        Command::Show(args) => show::main(args, &mut out),
        Command::Trace(command) => trace::main(command, &mut out),
        Command::Models(args) => models::main(&args, &mut out),
        Command::Doctor(args) => doctor::main(&args, &mut out),
    });
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            out.error(&error);
            ExitCode::from(error.code)
        }
    }
}

/// Any error of the system at this path, as a usage error: the user named the path.
fn cannot_read(path: &std::path::Path, error: &std::io::Error) -> Error {
    let cause = Error::usage(format!("cannot read `{}`: {}", path.display(), out::reason(error)));
    match error.kind() {
        std::io::ErrorKind::NotFound if path.is_relative() => {
            cause.hint("the path is taken from the current directory, not from that of -C")
        }
        _ => cause,
    }
}

/// Any error of the system at this path, where the user wanted a file.
fn cannot_write(path: &std::path::Path, error: &std::io::Error) -> Error {
    Error::usage(format!("cannot write `{}`: {}", path.display(), out::reason(error)))
}

/// The tools that come with sortie.
fn builtin_tools() -> Result<sortie::tool::Registry, Error> {
    sortie::tool::builtin().map_err(|error| Error { code: exit::BUG, message: error.to_string(), hint: String::new() })
}
