//! The first user of a server that asks for passwords. Somebody must be able to log in and make the others.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use nyala_client::report::Hinted;
use nyala_engine::{Engine, SessionOptions};
use nyala_model::config::ServerConfig;

/// Makes the superuser `server.first_user` with the password in `server.first_password_file`, unless a superuser may log in
/// with a password. So a password that is changed later stays as it is, whatever the file says.
pub async fn make(engine: &Arc<Engine>, config: &ServerConfig) -> anyhow::Result<()> {
    let file = &config.first_password_file;
    if file.as_os_str().is_empty() || has_superuser(engine) {
        return Ok(());
    }
    let statement = statement(engine, &config.first_user, &read_password(file)?)?;
    let session =
        engine.session(SessionOptions { application: "nyala serve".to_owned(), ..SessionOptions::default() });
    match session.query(&statement).await {
        Ok(_) => {
            tracing::info!(user = config.first_user, "gave the first user its password");
            Ok(())
        }
        Err(error) => {
            // Another node that started at the same moment may have made it.
            engine.catalog().refresh().await?;
            if has_superuser(engine) {
                return Ok(());
            }
            Err(error).with_context(|| format!("cannot make the first user `{}`", config.first_user))
        }
    }
}

fn has_superuser(engine: &Engine) -> bool {
    let snapshot = engine.catalog().snapshot();
    snapshot.roles.values().any(|role| role.superuser && role.login && role.password.is_some())
}

/// Makes the user, or sets the password and the login of a superuser that has lost them. Another role does not become a superuser.
fn statement(engine: &Engine, user: &str, password: &str) -> anyhow::Result<String> {
    match engine.catalog().snapshot().roles.get(user) {
        None => Ok(with_password("CREATE USER", user, "SUPERUSER", password)),
        Some(role) if role.superuser => Ok(with_password("ALTER USER", user, "LOGIN", password)),
        Some(_) => Err(Hinted::error(
            format!("role `{user}`, the value of `server.first_user`, is there and no superuser"),
            "name a role that is not there yet, and log in as that",
        )),
    }
}

fn with_password(verb: &str, user: &str, right: &str, password: &str) -> String {
    let (user, password) = (user.replace('"', "\"\""), password.replace('\'', "''"));
    format!("{verb} \"{user}\" {right} PASSWORD '{password}'")
}

/// The password is the first line of the file, since editors add an end of line.
pub fn read_password(file: &Path) -> anyhow::Result<String> {
    let named = || format!("`{}`, the value of `server.first_password_file`", file.display());
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", named()))?;
    match text.lines().next() {
        Some(password) if !password.is_empty() => Ok(password.to_owned()),
        _ => Err(Hinted::error(format!("{} is empty", named()), "write the password into its first line")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn quotes_of_name_and_password_end_nothing() {
        let check = |user, password, expected: &str| {
            assert_eq!(with_password("CREATE USER", user, "SUPERUSER", password), expected);
        };
        check("admin", "secret", "CREATE USER \"admin\" SUPERUSER PASSWORD 'secret'");
        check("a\"b", "it's", "CREATE USER \"a\"\"b\" SUPERUSER PASSWORD 'it''s'");
    }

    #[test]
    fn a_password_is_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        for text in ["secret word", "secret word\n", "secret word\r\n"] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(read_password(&file).unwrap(), "secret word", "{text:?}");
        }
        std::fs::write(&file, "\nsecret").unwrap();
        assert!(read_password(&file).unwrap_err().to_string().contains("server.first_password_file"));
        read_password(&folder.path().join("absent")).unwrap_err();
    }
}
