//! The effective configuration as TOML, each value with its origin as a comment.

use toml::{Table, Value};

use super::load::Loaded;

/// Keys whose values are never shown.
const SECRETS: [&str; 1] = ["storage.s3.secret_access_key"];

/// What a secret that is set looks like.
const MASK: &str = "********";

/// Writes all keys; the text can be used as a configuration file once the secrets are filled in.
pub(super) fn show(loaded: &Loaded) -> anyhow::Result<String> {
    let table = Table::try_from(&loaded.config)?;
    let mut text = String::new();
    section("", &table, loaded, &mut text);
    Ok(text)
}

fn section(path: &str, table: &Table, loaded: &Loaded, text: &mut String) {
    let dotted = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    // Values before tables: what follows a table's header belongs to that table.
    for (name, value) in table.iter().filter(|(_, value)| !value.is_table()) {
        let key = dotted(name);
        *text += &format!("{:<48} # {}\n", format!("{name} = {}", masked(&key, value)), loaded.origin(&key));
    }
    for (name, value) in table {
        if let Value::Table(inner) = value {
            let key = dotted(name);
            *text += &format!("\n[{key}]\n");
            section(&key, inner, loaded, text);
        }
    }
}

fn masked(key: &str, value: &Value) -> Value {
    match value.as_str() {
        Some(text) if SECRETS.contains(&key) && !text.is_empty() => Value::String(MASK.to_owned()),
        _ => value.clone(),
    }
}
