//! Aggregates over sliding frames, from which DataFusion's accumulators cannot remove rows.

use std::collections::VecDeque;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Accumulator;

use crate::error::QueryError;

/// The bits of a 64-bit number.
const BITS: usize = 64;

/// The function that is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sliding {
    /// `bool_and`, `bit_and`.
    And,
    /// `bool_or`, `bit_or`.
    Or,
    /// `string_agg`.
    Texts,
}

impl Sliding {
    /// The accumulator of a result type; none of types that only DataFusion has.
    pub fn accumulator(self, data_type: &DataType) -> Option<Box<dyn Accumulator>> {
        match (self, data_type) {
            (Self::Texts, to) if to.is_string() => {
                Some(Box::new(Texts { to: to.clone(), texts: VecDeque::new(), bytes: 0 }))
            }
            (Self::And | Self::Or, DataType::Boolean) => {
                Some(Box::new(Bools { is_and: self == Self::And, trues: 0, falses: 0 }))
            }
            (Self::And | Self::Or, DataType::Int16 | DataType::Int32 | DataType::Int64) => {
                let (is_and, to) = (self == Self::And, data_type.clone());
                Some(Box::new(Bits { is_and, to, rows: 0, ones: [0; BITS] }))
            }
            _ => None,
        }
    }
}

/// How often each truth value is in the frame.
#[derive(Debug)]
struct Bools {
    is_and: bool,
    trues: usize,
    falses: usize,
}

impl Bools {
    fn counts(values: &[ArrayRef]) -> Result<(usize, usize)> {
        let column = argument(values)?.as_boolean();
        let trues = column.true_count();
        Ok((trues, column.len() - column.null_count() - trues))
    }
}

impl Accumulator for Bools {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (trues, falses) = Self::counts(values)?;
        (self.trues, self.falses) = (self.trues + trues, self.falses + falses);
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (trues, falses) = Self::counts(values)?;
        self.trues = self.trues.saturating_sub(trues);
        self.falses = self.falses.saturating_sub(falses);
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let value = if self.is_and { self.falses == 0 } else { self.trues > 0 };
        Ok(ScalarValue::Boolean((self.trues + self.falses > 0).then_some(value)))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }
}

/// In how many numbers of the frame each bit is set.
#[derive(Debug)]
struct Bits {
    is_and: bool,
    to: DataType,
    rows: usize,
    ones: [usize; BITS],
}

impl Bits {
    fn count(&mut self, values: &[ArrayRef], change: fn(usize, usize) -> usize) -> Result<()> {
        let column = cast(argument(values)?, &DataType::Int64)?;
        for number in column.as_primitive::<Int64Type>().iter().flatten() {
            self.rows = change(self.rows, 1);
            for (at, ones) in self.ones.iter_mut().enumerate() {
                *ones = change(*ones, usize::from(number >> at & 1 == 1));
            }
        }
        Ok(())
    }
}

impl Accumulator for Bits {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.count(values, usize::saturating_add)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.count(values, usize::saturating_sub)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.rows == 0 {
            return ScalarValue::try_from(&self.to);
        }
        let least = if self.is_and { self.rows } else { 1 };
        let ones = self.ones.iter().enumerate().filter(|(_, ones)| **ones >= least);
        let number = ones.fold(0_i64, |number, (at, _)| number | 1 << at);
        ScalarValue::Int64(Some(number)).cast_to(&self.to)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }
}

/// The texts of the frame, each with the delimiter before it.
#[derive(Debug)]
struct Texts {
    to: DataType,
    texts: VecDeque<(String, String)>,
    bytes: usize,
}

impl Accumulator for Texts {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let texts = cast(argument(values)?, &DataType::Utf8View)?;
        let delimiters = values.get(1).map(|column| cast(column, &DataType::Utf8View)).transpose()?;
        let delimiters = delimiters.as_ref().map(|column| column.as_string_view());
        let delimiter = |row: usize| {
            let column = delimiters.filter(|column| column.is_valid(row));
            column.map(|column| column.value(row).to_owned()).unwrap_or_default()
        };
        for (row, text) in texts.as_string_view().iter().enumerate() {
            let Some(text) = text else { continue };
            let delimiter = delimiter(row);
            self.bytes += delimiter.len() + text.len();
            self.texts.push_back((delimiter, text.to_owned()));
        }
        Ok(())
    }

    // Rows leave a frame in the order in which they came.
    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let texts = argument(values)?;
        for (delimiter, text) in self.texts.drain(..(texts.len() - texts.null_count()).min(self.texts.len()))
        {
            self.bytes = self.bytes.saturating_sub(delimiter.len() + text.len());
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut joined = String::with_capacity(self.bytes);
        for (place, (delimiter, text)) in self.texts.iter().enumerate() {
            if place > 0 {
                joined.push_str(delimiter);
            }
            joined.push_str(text);
        }
        ScalarValue::Utf8((!self.texts.is_empty()).then_some(joined)).cast_to(&self.to)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.bytes + self.texts.capacity() * size_of::<(String, String)>()
    }
}

fn argument(values: &[ArrayRef]) -> Result<&ArrayRef> {
    Ok(values.first().ok_or_else(|| QueryError::internal("an aggregate has no argument"))?)
}
