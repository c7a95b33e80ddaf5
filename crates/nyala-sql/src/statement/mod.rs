//! From text to statements: limits first, then a parser that adds Nyala's own words to DataFusion's.

mod alter;
mod ast;
mod attempts;
mod balance;
mod calls;
mod cast_names;
mod clauses;
mod conflict;
mod copy;
mod copy_to;
mod dialect;
mod distinct_keys;
mod expansion;
mod file_tables;
mod given;
mod grouping;
mod hiding;
mod join_constraint;
mod join_sides;
mod joined;
mod limits;
mod literals;
mod live;
mod merged_columns;
mod merged_joins;
mod merging;
mod misplaced_calls;
mod numbers;
mod nyala_parser;
mod options;
mod ordered_sets;
mod outside_subqueries;
mod parameterise;
mod parser;
mod partition;
mod plan_budget;
mod quantified;
mod recursive;
mod relations;
mod returning;
mod roles;
mod row_comparisons;
mod secrets;
mod select;
mod session_spelling;
mod session_tokens;
mod session_user;
mod set_functions;
mod shape;
mod snippets;
mod spelling;
mod titles;
mod unneeded;
mod versions;
mod words;
mod writing;
mod written_columns;

#[cfg(test)]
mod fuzz;

pub use alter::{AlterAction, AlterCube, DropSegments, DroppedSegments};
pub use ast::Kind;
pub use ast::{
    Backup, BuildAction, BuildCube, CacheScope, CacheStatement, CreateCube, Nyala, PartitionClause,
    Recommend, RecommendFor, Statement,
};
pub use cast_names::{NAMED_CAST, name_casts};
pub use conflict::Conflict;
pub use copy::CopyInto;
pub use copy_to::CopyTo;
pub use file_tables::{FileTable, READ_FILES, take_files};
pub use given::{TargetColumn, fit_values};
pub use grouping::CubeGrouping;
pub use grouping::MAX_CUBOIDS;
pub use limits::StatementLimits;
pub use live::LiveStatement;
pub use merged_joins::{merge_joins, merges_columns};
pub use merging::merge;
pub use misplaced_calls::{CallKind, MisplacedCalls};
pub use options::StatementOption;
pub use parameterise::{Literal, parameterise};
pub use parser::{parse, query_statement};
pub use partition::{Width, parse_width};
pub use plan_budget::{PlanBudget, parts};
pub use relations::{
    CreateView, DropRelations, NewName, RelationStatement, RenameRelation, name_tables, name_with_schemas,
    parse_named,
};
pub use roles::{GrantOn, GrantWhat, RoleOptions, RoleStatement};
pub use secrets::hide_values;
pub use secrets::{LoggedText, error_of, unparsed_without_secrets, without_secrets};
pub use select::{CubeSelect, SelectDimension, calls_in, resolve_positions};
pub use session_spelling::MOVED;
pub use session_user::name_user;
pub use titles::{items_of, marked, title_of, unmarked};
pub use unneeded::Unneeded;
pub use versions::{LiveNames, PLAIN, folded, show_versions};
pub use writing::{IfExists, Writing};
pub use written_columns::written_columns;
