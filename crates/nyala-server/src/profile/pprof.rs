//! A profile in the form of pprof, a message of Protocol Buffers
//! (<https://github.com/google/pprof/blob/main/proto/profile.proto>), not compressed.

use std::collections::HashMap;

use super::{Profile, Unit};

/// Numbers of the fields that are written.
mod field {
    pub(super) const SAMPLE_TYPE: u64 = 1;
    pub(super) const SAMPLE: u64 = 2;
    pub(super) const LOCATION: u64 = 4;
    pub(super) const FUNCTION: u64 = 5;
    pub(super) const STRING: u64 = 6;
    pub(super) const DURATION_NANOS: u64 = 10;
    pub(super) const PERIOD_TYPE: u64 = 11;
    pub(super) const PERIOD: u64 = 12;
}

/// Writes a profile.
pub fn encode(profile: &Profile) -> Vec<u8> {
    let (kind, unit) = match profile.unit {
        Unit::Nanoseconds => ("cpu", "nanoseconds"),
        Unit::Bytes => ("inuse_space", "bytes"),
    };
    let mut strings = Strings::default();
    // The first text must be the empty one.
    strings.number("");
    let mut value_type = Message::default();
    value_type.number(1, strings.number(kind));
    value_type.number(2, strings.number(unit));

    let mut out = Message::default();
    out.message(field::SAMPLE_TYPE, &value_type);
    // A function has one location, and both have the number of the function's name.
    for (stack, weight) in profile.stacks() {
        let mut sample = Message::default();
        sample.packed(1, stack.iter().rev().map(|name| strings.number(name)));
        sample.packed(2, [weight]);
        out.message(field::SAMPLE, &sample);
    }
    for (number, text) in strings.texts.iter().enumerate() {
        let number = number as u64;
        if number > 0 {
            out.message(field::LOCATION, &location(number));
            out.message(field::FUNCTION, &function(number));
        }
        out.bytes(field::STRING, text.as_bytes());
    }
    out.number(field::DURATION_NANOS, u64::try_from(profile.duration.as_nanos()).unwrap_or(u64::MAX));
    out.message(field::PERIOD_TYPE, &value_type);
    out.number(field::PERIOD, profile.period);
    out.0
}

fn location(number: u64) -> Message {
    let (mut line, mut location) = (Message::default(), Message::default());
    line.number(1, number);
    location.number(1, number);
    location.message(4, &line);
    location
}

fn function(number: u64) -> Message {
    let mut function = Message::default();
    function.number(1, number);
    function.number(2, number);
    function
}

/// Texts by number.
#[derive(Default)]
struct Strings {
    texts: Vec<String>,
    numbers: HashMap<String, u64>,
}

impl Strings {
    fn number(&mut self, text: &str) -> u64 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.texts.len() as u64;
        self.texts.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }
}

/// Fields of a message, one after the other.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3);
        self.varint(value);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u64, message: &Message) {
        self.bytes(field, &message.0);
    }

    fn packed(&mut self, field: u64, values: impl IntoIterator<Item = u64>) {
        let mut packed = Message::default();
        values.into_iter().for_each(|value| packed.varint(value));
        self.message(field, &packed);
    }

    /// Seven bits a byte, the lowest first; the eighth says that more follow.
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
    use std::time::Duration;

    use super::*;

    /// Byte for byte, by hand from the definition of the message.
    #[test]
    fn a_profile_is_the_message_that_its_definition_says() {
        let mut profile = Profile::new(Unit::Bytes, 300, Duration::ZERO);
        profile.add(vec!["a".to_owned(), "b".to_owned()], 5);
        let mut expected = vec![0x0a, 4, 0x08, 1, 0x10, 2];
        // Leaf first: b is text 3, a is 4.
        expected.extend([0x12, 7, 0x0a, 2, 3, 4, 0x12, 1, 5]);
        expected.extend([0x32, 0]);
        for (number, text) in [(1, "inuse_space"), (2, "bytes"), (3, "b"), (4, "a")] {
            expected.extend([0x22, 6, 0x08, number, 0x22, 2, 0x08, number]);
            expected.extend([0x2a, 4, 0x08, number, 0x10, number]);
            expected.extend([0x32, text.len() as u8]);
            expected.extend(text.bytes());
        }
        expected.extend([0x50, 0, 0x5a, 4, 0x08, 1, 0x10, 2, 0x60, 0xac, 0x02]);
        assert_eq!(encode(&profile), expected);
    }
}
