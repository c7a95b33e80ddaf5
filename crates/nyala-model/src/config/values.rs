//! Deserializers of configuration values with more than one form.

use std::fmt;
use std::marker::PhantomData;
use std::net::SocketAddr;

use serde::de::{Error, Visitor};
use serde::{Deserializer, Serializer};

use crate::listen_text::parse_listen;
use crate::size_text::parse_size;

/// A number of bytes, or a text such as `512MiB`.
pub(super) fn size<'de, D: Deserializer<'de>, T: TryFrom<u64>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_any(Size(PhantomData))
}

/// An address to listen on, or a port alone.
pub(super) fn listen<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    deserializer.deserialize_any(Listen)
}

/// An address to listen on, a port alone, or an empty text for none.
pub(super) fn listen_or_not<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SocketAddr>, D::Error> {
    deserializer.deserialize_any(ListenOrNot)
}

/// Writes an address in the form that [`listen_or_not`] reads.
pub(super) fn address_or_empty<S: Serializer>(
    address: &Option<SocketAddr>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match address {
        Some(address) => serializer.collect_str(address),
        None => serializer.serialize_str(""),
    }
}

struct Size<T>(PhantomData<T>);

impl<T: TryFrom<u64>> Visitor<'_> for Size<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of bytes such as `2147483648`, `\"2GB\"` or `\"512MiB\"`")
    }

    fn visit_u64<E: Error>(self, bytes: u64) -> Result<T, E> {
        T::try_from(bytes)
            .map_err(|_| E::custom(format!("`{bytes}` bytes are more than this machine has addresses for")))
    }

    fn visit_i64<E: Error>(self, bytes: i64) -> Result<T, E> {
        match u64::try_from(bytes) {
            Ok(bytes) => self.visit_u64(bytes),
            Err(_) => Err(E::invalid_value(serde::de::Unexpected::Signed(bytes), &self)),
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        match parse_size(text) {
            Some(bytes) => self.visit_u64(bytes),
            None => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
        }
    }
}

struct Listen;

impl Visitor<'_> for Listen {
    type Value = SocketAddr;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an address such as `127.0.0.1:5433`, or a port")
    }

    fn visit_u64<E: Error>(self, port: u64) -> Result<SocketAddr, E> {
        self.visit_str(&port.to_string())
    }

    fn visit_i64<E: Error>(self, port: i64) -> Result<SocketAddr, E> {
        self.visit_str(&port.to_string())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<SocketAddr, E> {
        parse_listen(text).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
    }
}

struct ListenOrNot;

impl Visitor<'_> for ListenOrNot {
    type Value = Option<SocketAddr>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an address such as `127.0.0.1:50051`, a port, or an empty text for none")
    }

    fn visit_u64<E: Error>(self, port: u64) -> Result<Self::Value, E> {
        self.visit_str(&port.to_string())
    }

    fn visit_i64<E: Error>(self, port: i64) -> Result<Self::Value, E> {
        self.visit_str(&port.to_string())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        if text.is_empty() {
            return Ok(None);
        }
        parse_listen(text).map(Some).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
    }
}
