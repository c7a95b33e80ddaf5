//! The changes that the catalog accepts, and their outcome.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nyala_model::access::{Grant, PasswordEntry, RoleEntry};
use nyala_model::{
    CatalogSnapshot, CubeDefinition, CubeId, CuboidEntry, DimensionMoves, DiskStoreEntry, NodeId,
    QualifiedName, SegmentDamage, SegmentId, SegmentRange, SourceFiles, TableEntry, TableId, TableSource,
};

/// One change of the catalog: made in one transaction, as a whole or not at all.
///
/// Tables and cubes share one namespace in each schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Adds an empty schema.
    CreateSchema {
        /// Its name.
        name: String,
        /// Whether an existing schema of this name is fine.
        if_not_exists: bool,
    },
    /// Removes a schema; `public` stays.
    DropSchema {
        /// Its name.
        name: String,
        /// Whether a missing schema is fine.
        if_exists: bool,
        /// Whether its tables and cubes go with it. A cube of *another* schema that reads one of the
        /// tables still prevents it: a built cube is never lost by a statement that does not name it.
        cascade: bool,
    },
    /// Registers a table. The name of a live table in its disk store is removed from the leftovers of that store.
    CreateTable {
        /// The table; its schema must exist.
        table: NewTable,
        /// Whether an existing table of this name is fine. A cube of this name never is.
        if_not_exists: bool,
    },
    /// Gives a view another query, or adds it. The caller has checked that its old columns stay. Refused if the view
    /// would read itself.
    ReplaceView {
        /// The view; its schema must exist.
        view: NewTable,
    },
    /// Forgets tables or views that no cube reads. Their files are not touched. Live tables become leftovers of their
    /// disk stores.
    DropTables {
        /// Their names.
        names: Vec<QualifiedName>,
        /// Whether they are views.
        views: bool,
        /// Whether a missing one is fine.
        if_exists: bool,
        /// Whether views that read them go too. If not, such views prevent it. A cube always does: a built cube is
        /// never lost by a statement that does not name it.
        cascade: bool,
    },
    /// Gives a table or view that no cube reads another name. Views that read it still do, and grants on it stay.
    RenameTable {
        /// Its present name.
        name: QualifiedName,
        /// Its new name, in the same schema or another one.
        to: QualifiedName,
        /// Whether a missing one is fine.
        if_exists: bool,
        /// The statement, which is added to those that made the table, for people.
        statement: String,
    },
    /// Gives a live table other columns. The caller has checked that no cube reads a removed one.
    AlterTable {
        /// The table.
        table: TableId,
        /// The schema it has now, as an Arrow IPC schema message.
        schema_ipc: Vec<u8>,
        /// Default of each column, as SQL, when an INSERT does not name it; the others get null.
        defaults: BTreeMap<String, String>,
        /// The statement that would create it as it is now, for people.
        definition: String,
    },
    /// Registers a disk store.
    CreateDiskStore {
        /// The store, without leftovers.
        store: DiskStoreEntry,
        /// Whether an existing store of this name is fine.
        if_not_exists: bool,
    },
    /// Forgets a disk store that no table lives in. Its folder is not touched.
    DropDiskStore {
        /// Its name.
        name: String,
        /// Whether a missing store is fine.
        if_exists: bool,
    },
    /// Removes a dropped table from the leftovers of its disk store: its rows are deleted there.
    ForgetLeftover {
        /// The store.
        store: String,
        /// The name that the table had there.
        stored_as: String,
    },
    /// Registers a cube without segments. Its schema and every table it reads must exist.
    CreateCube {
        /// Its name.
        name: QualifiedName,
        /// Its definition.
        definition: CubeDefinition,
        /// The statement that creates it, for people.
        statement: String,
        /// Whether an existing cube of this name is fine. A table of this name never is.
        if_not_exists: bool,
    },
    /// Gives a cube another definition, of the next revision. Cuboids of ready segments stay if the new
    /// definition can use them. Segments being built are forgotten if the cells differ. Files stay.
    AlterCube {
        /// The cube.
        cube: CubeId,
        /// Its new definition.
        definition: Box<CubeDefinition>,
        /// The statement that would create it as it is now, for people.
        statement: String,
        /// The new positions of its old dimensions.
        moves: DimensionMoves,
        /// Whether the cube answered queries when the definition was made. Refused if it was switched since: the
        /// definition would undo that.
        answered: bool,
    },
    /// Lets a cube answer queries, or not. Its revision stays, so that builds which run are not refused.
    SwitchCube {
        /// The cube.
        cube: CubeId,
        /// The revision of the cube that the statement was made for. Refused if the cube has another by now.
        revision: u32,
        /// Whether queries are answered from it.
        answers: bool,
        /// The statement that would create it as it is now, for people.
        statement: String,
    },
    /// Forgets a cube with its segments. Their files are not touched.
    DropCube {
        /// Its name.
        name: QualifiedName,
        /// Whether a missing cube is fine.
        if_exists: bool,
    },
    /// Adds an empty segment in state `Building`; [`Committed::segment`] is its id.
    BeginSegment {
        /// The cube it belongs to.
        cube: CubeId,
        /// The revision of the cube that is built. Refused if the cube has another by now.
        revision: u32,
        /// Folder, with a trailing slash, that will hold all its files.
        location: String,
        /// The rows it is made from.
        range: SegmentRange,
        /// The files it is made from.
        sources: Vec<SourceFiles>,
        /// The node that makes it.
        node: NodeId,
    },
    /// Records a finished cuboid of a segment that is still `Building`. An entry with equal dimensions
    /// is replaced where it stands.
    AddCuboid {
        /// The segment.
        segment: SegmentId,
        /// The cuboid. Its files must be complete and durable.
        cuboid: CuboidEntry,
    },
    /// Gives a `Ready` segment a missing cuboid, or a current one in place of an outdated one.
    ExtendSegment {
        /// The segment.
        segment: SegmentId,
        /// The revision of the cube that the cuboid was made for. Refused if it is another by now.
        revision: u32,
        /// The cuboid. Its files must be complete and durable.
        cuboid: CuboidEntry,
    },
    /// Makes a `Building` segment `Ready`. Removes the `Ready` segments of its cube that its range contains,
    /// and the `Damaged` ones that it overlaps. Refused if it overlaps a `Ready` one that it does not
    /// contain.
    PublishSegment {
        /// The segment.
        segment: SegmentId,
        /// Rows of the flat join that were aggregated.
        source_rows: u64,
        /// Milliseconds since the Unix epoch.
        built_at_ms: u64,
        /// Tables of the cube's join, by position, that kept every row exactly once in this build.
        droppable_joins: Vec<usize>,
        /// Smallest and largest key among the rows, if the cube is partitioned.
        key_bounds: Option<(i64, i64)>,
    },
    /// Takes a `Ready` segment out of use: one of its files is damaged. In other states it stays as it is.
    MarkDamaged {
        /// The segment.
        segment: SegmentId,
        /// The damage.
        damage: SegmentDamage,
    },
    /// Forgets a segment in any state. Its files are not touched.
    DropSegment {
        /// The segment.
        segment: SegmentId,
    },
    /// Forgets those of the segments that still exist, in any state. Their files are not touched.
    DropSegments {
        /// The segments.
        segments: Vec<SegmentId>,
    },
    /// Forgets a segment that is not ready. Its files are not touched.
    DropUnfinished {
        /// The segment.
        segment: SegmentId,
    },
    /// Adds a user or a group.
    CreateRole {
        /// The role.
        role: RoleEntry,
        /// Whether an existing role of this name is fine.
        if_not_exists: bool,
    },
    /// Changes the attributes of a role.
    AlterRole {
        /// Its name.
        name: String,
        /// The new attributes.
        change: RoleChange,
    },
    /// Removes a role with its grants and its memberships. Other roles are no longer members of it.
    DropRole {
        /// Its name.
        name: String,
        /// Whether a missing role is fine.
        if_exists: bool,
    },
    /// Grants something to roles; a grant they have already is no error.
    Grant {
        /// Privileges or memberships.
        what: Granted,
        /// The roles that get it.
        to: BTreeSet<String>,
    },
    /// Revokes something from roles; a grant they do not have is no error.
    Revoke {
        /// Privileges or memberships.
        what: Granted,
        /// The roles that lose it.
        from: BTreeSet<String>,
    },
}

/// The object of a grant or a revoke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Granted {
    /// Privileges. They end when their schema, table or cube is dropped.
    Privileges(BTreeSet<Grant>),
    /// Membership in these roles.
    Membership(BTreeSet<String>),
}

/// New attributes of a role; none leaves one as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoleChange {
    /// Whether it may connect.
    pub login: Option<bool>,
    /// Whether it may do everything.
    pub superuser: Option<bool>,
    /// Its password verifier; an inner none removes the password.
    pub password: Option<Option<PasswordEntry>>,
}

/// A table that is about to be registered: a [`TableEntry`] that has no id yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTable {
    /// Its name for users.
    pub name: QualifiedName,
    /// Where its rows are.
    pub source: TableSource,
    /// Full schema, partition columns included, as an Arrow IPC schema message.
    pub schema_ipc: Vec<u8>,
    /// The statement that creates it, for people.
    pub definition: String,
}

impl NewTable {
    /// The entry this table becomes.
    pub(crate) fn into_entry(self, id: TableId) -> TableEntry {
        let Self { name, source, schema_ipc, definition } = self;
        TableEntry { id, name, source, schema_ipc, definition }
    }
}

/// The outcome of a change that is durable and visible.
#[derive(Debug, Clone)]
pub struct Committed {
    /// The catalog with the change in it, or a newer one.
    pub snapshot: Arc<CatalogSnapshot>,
    /// The segment that [`Change::BeginSegment`] added.
    pub segment: Option<SegmentId>,
    /// False when `IF [NOT] EXISTS` left nothing to do; the version is then unchanged.
    pub changed: bool,
}
