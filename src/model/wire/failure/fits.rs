//! The output limit that would have fitted, from the numbers of an error.

/// Output tokens that the server would have taken, where it gives the numbers to tell.
pub(super) fn output(message: &str) -> Option<u32> {
    let words = message.to_lowercase();
    let fits = left_by_window(&words).or_else(|| limit(&words))?;
    u32::try_from(fits).ok().filter(|fits| *fits > 0)
}

/// What the window leaves beside the input.
fn left_by_window(words: &str) -> Option<u64> {
    // Anthropic: "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, …"
    if let Some((_, sum)) = words.split_once("exceed context limit:") {
        let mut numbers = numbers(sum);
        let (input, _, window) = (numbers.next()?, numbers.next()?, numbers.next()?);
        return window.checked_sub(input);
    }
    // OpenAI, vLLM, OpenRouter: "maximum context length is 32768 tokens", then how much of the request is input.
    let (_, rest) = words.split_once("maximum context length is")?;
    let window = numbers(rest).next()?;
    let parts = ["in the messages", "in your prompt", "input tokens", "of text input", "of tool input"];
    let input = parts.iter().filter_map(|part| last_number(rest.split_once(part)?.0)).reduce(|sum, part| sum + part)?;
    window.checked_sub(input)
}

/// A model's own limit, whatever the input is.
fn limit(words: &str) -> Option<u64> {
    // Anthropic: "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for …"
    if let Some((before, _)) = words.split_once("which is the maximum allowed number of output tokens") {
        return last_number(before);
    }
    // OpenAI: "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, …"
    if let Some((before, _)) = words.split_once("completion tokens")
        && before.contains("supports at most")
    {
        return last_number(before);
    }
    // DeepSeek, DashScope: "… range of max_tokens is [1, 8192]"; Groq: "`max_tokens` must be less than or equal to `8192`"
    if let Some((_, rest)) = words.split_once("range of max_tokens") {
        return numbers(rest).nth(1);
    }
    let (before, rest) = words.split_once("less than or equal to")?;
    if before.contains("max_tokens") || before.contains("max_completion_tokens") { numbers(rest).next() } else { None }
}

/// The whole numbers in a text; `1,234` is one.
fn numbers(text: &str) -> impl DoubleEndedIterator<Item = u64> {
    text.split(|c: char| !c.is_ascii_digit() && c != ',')
        .filter_map(|digits| digits.trim_matches(',').replace(',', "").parse().ok())
}

fn last_number(text: &str) -> Option<u64> {
    numbers(text).next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_an_overflow_tell_what_would_have_fitted() {
        let table = [
            (
                "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or `max_tokens` and try again",
                Some(11_760),
            ),
            (
                "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for claude-x-4-5",
                Some(64_000),
            ),
            (
                "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you provided 100000.",
                Some(16_384),
            ),
            (
                "This model's maximum context length is 4097 tokens. However, you requested 5000 tokens (4000 in the messages, 1000 in the completion). Please reduce the length of the messages or completion.",
                Some(97),
            ),
            (
                "This model's maximum context length is 8,191 tokens, however you requested 10,346 tokens (8,000 in your prompt; 2,346 for the completion).",
                Some(191),
            ),
            (
                "'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum context length is 32768 tokens and your request has 5000 input tokens (32000 > 32768 - 5000).",
                Some(27_768),
            ),
            (
                "This endpoint's maximum context length is 131072 tokens. However, you requested about 144000 tokens (11000 of text input, 1000 of tool input, 132000 in the output).",
                Some(119_072),
            ),
            ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", Some(8_192)),
            ("<400> InternalError.Algo.InvalidParameter: Range of max_tokens should be [1, 16384]", Some(16_384)),
            ("`max_tokens` must be less than or equal to `32768`, the maximum value for this model", Some(32_768)),
            ("prompt is too long: 213462 tokens > 200000 maximum", None),
            ("input length and `max_tokens` exceed context limit: 200001 + 1 > 200000", None),
            ("input length and `max_tokens` exceed context limit: 200000 + 1 > 200000", None),
            (
                "This model's maximum context length is 4097 tokens. However, your messages resulted in 9000 tokens.",
                None,
            ),
            ("input length and max_tokens exceed context limit", None),
            ("temperature must be less than or equal to 2", None),
            ("maximum context length is 99999999999999999999999 tokens (1 in the messages)", None),
            ("", None),
        ];
        for (message, fits) in table {
            assert_eq!(output(message), fits, "{message}");
        }
    }
}
