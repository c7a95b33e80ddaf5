//! The vocabulary of all other crates: ids, names, catalog entries, the cube lattice, configuration.
//!
//! This crate defines cubes, segments and tables, and the pure decisions about them (which cuboid is
//! built from which, which grouping set covers which columns). It deliberately knows nothing of their
//! storage, computation or queries: no tokio, no I/O, no DataFusion.

pub mod access;
pub mod array_text;
pub mod catalog;
pub mod cell_key;
pub mod config;
pub mod coverage;
pub mod cube;
pub mod float_text;
pub mod history;
pub mod homes;
pub mod ids;
pub mod job;
pub mod lattice;
pub mod listen_text;
pub mod name;
pub mod node;
pub mod range;
pub mod size_text;
pub mod suggest;
pub mod time_text;
pub mod upkeep;

pub use catalog::{
    CatalogSnapshot, CuboidEntry, CuboidFile, DiskStoreEntry, ExternalSource, FileFormat, LiveRows,
    LiveSource, SegmentDamage, SegmentEntry, SegmentRange, SegmentState, SourceFiles, TableEntry,
    TableSource, ViewSource,
};
pub use cell_key::{KeyField, KeyPart, bits_of, cell_key, code_bits, range_codes};
pub use coverage::KeySet;
pub use cube::{CubeDefinition, CubeEntry, CubeOptions, Dimension, DimensionMoves, Measure, StateColumn};
pub use history::{CuboidUse, QueryHistoryEntry, QueryShape, ShapeCondition, ShapeTable};
pub use homes::{Homes, PlacedFile, part_bytes};
pub use ids::{ChangeId, CubeId, JobId, NodeId, SegmentId, SnapshotVersion, TableId};
pub use job::{JobEntry, JobKind, JobState};
pub use lattice::{DimensionSet, Lattice};
pub use name::QualifiedName;
pub use node::{LeaseEntry, NodeEntry};
pub use range::{KeyKind, KeyRange, RangePartition, Step};
