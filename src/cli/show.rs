//! `sortie show RUN [NODE]`: what a run did, from its record.

use super::out::Out;
use sortie::error::{Error, exit};

#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// The run's id, or enough of its start or end to tell it
    run: String,
    /// A node of it
    node: Option<String>,
    #[command(flatten)]
    workspace: super::WorkspaceArgs,
}

pub(crate) fn main(args: ShowArgs, out: &mut Out) -> Result<u8, Error> {
    out.data(&format!("{} {:?} {}\n", args.run, args.node, args.workspace.directory.display()))?;
    Ok(exit::OK)
}
