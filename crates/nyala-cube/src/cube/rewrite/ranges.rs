//! Finds the keys of a cube's partition column that a query asks for.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Operator};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use nyala_model::KeySet;

use crate::cube::block::Block;
use crate::cube::expression::Equalities;
use crate::cube::partition::PartitionColumn;

/// The part of the partition column's values that a query can see.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Keys of rows that may fulfil the query's conditions.
    pub(super) keys: KeySet,
    /// Whether rows without a key may fulfil them.
    pub(super) nulls: bool,
    /// Positions of the conditions that `keys` and `nulls` express in full.
    pub(super) predicates: Vec<usize>,
}

impl Asked {
    /// All rows.
    pub(super) fn all() -> Self {
        Self { keys: KeySet::all(), nulls: true, predicates: Vec::new() }
    }

    /// Reads the conditions on the column of instance `fact`, or on a column that is always equal to it.
    pub(super) fn of(
        block: &Block,
        fact: usize,
        column: &PartitionColumn,
        simplify: &SimplifyContext,
    ) -> Self {
        let equal = Equalities::of(&block.predicates);
        let wanted = equal.representative(&column.column(fact));
        let is_key = |expr: &Expr| matches!(expr, Expr::Column(c) if equal.representative(c) == wanted);
        let reader = Reader { column, is_key: &is_key, simplify };
        let mut asked = Self::all();
        for (i, predicate) in block.predicates.iter().enumerate() {
            if let Some(rows) = reader.rows(predicate) {
                asked.keys = asked.keys.intersect(&rows.keys);
                asked.nulls &= rows.nulls;
                asked.predicates.push(i);
            }
        }
        asked
    }
}

/// Rows for which a condition is true.
struct Rows {
    keys: KeySet,
    nulls: bool,
}

struct Reader<'a> {
    column: &'a PartitionColumn,
    is_key: &'a dyn Fn(&Expr) -> bool,
    simplify: &'a SimplifyContext,
}

impl Reader<'_> {
    /// The rows that fulfil `condition`; none if it reads other columns than the key.
    fn rows(&self, condition: &Expr) -> Option<Rows> {
        match condition {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
                let (left, right) = (self.rows(left)?, self.rows(right)?);
                Some(Rows { keys: left.keys.intersect(&right.keys), nulls: left.nulls && right.nulls })
            }
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
                let (left, right) = (self.rows(left)?, self.rows(right)?);
                Some(Rows { keys: left.keys.union(&right.keys), nulls: left.nulls || right.nulls })
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                self.compare(left, *op, right).or_else(|| self.compare(right, op.swap()?, left))
            }
            Expr::Not(inner) => self.rows(&negated(inner)?),
            Expr::Between(Between { expr, negated: false, low, high }) => {
                let from = self.compare(expr, Operator::GtEq, low)?;
                let to = self.compare(expr, Operator::LtEq, high)?;
                Some(Rows { keys: from.keys.intersect(&to.keys), nulls: false })
            }
            Expr::InList(list) if !list.negated => {
                let mut keys = KeySet::default();
                for value in &list.list {
                    keys = keys.union(&self.compare(&list.expr, Operator::Eq, value)?.keys);
                }
                Some(Rows { keys, nulls: false })
            }
            Expr::IsNull(expr) if (self.is_key)(expr) => Some(Rows { keys: KeySet::default(), nulls: true }),
            Expr::IsNotNull(expr) if (self.is_key)(expr) => Some(Rows { keys: KeySet::all(), nulls: false }),
            _ => None,
        }
    }

    fn compare(&self, key: &Expr, op: Operator, value: &Expr) -> Option<Rows> {
        let scale = self.scale(key)?;
        let value = match self.constant(value)? {
            null if null.is_null() => return compared_with_null(op),
            value => i128::from(count_of(&value)?),
        };
        let (floor, ceil) = (value.div_euclid(scale), -(-value).div_euclid(scale));
        let same = if floor == ceil { between(floor, floor) } else { KeySet::default() };
        let keys = match op {
            Operator::Eq | Operator::IsNotDistinctFrom => same,
            Operator::NotEq | Operator::IsDistinctFrom => KeySet::all().subtract(&same),
            Operator::Lt => between(i64::MIN.into(), ceil - 1),
            Operator::LtEq => between(i64::MIN.into(), floor),
            Operator::Gt => between(floor + 1, i64::MAX.into()),
            Operator::GtEq => between(ceil, i64::MAX.into()),
            _ => return None,
        };
        Some(Rows { keys, nulls: op == Operator::IsDistinctFrom })
    }

    /// How many units of the compared type make one key, if `expr` is the column or a cast of it that
    /// keeps every value apart.
    fn scale(&self, expr: &Expr) -> Option<i128> {
        match expr {
            column if (self.is_key)(column) => Some(1),
            Expr::Cast(cast) if (self.is_key)(&cast.expr) => {
                self.column.scale_to(cast.field.data_type()).map(i128::from)
            }
            _ => None,
        }
    }

    fn constant(&self, expr: &Expr) -> Option<ScalarValue> {
        if let Expr::Literal(value, _) = expr {
            return Some(value.clone());
        }
        let fixed = expr.column_refs().is_empty() && !expr.is_volatile() && !has_subquery(expr);
        if !fixed {
            return None;
        }
        match ExprSimplifier::new(self.simplify.clone()).simplify(expr.clone()).ok()? {
            Expr::Literal(value, _) => Some(value),
            _ => None,
        }
    }
}

/// The rows for which a comparison of the key with NULL is true.
fn compared_with_null(op: Operator) -> Option<Rows> {
    match op {
        Operator::IsDistinctFrom => Some(Rows { keys: KeySet::all(), nulls: false }),
        Operator::IsNotDistinctFrom => Some(Rows { keys: KeySet::default(), nulls: true }),
        Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => {
            Some(Rows { keys: KeySet::default(), nulls: false })
        }
        _ => None,
    }
}

/// A condition that is true where `condition` is false. Where one of them is null, so is the other.
fn negated(condition: &Expr) -> Option<Expr> {
    match condition {
        Expr::IsNull(expr) => Some(Expr::IsNotNull(expr.clone())),
        Expr::IsNotNull(expr) => Some(Expr::IsNull(expr.clone())),
        Expr::Not(inner) => Some(inner.as_ref().clone()),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let op = match op {
                Operator::And | Operator::Or => return None,
                other => other.negate()?,
            };
            Some(Expr::BinaryExpr(BinaryExpr { left: left.clone(), op, right: right.clone() }))
        }
        _ => None,
    }
}

fn has_subquery(expr: &Expr) -> bool {
    let subquery = |e: &Expr| {
        Ok(matches!(
            e,
            Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
                | Expr::Placeholder(_)
        ))
    };
    expr.exists(subquery).unwrap_or(true)
}

fn between(first: i128, last: i128) -> KeySet {
    if first > i64::MAX.into() || last < i64::MIN.into() {
        return KeySet::default();
    }
    let clamp = |key: i128| i64::try_from(key).unwrap_or(if key < 0 { i64::MIN } else { i64::MAX });
    KeySet::between(clamp(first), clamp(last))
}

/// A value in units of its own type.
fn count_of(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::Date32(Some(days)) => Some((*days).into()),
        ScalarValue::TimestampSecond(Some(ticks), _)
        | ScalarValue::TimestampMillisecond(Some(ticks), _)
        | ScalarValue::TimestampMicrosecond(Some(ticks), _)
        | ScalarValue::TimestampNanosecond(Some(ticks), _) => Some(*ticks),
        integer if integer.data_type().is_integer() => match integer.cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(count)) => count,
            _ => None,
        },
        _ => None,
    }
}

impl PartitionColumn {
    /// How many units of `target` one key becomes under a cast that loses nothing.
    fn scale_to(&self, target: &DataType) -> Option<i64> {
        const SECONDS_PER_DAY: i64 = 86_400;
        let per_second = |unit: &TimeUnit| match unit {
            TimeUnit::Second => 1_i64,
            TimeUnit::Millisecond => 1_000,
            TimeUnit::Microsecond => 1_000_000,
            TimeUnit::Nanosecond => 1_000_000_000,
        };
        match (self.data_type(), target) {
            (from, to) if from == to => Some(1),
            (from, to) if from.is_integer() && to.is_signed_integer() => {
                (integer_bits(to) >= integer_bits(from)).then_some(1)
            }
            (DataType::Date32, DataType::Timestamp(unit, None)) => Some(SECONDS_PER_DAY * per_second(unit)),
            (DataType::Timestamp(from, a), DataType::Timestamp(to, b)) if a == b => {
                let (from, to) = (per_second(from), per_second(to));
                (to >= from).then(|| to / from)
            }
            _ => None,
        }
    }
}

/// Bits of a signed integer that holds every value of the type.
fn integer_bits(data_type: &DataType) -> u32 {
    match data_type {
        DataType::Int8 => 8,
        DataType::Int16 => 16,
        DataType::UInt8 => 9,
        DataType::Int32 => 32,
        DataType::UInt16 => 17,
        DataType::Int64 => 64,
        DataType::UInt32 => 33,
        _ => u32::MAX,
    }
}
