//! The effective configuration as TOML, each value with its origin as a comment.

use toml::{Table, Value};

use super::load::Loaded;

/// Keys with values that are never shown.
pub(super) const SECRETS: [&str; 4] =
    ["catalog.url", "node.secret", "storage.azure.access_key", "storage.s3.secret_access_key"];

/// Replaces the value of a secret that is set.
const MASK: &str = "********";

/// Writes all keys; the text can be used as a configuration file once the secrets are filled in.
pub(super) fn show(loaded: &Loaded) -> anyhow::Result<String> {
    let table = Table::try_from(&loaded.config)?;
    let mut text = String::new();
    section("", "", &table, loaded, &mut text);
    Ok(text)
}

/// `path` is the prefix of the keys, `heading` the same path quoted as a TOML header.
fn section(path: &str, heading: &str, table: &Table, loaded: &Loaded, text: &mut String) {
    let below =
        |path: &str, name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    // Values before tables: all lines after a table's header belong to that table.
    for (name, value) in table.iter().filter(|(_, value)| !value.is_table()) {
        let key = below(path, name);
        *text += &format!("{:<48} # {}\n", format!("{name} = {}", masked(&key, value)), loaded.origin(&key));
    }
    for (name, value) in table {
        if let Value::Table(inner) = value {
            let heading = below(heading, &quoted(name));
            *text += &format!("\n[{heading}]\n");
            section(&below(path, name), &heading, inner, loaded, text);
        }
    }
}

/// A name as TOML has it: groups may be called as their owners like.
fn quoted(name: &str) -> String {
    let is_bare = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    // A JSON string is also a TOML string on one line, as names must be.
    if is_bare { name.to_owned() } else { serde_json::Value::from(name).to_string() }
}

fn masked(key: &str, value: &Value) -> Value {
    match value.as_str() {
        Some(text) if SECRETS.contains(&key) && !text.is_empty() => Value::String(MASK.to_owned()),
        _ => value.clone(),
    }
}
