//! From text to statements: limits first, then a parser that adds Nyala's own words to DataFusion's.

mod ast;
mod balance;
mod grouping;
mod limits;
mod parser;
mod partition;
mod roles;

pub(crate) use ast::Kind;
pub use ast::{BuildAction, BuildCube, CreateCube, Nyala, PartitionClause, RecommendFor, Statement};
pub use grouping::CubeGrouping;
pub use limits::StatementLimits;
pub use parser::parse;
pub use roles::{GrantOn, GrantWhat, RoleOptions, RoleStatement};
