//! Values that come as text, from the environment and from flags, typed like the defaults.
//!
//! The text decides nothing about its type: a secret key of digits only stays a text, because the
//! default of its key is one.

use std::path::Path;

use figment::value::{Dict, Map, Value};
use figment::{Error, Figment, Metadata, Profile, Provider};
use nyala_client::report::Hinted;
use nyala_model::size_text::parse_size;
use nyala_model::suggest::nearest;

/// Prefix of every variable that sets a key.
pub const PREFIX: &str = "NYALA_";

/// Variables with the prefix that are no configuration keys.
pub(super) const OTHER_VARIABLES: [&str; 3] = ["NYALA_CONFIG", "NYALA_LOG", "NYALA_LOG_FORMAT"];

/// A flag that sets a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    key: &'static str,
    flag: &'static str,
    value: String,
}

impl Flag {
    /// `flag` is the typed flag, `key` the configuration key that it sets.
    pub fn new(key: &'static str, flag: &'static str, value: String) -> Self {
        Self { key, flag, value }
    }

    /// `--data-dir`, which several commands have.
    pub fn data_dir(path: &Path) -> Self {
        Self::new("data_dir", "--data-dir", path.to_string_lossy().into_owned())
    }

    /// The layer that sets the key, typed like `defaults`.
    pub(super) fn layer(&self, defaults: &Figment) -> anyhow::Result<Layer> {
        Layer::new(defaults, self.key, format!("`{}`", self.flag), &self.value)
    }
}

/// The layer of an environment variable; none if it sets no key.
pub(super) fn of_variable(defaults: &Figment, name: &str, text: &str) -> anyhow::Result<Option<Layer>> {
    let Some(rest) = name.strip_prefix(PREFIX) else { return Ok(None) };
    if OTHER_VARIABLES.contains(&name) {
        return Ok(None);
    }
    let key = rest.to_ascii_lowercase().replace("__", ".");
    let known = keys(defaults);
    if !known.contains(&key) {
        if tells_of_a_service(name, text) {
            return Ok(None);
        }
        let message = format!("environment variable `{name}` sets no configuration key");
        let suggestion = nearest(&key, known.iter().map(String::as_str))
            .map(|key| format!("did you mean `{PREFIX}{}`?", key.to_ascii_uppercase().replace('.', "__")));
        let listing = || "`nyala config` lists all keys; `.` is written `__` in variables".to_owned();
        return Err(Hinted::error(message, suggestion.unwrap_or_else(listing)));
    }
    Layer::new(defaults, &key, format!("environment variable `{name}`"), text).map(Some)
}

/// Whether Kubernetes sets such a variable in every container, or Docker for a link, because a service is called `nyala` or
/// `nyala-…`: `NYALA_SERVICE_HOST=10.0.0.7`, `NYALA_PORT=tcp://10.0.0.7:5433`, `NYALA_PORT_5433_TCP_ADDR=10.0.0.7`.
fn tells_of_a_service(name: &str, text: &str) -> bool {
    let of_port = |(_, rest): (&str, &str)| rest.starts_with(|c: char| c.is_ascii_digit());
    name.ends_with("_SERVICE_HOST")
        || name.ends_with("_SERVICE_PORT")
        || name.contains("_SERVICE_PORT_")
        || (name.ends_with("_PORT") && text.contains("://"))
        || name.rsplit_once("_PORT_").is_some_and(of_port)
}

/// Dotted paths of all keys.
pub(super) fn keys(defaults: &Figment) -> Vec<String> {
    fn collect(prefix: &str, value: &Value, keys: &mut Vec<String>) {
        match value {
            Value::Dict(_, dict) => {
                for (name, value) in dict {
                    let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                    collect(&path, value, keys);
                }
            }
            _ => keys.push(prefix.to_owned()),
        }
    }
    let mut found = Vec::new();
    if let Ok(root) = defaults.extract::<Value>() {
        collect("", &root, &mut found);
    }
    found
}

/// One value of one key, with its origin.
#[derive(Debug, Clone)]
pub(super) struct Layer {
    origin: String,
    dict: Dict,
}

impl Layer {
    fn new(defaults: &Figment, key: &str, origin: String, text: &str) -> anyhow::Result<Self> {
        let default = defaults.find_value(key)?;
        let value = typed(key, &default, text).map_err(|rule| {
            Hinted::error(
                format!("{origin} must be {rule}, but is `{text}`"),
                format!("it sets the configuration key `{key}`"),
            )
        })?;
        let dict = figment::util::nest(key, value).into_dict().unwrap_or_default();
        Ok(Self { origin, dict })
    }
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.origin.clone())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, Error> {
        Ok(Profile::Default.collect(self.dict.clone()))
    }
}

/// The text as a value of the default's type, or a description of the expected type.
fn typed(key: &str, default: &Value, text: &str) -> Result<Value, &'static str> {
    match default {
        Value::Num(..) if key.ends_with("_bytes") => parse_size(text)
            .map(Value::from)
            .ok_or("a number of bytes such as `2147483648`, `2GB` or `512MiB`"),
        Value::Num(..) => match (text.trim().parse::<u64>(), text.trim().parse::<i64>()) {
            (Ok(number), _) => Ok(Value::from(number)),
            (_, Ok(number)) => Ok(Value::from(number)),
            _ => Err("a whole number"),
        },
        Value::Bool(..) => text.trim().parse::<bool>().map(Value::from).map_err(|_| "`true` or `false`"),
        Value::Array(..) => {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            Ok(Value::from(items.map(Value::from).collect::<Vec<_>>()))
        }
        _ => Ok(Value::from(text)),
    }
}
