//! From text to statements: limits first, then a parser that adds Nyala's own words to DataFusion's.

mod ast;
mod balance;
mod grouping;
mod limits;
mod parser;

pub(crate) use ast::Kind;
pub use ast::{CreateCube, Nyala, Statement};
pub use grouping::CubeGrouping;
pub use limits::StatementLimits;
pub use parser::parse;
