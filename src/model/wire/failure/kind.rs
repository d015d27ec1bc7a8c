//! What kind of failure it is: by status, type and code first, by wording where providers leave no other sign.
//!
//! The wordings are those that providers were seen to send; `tests/it/wire_failures.rs` names them.

use super::body::Told;
use crate::model::ModelErrorKind;

/// What the order of the questions decides: money before rate (both come as 429), tools and length before a plain bad
/// request, all of these before what the status alone says.
pub(super) fn of(status: Option<u16>, told: &Told) -> ModelErrorKind {
    let codes = told.codes.as_str();
    let words = told.message.to_lowercase();
    let says = |table: &[&str]| table.iter().any(|part| words.contains(part));
    let coded = |table: &[&str]| table.iter().any(|part| codes.contains(part));
    // Google words its limits per minute like a used-up quota, and adds when to come back.
    let comes_back = told.retry_after.is_some() || words.contains("please retry in");

    if status == Some(402) || coded(QUOTA_CODES) || says(QUOTA_WORDS) && !comes_back {
        return ModelErrorKind::Quota;
    }
    // A moderated prompt (OpenRouter's 403) has nothing to do with the key.
    if status == Some(403) && says(&["requires moderation", "flagged"]) {
        return ModelErrorKind::InvalidRequest;
    }
    if matches!(status, Some(401 | 403)) || coded(AUTH_CODES) || says(AUTH_WORDS) {
        return ModelErrorKind::Auth;
    }
    let limited = status == Some(429) || coded(RATE_CODES);
    if !limited && says(NO_TOOLS_WORDS) {
        return ModelErrorKind::NoTools;
    }
    // One request over the limit of a minute never gets through: it has to become shorter, as with a full window.
    let never_fits = words.contains("request too large");
    if status == Some(413) || coded(CONTEXT_CODES) || never_fits || !limited && overflows(&words) {
        return ModelErrorKind::ContextFull;
    }
    if coded(OVERLOADED_CODES) || matches!(status, Some(503 | 529)) || limited && says(&["overloaded"]) {
        return ModelErrorKind::Overloaded;
    }
    if limited {
        return ModelErrorKind::RateLimit;
    }
    if matches!(status, Some(404 | 405)) || coded(NOT_FOUND_CODES) || says(NOT_FOUND_WORDS) {
        return ModelErrorKind::NotFound;
    }
    match status {
        Some(408 | 409 | 500..) => ModelErrorKind::Server,
        Some(200..300) => ModelErrorKind::Protocol,
        Some(_) => ModelErrorKind::InvalidRequest,
        None if coded(&["invalid_request", "bad_request", "badrequest", "invalid_prompt"]) => {
            ModelErrorKind::InvalidRequest
        }
        None if says(&["overloaded"]) => ModelErrorKind::Overloaded,
        None if says(&["rate limit", "too many requests"]) => ModelErrorKind::RateLimit,
        // An error in a stream that had begun well.
        None => ModelErrorKind::Server,
    }
}

fn overflows(words: &str) -> bool {
    OVERFLOW_WORDS.iter().any(|parts| parts.split(" … ").all(|part| words.contains(part)))
}

const QUOTA_CODES: &[&str] = &[
    "insufficient_quota",
    "insufficient_balance",
    "billing",
    "spend_limit",
    "exceeded_current_quota",
    "payment_required",
    "credits_exhausted",
    "arrearage",
];
const QUOTA_WORDS: &[&str] = &[
    "credit balance is too low",
    "exceeded your current quota",
    "insufficient balance",
    "insufficient credits",
    "requires more credits",
    "reached your specified api usage limits",
    "spend limit",
    "billing hard limit",
    "account is not active, please check your billing",
];
const AUTH_CODES: &[&str] = &[
    "authentication",
    "permission_error",
    "permission_denied",
    "invalid_api_key",
    "invalid_authentication",
    "incorrect_api_key",
    "unauthorized",
    "unauthenticated",
    "organization_on_hold",
];
const AUTH_WORDS: &[&str] = &["api key not valid", "invalid api key", "incorrect api key"];
const RATE_CODES: &[&str] =
    &["rate_limit", "ratelimit", "too_many_requests", "resource_exhausted", "ramp_limit", "throttl"];
const OVERLOADED_CODES: &[&str] = &["overloaded", "unavailable", "slow_down", "capacity"];
const NOT_FOUND_CODES: &[&str] = &["not_found", "notfound", "unknown_model", "invalid_model"];
const NOT_FOUND_WORDS: &[&str] =
    &["model not exist", "model not found", "not a valid model id", "invalid model:", "invalid model name"];
const CONTEXT_CODES: &[&str] = &[
    "context_length_exceeded",
    "context_window_exceeded",
    "exceed_context_size",
    "request_too_large",
    "string_above_max_length",
];
/// ` … ` stands for anything.
const OVERFLOW_WORDS: &[&str] = &[
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "too long for requested model",
    "exceed context limit",
    "exceeds the context",
    "exceeds context",
    "exceed the context",
    "maximum context length",
    "maximum prompt length",
    "context length exceeded",
    "context window exceeds limit",
    "context length is only",
    "greater than the context length",
    "larger than the context",
    "available context size",
    "exceeds the model's context",
    "input token count … exceeds the maximum",
    "prompt token count … exceeds the limit",
    "exceeded model token limit",
    "reduce the length of the messages",
    "reduce the length of your prompt",
    "range of input length should be",
    "too large for model with … maximum context",
    "request exceeds the maximum size",
];
const NO_TOOLS_WORDS: &[&str] = &[
    "unsupported param: tools",
    "unsupported param: tool_choice",
    "tools param requires",
    "does not support tools",
    "does not support tool",
    "do not support tool",
    "does not support function",
    "not support function call",
    "tool choice requires",
    "enable-auto-tool-choice",
    "endpoints found that support tool use",
    "tool use is not supported",
    "tool calling is not supported",
    "tool calls are not supported",
    "tools are not supported",
    "tools is not supported",
    "`tools` is not supported",
    "`tool calling` is not supported",
    "'tools' is not supported",
    "'tool_choice' is not supported",
    "`tool_choice` is not supported",
    "function calling is not",
    "unsupported parameter: 'tools'",
    "unsupported parameter: 'tool_choice'",
];
