//! The catalog: a file of the data folder, or a database that nodes share.

use std::time::{Duration, SystemTime};

use nyala_catalog::{PostgresStore, ProbedDatabase};
use nyala_model::NodeId;
use nyala_model::config::Config;

use super::check::Check;
use super::clock::Clock;
use crate::open::check_shared;

const SUBJECT: &str = "catalog";
/// The oldest version of PostgreSQL that will do.
const MIN_VERSION: u32 = 130_000;

/// A shared catalog's database that answered.
#[derive(Debug)]
pub struct Database {
    /// The name that all nodes with this catalog know it by; none before the first of them starts.
    pub cluster: Option<NodeId>,
    /// The clock of the database.
    pub clock: Clock,
}

/// The result, and the database if there is one that answers.
pub async fn check(config: &Config) -> (Check, Option<Database>) {
    if config.catalog.url.is_empty() {
        // The checks of the data folder look at the catalog's file.
        return (Check::ok(SUBJECT, "in the data folder"), None);
    }
    if let Err(error) = check_shared(config) {
        return (Check::error(SUBJECT, error), None);
    }
    match PostgresStore::probe(&config.catalog.url).await {
        Ok(probed) => {
            let at = SystemTime::UNIX_EPOCH + Duration::from_millis(probed.clock_ms);
            let clock = Clock::read("that of PostgreSQL", at);
            (judge(&probed), Some(Database { cluster: probed.cluster, clock }))
        }
        Err(error) => (Check::error(SUBJECT, error), None),
    }
}

fn judge(probed: &ProbedDatabase) -> Check {
    let (place, version) = (&probed.place, probed.server_version);
    let found = format!("PostgreSQL {}.{} at `{place}`", version / 10_000, version % 10_000);
    if version < MIN_VERSION {
        return Check::failed(SUBJECT, found, "use PostgreSQL 13 or newer");
    }
    match (probed.has_catalog, probed.may_write) {
        (true, true) => Check::ok(SUBJECT, format!("{found}, which has a catalog")),
        (false, true) => Check::ok(SUBJECT, format!("{found}, where the first server makes the tables")),
        (true, false) => Check::failed(
            SUBJECT,
            format!("{found} has a catalog that its user may not read and write"),
            "connect as the user that made it, or run `GRANT ALL ON ALL TABLES IN SCHEMA nyala TO …`",
        ),
        (false, false) => Check::failed(
            SUBJECT,
            format!("{found}, where its user may not make the tables"),
            "run `CREATE SCHEMA nyala AUTHORIZATION …` with the name of the user",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::State;
    use super::*;

    #[test]
    fn a_database_has_to_be_new_enough_and_the_user_allowed() {
        let check = |server_version, has_catalog, may_write, expected| {
            let place = "db:5432/nyala".to_owned();
            let probed =
                ProbedDatabase { place, server_version, has_catalog, may_write, cluster: None, clock_ms: 0 };
            let found = judge(&probed);
            assert_eq!(found.state, expected, "{found:?}");
        };
        check(150_004, true, true, State::Ok);
        check(130_000, false, true, State::Ok);
        check(120_022, true, true, State::Failed);
        check(150_004, true, false, State::Failed);
        check(150_004, false, false, State::Failed);
    }
}
