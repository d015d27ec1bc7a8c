//! Secrets, taken out of text before it is written anywhere.
//!
//! What is hidden is found by its text, wherever it stands and whoever wrote it: a server may echo a key in an error,
//! a proxy in a page of HTML. Knows nothing of the rest of the crate.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// What stands where a secret was.
pub const HIDDEN: &str = "***";

/// Bytes of the shortest secret that is looked for. Local servers are given words such as `ollama` or `EMPTY` for a key;
/// to hide these would only make text unreadable.
pub(crate) const SHORTEST: usize = 8;

/// Bytes of the shortest piece of a secret that is hidden at a cut.
const SHORTEST_PIECE: usize = 4;

/// Words in the name of a URL's parameter whose value is hidden.
const TELLING: [&str; 7] = ["key", "token", "secret", "password", "signature", "auth", "credential"];

/// Knows some secrets and takes them out of text.
#[derive(Clone, Default)]
pub struct Redactor {
    /// Every spelling of every secret, the longest first: one secret may be the beginning of another.
    spellings: Arc<[String]>,
}

impl Redactor {
    /// Hides these from now on, and of `Bearer KEY` also the key alone. Those of less than eight bytes are no secrets.
    pub fn new<'s>(secrets: impl IntoIterator<Item = &'s str>) -> Self {
        Redactor::default().and(secrets)
    }

    /// The same with further secrets.
    #[must_use]
    pub fn and<'s>(&self, secrets: impl IntoIterator<Item = &'s str>) -> Self {
        let mut spellings = self.spellings.to_vec();
        for secret in secrets.into_iter().flat_map(with_bare_key).filter(|secret| secret.len() >= SHORTEST) {
            spellings.extend(spell(secret));
        }
        spellings.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        spellings.dedup();
        Redactor { spellings: spellings.into() }
    }

    /// Whether a secret is in the text.
    pub fn finds(&self, text: &str) -> bool {
        self.spellings.iter().any(|spelling| text.contains(spelling.as_str()))
    }

    /// Whether there is anything to hide.
    pub fn is_empty(&self) -> bool {
        self.spellings.is_empty()
    }

    /// The text without secrets.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut out = Cow::Borrowed(text);
        for spelling in self.spellings.iter() {
            if out.contains(spelling.as_str()) {
                out = Cow::Owned(out.replace(spelling.as_str(), HIDDEN));
            }
        }
        out
    }

    /// A piece of a longer text without secrets, nor the beginning or end of one that was cut.
    pub fn piece<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut out = self.text(text);
        for spelling in self.spellings.iter() {
            let beginnings = (SHORTEST_PIECE..spelling.len()).rev().filter_map(|cut| spelling.get(..cut));
            if let Some(beginning) = beginnings.into_iter().find(|beginning| out.ends_with(beginning)) {
                out = Cow::Owned(format!("{}{HIDDEN}", &out[..out.len() - beginning.len()]));
            }
            let ends = (1..=spelling.len() - SHORTEST_PIECE).filter_map(|cut| spelling.get(cut..));
            if let Some(end) = ends.into_iter().find(|end| out.starts_with(end)) {
                out = Cow::Owned(format!("{HIDDEN}{}", &out[end.len()..]));
            }
        }
        out
    }

    /// A URL without secrets: no user, no password, no value of a parameter whose name sounds like a key's.
    pub fn url(&self, url: &str) -> String {
        let (start, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
        let authority = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(authority);
        let host = match authority.rsplit_once('@') {
            Some((_, host)) => format!("{HIDDEN}@{host}"),
            None => authority.to_string(),
        };
        let scheme = if url.contains("://") { format!("{start}://") } else { String::new() };
        let (path, query) = match rest.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (rest, None),
        };
        let mut out = format!("{scheme}{host}{path}");
        if let Some(query) = query {
            let shown: Vec<Cow<'_, str>> = query.split('&').map(parameter).collect();
            out.push('?');
            out.push_str(&shown.join("&"));
        }
        self.text(&out).into_owned()
    }
}

fn parameter(pair: &str) -> Cow<'_, str> {
    match pair.split_once('=') {
        Some((name, _)) if TELLING.iter().any(|word| name.to_ascii_lowercase().contains(word)) => {
            Cow::Owned(format!("{name}={HIDDEN}"))
        }
        Some(_) | None => Cow::Borrowed(pair),
    }
}

/// A secret without blanks around it, and what follows the scheme where it is the value of a header: a server that
/// complains of the key leaves `Bearer` out.
pub(crate) fn with_bare_key(secret: &str) -> impl Iterator<Item = &str> {
    let mut words = secret.split_whitespace().skip(1);
    let bare = words.next().filter(|_| words.next().is_none());
    std::iter::once(secret.trim()).chain(bare)
}

/// As it is, in JSON, in the JSON of those who escape slashes, and in a URL.
fn spell(secret: &str) -> [String; 4] {
    let json = serde_json::Value::from(secret).to_string();
    let json = json.trim_start_matches('"').strip_suffix('"').unwrap_or(&json).to_string();
    let percent = secret.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    });
    [secret.to_string(), json.replace('/', "\\/"), json, percent.collect()]
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({} spellings)", self.spellings.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "sk-ant-0123456789";

    #[test]
    fn a_secret_is_hidden_in_every_spelling_and_the_longer_one_first() {
        let redactor = Redactor::new([
            KEY,
            "sk-ant-0123456789-and-more",
            "a/b+c\"d=",
            "  padded-secret \n",
            "Bearer 9876543210-in-a-header",
        ]);
        for (text, shown) in [
            (format!("a {KEY} b {KEY}"), "a *** b ***"),
            (format!("{KEY}-and-more"), "***"),
            (r#"{"key":"a/b+c\"d="}"#.to_string(), r#"{"key":"***"}"#),
            (r#"{"key":"a\/b+c\"d="}"#.to_string(), r#"{"key":"***"}"#),
            ("x?q=a%2Fb%2Bc%22d%3D&r=1".to_string(), "x?q=***&r=1"),
            ("a padded-secret".to_string(), "a ***"),
            ("the key 9876543210-in-a-header, and Bearer".to_string(), "the key ***, and Bearer"),
            ("nothing".to_string(), "nothing"),
        ] {
            assert_eq!(redactor.text(&text), shown, "{text}");
        }
        assert!(!format!("{redactor:?}").contains("sk-"));
    }

    #[test]
    fn words_that_local_servers_take_for_a_key_stay_readable() {
        let redactor = Redactor::new(["ollama", "EMPTY", "", "   "]);
        assert_eq!(redactor.text("ollama/llama3 is EMPTY"), "ollama/llama3 is EMPTY");
    }

    #[test]
    fn what_a_cut_leaves_of_a_secret_is_hidden_at_either_end() {
        let redactor = Redactor::new([KEY]);
        for cut in SHORTEST_PIECE..KEY.len() {
            let (beginning, end) = (&KEY[..cut], &KEY[KEY.len() - cut..]);
            assert_eq!(redactor.piece(&format!("said {beginning}")), "said ***");
            assert_eq!(redactor.piece(&format!("{end} was said")), "*** was said");
        }
        assert_eq!(redactor.piece("é sk"), "é sk", "too little to tell anything");
        assert_eq!(redactor.piece(""), "");
    }

    #[test]
    fn urls_lose_user_password_and_keys_and_keep_the_rest() {
        let redactor = Redactor::new([KEY]);
        for (url, shown) in [
            ("https://api.example.com/v1/messages", "https://api.example.com/v1/messages"),
            ("https://me:pa@ss@host:8443/v1?x=1", "https://***@host:8443/v1?x=1"),
            ("https://h/v1?api-version=2&Api_Key=abc&sig=1#f", "https://h/v1?api-version=2&Api_Key=***&sig=1#f"),
            ("https://h?access_token=abc", "https://h?access_token=***"),
            ("https://h/sk-ant-0123456789/x", "https://h/***/x"),
            ("no url at all", "no url at all"),
            ("", ""),
        ] {
            assert_eq!(redactor.url(url), shown);
        }
    }
}
