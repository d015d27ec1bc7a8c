//! `sortie trace diff`: two runs, conversation by conversation, to where they first part.

use super::super::out::Out;
use super::super::runs::short;
use super::talk::{self, Call, Calls, Key, Source};
use indexmap::IndexMap;
use serde_json::{Map, Value, json};
use sortie::error::{Error, exit};
use sortie::model::trace::{TRACE_FILE, first_difference};
use sortie::store::FoundRun;
use sortie::text::{one_line, plural, printable};
use sortie::ui::columns;
use std::collections::HashMap;

/// Compare what models were sent and answered in two runs, to the first difference
///
/// Two runs made with --trace-http are compared as they went over the wire, any others by their transcripts. What
/// providers make up anew each time (ids of calls, signatures) is not compared.
///
/// Exit code 0 when they are the same, 1 when they are not.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sortie trace diff last 0199
  sortie trace diff 5f3a 77b1 'part[1]'")]
pub(crate) struct DiffArgs {
    /// A run: its id, enough of its start or end to tell it, or `last`
    #[arg(value_name = "RUN")]
    left: String,
    /// The run that it is compared with
    #[arg(value_name = "OTHER")]
    right: String,
    /// Only this node, or `coordinator`
    node: Option<String>,
    #[command(flatten)]
    workspace: super::super::WorkspaceArgs,
}

pub(super) fn main(args: &DiffArgs, out: &mut Out) -> Result<u8, Error> {
    let (left, right) = (super::find(&args.workspace, &args.left)?, super::find(&args.workspace, &args.right)?);
    let source = source(&left, &right, out);
    let mut warnings = Vec::new();
    let node = args.node.as_deref();
    let both = Both {
        left: talk::read(&left, source, node, &mut warnings)?,
        right: talk::read(&right, source, node, &mut warnings)?,
        names: [short(&left.id), short(&right.id)],
    };
    for warning in warnings {
        out.note(&format!("warning: {}", one_line(&warning, 400)));
    }
    let verdicts = both.verdicts();
    out.data(&both.text(&verdicts, out.stdout_columns()))?;
    let same = verdicts.iter().all(|(_, verdict)| matches!(verdict, Verdict::Same { .. }));
    Ok(if same { exit::OK } else { exit::FAILED })
}

fn source(left: &FoundRun, right: &FoundRun, out: &mut Out) -> Source {
    let lacking: Vec<&FoundRun> = [left, right].into_iter().filter(|run| talk::trace_of(run).is_none()).collect();
    match lacking.as_slice() {
        [] => return Source::Wire,
        [one] => out.note(&format!("note: run `{}` has no {TRACE_FILE}; compared by transcripts", short(&one.id))),
        // Nobody asked for a trace of either: transcripts are what there is.
        _ => {}
    }
    Source::Transcript
}

struct Both {
    left: IndexMap<Key, Calls>,
    right: IndexMap<Key, Calls>,
    names: [String; 2],
}

/// What a conversation of the two runs comes to.
enum Verdict {
    Same {
        turns: usize,
    },
    /// Only one run has it: the left or the right.
    Only(usize),
    /// One ends after this turn, the left or the right, and the other goes on.
    Ends {
        after: u32,
        which: usize,
    },
    Parts {
        turn: u32,
        place: String,
        sides: [String; 2],
    },
}

impl Both {
    /// Conversations in the order in which the left run began them, then those that only the right one has.
    fn verdicts(&self) -> Vec<(&Key, Verdict)> {
        let left = self.left.iter().map(|(key, calls)| match self.right.get(key) {
            Some(others) => (key, compare(calls, others)),
            None => (key, Verdict::Only(0)),
        });
        let only_right = self.right.keys().filter(|key| !self.left.contains_key(*key));
        left.chain(only_right.map(|key| (key, Verdict::Only(1)))).collect()
    }

    fn text(&self, verdicts: &[(&Key, Verdict)], width: Option<usize>) -> String {
        if verdicts.iter().all(|(_, verdict)| matches!(verdict, Verdict::Same { .. })) {
            let turns =
                verdicts.iter().map(|(_, verdict)| if let Verdict::Same { turns } = verdict { *turns } else { 0 });
            let (all, turns) = (plural(verdicts.len(), "conversation"), plural(turns.sum(), "turn"));
            return format!("identical: {all}, {turns}\n");
        }
        let row = |(key, verdict): &(&Key, Verdict)| [title(key), self.words(verdict)];
        let rows: Vec<[String; 2]> = verdicts.iter().map(row).collect();
        let mut out = columns(&rows, width, &[]);
        let first = verdicts.iter().find_map(|(key, verdict)| match verdict {
            Verdict::Parts { turn, place, sides } => Some((key, turn, place, sides)),
            Verdict::Same { .. } | Verdict::Only(_) | Verdict::Ends { .. } => None,
        });
        if let Some((key, turn, place, sides)) = first {
            out.push_str(&format!("\nfirst difference: {}, turn {turn}, {place}\n", title(key)));
            for (name, side) in self.names.iter().zip(sides) {
                out.push_str(&format!("  {name}  {}\n", printable(side)));
            }
        }
        out
    }

    fn words(&self, verdict: &Verdict) -> String {
        match verdict {
            Verdict::Same { turns } => format!("identical, {}", plural(*turns, "turn")),
            Verdict::Only(which) => format!("only in {}", self.names[*which]),
            Verdict::Ends { after, which } => {
                format!(
                    "identical up to turn {after}, where {} ends and {} goes on",
                    self.names[*which],
                    self.names[1 - which]
                )
            }
            Verdict::Parts { turn, place, .. } => format!("differs from turn {turn} on: {place}"),
        }
    }
}

fn title((name, attempt): &Key) -> String {
    let name = one_line(name, 60);
    if *attempt > 1 { format!("{name} (attempt {attempt})") } else { name }
}

fn compare(left: &Calls, right: &Calls) -> Verdict {
    let mut neutral = [Neutral::default(), Neutral::default()];
    for (a, b) in left.iter().zip(right) {
        let parts = [("request", [a.request.clone(), b.request.clone()]), ("reply", [said(a), said(b)])];
        for (what, [a_said, b_said]) in parts {
            if let Some(found) = first_difference(&neutral[0].of(&a_said), &neutral[1].of(&b_said)) {
                let place = format!("{what}: {}", found.place);
                return Verdict::Parts { turn: a.turn, place, sides: [found.left, found.right] };
            }
        }
    }
    let (ends, which) = if left.len() < right.len() { (left, 0) } else { (right, 1) };
    match ends.last() {
        Some(last) if left.len() != right.len() => Verdict::Ends { after: last.turn, which },
        Some(_) | None => Verdict::Same { turns: left.len() },
    }
}

fn said(call: &Call) -> Value {
    json!({ "blocks": call.reply, "stop": call.stop, "problem": call.problem })
}

/// Takes out of one conversation what providers make up anew each time.
#[derive(Default)]
struct Neutral {
    /// Numbers of ids, in the order in which they came.
    ids: HashMap<String, usize>,
}

/// Keys whose value is an id of a call.
const IDS: [&str; 4] = ["id", "tool_use_id", "tool_call_id", "call_id"];
/// Keys of what only its provider can read.
const OPAQUE: [&str; 6] = ["signature", "thought_signature", "encrypted_content", "opaque", "data", "cache_control"];

impl Neutral {
    fn of(&mut self, value: &Value) -> Value {
        match value {
            Value::Object(object) => {
                // Thinking in the normal form is its provider's as a whole.
                let thinking = object.get("type").is_some_and(|kind| kind == "thinking");
                let is_opaque = |key: &str| OPAQUE.contains(&key) || (thinking && key == "value");
                let kept = object.iter().filter(|(key, _)| !is_opaque(key));
                let neutral = |(key, value): (&String, &Value)| match value {
                    Value::String(id) if IDS.contains(&key.as_str()) => (key.clone(), json!(self.number(id))),
                    value => (key.clone(), self.of(value)),
                };
                Value::Object(kept.map(neutral).collect::<Map<_, _>>())
            }
            Value::Array(list) => Value::Array(list.iter().map(|value| self.of(value)).collect()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
        }
    }

    fn number(&mut self, id: &str) -> String {
        let next = self.ids.len() + 1;
        format!("id {}", self.ids.entry(id.to_string()).or_insert(next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_signatures_do_not_count_and_which_call_is_meant_does() {
        let talk = |ids: [&str; 3], signature: &str| {
            json!([
                { "type": "tool_use", "id": ids[0], "name": "a" },
                { "type": "tool_use", "id": ids[1], "name": "b", "signature": signature },
                { "type": "tool_result", "tool_use_id": ids[2] },
            ])
        };
        let neutral = |value: &Value| Neutral::default().of(value);
        assert_eq!(neutral(&talk(["x", "y", "y"], "1")), neutral(&talk(["p", "q", "q"], "2")));
        assert_ne!(neutral(&talk(["x", "y", "y"], "1")), neutral(&talk(["p", "q", "p"], "1")));
    }
}
