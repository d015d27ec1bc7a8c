//! `sortie trace resend`: one recorded request again, as it was or changed.

use super::super::out::{self, Out};
use super::super::runs::short;
use super::super::secrets;
use super::super::settings::{self, Manner, SettingsArgs};
use super::render::{self, Cut};
use super::talk;
use serde_json::{Value, json};
use sortie::config::Providers;
use sortie::error::{Error, exit};
use sortie::model::StopKind;
use sortie::model::http::{NetSettings, Provider, Server, http_client};
use sortie::model::trace::{RequestLine, ResponseLine, reply_of};
use sortie::redact::HIDDEN;
use sortie::text::one_line;
use sortie::ui::duration;
use std::time::Duration;

/// Send one recorded request again, as it was or with changes
///
/// The key comes from the environment, as in a run. The request goes to the provider that it went to; when that provider
/// is at another host now than when the run was made, nothing is sent unless `--to` names the host. There is one try, and
/// nothing is recorded.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sortie trace resend last map --turn 2
  sortie trace resend last map --turn 2 --set temperature=0 --set max_tokens=500
  sortie trace resend last map --turn 2 --set thinking.budget_tokens=2000 --print
  sortie trace resend last coordinator --turn 1 --model openrouter/some/model")]
pub(crate) struct ResendArgs {
    /// The run's id, enough of its start or end to tell it, or `last`
    run: String,
    /// A node of it, or `coordinator`
    node: String,
    /// Which turn
    #[arg(long, value_name = "N")]
    turn: u32,
    /// This attempt instead of the last
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
    /// Change a parameter of the request: dots lead into objects, values are JSON or else text, no value takes it out
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = setting)]
    settings: Vec<(String, Option<Value>)>,
    /// Another model: of the same provider by its name, or of one that speaks the same protocol as `provider/model`
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// The host that it may go to, when it is not the recorded one
    #[arg(long, value_name = "HOST")]
    to: Option<String>,
    /// Print the body and send nothing
    #[arg(long)]
    print: bool,
    /// How long the server may send nothing
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = settings::duration)]
    idle_timeout: Duration,
    /// Cut nothing of the reply
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    workspace: super::super::WorkspaceArgs,
}

fn setting(text: &str) -> Result<(String, Option<Value>), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    let key = key.trim();
    if key.is_empty() || key.split('.').any(str::is_empty) {
        return Err("expected KEY=VALUE, such as temperature=0 or thinking.budget_tokens=2000".to_string());
    }
    let value = match value {
        "" => None,
        text => Some(serde_json::from_str(text).unwrap_or_else(|_| json!(text))),
    };
    Ok((key.to_string(), value))
}

pub(super) fn main(args: &ResendArgs, out: &mut Out) -> Result<u8, Error> {
    let recorded = recorded(args, out)?;
    let unreadable = |error: serde_json::Error| Error::usage(format!("the recorded body cannot be read: {error}"));
    let mut body: Value = serde_json::from_str(recorded.body.get()).map_err(unreadable)?;
    for (key, value) in &args.settings {
        change(&mut body, key, value.clone())?;
    }
    let (provider, model) = target(args, &recorded);
    if let Some(model) = model {
        change(&mut body, "model", Some(json!(model)))?;
    }
    if recorded.body.get().contains(HIDDEN) {
        out.note(&format!("note: where a secret was, the recorded request says `{HIDDEN}`"));
    }
    if args.print {
        out.data(&format!("{body:#}\n"))?;
        return Ok(exit::OK);
    }
    let (provider, net) = open_provider(args, provider, out)?;
    may_send(args, &recorded, &provider)?;
    let name = model.map_or_else(|| recorded.model.clone(), |model| format!("{}/{model}", provider.name));
    let protocol = provider.protocol;
    let answer = send(provider, &net, &body, args.idle_timeout)?;
    let (reply, problem) = reply_of(protocol, &name, &answer);
    let cut = if args.full { Cut::Nothing } else { Cut::Long };
    let mut text = String::new();
    reply.blocks.iter().for_each(|block| render::block(&mut text, "reply", &json!(block), cut));
    let stop = (reply.stop != StopKind::StreamCut).then_some(reply.stop);
    if stop.is_some() {
        text.push_str(&format!("stop: {}\n", render::ending(stop, &reply.usage)));
    }
    out.data(&text)?;
    out.note(&format!("{} after {}", answer.status.unwrap_or_default(), duration(answer.ms)));
    match problem {
        None => Ok(exit::OK),
        Some(problem) => Err(Error { code: exit::MODEL, message: one_line(&problem, 400), hint: String::new() }),
    }
}

/// The last try of the call.
fn recorded(args: &ResendArgs, out: &mut Out) -> Result<RequestLine, Error> {
    let found = super::find(&args.workspace, &args.run)?;
    let mut warnings = Vec::new();
    let of_node = talk::traced(&found, |request| request.conversation == args.node, &mut warnings)?;
    for warning in warnings {
        out.note(&format!("warning: {}", one_line(&warning, 400)));
    }
    if of_node.is_empty() {
        // Says what there is, or why there is nothing.
        talk::read(&found, talk::Source::Wire, Some(&args.node), &mut Vec::new())?;
    }
    let requests: Vec<RequestLine> = of_node.into_iter().map(|traced| traced.request).collect();
    let attempt = args.attempt.or_else(|| requests.iter().map(|request| request.attempt).max()).unwrap_or_default();
    let fits = |request: &&RequestLine| request.turn == args.turn && request.attempt == attempt;
    match requests.iter().rev().find(fits) {
        Some(request) => Ok(request.clone()),
        None => {
            let mut turns: Vec<u32> = requests.iter().filter(|r| r.attempt == attempt).map(|r| r.turn).collect();
            turns.dedup();
            let turns: Vec<String> = turns.iter().map(ToString::to_string).collect();
            let node = one_line(&args.node, 60);
            let what = format!("`{node}` of run `{}` has no turn {} in attempt {attempt}", short(&found.id), args.turn);
            Err(Error::usage(what).hint(match turns.as_slice() {
                [] => "`sortie trace show RUN` lists attempts and turns".to_string(),
                turns => format!("its turns are {}", turns.join(", ")),
            }))
        }
    }
}

/// Which provider it goes to, and which model it names there when that changes.
fn target<'a>(args: &'a ResendArgs, recorded: &'a RequestLine) -> (&'a str, Option<&'a str>) {
    let Some(wanted) = args.model.as_deref() else { return (&recorded.provider, None) };
    match wanted.split_once('/') {
        // A model's own name may have a slash in it: the recorded provider's does when the provider says so.
        Some((provider, model)) if provider != recorded.provider && !model.is_empty() => (provider, Some(model)),
        Some((_, model)) => (&recorded.provider, Some(model)),
        None => (&recorded.provider, Some(wanted)),
    }
}

fn change(body: &mut Value, key: &str, value: Option<Value>) -> Result<(), Error> {
    let mut place = body;
    let mut steps = key.split('.').peekable();
    while let Some(step) = steps.next() {
        if place.is_null() {
            *place = json!({});
        }
        let Some(object) = place.as_object_mut() else {
            return Err(Error::usage(format!("`{key}` leads into something that is no object")));
        };
        if steps.peek().is_some() {
            place = object.entry(step).or_insert(Value::Null);
            continue;
        }
        match value {
            Some(value) => _ = object.insert(step.to_string(), value),
            None => _ = object.shift_remove(step),
        }
        return Ok(());
    }
    Ok(())
}

/// A key goes only where the user has said: a trace may come along with a workspace.
fn may_send(args: &ResendArgs, recorded: &RequestLine, provider: &Provider) -> Result<(), Error> {
    let name = &provider.name;
    if provider.protocol != recorded.protocol {
        let spoken =
            |protocol| serde_json::to_value(protocol).unwrap_or_default().as_str().unwrap_or_default().to_string();
        return Err(Error::usage(format!(
            "the request is in the words of `{}`, and `{name}` speaks `{}`",
            spoken(recorded.protocol),
            spoken(provider.protocol)
        ))
        .hint("name a model of a provider that speaks the same"));
    }
    let endpoint = provider.endpoint().map_err(|problem| Error::usage(format!("provider `{name}`: {problem}")))?;
    let place = |url: &str| {
        url.split_once("://").map_or(url, |(_, rest)| rest).split(['/', '?']).next().unwrap_or_default().to_string()
    };
    let (now, then) = (place(endpoint.as_str()), place(&recorded.url));
    let told = args.to.as_deref().map(str::trim);
    // Who names another provider has said where it goes.
    let named = told.is_none() && *name != recorded.provider;
    if told.unwrap_or(&then) == now || named {
        return Ok(());
    }
    Err(match told {
        Some(told) => Error::usage(format!("`{name}` is at `{now}`, not at `{}`", one_line(told, 100)))
            .hint(format!("--to {now} sends it there")),
        None => Error::usage(format!("it was sent to `{}`, and `{name}` is at `{now}` now", one_line(&then, 100)))
            .hint(format!("--to {now} sends it there")),
    })
}

/// The provider by settings and environment, as a run would have it, and how servers are reached.
fn open_provider(args: &ResendArgs, name: &str, out: &mut Out) -> Result<(Provider, NetSettings), Error> {
    let loaded = settings::load(&args.workspace.directory, false, Manner::Look, out)?;
    let providers = Providers::new(&loaded.settings, &settings::variable);
    secrets::known(&providers.secret_variables());
    let provider = providers.provider(name, 1).map_err(|problem| Error::usage(problem.message).hint(problem.hint))?;
    Ok((provider, loaded.net(&SettingsArgs::default())))
}

fn send(provider: Provider, net: &NetSettings, body: &Value, idle: Duration) -> Result<ResponseLine, Error> {
    let unusable = |problem: String| Error::usage(problem);
    let client = http_client(net, provider.ca_file.as_deref()).map_err(unusable)?;
    let server = Server::new(provider, client, 0, None).map_err(unusable)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Error::failed(format!("cannot start the runtime: {}", out::reason(&error))))?;
    runtime.block_on(server.send_by_hand(body, idle)).map_err(|error| {
        let hint = error.hint.clone();
        Error { code: exit::MODEL, message: error.hint("").to_string(), hint }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_reach_into_objects_and_take_things_out() {
        let mut body = json!({ "max_tokens": 5, "thinking": { "type": "enabled" }, "stop": ["a"] });
        for text in
            ["max_tokens=7", "thinking.budget_tokens=2000", "stop=", "model=a/b", "new.deep=true", "words=\"7\""]
        {
            let (key, value) = setting(text).unwrap();
            change(&mut body, &key, value).unwrap();
        }
        let expected = json!({
            "max_tokens": 7,
            "thinking": { "type": "enabled", "budget_tokens": 2000 },
            "model": "a/b",
            "new": { "deep": true },
            "words": "7",
        });
        assert_eq!(body, expected);
        assert_eq!(
            change(&mut body, "max_tokens.x", None).unwrap_err().message,
            "`max_tokens.x` leads into something that is no object"
        );
        assert!(setting("temperature").is_err() && setting("=1").is_err() && setting("a..b=1").is_err());
    }
}
