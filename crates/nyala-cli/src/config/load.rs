//! Puts the layers on top of each other and checks the result.

use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};
use figment::error::Kind;
use figment::providers::{Format, Serialized, Toml};
use figment::{Figment, Metadata, Source};
use nyala_client::report::Hinted;
use nyala_model::config::Config;
use nyala_model::suggest::nearest;

use super::layer::{Flag, OTHER_VARIABLES, PREFIX, of_variable};
use super::show::SECRETS;
use crate::args::ConfigArgs;

/// The file that is read when none is named and it exists.
const DEFAULT_FILE: &str = "nyala.toml";

/// Variables that name a file with a secret for the database of the catalog or for buckets.
const SECRET_FILES: [&str; 8] = [
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AZURE_FEDERATED_TOKEN_FILE",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_SERVICE_ACCOUNT",
    "GOOGLE_SERVICE_ACCOUNT_PATH",
    "PGPASSFILE",
    "SERVICE_ACCOUNT",
];
/// Such files that no variable names, below the home of the server's user.
const SECRET_FILES_OF_USER: [&str; 2] = [".config/gcloud/application_default_credentials.json", ".pgpass"];

/// A configuration and the origin of each value.
#[derive(Debug)]
pub struct Loaded {
    /// The effective configuration, checked.
    pub config: Config,
    /// The file that was read.
    file: Option<PathBuf>,
    layers: Figment,
}

impl Loaded {
    /// The configuration for a server, which also knows the files that it must not show: the one that was read, those that
    /// its log is written to, and those with the secrets for databases and buckets.
    pub fn into_config(self) -> Config {
        // The file names are those of Linux; elsewhere there are none.
        let logs = ["/proc/self/fd/1", "/proc/self/fd/2"].map(std::fs::read_link);
        let logs = logs.into_iter().flatten().filter(|log| log.is_file());
        let own_files = self.file.into_iter().chain(logs).chain(secret_files()).collect();
        Config { own_files, ..self.config }
    }

    /// The file that was read; none if there is none.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// The keys with secret values that the file sets.
    pub fn secrets_in_file(&self) -> Vec<&'static str> {
        let of_file =
            |key: &&str| match self.layers.find_metadata(key).and_then(|origin| origin.source.as_ref()) {
                Some(Source::File(_)) => {
                    self.layers.extract_inner::<String>(key).is_ok_and(|value| !value.is_empty())
                }
                _ => false,
            };
        SECRETS.into_iter().filter(of_file).collect()
    }

    /// Where the value of a key comes from: `default`, a file, a variable or a flag.
    pub fn origin(&self, key: &str) -> String {
        origin(self.layers.find_metadata(key))
    }
}

/// The files in which crates `sqlx` and `object_store` look for passwords, keys and tokens.
fn secret_files() -> impl Iterator<Item = PathBuf> {
    let named = SECRET_FILES.into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    let home = std::env::home_dir();
    named.chain(home.into_iter().flat_map(|home| SECRET_FILES_OF_USER.map(|name| home.join(name))))
}

/// Loads the configuration of this process.
pub fn load(args: &ConfigArgs, flags: &[Flag]) -> anyhow::Result<Loaded> {
    let file = match &args.config {
        Some(file) if file.is_file() => Some(file.clone()),
        Some(file) => {
            let message = format!("configuration file `{}` does not exist", file.display());
            return Err(Hinted::error(message, "correct `--config`, or leave it out to use the defaults"));
        }
        None => Some(PathBuf::from(DEFAULT_FILE)).filter(|file| file.is_file()),
    };
    layered(file.as_deref(), environment()?.into_iter(), flags)
}

/// The variables in Unicode. A name that is not Unicode is no key of ours, and the values of other programs' variables do
/// not matter.
fn environment() -> anyhow::Result<Vec<(String, String)>> {
    let mut variables = Vec::new();
    for (name, value) in std::env::vars_os() {
        let Ok(name) = name.into_string() else { continue };
        match value.into_string() {
            Ok(value) => variables.push((name, value)),
            Err(_) if name.starts_with(PREFIX) && !OTHER_VARIABLES.contains(&name.as_str()) => {
                bail!("environment variable `{name}` is not valid UTF-8")
            }
            Err(_) => {}
        }
    }
    Ok(variables)
}

/// Loads from the given layers only.
pub(super) fn layered(
    file: Option<&Path>,
    environment: impl Iterator<Item = (String, String)>,
    flags: &[Flag],
) -> anyhow::Result<Loaded> {
    let defaults = Figment::from(Serialized::defaults(Config::default()));
    let mut layers = defaults.clone();
    if let Some(file) = file {
        layers = layers.merge(Toml::file_exact(file));
    }
    for (name, text) in environment {
        if let Some(layer) = of_variable(&defaults, &name, &text)? {
            layers = layers.merge(layer);
        }
    }
    for flag in flags {
        layers = layers.merge(flag.layer(&defaults)?);
    }
    let config: Config = layers.extract().map_err(explain)?;
    let loaded = Loaded { config, file: file.map(Path::to_owned), layers };
    loaded.config.validate().map_err(|invalid| anyhow!("{invalid} (from {})", loaded.origin(invalid.key)))?;
    Ok(loaded)
}

/// Names key and origin, and suggests the key that was probably meant.
fn explain(error: figment::Error) -> anyhow::Error {
    let key = error.path.join(".");
    let origin = origin(error.metadata.as_ref());
    match &error.kind {
        Kind::UnknownField(found, known) => {
            let hint = match nearest(found, known.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("known here: {}", known.join(", ")),
            };
            Hinted::error(format!("unknown configuration key `{key}` in {origin}"), hint)
        }
        // The text of the file is not TOML: the message has line and column.
        kind if key.is_empty() => anyhow!("cannot read {origin}: {kind}"),
        kind => anyhow!("configuration key `{key}` in {origin}: {kind}"),
    }
}

fn origin(metadata: Option<&Metadata>) -> String {
    let Some(metadata) = metadata else { return "the configuration".to_owned() };
    match &metadata.source {
        Some(Source::File(path)) => format!("`{}`", path.display()),
        Some(_) => "default".to_owned(),
        None => metadata.name.to_string(),
    }
}
