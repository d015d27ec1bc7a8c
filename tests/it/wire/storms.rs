//! Many agents at a provider that has enough of them, on a clock that the test moves.

use super::kit::{Crowd, Frozen, answer, model, model_of, provider, settle, words};
use super::say::{self, PROTOCOLS};
use super::server::{Exchange, Plan, Received, Server};
use sortie::model::wire::Protocol;
use sortie::model::{ModelErrorKind, WaitCause};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

const AGENTS: usize = 32;
const STEP: Duration = Duration::from_millis(20);

fn limited(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Anthropic => r#"{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}"#,
        Protocol::OpenaiChat | Protocol::OpenaiResponses => {
            r#"{"error":{"message":"slow down","type":"requests","code":"rate_limit_exceeded"}}"#
        }
    }
}

fn overloaded() -> Plan {
    Plan::whole(
        529,
        "application/json",
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
    )
}

async fn fail_all(exchanges: Vec<Exchange>, headers: &[(&str, &str)], protocol: Protocol) {
    for exchange in exchanges {
        exchange.answer(429, headers, limited(protocol)).await.unwrap();
    }
}

/// Takes the requests that have come.
async fn take(server: &mut Server, count: usize) -> Vec<Exchange> {
    let mut exchanges = Vec::new();
    for _ in 0..count {
        exchanges.push(server.next().await);
    }
    exchanges
}

#[tokio::test]
async fn nobody_comes_back_before_the_provider_said_and_all_finish() {
    for (name, value, least) in [
        ("retry-after-ms", "1500", Duration::from_millis(1500)),
        ("retry-after", "2", Duration::from_secs(2)),
        ("retry-after", "1.5", Duration::from_millis(1500)),
        ("retry-after", "in three seconds", Duration::from_secs(1)),
    ] {
        let protocol = Protocol::Anthropic;
        let time = Frozen::new();
        let mut server = Server::gated().await.unwrap();
        let crowd = Crowd::ask(&model(&server, protocol), AGENTS);
        let first = take(&mut server, AGENTS).await;
        let told = Instant::now();
        let value =
            if value == "in three seconds" { &http_date(SystemTime::now() + Duration::from_secs(3)) } else { value };
        fail_all(first, &[(name, value)], protocol).await;
        let mut replies = crowd.replies;
        let mut done = 0;
        while done < AGENTS {
            time.until(STEP, || server.has_next()).await;
            let exchange = server.next().await;
            let after = exchange.received.at - told;
            assert!(after >= least, "{name}: {value}: a request after {after:?}");
            exchange.stream(&say::text("Done.").events(protocol)).await.unwrap();
            done += 1;
        }
        while let Some(reply) = replies.join_next().await {
            assert_eq!(words(&reply.unwrap().1.unwrap()), "Done.");
        }
        assert_eq!(server.received().len(), 2 * AGENTS, "{name}: {value}");
        drop(time);
        tokio::time::resume();
    }
}

/// As servers write dates.
fn http_date(time: SystemTime) -> String {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    let days = time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() / 86_400;
    // 2026-01-31T23:59:58Z
    let text = humantime::format_rfc3339_seconds(time).to_string();
    let month: usize = text[5..7].parse().unwrap();
    let (day, month) = (DAYS[days as usize % 7], MONTHS[month - 1]);
    format!("{day}, {} {month} {} {} GMT", &text[8..10], &text[..4], &text[11..19])
}

#[tokio::test]
async fn the_requests_per_minute_are_never_exceeded_retries_included() {
    const RPM: usize = 40;
    let protocol = Protocol::OpenaiChat;
    let time = Frozen::new();
    let server = Server::directed(by_try(move |before| match before {
        0 => Plan::whole(429, "application/json", limited(protocol)).header("retry-after-ms", "150"),
        _ => Plan::stream(say::text("Done.").events(protocol)),
    }));
    let server = server.await.unwrap();
    let mut paced = provider(server.url(), protocol);
    paced.rpm = Some(RPM as u32);
    let mut crowd = Crowd::ask(&model_of(paced), AGENTS);
    crowd.finish(&time, Duration::from_millis(100)).await;
    let arrivals: Vec<Instant> = server.received().iter().map(|received| received.at).collect();
    assert_eq!(arrivals.len(), 2 * AGENTS);
    for (at, one) in arrivals.iter().enumerate() {
        let within = arrivals[at..].iter().take_while(|other| **other - *one < Duration::from_secs(60)).count();
        assert!(within <= RPM, "{within} requests in a minute");
    }
    let mut causes = Vec::new();
    while let Ok((_, wait)) = crowd.waits.try_recv() {
        causes.push(wait.cause);
    }
    assert!(causes.contains(&WaitCause::Rate), "waits are told: {causes:?}");
}

/// Answers by how often the agent has asked before.
fn by_try(plan: impl Fn(usize) -> Plan + Send + Sync + 'static) -> impl Fn(&Received) -> Plan + Send + Sync + 'static {
    let tries: Mutex<BTreeMap<String, usize>> = Mutex::default();
    move |received| {
        let text = String::from_utf8_lossy(&received.body).into_owned();
        let agent: String = text.split_once("agent ").unwrap().1.chars().take_while(char::is_ascii_digit).collect();
        let mut tries = tries.lock().unwrap();
        let tries = tries.entry(agent).or_default();
        *tries += 1;
        plan(*tries - 1)
    }
}

#[tokio::test]
async fn a_storm_of_overload_is_sat_out_with_fewer_at_once() {
    for protocol in PROTOCOLS {
        let time = Frozen::new();
        let server = Server::directed(by_try(move |before| match before {
            0 | 1 => overloaded(),
            _ => Plan::stream(say::text("Done.").events(protocol)),
        }));
        let server = server.await.unwrap();
        let mut crowd = Crowd::ask(&model(&server, protocol), AGENTS);
        crowd.finish(&time, Duration::from_millis(100)).await;
        assert_eq!(server.received().len(), 3 * AGENTS, "{protocol:?}");
        drop(time);
        tokio::time::resume();
    }
}

#[tokio::test]
async fn overload_for_ever_ends_every_call_within_bounds_and_says_what_to_do() {
    let protocol = Protocol::Anthropic;
    let time = Frozen::new();
    let server = Server::directed(|_| overloaded());
    let server = server.await.unwrap();
    let mut crowd = Crowd::ask(&model(&server, protocol), AGENTS);
    let begun = Instant::now();
    let mut errors = Vec::new();
    time.until(Duration::from_millis(500), || {
        while let Some(reply) = crowd.replies.try_join_next() {
            errors.push(reply.unwrap().1.unwrap_err());
        }
        errors.len() == AGENTS
    })
    .await;
    assert!(begun.elapsed() < Duration::from_secs(15 * 60), "{:?}", begun.elapsed());
    assert!(server.received().len() <= 10 * AGENTS, "{}", server.received().len());
    for error in errors {
        assert_eq!(error.kind, ModelErrorKind::Overloaded, "{error}");
        assert!(error.message.contains("`fixture`") && !error.hint.is_empty(), "{error}");
    }
}

#[tokio::test]
async fn what_breaks_before_the_first_words_is_tried_again() {
    for protocol in PROTOCOLS {
        let head = say::text("x").parts(protocol)[0].clone();
        let mut error = head.clone();
        error.push(say::error(protocol, "overloaded_error", "too much to do"));
        for first in [
            Plan::stream(error),
            Plan::stream(head.clone()),
            Plan::stream(head).then_hang_up(),
            Plan::stream(Vec::<String>::new()).then_hang_up(),
            Plan::whole(500, "text/html", "<html>oops</html>"),
            Plan::whole(503, "application/json", "{}"),
            Plan::whole(408, "application/json", "{}"),
        ] {
            let time = Frozen::new();
            let shown = format!("{protocol:?}: {first:?}");
            let plan = first.clone();
            let server = Server::directed(move |received| match received.number {
                0 => plan.clone(),
                _ => Plan::stream(say::text("Done.").events(protocol)),
            });
            let server = server.await.unwrap();
            let model = model(&server, protocol);
            let call = tokio::spawn(async move { answer(model.as_ref(), "look").await });
            time.until(STEP, || call.is_finished()).await;
            let reply = call.await.unwrap().unwrap_or_else(|error| panic!("{shown}: {error}"));
            assert_eq!(words(&reply), "Done.", "{shown}");
            assert_eq!(server.received().len(), 2, "{shown}");
            drop(time);
            tokio::time::resume();
        }
    }
}

#[tokio::test]
async fn what_cannot_get_better_is_asked_once() {
    for protocol in PROTOCOLS {
        for (status, body, kind) in [
            (400, r#"{"error":{"type":"invalid_request_error","message":"bad"}}"#, ModelErrorKind::InvalidRequest),
            (401, r#"{"error":{"type":"authentication_error","message":"bad key"}}"#, ModelErrorKind::Auth),
            (404, r#"{"error":{"type":"not_found_error","message":"model: m"}}"#, ModelErrorKind::NotFound),
            (413, r#"{"error":{"type":"request_too_large","message":"too large"}}"#, ModelErrorKind::ContextFull),
            (
                429,
                r#"{"error":{"type":"insufficient_quota","code":"insufficient_quota","message":"no money"}}"#,
                ModelErrorKind::Quota,
            ),
        ] {
            let server = Server::directed(move |_| Plan::whole(status, "application/json", body)).await.unwrap();
            let error = answer(model(&server, protocol).as_ref(), "look").await.unwrap_err();
            assert_eq!(error.kind, kind, "{protocol:?} {status}: {error}");
            assert!(error.message.contains("`fixture`") || error.message.contains("`fixture/m`"), "{error}");
            settle().await;
            assert_eq!(server.received().len(), 1, "{protocol:?} {status}");
        }
    }
}
