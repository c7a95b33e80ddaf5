//! Messages of `Flight.proto` about sessions, which arrow-flight does not have. Their numbers are the protocol's.

use std::collections::HashMap;

use nyala_engine::schema_in_path;

/// A value of a session option. Without a value the option gets its default back.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SessionOptionValue {
    #[prost(oneof = "OptionValue", tags = "1, 2, 3, 4, 5")]
    pub option_value: Option<OptionValue>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum OptionValue {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Switch(bool),
    #[prost(sfixed64, tag = "3")]
    Whole(i64),
    #[prost(double, tag = "4")]
    Number(f64),
    #[prost(message, tag = "5")]
    Texts(Texts),
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Texts {
    #[prost(string, repeated, tag = "1")]
    pub values: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct SetSessionOptionsRequest {
    #[prost(map = "string, message", tag = "1")]
    pub session_options: HashMap<String, SessionOptionValue>,
}

/// The options that could not be set.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SetSessionOptionsResult {
    #[prost(map = "string, message", tag = "1")]
    pub errors: HashMap<String, OptionError>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct OptionError {
    #[prost(enumeration = "OptionErrorValue", tag = "1")]
    pub value: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum OptionErrorValue {
    Unspecified = 0,
    InvalidName = 1,
    InvalidValue = 2,
    Error = 3,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct GetSessionOptionsResult {
    #[prost(map = "string, message", tag = "1")]
    pub session_options: HashMap<String, SessionOptionValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct CloseSessionResult {
    #[prost(enumeration = "CloseSessionStatus", tag = "1")]
    pub status: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum CloseSessionStatus {
    Unspecified = 0,
    Closed = 1,
    Closing = 2,
    NotCloseable = 3,
}

impl From<String> for SessionOptionValue {
    fn from(text: String) -> Self {
        Self { option_value: Some(OptionValue::Text(text)) }
    }
}

impl OptionValue {
    /// The value as text, as SQL's `SET` takes it.
    pub fn into_text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Switch(switch) => if switch { "on" } else { "off" }.to_owned(),
            Self::Whole(number) => number.to_string(),
            Self::Number(number) => number.to_string(),
            // The one setting that is a list has the names of schemas.
            Self::Texts(texts) => {
                texts.values.iter().map(|name| schema_in_path(name)).collect::<Vec<_>>().join(", ")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_a_list_are_read_as_they_were_sent() {
        let texts = Texts { values: vec!["sales".to_owned(), "a,b".to_owned()] };
        assert_eq!(OptionValue::Texts(texts).into_text(), "sales, \"a,b\"");
    }
}
