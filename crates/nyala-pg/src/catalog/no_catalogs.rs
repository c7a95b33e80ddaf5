//! An empty catalog for the library `datafusion-pg-catalog`, whose own tables about catalogs are not used.

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::common::Result;
use datafusion::datasource::TableType;
use datafusion_pg_catalog::pg_catalog::catalog_info::CatalogInfo;

/// The empty catalog.
#[derive(Debug, Clone)]
pub struct NoCatalogs;

#[async_trait]
impl CatalogInfo for NoCatalogs {
    async fn catalog_names(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    async fn schema_names(&self, _: &str) -> Result<Option<Vec<String>>> {
        Ok(None)
    }

    async fn table_names(&self, _: &str, _: &str) -> Result<Option<Vec<String>>> {
        Ok(None)
    }

    async fn table_schema(&self, _: &str, _: &str, _: &str) -> Result<Option<SchemaRef>> {
        Ok(None)
    }

    async fn table_type(&self, _: &str, _: &str, _: &str) -> Result<Option<TableType>> {
        Ok(None)
    }
}
