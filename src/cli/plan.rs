//! `sortie plan check` and `sortie plan show`.

use super::out::Out;
use sortie::error::Error;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum PlanCommand {}

pub(crate) fn main(command: PlanCommand, _out: &mut Out) -> Result<u8, Error> {
    match command {}
}
