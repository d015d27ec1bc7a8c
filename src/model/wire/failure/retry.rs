//! When to come back, from headers. Pure: `now` is the time since the Unix epoch.

use super::RetryHint;
use std::time::{Duration, UNIX_EPOCH};

/// What a provider's headers say of its limits, on any answer.
///
/// Anthropic: `anthropic-ratelimit-{requests,tokens,input-tokens,output-tokens}-{remaining,reset}`, resets in RFC 3339.
/// OpenAI and relatives: `x-ratelimit-{remaining,reset}-{requests,tokens}`, resets as Go writes durations (`6m0s`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateState {
    /// Requests that are left in the current window.
    pub remaining_requests: Option<u64>,
    /// Tokens that are left, of the kind that is scarcest.
    pub remaining_tokens: Option<u64>,
    /// Where nothing is left of something: the time until there is again, the longest of them.
    pub reset: Option<Duration>,
}

impl RateState {
    /// Reads the headers of an answer; `header` gives a value by its name in small letters.
    pub fn read<'h>(header: impl Fn(&str) -> Option<&'h str>, now: Duration) -> Self {
        const LIMITS: [(&str, &str, bool); 7] = [
            ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset", true),
            ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset", false),
            ("anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset", false),
            ("anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-reset", false),
            ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests", true),
            ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens", false),
            ("x-ratelimit-remaining", "x-ratelimit-reset", true),
        ];
        let mut state = RateState::default();
        for (remaining, reset, requests) in LIMITS {
            let Some(left) = header(remaining).and_then(|left| left.trim().parse::<u64>().ok()) else { continue };
            let total = if requests { &mut state.remaining_requests } else { &mut state.remaining_tokens };
            *total = Some(total.map_or(left, |other| other.min(left)));
            if left == 0 {
                state.reset = state.reset.max(header(reset).and_then(|reset| moment(reset, now)));
            }
        }
        state
    }
}

/// What the headers of a failed call want. `told` is what its body said.
pub(super) fn hint<'h>(
    told: RetryHint,
    status: u16,
    header: &impl Fn(&str) -> Option<&'h str>,
    now: Duration,
) -> RetryHint {
    let after = header("retry-after-ms")
        .and_then(|ms| seconds(ms, 1e-3))
        .or_else(|| header("retry-after").and_then(|after| seconds(after, 1.0).or_else(|| date(after, now))))
        .or(told.after)
        .or_else(|| if status == 429 { RateState::read(header, now).reset } else { None });
    let should = match header("x-should-retry").map(str::trim) {
        Some("true") => Some(true),
        Some("false") => Some(false),
        Some(_) | None => None,
    };
    RetryHint { after, should }
}

/// A number of such units, fractions too; nothing where it is none.
fn seconds(number: &str, unit: f64) -> Option<Duration> {
    let number: f64 = number.trim().parse().ok()?;
    if number.is_nan() || number.is_sign_negative() && number != 0.0 {
        return None;
    }
    Some(Duration::try_from_secs_f64(number * unit).unwrap_or(Duration::MAX))
}

/// The time from now to a moment that a rate-limit header gives: RFC 3339, an HTTP date, a Go duration, seconds, or
/// seconds or milliseconds since the epoch (OpenRouter).
fn moment(value: &str, now: Duration) -> Option<Duration> {
    let value = value.trim();
    if let Some(plain) = seconds(value, 1.0) {
        return Some(match plain.as_secs() {
            0..1_000_000_000 => plain,
            1_000_000_000..1_000_000_000_000 => plain.saturating_sub(now),
            1_000_000_000_000.. => (plain / 1000).saturating_sub(now),
        });
    }
    go_duration(value).or_else(|| rfc3339(value, now)).or_else(|| date(value, now))
}

/// `6m0s`, `1h2m3.5s`, `20ms`: as Go's `time.Duration` writes itself.
pub(super) fn go_duration(value: &str) -> Option<Duration> {
    let mut rest = value.trim();
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(digits);
        let end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let unit = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" | "μs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        total = total.saturating_add(seconds(number, unit)?);
        rest = tail;
    }
    Some(total)
}

fn rfc3339(value: &str, now: Duration) -> Option<Duration> {
    let value = value.strip_suffix("+00:00").map_or_else(|| value.to_string(), |start| format!("{start}Z"));
    let at = humantime::parse_rfc3339(&value).ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(at.saturating_sub(now))
}

/// An HTTP date (`Sun, 06 Nov 1994 08:49:37 GMT`), the only form that may still be written. A moment that is past is no
/// wait.
fn date(value: &str, now: Duration) -> Option<Duration> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let mut parts = value.trim().split_once(", ")?.1.split_ascii_whitespace();
    let (day, month, year, time) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    (parts.next() == Some("GMT")).then(|| rfc3339(&format!("{year}-{month:02}-{day:0>2}T{time}Z"), now))?
}
