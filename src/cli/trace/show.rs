//! `sortie trace show`: a conversation as it was sent, turn by turn.

use super::super::out::Out;
use super::super::runs::short;
use super::render::{self, Cut, Frame};
use super::talk::{self, Call, Source, Try};
use serde_json::Value;
use sortie::error::{Error, exit};
use sortie::event::Timestamp;
use sortie::model::trace::{RequestLine, TRACE_FILE};
use sortie::store::FoundRun;
use sortie::text::one_line;
use sortie::ui::{columns, duration};

/// Show what models were sent and what they answered, turn by turn
///
/// Each turn shows what is new in its request (system text and tools once), every try with its status and times, and the
/// reply with its usage. A run alone gives the list of its conversations.
///
/// A run made with --trace-http is shown as it went over the wire; any other from its transcripts, which hold the same
/// conversation without settings, tries and times.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sortie run \"how are errors reported?\" --trace-http
  sortie trace show last
  sortie trace show last coordinator --turn 2
  sortie trace show last 'part[1]' --raw | jq .")]
pub(crate) struct ShowArgs {
    /// The run's id, enough of its start or end to tell it, or `last`
    run: String,
    /// A node of it, or `coordinator`
    node: Option<String>,
    /// Only this turn
    #[arg(long, value_name = "N", requires = "node")]
    turn: Option<u32>,
    /// This attempt instead of the last
    #[arg(long, value_name = "N", requires = "node")]
    attempt: Option<u32>,
    /// Cut nothing, and show tools with their schemas
    #[arg(long, conflicts_with = "raw")]
    full: bool,
    /// The lines of `http.jsonl` as they stand
    #[arg(long)]
    raw: bool,
    #[command(flatten)]
    workspace: super::super::WorkspaceArgs,
}

pub(super) fn main(args: &ShowArgs, out: &mut Out) -> Result<u8, Error> {
    let found = super::find(&args.workspace, &args.run)?;
    let mut warnings = Vec::new();
    let text = match args.raw {
        true => raw(&found, args, &mut warnings)?,
        false => talk(&found, args, out, &mut warnings)?,
    };
    for warning in warnings {
        out.note(&format!("warning: {}", one_line(&warning, 400)));
    }
    out.data(&text)?;
    Ok(exit::OK)
}

fn raw(found: &FoundRun, args: &ShowArgs, warnings: &mut Vec<String>) -> Result<String, Error> {
    let wanted = |request: &RequestLine| {
        args.node.as_ref().is_none_or(|node| *node == request.conversation)
            && args.turn.is_none_or(|turn| turn == request.turn)
            && args.attempt.is_none_or(|attempt| attempt == request.attempt)
    };
    let mut text = String::new();
    for traced in talk::traced(found, wanted, warnings)? {
        let lines = [serde_json::to_string(&traced.request), serde_json::to_string(&traced.response)];
        // A line that was read can be written; an exchange without an end has one line.
        lines.into_iter().flatten().filter(|line| line != "null").for_each(|line| text.push_str(&(line + "\n")));
    }
    Ok(text)
}

fn talk(found: &FoundRun, args: &ShowArgs, out: &mut Out, warnings: &mut Vec<String>) -> Result<String, Error> {
    let source = match talk::trace_of(found) {
        Some(_) => Source::Wire,
        None => {
            let run = short(&found.id);
            out.note(&format!(
                "note: run `{run}` has no {TRACE_FILE}, which --trace-http writes; this is from its transcripts"
            ));
            Source::Transcript
        }
    };
    let conversations = talk::read(found, source, args.node.as_deref(), warnings)?;
    let Some(node) = &args.node else { return Ok(overview(&conversations, out)) };
    let attempts: Vec<u32> = conversations.keys().map(|(_, attempt)| *attempt).collect();
    let attempt = args.attempt.or_else(|| attempts.iter().copied().max()).unwrap_or_default();
    let Some(calls) = conversations.get(&(node.clone(), attempt)) else {
        return Err(Error::usage(format!("`{}` has no attempt {attempt}", one_line(node, 60)))
            .hint(format!("its attempts are {}", list(&attempts))));
    };
    if let Some(turn) = args.turn
        && !calls.iter().any(|call| call.turn == turn)
    {
        let turns: Vec<u32> = calls.iter().map(|call| call.turn).collect();
        return Err(Error::usage(format!("`{}` has no turn {turn}", one_line(node, 60)))
            .hint(format!("its turns are {}", list(&turns))));
    }
    Ok(conversation(calls, args.turn, if args.full { Cut::Nothing } else { Cut::Long }))
}

fn list(numbers: &[u32]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn overview(conversations: &indexmap::IndexMap<talk::Key, talk::Calls>, out: &Out) -> String {
    let mut rows = vec![["conversation", "attempt", "turns", "tries", "model"].map(str::to_string)];
    for ((name, attempt), calls) in conversations {
        let tries: usize = calls.iter().map(|call| call.tries.len()).sum();
        let model = calls.last().map(|call| call.model.clone()).unwrap_or_default();
        let tries = if tries == 0 { String::new() } else { tries.to_string() };
        rows.push([one_line(name, 60), attempt.to_string(), calls.len().to_string(), tries, model]);
    }
    if rows.len() == 1 {
        return "no model has answered\n".to_string();
    }
    columns(&rows, out.stdout_columns(), &[1, 2, 3])
}

/// All turns, or one, each with what is new in it.
fn conversation(calls: &[Call], only: Option<u32>, cut: Cut) -> String {
    let mut text = String::new();
    if let Some(first) = calls.first() {
        let about = format!("{}, attempt {}, {}", first.conversation, first.attempt, first.model);
        text.push_str(&format!("{}\n", one_line(&about, 200)));
    }
    for (at, call) in calls.iter().enumerate().filter(|(_, call)| only.is_none_or(|turn| turn == call.turn)) {
        let before = at.checked_sub(1).and_then(|before| calls.get(before));
        text.push('\n');
        heading(&mut text, call);
        request(&mut text, call, before, cut);
        call.tries.iter().enumerate().for_each(|(at, one)| {
            attempt(&mut text, one, at.checked_sub(1).and_then(|before| call.tries.get(before)));
        });
        reply(&mut text, call, cut);
    }
    text
}

fn heading(text: &mut String, call: &Call) {
    text.push_str(&format!("== turn {}", call.turn));
    if let Some(first) = call.tries.first() {
        text.push_str(&format!(" · {} · {}", clock(first.at), one_line(&first.url, 120)));
    }
    text.push('\n');
}

/// `2026-01-31 23:59:58.123`, in UTC.
fn clock(at: Timestamp) -> String {
    let text = serde_json::to_value(at).unwrap_or_default();
    text.as_str().unwrap_or_default().replace('T', " ").replace('Z', "")
}

/// What this request says that the one before did not.
fn request(text: &mut String, call: &Call, before: Option<&Call>, cut: Cut) {
    let frame = Frame::of(&call.request);
    let earlier = before.map(|before| Frame::of(&before.request));
    let changed: Vec<String> = frame
        .settings
        .iter()
        .filter(|setting| earlier.as_ref().is_none_or(|earlier| !earlier.settings.contains(setting)))
        .map(|(key, value)| format!("{key}={}", one_line(value, 80)))
        .collect();
    if !changed.is_empty() {
        text.push_str(&format!("settings: {}\n", one_line(&changed.join(" "), 400)));
    }
    if earlier.as_ref().is_none_or(|earlier| earlier.system != frame.system) {
        render::section(text, "system", &frame.system, cut);
    }
    if earlier.as_ref().is_none_or(|earlier| earlier.tools != frame.tools) {
        text.push_str(&format!("tools: {}\n", one_line(&frame.tool_names(), 400)));
        if cut == Cut::Nothing {
            frame.tools.iter().for_each(|tool| render::section(text, "tool", &format!("{tool:#}"), cut));
        }
    }
    let known: Vec<Value> =
        earlier.iter().flat_map(|earlier| &earlier.messages).map(|m| render::without_marks(m)).collect();
    let same =
        frame.messages.iter().zip(&known).take_while(|(now, before)| render::without_marks(now) == **before).count();
    if same < known.len() {
        text.push_str(&format!("(this request does not begin with the one before: message {same} is another)\n"));
    }
    let mut new = frame.messages[same..].iter().peekable();
    if before.is_some() && new.peek().is_some_and(|message| render::is_own(message)) {
        text.push_str("(its reply, sent back)\n");
        while new.next_if(|message| render::is_own(message)).is_some() {}
    }
    new.for_each(|message| render::message(text, message, cut));
}

/// One try: what became of it, and how long it was after the one before.
fn attempt(text: &mut String, one: &Try, before: Option<&Try>) {
    if let Some(before) = before {
        text.push_str(&format!("   waited {}\n", seconds(one.at.since(before.ended()).as_millis())));
    }
    text.push_str(&format!("-> try {}: ", one.number));
    let Some(response) = &one.response else {
        text.push_str("the trace ends before an answer\n");
        return;
    };
    match response.status {
        Some(status) => text.push_str(&format!("{status} after {}", duration(response.ms))),
        None => text.push_str(&format!("no answer after {}", duration(response.ms))),
    }
    if let Some(first) = response.first_byte_ms {
        text.push_str(&format!(", first byte after {}", duration(first)));
    }
    if let Some(id) = &response.request_id {
        text.push_str(&format!(", request {}", one_line(id, 100)));
    }
    if let Some(problem) = &one.problem {
        text.push_str(&format!(": {}", one_line(problem, 400)));
    }
    text.push('\n');
}

fn seconds(ms: u128) -> String {
    duration(u64::try_from(ms).unwrap_or(u64::MAX))
}

fn reply(text: &mut String, call: &Call, cut: Cut) {
    call.reply.iter().for_each(|block| render::block(text, "reply", block, cut));
    if call.stop.is_some() || !call.reply.is_empty() {
        text.push_str(&format!("stop: {}\n", render::ending(call.stop, &call.usage)));
    }
    // What was wrong stands beside the last try; a transcript has none.
    if let (Some(problem), true) = (&call.problem, call.tries.is_empty()) {
        text.push_str(&format!("problem: {}\n", one_line(problem, 400)));
    }
}
