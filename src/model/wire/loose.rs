//! JSON as servers really send it: text that is null, a number or a list of parts, counts that are text or fractions.
//!
//! A field of the wrong type must not cost a reply that is otherwise fine, and the common case must not copy: the text
//! borrows from the event unless it holds escapes.

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// Text. Empty where the field is missing, null or something that is not text.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Text<'a>(Cow<'a, str>);

impl Text<'_> {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn into_owned(self) -> String {
        self.0.into_owned()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor).map(Text)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_string()))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(""))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(""))
    }

    // Ids and error codes come as numbers.
    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Cow::Owned(number.to_string()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Cow::Owned(number.to_string()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Cow::Owned(number.to_string()))
    }

    /// Parts: `[{"type": "text", "text": "…"}]`.
    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
        let mut all = String::new();
        while let Some(Text(part)) = parts.next_element()? {
            all.push_str(&part);
        }
        Ok(Cow::Owned(all))
    }

    /// A part: its `text`.
    fn visit_map<A: MapAccess<'de>>(self, mut part: A) -> Result<Self::Value, A::Error> {
        let mut text = Cow::Borrowed("");
        while let Some(Text(key)) = part.next_key()? {
            if key == "text" {
                text = part.next_value::<Text<'_>>()?.0;
            } else {
                part.next_value::<IgnoredAny>()?;
            }
        }
        Ok(text)
    }
}

/// A count. `None` where the field is missing, null or no such number. For `deserialize_with`.
pub(super) fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    deserializer.deserialize_any(CountVisitor)
}

struct CountVisitor;

impl<'de> Visitor<'de> for CountVisitor {
    type Value = Option<u64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a count")
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Some(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(u64::try_from(number).ok())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        // A cast saturates; a negative number is none.
        Ok((number >= 0.0).then_some(number as u64))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(text.parse().ok())
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[test]
    fn text_is_read_from_whatever_it_comes_as_and_borrows_where_it_can() {
        for (json, wanted) in [
            (r#""plain""#, "plain"),
            (r#""a\nb""#, "a\nb"),
            ("null", ""),
            ("7", "7"),
            ("-7", "-7"),
            ("true", ""),
            (r#"[{"type":"text","text":"a"},{"type":"thinking","thinking":[]},"b"]"#, "ab"),
            (r#"{"type":"text","text":"c"}"#, "c"),
            ("[]", ""),
        ] {
            assert_eq!(serde_json::from_str::<Text<'_>>(json).unwrap().as_str(), wanted, "{json}");
        }
        let borrowed = serde_json::from_str::<Text<'_>>(r#""plain""#).unwrap();
        assert!(matches!(borrowed.0, Cow::Borrowed(_)));
    }

    #[test]
    fn a_count_is_a_count_or_none() {
        #[derive(Deserialize)]
        struct Holder {
            #[serde(default, deserialize_with = "count")]
            n: Option<u64>,
        }
        for (json, wanted) in [
            (r#"{"n":7}"#, Some(7)),
            (r#"{"n":7.0}"#, Some(7)),
            (r#"{"n":"7"}"#, Some(7)),
            (r#"{"n":-1}"#, None),
            (r#"{"n":null}"#, None),
            (r#"{"n":{"a":[1]}}"#, None),
            (r#"{"n":[1]}"#, None),
            ("{}", None),
        ] {
            assert_eq!(serde_json::from_str::<Holder>(json).unwrap().n, wanted, "{json}");
        }
    }
}
