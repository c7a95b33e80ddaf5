//! Values within a text of JSON, found by their places: numbers and blanks stay as they are written.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;

/// Whether a text is JSON. No more than 128 values are nested in each other.
#[must_use]
pub fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// The text as JSONB is shown: keys once, the shorter ones first, and one blank between values. None if it is no JSON.
#[must_use]
pub fn normal_json(text: &str) -> Option<String> {
    is_json(text).then(|| Json::new(text).normal())
}

/// A value within a valid text of JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Json<'a>(&'a str);

impl<'a> Json<'a> {
    /// A value; the text must be valid.
    pub fn new(text: &'a str) -> Self {
        Self(text.trim_matches(is_blank))
    }

    /// As it is written.
    pub fn written(self) -> &'a str {
        self.0
    }

    /// The kind of the value, as `json_typeof` names it.
    pub fn kind(self) -> &'static str {
        match self.0.as_bytes().first() {
            Some(b'{') => "object",
            Some(b'[') => "array",
            Some(b'"') => "string",
            Some(b't' | b'f') => "boolean",
            Some(b'n') => "null",
            _ => "number",
        }
    }

    /// A value as a plain text: strings without quotes, and none for null.
    pub fn plain(self) -> Option<String> {
        match self.kind() {
            "null" => None,
            "string" => serde_json::from_str(self.0).ok(),
            _ => Some(self.0.to_owned()),
        }
    }

    /// The value of a key; of equal keys the last counts.
    pub fn field(self, key: &str) -> Option<Self> {
        self.fields().into_iter().rev().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// An element; a negative place counts from the end.
    pub fn element(self, at: i64) -> Option<Self> {
        let elements = self.elements();
        let count = i64::try_from(elements.len()).ok()?;
        let at = if at < 0 { count.checked_add(at)? } else { at };
        elements.get(usize::try_from(at).ok()?).copied()
    }

    /// A field of an object, or an element of an array by its number.
    pub fn step(self, part: &str) -> Option<Self> {
        match self.kind() {
            "object" => self.field(part),
            "array" => self.element(part.trim().parse().ok()?),
            _ => None,
        }
    }

    /// Keys with their values.
    pub fn fields(self) -> Vec<(String, Self)> {
        if self.kind() != "object" {
            return Vec::new();
        }
        let parts = parts(self.0);
        let pairs = parts.iter().filter_map(|part| {
            let end = end_of_value(part);
            let (name, value) = part.split_at_checked(end)?;
            let value = value.trim_start_matches(is_blank).strip_prefix(':')?;
            Some((serde_json::from_str(name).ok()?, Self::new(value)))
        });
        pairs.collect()
    }

    /// The values of an array.
    pub fn elements(self) -> Vec<Self> {
        if self.kind() != "array" {
            return Vec::new();
        }
        parts(self.0).into_iter().map(Self::new).collect()
    }

    fn normal(self) -> String {
        match self.kind() {
            "object" => {
                let fields: BTreeMap<(usize, String), Self> =
                    self.fields().into_iter().map(|(name, value)| ((name.len(), name), value)).collect();
                let fields = fields.into_iter().map(|((_, name), value)| {
                    format!("{}: {}", serde_json::Value::String(name), value.normal())
                });
                format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
            }
            "array" => {
                let elements = self.elements().into_iter().map(Self::normal);
                format!("[{}]", elements.collect::<Vec<_>>().join(", "))
            }
            "string" => serde_json::Value::String(self.plain().unwrap_or_default()).to_string(),
            _ => self.0.to_owned(),
        }
    }
}

fn is_blank(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '\n' | '\r')
}

/// The parts of an object or array between its commas, without blanks around them.
fn parts(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text.get(1..text.len().saturating_sub(1)).unwrap_or_default().trim_matches(is_blank);
    while !rest.is_empty() {
        let mut end = end_of_value(rest);
        // A key is followed by its value.
        let behind = rest.get(end..).unwrap_or_default();
        let value = behind.trim_start_matches(is_blank);
        if let Some(value) = value.strip_prefix(':') {
            let value = value.trim_start_matches(is_blank);
            end = rest.len() - value.len() + end_of_value(value);
        }
        let (part, behind) = rest.split_at_checked(end).unwrap_or((rest, ""));
        parts.push(part);
        let behind = behind.trim_start_matches(is_blank);
        rest = behind.strip_prefix(',').unwrap_or("").trim_start_matches(is_blank);
    }
    parts
}

/// The length of the value that a valid text begins with.
fn end_of_value(text: &str) -> usize {
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => {
                in_string = !in_string;
                if !in_string && depth == 0 {
                    return at + 1;
                }
            }
            _ if in_string => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            b',' | b':' | b' ' | b'\t' | b'\n' | b'\r' if depth == 0 => return at,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_places() {
        let text = Json::new(" {\"a\" : [1, {\"x\\\"]\": 2.50}, \"t,w\"] , \"b\":null,\"a b\": {} } ");
        let at =
            |path: &[&str]| path.iter().try_fold(text, |value, part| value.step(part)).map(Json::written);
        assert_eq!(at(&["a"]), Some("[1, {\"x\\\"]\": 2.50}, \"t,w\"]"));
        assert_eq!(at(&["a", "1", "x\"]"]), Some("2.50"));
        assert_eq!(at(&["a", "-1"]), Some("\"t,w\""));
        assert_eq!((at(&["a", "3"]), at(&["c"]), at(&["a b"])), (None, None, Some("{}")));
        assert_eq!(text.step("b").map(Json::plain), Some(None));
    }

    #[test]
    fn jsonb_has_a_normal_form() {
        let check = |text, expected| assert_eq!(normal_json(text).as_deref(), expected, "{text}");
        check(
            "{\"bb\":1,\"a\":[ 1,2 ],\"a\":{\"c\" :\"\\u0041\"}}",
            Some("{\"a\": {\"c\": \"A\"}, \"bb\": 1}"),
        );
        check(" [ ] ", Some("[]"));
        check("1.50", Some("1.50"));
        check("{a}", None);
        check(&"[".repeat(1000), None);
    }
}
