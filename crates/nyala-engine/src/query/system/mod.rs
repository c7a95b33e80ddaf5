//! The schema `system`: tables about the state of the server.
//!
//! A table is made when a query scans it, from the memory or the catalog at that moment. It has the columns
//! of the SHOW statement for the same things, if there is one.

mod activity;
mod caches;
mod live;
mod nodes;
mod resources;
mod table;

use std::sync::{Arc, OnceLock, Weak};

use datafusion::catalog::{MemorySchemaProvider, SchemaProvider};
use datafusion::common::internal_datafusion_err;
use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use nyala_model::CatalogSnapshot;

pub use self::activity::queries_here;

use self::table::{SystemTable, Table};
use super::engine::Engine;
use super::names::SYSTEM_SCHEMA;
use crate::session::{DATABASE, MadeTable, SessionExtension};

/// Adds the schema to every snapshot. The engine is known only after the first snapshot is open.
#[derive(Debug, Default)]
pub struct SystemSchema {
    engine: Arc<OnceLock<Weak<Engine>>>,
}

impl SystemSchema {
    /// From now on the tables can be read.
    pub fn attach(&self, engine: &Arc<Engine>) {
        // Attached once, when the engine is open.
        let _ = self.engine.set(Arc::downgrade(engine));
    }
}

impl SessionExtension for SystemSchema {
    fn install(&self, context: &SessionContext, _: &Arc<CatalogSnapshot>) -> Result<()> {
        let schema = MemorySchemaProvider::new();
        for table in Table::ALL {
            let provider = Arc::new(MadeTable(SystemTable::new(table, Arc::clone(&self.engine))));
            schema.register_table(table.name().to_owned(), provider)?;
        }
        let database = context.catalog(DATABASE);
        let database = database.ok_or_else(|| internal_datafusion_err!("there is no database"))?;
        database.register_schema(SYSTEM_SCHEMA, Arc::new(schema))?;
        Ok(())
    }
}
