//! HyperLogLog (Flajolet, Fusy, Gandouet, Meunier 2007) as Apache DataSketches keeps it.
//!
//! The state is our two bytes, then the sketch in DataSketches' own form, which its libraries for Java,
//! C++ and Rust share: target HLL_8, lg k 14. Hashed are the bytes of `values.rs`.

use datafusion::common::Result;
use datasketches::hash::value::raw_bytes;
use datasketches::hll::{HllSketch, HllType, HllUnion};

use crate::error::QueryError;
use crate::functions::aggregate::{Form, Measured, Reader, begin, damaged};

/// Logarithm of the number of registers: 16,384 of them, a relative standard error of
/// 1.04 / sqrt(16384) = 0.81 %.
const LG_REGISTERS: u8 = 14;

/// Largest register: 64 bits of hash have no more leading zeros.
const MAX_REGISTER: u8 = 63;

const WHAT: &str = "HyperLogLog sketch";

/// An estimate of how many different values were added.
#[derive(Debug, Default)]
pub struct Hll(Option<Box<HllUnion>>);

impl Measured for Hll {
    #[inline]
    fn heap_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |union| size_of::<HllUnion>() + union.estimated_size())
    }
}

impl Hll {
    #[inline]
    fn union(&mut self) -> Result<&mut HllUnion> {
        if self.0.is_none() {
            let union = HllUnion::new(LG_REGISTERS).map_err(QueryError::internal)?;
            self.0 = Some(Box::new(union));
        }
        Ok(self.0.as_mut().ok_or_else(|| QueryError::internal("a sketch is missing"))?)
    }

    /// Adds a value.
    #[inline]
    pub fn add(&mut self, value: &[u8]) -> Result<()> {
        self.union()?.update_value(raw_bytes::from_slice(value));
        Ok(())
    }

    /// Adds all values of an encoded sketch.
    pub fn merge(&mut self, state: &[u8]) -> Result<()> {
        let reader = Reader::expect(WHAT, state, Form::Hll)?;
        let bytes = reader.rest();
        check(reader)?;
        let sketch = HllSketch::deserialize(bytes).map_err(|error| damaged(WHAT, error))?;
        self.union()?.update(&sketch);
        Ok(())
    }

    /// Appends the sketch.
    pub fn encode(&mut self, out: &mut Vec<u8>) -> Result<()> {
        begin(out, Form::Hll);
        out.extend(self.union()?.to_sketch(HllType::Hll8).serialize());
        Ok(())
    }

    /// How many values, about. The composite estimate depends on the set of values only, not on the
    /// order in which they or parts of them came: from a cube it is the same as from the tables.
    pub fn estimate(&self) -> u64 {
        self.0.as_ref().map_or(0, |union| union.composite_estimate().round() as u64)
    }
}

/// Mode bytes for the target HLL_8: coupons in a list, coupons in a hash table, registers.
const LIST: u8 = 0b1000;
const SET: u8 = 0b1001;
const REGISTERS: u8 = 0b1010;

/// Checks the fields that the library trusts, so that damaged bytes cannot give an estimate.
fn check(mut reader: Reader<'_>) -> Result<()> {
    let [preamble, _version, _family, lg_registers, lg_array, _flags, count, mode] =
        *reader.take(8)?.first_chunk().unwrap_or(&[0; 8]);
    if lg_registers != LG_REGISTERS {
        return Err(reader.damaged(format!("it has 2^{lg_registers} registers, not 2^{LG_REGISTERS}")));
    }
    match (mode, preamble) {
        (LIST, 2) if count <= 8 => {
            reader.take(4 * u64::from(count))?;
        }
        // Never more than three quarters full, and written without its gaps.
        (SET, 3) if (5..=LG_REGISTERS - 3).contains(&lg_array) => {
            let count = u64::from(reader.u32()?);
            if 4 * count > 3 << lg_array {
                return Err(reader.damaged(format!("{count} coupons are too many")));
            }
            reader.take(4 * count)?;
        }
        (REGISTERS, 10) => registers(&mut reader)?,
        _ => return Err(reader.damaged(format!("it has mode `{mode}` and preamble `{preamble}`"))),
    }
    reader.end()
}

/// The sums and the count of zeros, which the estimate is made of, must be those of the registers. They
/// are sums of powers of two within 53 bits, so they are exact in any order.
fn registers(reader: &mut Reader<'_>) -> Result<()> {
    let _history = reader.u64()?;
    let (low_sum, high_sum) = (f64::from_bits(reader.u64()?), f64::from_bits(reader.u64()?));
    let zeros = reader.u32()?;
    let _exceptions = reader.u32()?;
    let registers = reader.take(1 << LG_REGISTERS)?;
    if registers.iter().any(|register| *register > MAX_REGISTER) {
        return Err(reader.damaged("a register is too large"));
    }
    let inverse = |register: &u8| 1.0 / (1u64 << register) as f64;
    let low: f64 = registers.iter().filter(|register| **register < 32).map(inverse).sum();
    let high: f64 = registers.iter().filter(|register| **register >= 32).map(inverse).sum();
    let found = registers.iter().filter(|register| **register == 0).count();
    if low != low_sum || high != high_sum || found != zeros as usize {
        return Err(reader.damaged("its sums are not those of its registers"));
    }
    Ok(())
}
