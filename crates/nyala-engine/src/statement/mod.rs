//! From text to statements: limits first, then a parser that adds Nyala's own words to DataFusion's.

mod ast;
mod balance;
mod grouping;
mod lift;
mod limits;
mod parser;
mod partition;

pub(crate) use ast::Kind;
pub use ast::{BuildAction, BuildCube, CreateCube, Nyala, PartitionClause, RecommendFor, Statement};
pub use grouping::CubeGrouping;
pub(crate) use lift::{Literal, lift};
pub use limits::StatementLimits;
pub use parser::parse;
