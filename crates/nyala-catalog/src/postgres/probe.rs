//! Looks at a database before a server uses it. Nothing is made there.

use nyala_model::NodeId;
use sqlx::Row;
use sqlx::postgres::PgPool;

use super::schema;
use crate::error::CatalogError;

/// A database that answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbedDatabase {
    /// Host, port and database.
    pub place: String,
    /// Version of PostgreSQL, as `150004` for 15.4.
    pub server_version: u32,
    /// Whether it holds a catalog already.
    pub has_catalog: bool,
    /// Whether the user may make the catalog, or read and write the one that is there.
    pub may_write: bool,
    /// Name of the cluster, which all nodes with this catalog share; none without a catalog, or if the user may not read it.
    pub cluster: Option<NodeId>,
    /// Time of the server's clock, in milliseconds since 1970.
    pub clock_ms: u64,
}

/// The last column is whether the user has the privileges: to make a schema where there is none, to make tables in a schema of
/// another user, to read and write the tables of an existing catalog.
const FACTS: &str = "
SELECT current_setting('server_version_num')::integer,
       floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint,
       to_regclass('nyala.catalog') IS NOT NULL,
       CASE
           WHEN to_regclass('nyala.catalog') IS NOT NULL THEN
               has_table_privilege('nyala.catalog', 'SELECT') AND has_table_privilege('nyala.catalog', 'UPDATE')
               AND has_table_privilege('nyala.entries', 'INSERT')
           WHEN to_regnamespace('nyala') IS NOT NULL THEN has_schema_privilege('nyala', 'CREATE')
           ELSE has_database_privilege(current_database(), 'CREATE')
       END";

/// Reads the catalog's format, its cluster and the rights of the role in the database.
pub async fn read(pool: &PgPool, place: &str) -> Result<ProbedDatabase, CatalogError> {
    let mut connection = pool.acquire().await?;
    let facts = sqlx::query(FACTS).fetch_one(&mut *connection).await?;
    let mut probed = ProbedDatabase {
        place: place.to_owned(),
        server_version: facts.try_get::<i32, _>(0)?.cast_unsigned(),
        clock_ms: facts.try_get::<i64, _>(1)?.cast_unsigned(),
        has_catalog: facts.try_get(2)?,
        may_write: facts.try_get(3)?,
        cluster: None,
    };
    if probed.has_catalog && probed.may_write {
        schema::check(schema::format(&mut connection).await?)?;
        let row = sqlx::query("SELECT cluster FROM nyala.catalog").fetch_one(&mut *connection).await?;
        probed.cluster = Some(NodeId(row.try_get(0)?));
    }
    Ok(probed)
}
