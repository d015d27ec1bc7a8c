//! `sortie trace`: what models were sent and what they answered, turn by turn; one request again; two runs compared.

mod diff;
mod render;
mod resend;
mod show;
mod talk;

use super::out::Out;
use super::runs::{runs_of, short};
use clap::Subcommand;
use sortie::error::Error;
use sortie::store::FoundRun;

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    Show(show::ShowArgs),
    Resend(resend::ResendArgs),
    Diff(diff::DiffArgs),
}

/// Runs the subcommand.
pub(crate) fn main(command: TraceCommand, out: &mut Out) -> Result<u8, Error> {
    match command {
        TraceCommand::Show(args) => show::main(&args, out),
        TraceCommand::Resend(args) => resend::main(&args, out),
        TraceCommand::Diff(args) => diff::main(&args, out),
    }
}

/// The run that the user names.
fn find(workspace: &super::WorkspaceArgs, wanted: &str) -> Result<FoundRun, Error> {
    let runs = runs_of(workspace)?;
    super::show::the_one(&runs, wanted).cloned()
}

fn without_trace(found: &FoundRun) -> Error {
    Error::usage(format!("run `{}` has no {}", short(&found.id), sortie::model::trace::TRACE_FILE))
        .hint("only a run made with --trace-http has one")
}
