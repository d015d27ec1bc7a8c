//! `sortie plan check` and `sortie plan show`: plans without running them.

use super::out::{Out, reason};
use sortie::agent::Role;
use sortie::error::{Error, exit};
use sortie::plan::{self, Checked, Format, Graph, Known, Plan};
use std::io::Read;
use std::path::Path;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum PlanCommand {
    /// Tell everything that is wrong with plan files, with line, column and hint
    ///
    /// All mistakes of all files are told in one go: names that lead nowhere, cycles, unknown keys, prompts that speak
    /// of what is not there. For a file without mistakes one line says how many nodes it has and which chain of nodes
    /// takes longest. Nothing is run.
    #[command(after_help = CHECK_HELP)]
    Check(CheckArgs),
    /// Draw a plan: what it runs, in which order, what can run at once
    ///
    /// The critical path (the longest chain of nodes that wait for each other) is marked: no number of subagents makes
    /// a run shorter than it.
    #[command(after_help = SHOW_HELP)]
    Show(ShowArgs),
}

const CHECK_HELP: &str = "\
Exit code: 0 when every file is fine (warnings allowed), 2 when one is not.

Examples:
  sortie plan check plans/investigate.toml
  sortie plan check plans/*.toml
  cat plan.json | sortie plan check -

The smallest plan:
  version = 1
  name = \"hello\"

  [[node]]
  id = \"look\"
  prompt = \"What is this project about?\"

A second node that waits for the first:
  [[node]]
  id = \"sum-up\"
  needs = [\"look\"]
  prompt = \"Put this in one sentence: {{ nodes.look.summary }}\"";

const SHOW_HELP: &str = "\
Examples:
  sortie plan show plans/investigate.toml
  sortie plan show plans/investigate.toml --format mermaid >> README.md
  sortie plan show plans/investigate.toml --format dot | dot -Tsvg > plan.svg
  sortie plan show plans/investigate.toml --format json > plan.json   # the same plan, runs too";

#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// Plan files, TOML or JSON; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<std::path::PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// A plan file, TOML or JSON; `-` is standard input
    #[arg(value_name = "FILE")]
    file: std::path::PathBuf,
    /// How to draw it
    #[arg(long, value_enum, default_value_t = Drawing::Tree)]
    format: Drawing,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Drawing {
    /// For reading here
    Tree,
    /// A flowchart for Markdown
    Mermaid,
    /// For Graphviz
    Dot,
    /// The plan as JSON, defaults filled in
    Json,
}

pub(crate) fn main(command: PlanCommand, out: &mut Out) -> Result<u8, Error> {
    match command {
        PlanCommand::Check(args) => check(&args, out),
        PlanCommand::Show(args) => show(&args, out),
    }
}

/// What a plan file of the user's may refer to.
pub(crate) fn known() -> Result<Known, Error> {
    Ok(Known {
        roles: Role::built_in().into_iter().map(|role| role.name).collect(),
        tools: super::builtin_tools()?.names().map(str::to_owned).collect(),
        commands_allowed: true,
    })
}

fn check(args: &CheckArgs, out: &mut Out) -> Result<u8, Error> {
    let known = known()?;
    let mut code = exit::OK;
    for file in &args.files {
        let source = match Source::read(file) {
            Ok(source) => source,
            Err(error) => {
                out.error(&error);
                code = exit::USAGE;
                continue;
            }
        };
        match source.check(&known, out) {
            Some(plan) => out.data(&fine(&source.name, &plan))?,
            None => code = exit::USAGE,
        }
    }
    Ok(code)
}

fn fine(name: &str, plan: &Plan) -> String {
    let path = plan::path_text(plan, &Graph::new(plan).critical_path());
    let nodes = sortie::text::plural(plan.nodes.len(), "node");
    format!("{}: ok ({nodes}, critical path {path})\n", sortie::text::printable(name))
}

fn show(args: &ShowArgs, out: &mut Out) -> Result<u8, Error> {
    let source = Source::read(&args.file)?;
    let Some(plan) = source.check(&known()?, out) else { return Ok(exit::USAGE) };
    let text = match args.format {
        Drawing::Tree => plan::tree(&plan),
        Drawing::Mermaid => plan::mermaid(&plan),
        Drawing::Dot => plan::dot(&plan),
        Drawing::Json => plan::json(&plan),
    };
    out.data(&text)?;
    Ok(exit::OK)
}

/// The text of a plan and what the user calls it.
pub(crate) struct Source {
    name: String,
    text: String,
}

impl Source {
    /// Reads a plan file; `-` is standard input.
    ///
    /// # Errors
    /// A usage error when it cannot be read or is not UTF-8.
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let stdin = path == Path::new("-");
        let name = if stdin { "<stdin>".to_owned() } else { path.display().to_string() };
        let bytes = if stdin {
            let mut bytes = Vec::new();
            std::io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
        } else if path.is_dir() {
            let message = format!("`{name}` is a directory, not a plan file");
            return Err(
                Error::usage(message).hint(format!("name the files in it: `{}`", path.join("*.toml").display()))
            );
        } else {
            std::fs::read(path)
        };
        let bytes = bytes.map_err(|error| Error::usage(format!("cannot read `{name}`: {}", reason(&error))))?;
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Source { name, text }),
            Err(error) => {
                let at = error.utf8_error().valid_up_to();
                let line = 1 + error.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count();
                let message = format!("cannot read `{name}`: line {line} is not UTF-8 text");
                Err(Error::usage(message).hint("save the file as UTF-8"))
            }
        }
    }

    /// The plan; its problems and warnings go to standard error.
    pub(crate) fn check(&self, known: &Known, out: &mut Out) -> Option<Plan> {
        let Checked { plan, problems } = plan::check(&self.text, Format::of(&self.name, &self.text), known);
        if !problems.is_empty() {
            out.note(problems.render(&self.name, &self.text, out.stderr_color).trim_end());
        }
        plan
    }
}
