//! Access checks of a session, against the tables that a resolved plan reads and the objects that a statement
//! names: not against its text, where names may mean anything.

use std::ops::ControlFlow;

use datafusion::common::TableReference;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{DdlStatement, LogicalPlan, TableScan};
use datafusion::sql::sqlparser::ast::{Query, visit_relations};
use nyala_cube::cube::table_of;
use nyala_cube::live::ChangesProvider;
use nyala_model::access::{Privilege, Securable};
use nyala_model::{CatalogSnapshot, QualifiedName};
use nyala_sql::error::Result;
use nyala_sql::statement::{AlterAction, LiveStatement, Nyala, RoleOptions, RoleStatement};
use nyala_storage::object::{Location, real_path};

use super::ddl::{name_of, schema_name, table_name};
use super::engine::Engine;
use super::roles::role_name;
use super::system::SYSTEM_SCHEMA;
use crate::access::Identity;
use crate::session::{DATABASE, Settings, SnapshotContext};

/// Schemas that describe the database; every role may read them.
const DESCRIBING_SCHEMAS: [&str; 2] = ["information_schema", PG_CATALOG];
const PG_CATALOG: &str = "pg_catalog";
/// Tables of `pg_catalog` about passwords: only superusers may read them, as in PostgreSQL.
const ABOUT_PASSWORDS: [&str; 3] = ["pg_authid", "pg_shadow", "pg_user_mapping"];
/// System tables that show the queries of other sessions, or the paths of files.
const FOR_SUPERUSERS: [&str; 6] = ["disk_stores", "queries", "query_history", "query_log", "stuck", "tasks"];

/// Checks every table that a plan reads, also in subqueries. This is due whenever a plan is run, and not only
/// when it is made: another session may have made it, and a grant may have been revoked.
pub(super) fn plan(
    engine: &Engine,
    identity: &Identity,
    plan: &LogicalPlan,
    settings: &Settings,
) -> Result<()> {
    if identity.may_everything(&engine.catalog().snapshot()) {
        return Ok(());
    }
    reading(engine, identity, &tables_of(plan, &engine.context(), settings)?)
}

/// Checks the tables that a plan reads, as returned by [`tables_of`].
pub(super) fn reading(engine: &Engine, identity: &Identity, tables: &[QualifiedName]) -> Result<()> {
    let catalog = engine.catalog().snapshot();
    if identity.may_everything(&catalog) {
        return Ok(());
    }
    tables.iter().try_for_each(|table| match table.schema.as_str() {
        SYSTEM_SCHEMA if !FOR_SUPERUSERS.contains(&table.name.as_str()) => Ok(()),
        SYSTEM_SCHEMA | PG_CATALOG => identity.require_superuser(&catalog, &format!("reading `{table}`")),
        _ => identity.require(&catalog, Privilege::Select, &Securable::Object(table.clone())),
    })
}

/// Every table that a plan reads, also in subqueries.
pub(super) fn tables_of(
    plan: &LogicalPlan,
    context: &SnapshotContext,
    settings: &Settings,
) -> Result<Vec<QualifiedName>> {
    let mut tables = Vec::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Some(table) = read_by(scan, settings, context)
            && !tables.contains(&table)
        {
            tables.push(table);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(tables)
}

/// The table that a scan reads; none for schemas that every role may read, and for table functions. Any other source
/// counts as a table, which must have been granted.
fn read_by(scan: &TableScan, settings: &Settings, context: &SnapshotContext) -> Option<QualifiedName> {
    if let Some(name) = table_of(scan).or_else(|| changes_of(scan)) {
        return Some(name);
    }
    // A recursive query that reads itself: its first part is in the same plan.
    if source_as_provider(&scan.source).is_ok_and(|provider| provider.is::<CteWorkTable>()) {
        return None;
    }
    let name = scan.table_name.table();
    let is_function =
        scan.table_name.schema().is_none() && context.is_table_function(name.trim_end_matches("()"));
    let resolved = scan.table_name.clone().resolve(DATABASE, settings.schema());
    let is_system = DESCRIBING_SCHEMAS.contains(&resolved.schema.as_ref())
        && !ABOUT_PASSWORDS.contains(&resolved.table.as_ref());
    (!is_function && !is_system)
        .then(|| QualifiedName::new(resolved.schema.as_ref(), resolved.table.as_ref()))
}

/// The live table of a scan of its changes.
fn changes_of(scan: &TableScan) -> Option<QualifiedName> {
    let provider = source_as_provider(&scan.source).ok()?;
    Some(provider.downcast_ref::<ChangesProvider>()?.table().entry().name.clone())
}

/// Checks a change of schemas and tables.
pub(super) fn ddl(
    engine: &Engine,
    identity: &Identity,
    change: &DdlStatement,
    settings: &Settings,
) -> Result<()> {
    let catalog = engine.catalog().snapshot();
    if identity.may_everything(&catalog) {
        return Ok(());
    }
    let creates_in = |name: &TableReference| {
        let schema = Securable::Schema(table_name(name, settings.schema())?.schema);
        identity.require(&catalog, Privilege::Create, &schema)
    };
    match change {
        DdlStatement::CreateExternalTable(create) => {
            creates_in(&create.name)?;
            create.locations.iter().try_for_each(|location| reads_files(engine, identity, &catalog, location))
        }
        DdlStatement::DropTable(drop) => creates_in(&drop.name),
        DdlStatement::CreateCatalogSchema(create) => {
            let name = schema_name(&create.schema_name)?;
            identity.require_superuser(&catalog, &format!("creating schema `{name}`"))
        }
        DdlStatement::DropCatalogSchema(_) => identity.require_superuser(&catalog, "dropping a schema"),
        other => identity.require_superuser(&catalog, &other.name().to_lowercase()),
    }
}

/// Checks a statement of our own. The plan of a cube's SELECT is checked apart from it.
pub(super) fn own(
    engine: &Engine,
    identity: &Identity,
    statement: &Nyala,
    settings: &Settings,
) -> Result<()> {
    let catalog = engine.catalog().snapshot();
    if identity.may_everything(&catalog) {
        return Ok(());
    }
    let name = |name| name_of(name, settings.schema());
    match statement {
        Nyala::CreateCube(create) => {
            creates(&catalog, identity, name(&create.name)?)?;
            selects(&catalog, identity, &tables_named(&create.query, &catalog, settings))
        }
        Nyala::AlterCube(alter) => {
            let cube = name(&alter.name)?;
            creates(&catalog, identity, cube.clone())?;
            // Additions reveal values of the rows: cuboids count them, and builds fail for some.
            match catalog.cubes.get(&cube).filter(|_| alter.actions.iter().any(adds)) {
                Some(cube) => selects(&catalog, identity, &cube.definition.sources),
                None => Ok(()),
            }
        }
        Nyala::DropCube { name: cube, .. } => creates(&catalog, identity, name(cube)?),
        Nyala::BuildCube(build) => builds(&catalog, identity, name(&build.name)?),
        Nyala::AnalyzeCube { name: cube } => builds(&catalog, identity, name(cube)?),
        Nyala::CheckCube { name: cube, .. } => {
            let cube = name(cube)?;
            builds(&catalog, identity, cube.clone())?;
            // The answer shows the values that differ.
            match catalog.cubes.get(&cube) {
                Some(cube) => selects(&catalog, identity, &cube.definition.sources),
                None => Ok(()),
            }
        }
        Nyala::CancelJob(id) => match engine.build_progress().into_iter().find(|job| job.id.0 == *id) {
            Some(job) => builds(&catalog, identity, job.cube),
            None => identity.require_superuser(&catalog, "cancelling a job that does not run"),
        },
        Nyala::KillQuery { id } => match engine.registry.find(*id) {
            Some(entry) if entry.owner.identity == *identity => Ok(()),
            _ => identity.require_superuser(&catalog, "killing what others run"),
        },
        Nyala::Backup(_) => identity.require_superuser(&catalog, "a backup of the data folder"),
        // Both show the queries of other sessions.
        Nyala::ShowQueryHistory => identity.require_superuser(&catalog, "the query history"),
        Nyala::RecommendCube(_) => {
            identity.require_superuser(&catalog, "a recommendation from the query history")
        }
        Nyala::ShowCubes | Nyala::ShowSegments { .. } | Nyala::ShowCuboids { .. } | Nyala::ShowJobs => Ok(()),
        Nyala::Role(statement) => role(&catalog, identity, statement),
        Nyala::Live(statement) => match statement.as_ref() {
            LiveStatement::CreateDiskStore { .. } | LiveStatement::DropDiskStore { .. } => {
                identity.require_superuser(&catalog, "changing disk stores")
            }
            LiveStatement::CreateTable { create, .. } => creates(&catalog, identity, name(&create.name)?),
            LiveStatement::AlterTable(alter) => creates(&catalog, identity, name(&alter.name)?),
            // Files have no owner: a role that may read them could make an external table of them, too. The privilege
            // to write rows is checked when the load begins.
            LiveStatement::Copy(copy) => match &copy.location {
                Some(location) => {
                    creates(&catalog, identity, name(&copy.table)?)?;
                    reads_files(engine, identity, &catalog, location)
                }
                None => Ok(()),
            },
        },
    }
}

fn creates(catalog: &CatalogSnapshot, identity: &Identity, name: QualifiedName) -> Result<()> {
    identity.require(catalog, Privilege::Create, &Securable::Schema(name.schema))
}

fn selects(catalog: &CatalogSnapshot, identity: &Identity, tables: &[QualifiedName]) -> Result<()> {
    let mut tables = tables.iter().cloned().map(Securable::Object);
    tables.try_for_each(|table| identity.require(catalog, Privilege::Select, &table))
}

/// The tables with the names that a query contains. A cube takes each name for a table, also one that a WITH of the
/// query defines, so that the cube's plan may read tables that are not in the query's plan.
fn tables_named(query: &Query, catalog: &CatalogSnapshot, settings: &Settings) -> Vec<QualifiedName> {
    let mut tables = Vec::new();
    let _ = visit_relations(query, |name| {
        let name = name_of(name, settings.schema()).ok();
        tables.extend(name.filter(|name| catalog.tables.contains_key(name)));
        ControlFlow::<()>::Continue(())
    });
    tables
}

fn adds(action: &AlterAction) -> bool {
    match action {
        AlterAction::AddDimension(..) | AlterAction::AddMeasure(_) | AlterAction::AddGroupingSet(_) => true,
        AlterAction::DropDimension(_)
        | AlterAction::DropMeasure(_)
        | AlterAction::DropGroupingSet(_)
        | AlterAction::Set(_) => false,
    }
}

/// Leaves the data folder to superusers, with the files there that the server did not write. The server's own files are
/// refused to superusers as well, when they are opened.
fn reads_files(
    engine: &Engine,
    identity: &Identity,
    catalog: &CatalogSnapshot,
    location: &str,
) -> Result<()> {
    let Some(wanted) = Location::parse(location)?.local_path() else { return Ok(()) };
    let wanted = real_path(&wanted);
    let stores = catalog.disk_stores.values().map(|store| engine.data_dir.join(&store.folder));
    // These folders may be links to other disks.
    let folders = ["", "cubes", "tmp"].map(|folder| engine.data_dir.join(folder));
    let mut own = stores.chain(folders).map(|own| real_path(&own));
    match own.any(|own| wanted.starts_with(&own) || own.starts_with(&wanted)) {
        true => {
            identity.require_superuser(catalog, &format!("reading the server's own files at `{location}`"))
        }
        false => Ok(()),
    }
}

fn builds(catalog: &CatalogSnapshot, identity: &Identity, name: QualifiedName) -> Result<()> {
    identity.require(catalog, Privilege::Build, &Securable::Object(name))
}

/// Every role may change its own password, and list roles and grants.
fn role(catalog: &CatalogSnapshot, identity: &Identity, statement: &RoleStatement) -> Result<()> {
    match statement {
        RoleStatement::ShowRoles | RoleStatement::ShowGrants => Ok(()),
        RoleStatement::Alter {
            name,
            options: RoleOptions { login: None, superuser: None, password: Some(_) },
        } if identity.is(&role_name(name)) => Ok(()),
        _ => identity.require_superuser(catalog, "changing roles and grants"),
    }
}
