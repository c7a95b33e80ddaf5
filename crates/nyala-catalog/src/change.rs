//! What may be asked of the catalog, and what comes back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nyala_model::access::{Grant, PasswordEntry, RoleEntry};
use nyala_model::{
    CatalogSnapshot, CubeDefinition, CubeId, CuboidEntry, DimensionMoves, DiskStoreEntry, QualifiedName,
    SegmentDamage, SegmentId, SegmentRange, SourceFiles, TableEntry, TableId, TableSource,
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
    /// Registers a table. The name that a live table has in its disk store is no leftover there from now on.
    CreateTable {
        /// The table; its schema must exist.
        table: NewTable,
        /// Whether an existing table of this name is fine. A cube of this name never is.
        if_not_exists: bool,
    },
    /// Forgets a table that no cube reads. Its files are not touched. A live table becomes a leftover of its
    /// disk store.
    DropTable {
        /// Its name.
        name: QualifiedName,
        /// Whether a missing table is fine.
        if_exists: bool,
    },
    /// Gives a live table other columns than it had. No cube may read one that is gone.
    AlterTable {
        /// The table.
        table: TableId,
        /// The schema it has now, as an Arrow IPC schema message.
        schema_ipc: Vec<u8>,
        /// What its columns get now that an INSERT does not name, as SQL; the others get null.
        defaults: BTreeMap<String, String>,
        /// The statement that would create it as it is now, for people.
        definition: String,
    },
    /// Registers a disk store.
    CreateDiskStore {
        /// The store; nothing is left over in it.
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
    /// A dropped table is gone from its disk store, too.
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
        /// What it is made of.
        definition: CubeDefinition,
        /// The statement that creates it, for people.
        statement: String,
        /// Whether an existing cube of this name is fine. A table of this name never is.
        if_not_exists: bool,
    },
    /// Gives a cube another definition, of the next revision. Cuboids of ready segments stay as far as the
    /// new definition has a use for them. Segments being built are forgotten if the cells are others now.
    /// Files are not touched.
    AlterCube {
        /// The cube.
        cube: CubeId,
        /// What it is made of now.
        definition: Box<CubeDefinition>,
        /// The statement that would create it as it is now, for people.
        statement: String,
        /// Where its dimensions of before are now.
        moves: DimensionMoves,
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
        /// The revision of the cube that is built. Refused if it is another by now.
        revision: u32,
        /// Folder, with a trailing slash, that will hold all its files.
        location: String,
        /// The rows it is made from.
        range: SegmentRange,
        /// The files it is made from.
        sources: Vec<SourceFiles>,
    },
    /// Records a finished cuboid of a segment that is still `Building`. An entry with equal dimensions
    /// is replaced where it stands.
    AddCuboid {
        /// The segment.
        segment: SegmentId,
        /// The cuboid, whose files must be complete and durable.
        cuboid: CuboidEntry,
    },
    /// Gives a `Ready` segment a cuboid that it lacks, or one that is current for one that is not.
    ExtendSegment {
        /// The segment.
        segment: SegmentId,
        /// The revision of the cube that the cuboid was made for. Refused if it is another by now.
        revision: u32,
        /// The cuboid, whose files must be complete and durable.
        cuboid: CuboidEntry,
    },
    /// Makes a `Building` segment `Ready` and removes the `Ready` ones of its cube whose rows it holds, and those
    /// `Damaged` it shares rows with. Refused if it shares rows with a `Ready` one that has others besides.
    PublishSegment {
        /// The segment.
        segment: SegmentId,
        /// Rows of the flat join that were aggregated.
        source_rows: u64,
        /// Milliseconds since the Unix epoch.
        built_at_ms: u64,
        /// Tables of the cube's join, by position, that were seen to keep every row exactly once.
        droppable_joins: Vec<usize>,
        /// Smallest and largest key among the rows, if the cube is partitioned.
        key_bounds: Option<(i64, i64)>,
    },
    /// Takes a `Ready` segment out of use: a file of it is not as it was written. One in another state stays as it is.
    MarkDamaged {
        /// The segment.
        segment: SegmentId,
        /// What was found.
        damage: SegmentDamage,
    },
    /// Forgets a segment in any state. Its files are not touched.
    DropSegment {
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
    /// Changes what a role is.
    AlterRole {
        /// Its name.
        name: String,
        /// What is to be different.
        change: RoleChange,
    },
    /// Removes a role with all that was granted to it. Its members are members no more.
    DropRole {
        /// Its name.
        name: String,
        /// Whether a missing role is fine.
        if_exists: bool,
    },
    /// Gives something to roles; what they have already is fine.
    Grant {
        /// What.
        what: Granted,
        /// To whom.
        to: BTreeSet<String>,
    },
    /// Takes something from roles; what they do not have is fine.
    Revoke {
        /// What.
        what: Granted,
        /// From whom.
        from: BTreeSet<String>,
    },
}

/// What is given or taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Granted {
    /// Privileges. They end with what they are about.
    Privileges(BTreeSet<Grant>),
    /// Membership in these roles.
    Membership(BTreeSet<String>),
}

/// What is to be different about a role; what is absent stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoleChange {
    /// Whether it may connect.
    pub login: Option<bool>,
    /// Whether it may do everything.
    pub superuser: Option<bool>,
    /// What its password is checked with; none inside takes the password away.
    pub password: Option<Option<PasswordEntry>>,
}

/// A table that is about to be registered: a [`TableEntry`] that has no id yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTable {
    /// Where users will find it.
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
