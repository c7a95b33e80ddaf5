//! The values of one dimension, numbered.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use arrow::compute::{sort_to_indices, take};
use arrow::datatypes::{DataType, Field, Schema, UInt32Type};
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, resources_datafusion_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::logical_expr::EmitTo;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;

/// Numbers values in the order they come in, from 1 on; null is 0. After the last row it is closed, and gives
/// the rank of each value.
pub struct Dictionary {
    name: String,
    /// Number of bits of a code.
    bits: u32,
    state: Mutex<State>,
}

enum State {
    Open {
        values: Box<dyn GroupValues>,
        /// The group of each row of a batch. The vector is reused, because most batches have as many rows.
        groups: Vec<usize>,
        memory: MemoryReservation,
    },
    /// The reservation frees its memory with the dictionary.
    Closed(Arc<Ranks>, MemoryReservation),
    /// Closing failed.
    Broken,
}

/// The values of a closed dictionary in ascending order.
pub struct Ranks {
    /// For each code the rank of its value, both from 1 on.
    pub of_codes: Vec<u32>,
    /// The value of rank 1, and so on.
    values: ArrayRef,
}

impl Dictionary {
    pub fn new(name: &str, data_type: &DataType, bits: u32, pool: &Arc<dyn MemoryPool>) -> Result<Self> {
        let schema = Arc::new(Schema::new(vec![Field::new(name, data_type.clone(), true)]));
        let state = State::Open {
            values: new_group_values(schema, &GroupOrdering::None)?,
            groups: Vec::new(),
            memory: MemoryConsumer::new(format!("dictionary of {name}")).register(pool),
        };
        Ok(Self { name: name.to_owned(), bits, state: Mutex::new(state) })
    }

    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// The codes of a column's values, none of which is null.
    ///
    /// # Errors
    /// `ResourcesExhausted` if there are more values than codes, or memory is short.
    pub fn codes(&self, column: &ArrayRef) -> Result<UInt32Array> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State::Open { values, groups, memory } = &mut *state else {
            return Err(self.internal("is given values after it was closed"));
        };
        values.intern(std::slice::from_ref(column), groups)?;
        memory.try_resize(values.size())?;
        if values.len() >> self.bits.min(31) != 0 {
            return Err(resources_datafusion_err!("dimension `{}` has more values than expected", self.name));
        }
        let code = |group: &usize| u32::try_from(*group + 1).unwrap_or(u32::MAX);
        let Some(nulls) = column.logical_nulls().filter(|nulls| nulls.null_count() > 0) else {
            return Ok(groups.iter().map(code).collect::<Vec<_>>().into());
        };
        let codes = groups.iter().zip(&nulls).map(|(group, valid)| if valid { code(group) } else { 0 });
        Ok(codes.collect::<Vec<_>>().into())
    }

    /// Closes the dictionary, which takes no further values, and returns the ranks of all values.
    pub fn ranks(&self) -> Result<Arc<Ranks>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (ranks, memory) = match std::mem::replace(&mut *state, State::Broken) {
            State::Open { mut values, memory, .. } => {
                let values = values.emit(EmitTo::All)?;
                let values = values.first().ok_or_else(|| self.internal("has no values"))?;
                (Arc::new(Ranks::of(values)?), memory)
            }
            State::Closed(ranks, memory) => (ranks, memory),
            State::Broken => return Err(self.internal("was not closed")),
        };
        *state = State::Closed(Arc::clone(&ranks), memory);
        Ok(ranks)
    }

    fn internal(&self, trouble: &str) -> DataFusionError {
        exec_datafusion_err!("the dictionary of dimension `{}` {trouble}", self.name)
    }
}

impl Ranks {
    fn of(values: &ArrayRef) -> Result<Self> {
        let order = sort_to_indices(values, None, None)?;
        let mut of_codes = vec![0; values.len() + 1];
        for (rank, position) in (1..).zip(order.values()) {
            if let Some(slot) = of_codes.get_mut(*position as usize + 1) {
                *slot = rank;
            }
        }
        Ok(Self { of_codes, values: take(values, &order, None)? })
    }

    /// The values of these ranks; rank 0 is null.
    pub fn values(&self, ranks: Vec<u32>) -> Result<ArrayRef> {
        let nulls = ranks.contains(&0);
        let positions: UInt32Array = if nulls {
            ranks.into_iter().map(|rank| rank.checked_sub(1)).collect()
        } else {
            ranks.into_iter().map(|rank| rank - 1).collect::<Vec<_>>().into()
        };
        Ok(take(&self.values, &positions, None)?)
    }
}

/// The numbers in a column of codes; rows added by an outer join have null, which counts as 0.
pub fn numbers(column: &ArrayRef) -> Result<std::borrow::Cow<'_, [u32]>> {
    let codes = column.as_primitive_opt::<UInt32Type>();
    let codes = codes.ok_or_else(|| exec_datafusion_err!("a column of codes has no codes"))?;
    Ok(if codes.null_count() == 0 {
        codes.values().as_ref().into()
    } else {
        codes.iter().map(Option::unwrap_or_default).collect()
    })
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dictionary")
            .field("name", &self.name)
            .field("bits", &self.bits)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use arrow::array::{Int64Array, StringViewArray};
    use datafusion::execution::memory_pool::{GreedyMemoryPool, UnboundedMemoryPool};

    use super::*;

    fn dictionary(data_type: &DataType, bits: u32) -> Dictionary {
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        Dictionary::new("d", data_type, bits, &pool).unwrap()
    }

    #[test]
    fn codes_become_ranks_and_ranks_values() {
        let dictionary = dictionary(&DataType::Utf8View, 8);
        let first: ArrayRef =
            Arc::new(StringViewArray::from(vec![Some("pear"), None, Some("apple"), Some("pear")]));
        let second: ArrayRef = Arc::new(StringViewArray::from(vec![Some("fig"), Some("apple")]));
        let codes: Vec<u32> =
            [&first, &second].iter().flat_map(|c| dictionary.codes(c).unwrap().values().to_vec()).collect();
        assert_eq!((codes[1], codes[0] == codes[3], codes[2] == codes[5]), (0, true, true));
        let ranks = dictionary.ranks().unwrap();
        let back = codes.iter().map(|code| ranks.of_codes[*code as usize]).collect();
        let back = ranks.values(back).unwrap();
        assert_eq!(&back.slice(0, 4), &first);
        assert_eq!(&back.slice(4, 2), &second);
        let rank = |row: usize| ranks.of_codes[codes[row] as usize];
        assert!(rank(2) < rank(4) && rank(4) < rank(0));
        assert!(dictionary.codes(&first).unwrap_err().to_string().contains("after it was closed"));
    }

    #[test]
    fn more_values_than_codes_are_refused() {
        let dictionary = dictionary(&DataType::Int64, 3);
        let column = |last: i64| Arc::new(Int64Array::from_iter_values(0..last)) as ArrayRef;
        assert_eq!(dictionary.codes(&column(7)).unwrap().values(), &[1, 2, 3, 4, 5, 6, 7]);
        let error = dictionary.codes(&column(8)).unwrap_err();
        assert!(matches!(error, DataFusionError::ResourcesExhausted(_)), "{error}");
    }

    #[test]
    fn values_count_as_memory() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(100_000));
        let dictionary = Dictionary::new("d", &DataType::Int64, 30, &pool).unwrap();
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100_000));
        assert!(matches!(dictionary.codes(&column).unwrap_err(), DataFusionError::ResourcesExhausted(_)));
    }
}
