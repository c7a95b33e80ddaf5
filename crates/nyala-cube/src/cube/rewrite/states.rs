//! Where the states of an aggregate call come from: expressions over the columns of a cuboid.
//!
//! A cell stands for all rows with its values of the dimensions, so an expression over dimensions is the same
//! in each of them. A condition over dimensions holds for a whole cell or not at all:
//!
//! ```text
//! sum(x)                               the state of measure sum(x)
//! sum(x) FILTER (WHERE d = 1)          CASE WHEN d = 1 THEN that state ELSE the state of no rows END
//! sum(CASE WHEN d = 1 THEN x
//!          WHEN d = 2 THEN y END)      CASE WHEN d = 1 THEN sum(x)'s WHEN d = 2 THEN sum(y)'s ELSE … END
//! max(d)                               the state of max over one row with the value d
//! count(d)                             CASE WHEN d IS NOT NULL THEN count(*)'s ELSE 0 END
//! ```

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::{Case, Expr, ExprSchemable, cast};
use nyala_model::DimensionSet;
use nyala_sql::functions::{ignores_duplicates, ignores_nulls, share_states};

use super::calls::{neutral, of_one_row, state_fields};
use super::cell::cell_states;
use super::dimensions::{Dimensions, Expressed};
use super::show::show;
use crate::cube::block::Miss;
use crate::cube::call::{Call, is_null_literal};
use crate::cube::compile::{CompiledCube, CompiledMeasure};
use crate::cube::measure::MeasureCall;

/// The states of a call, cell by cell.
#[derive(Debug, Clone, PartialEq)]
pub struct CellStates {
    /// Over the columns of a cuboid.
    pub columns: Vec<Expr>,
    /// Dimensions the cuboid must have.
    pub needed: DimensionSet,
    /// Whether they hold only for cells that stand for at least one row. The grand total of no rows is a cell
    /// without rows.
    pub of_rows: bool,
}

/// Finds states in a cube.
#[derive(Debug, Clone, Copy)]
pub struct States<'a> {
    pub cube: &'a CompiledCube,
}

impl<'a> States<'a> {
    pub fn dimensions(self) -> Dimensions<'a> {
        Dimensions { cube: self.cube }
    }

    /// The states of `call`, which is canonical and over base columns of the cube.
    pub fn of(self, call: &Call) -> Result<CellStates, Miss> {
        if let Some(found) = self.stored(call) {
            return Ok(found);
        }
        let found = match self.masked(call)? {
            Some(found) => found,
            None => self.derived(call)?,
        };
        self.in_state_types(call, found)
    }

    fn derived(self, call: &Call) -> Result<CellStates, Miss> {
        if let [Expr::Case(case)] = call.arguments.as_slice()
            && ignores_nulls(&call.function, call.distinct)
        {
            return self.chosen(call, case);
        }
        if let Some(found) = self.made(call)? {
            return Ok(found);
        }
        match self.by_algebra(call)? {
            Some(found) => Ok(found),
            None => Err(Miss::new(format!("it has no measure {}", show(self.cube, &call.expr())))),
        }
    }

    /// The states of a measure, for the cells that fulfil the conditions it lacks.
    fn stored(self, call: &Call) -> Option<CellStates> {
        let fitting = self.cube.measures.iter().filter_map(|measure| {
            let lacking = lacking(&measure.canonical, call)?;
            Some((lacking.len(), lacking, measure))
        });
        let mut fitting: Vec<_> = fitting.collect();
        fitting.sort_by_key(|(conditions, ..)| *conditions);
        fitting.into_iter().find_map(|(_, lacking, measure)| {
            let lacking = lacking.into_iter().map(|condition| self.dimensions().express(condition));
            let lacking = lacking.collect::<Result<Vec<_>, _>>().ok()?;
            self.only_where(call, lacking, states_of(measure)).ok()
        })
    }

    /// The call without its conditions over dimensions, for the cells that fulfil them.
    fn masked(self, call: &Call) -> Result<Option<CellStates>, Miss> {
        let (mut over_dimensions, mut others) = (Vec::new(), Vec::new());
        for condition in &call.conditions {
            match self.dimensions().express(condition) {
                Ok(expressed) => over_dimensions.push(expressed),
                Err(_) => others.push(condition.clone()),
            }
        }
        if over_dimensions.is_empty() {
            return Ok(None);
        }
        let inner = self.of(&Call { conditions: others, ..call.clone() })?;
        self.only_where(call, over_dimensions, inner).map(Some)
    }

    fn only_where(
        self,
        call: &Call,
        conditions: Vec<Expressed>,
        states: CellStates,
    ) -> Result<CellStates, Miss> {
        let needed = conditions.iter().fold(states.needed, |all, condition| all.union(condition.needed));
        match conditions.into_iter().map(|condition| condition.expr).reduce(Expr::and) {
            None => Ok(states),
            Some(condition) => {
                let otherwise = self.of_no_rows(call)?;
                Ok(CellStates { needed, ..choose(vec![(condition, states)], otherwise) })
            }
        }
    }

    /// The states of the branch that a cell's dimensions choose.
    fn chosen(self, call: &Call, case: &Case) -> Result<CellStates, Miss> {
        let mut branches = Vec::new();
        let mut needed = DimensionSet::EMPTY;
        for (when, then) in &case.when_then_expr {
            let condition = match &case.expr {
                Some(base) => base.as_ref().clone().eq(when.as_ref().clone()),
                None => when.as_ref().clone(),
            };
            let condition = self.dimensions().express(&condition)?;
            needed = needed.union(condition.needed);
            branches.push((condition.expr, self.branch(call, then)?));
        }
        let otherwise = match &case.else_expr {
            Some(value) => self.branch(call, value)?,
            None => self.of_no_rows(call)?,
        };
        let chosen = choose(branches, otherwise);
        Ok(CellStates { needed: needed.union(chosen.needed), ..chosen })
    }

    fn branch(self, call: &Call, value: &Expr) -> Result<CellStates, Miss> {
        if is_null_literal(value) {
            return self.of_no_rows(call);
        }
        // A constant is computed like any other value; as an argument of its own it would be a parameter.
        let value = match value {
            Expr::Literal(constant, _) => cast(value.clone(), constant.data_type()),
            computed => computed.clone(),
        };
        let states = self.of(&call.with_argument(value).canonical())?;
        self.in_state_types(call, states)
    }

    /// States made of the dimensions themselves, as if each cell were one row: right for functions that ignore
    /// duplicate rows.
    fn made(self, call: &Call) -> Result<Option<CellStates>, Miss> {
        if !call.conditions.is_empty() || !ignores_duplicates(&call.function, call.distinct) {
            return Ok(None);
        }
        let arguments = call.arguments.iter().map(|argument| self.dimensions().express(argument));
        let Ok(arguments) = arguments.collect::<Result<Vec<_>, _>>() else { return Ok(None) };
        let needed = arguments.iter().fold(DimensionSet::EMPTY, |all, argument| all.union(argument.needed));
        let (typed, flat) = self.typed(call)?;
        let fields = state_fields(&typed, &flat)?;
        let values = call.arguments.iter().zip(arguments);
        let values = values.filter(|(argument, _)| !matches!(argument, Expr::Literal(..)));
        let values: Vec<Expr> = values.map(|(_, expressed)| expressed.expr).collect();
        if values.is_empty() {
            let columns = of_one_row(&typed, &flat)?.into_iter().map(|state| Expr::Literal(state, None));
            return Ok(Some(CellStates { columns: columns.collect(), needed, of_rows: true }));
        }
        Ok(Some(CellStates { columns: cell_states(&typed, &flat, &fields, &values), needed, of_rows: true }))
    }

    /// The states of `call` if it saw no row.
    pub fn of_no_rows(self, call: &Call) -> Result<CellStates, Miss> {
        let (typed, flat) = self.typed(call)?;
        let columns = neutral(&typed, &flat)?.into_iter().map(|state| Expr::Literal(state, None)).collect();
        let states = CellStates { columns, needed: DimensionSet::EMPTY, of_rows: false };
        self.in_state_types(call, states)
    }

    pub fn typed(self, call: &Call) -> Result<(MeasureCall, SchemaRef), Miss> {
        let (call, fields) = call.typed(&self.cube.columns, "a")?;
        Ok((call, Arc::new(Schema::new(fields))))
    }

    /// States are merged by position and type: computed states take the exact types of the call's states.
    pub fn in_state_types(self, call: &Call, mut states: CellStates) -> Result<CellStates, Miss> {
        let (typed, flat) = self.typed(call)?;
        let fields = state_fields(&typed, &flat)?;
        if fields.len() != states.columns.len() {
            let text = show(self.cube, &call.expr());
            return Err(Miss::new(format!("the states of {text} are of another kind")));
        }
        for (column, field) in states.columns.iter_mut().zip(&fields) {
            let found = column.get_type(&self.cube.cells).map_err(|error| Miss::new(error.to_string()))?;
            if found != *field.data_type() {
                let original = std::mem::replace(column, Expr::Literal(ScalarValue::Null, None));
                *column = match original {
                    Expr::Literal(value, _) => {
                        let value = value.cast_to(field.data_type());
                        Expr::Literal(value.map_err(|error| Miss::new(error.to_string()))?, None)
                    }
                    computed => cast(computed, field.data_type().clone()),
                };
            }
        }
        Ok(states)
    }
}

/// The conditions of `call` that `measure` lacks, if it has no others and is of the same arguments.
fn lacking<'c>(measure: &Call, call: &'c Call) -> Option<Vec<&'c Expr>> {
    let same = share_states(&measure.function, &call.function)
        && measure.distinct == call.distinct
        && measure.arguments == call.arguments
        && measure.conditions.iter().all(|condition| call.conditions.contains(condition));
    same.then(|| call.conditions.iter().filter(|condition| !measure.conditions.contains(condition)).collect())
}

/// The stored states of a measure.
pub fn states_of(measure: &CompiledMeasure) -> CellStates {
    let columns = measure.states.iter().map(|field| Expr::Column(Column::new_unqualified(field.name())));
    CellStates { columns: columns.collect(), needed: DimensionSet::EMPTY, of_rows: false }
}

/// The states of the first branch with a condition that the cell fulfils.
fn choose(branches: Vec<(Expr, CellStates)>, otherwise: CellStates) -> CellStates {
    let parts = || branches.iter().map(|(_, states)| states).chain([&otherwise]);
    let needed = parts().fold(DimensionSet::EMPTY, |all, states| all.union(states.needed));
    let of_rows = parts().any(|states| states.of_rows);
    let columns = otherwise.columns.iter().enumerate().map(|(i, last)| {
        let chosen = branches.iter().filter_map(|(condition, states)| {
            Some((Box::new(condition.clone()), Box::new(states.columns.get(i)?.clone())))
        });
        Expr::Case(Case::new(None, chosen.collect(), Some(Box::new(last.clone()))))
    });
    CellStates { columns: columns.collect(), needed, of_rows }
}
