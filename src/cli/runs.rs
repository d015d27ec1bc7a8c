//! `sortie runs`: the runs of a workspace, newest first.

use super::out::Out;
use sortie::error::{Error, exit};

#[derive(Debug, clap::Args)]
pub(crate) struct RunsArgs {
    #[command(flatten)]
    workspace: super::WorkspaceArgs,
}

pub(crate) fn main(args: RunsArgs, out: &mut Out) -> Result<u8, Error> {
    let entries = std::fs::read_dir(&args.workspace.directory);
    entries.map_err(|error| super::cannot_read(&args.workspace.directory, &error))?;
    out.data("")?;
    Ok(exit::OK)
}
