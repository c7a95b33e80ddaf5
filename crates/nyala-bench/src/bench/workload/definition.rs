//! How the values of parameters come about.

use anyhow::{Result, bail};

use super::random::Random;
use super::value::Value;

/// One step that gives values to one or more parameters, from those before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// Names of the parameters that the step gives values to.
    pub names: Vec<String>,
    /// The source of the values.
    pub source: Source,
}

/// A source of values. Names refer to parameters declared before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A whole number between two, both included.
    Range(i64, i64),
    /// One of these rows, each as likely as the others.
    Choice(Vec<Vec<Value>>),
    /// A sum of products.
    Sum(Vec<Product>),
    /// A text, partly of other parameters.
    Text(Vec<Part>),
}

/// A product, added to a sum or taken from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Product {
    /// Whether the product is taken away.
    pub negative: bool,
    /// The factors.
    pub factors: Vec<Factor>,
}

/// A part of a product.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Factor {
    /// A number.
    Number(i64),
    /// A parameter.
    Name(String),
}

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Letters.
    Letters(String),
    /// A parameter.
    Name(String),
}

impl Definition {
    /// Names of the parameters that the source needs.
    pub fn needs(&self) -> Vec<&str> {
        match &self.source {
            Source::Range(..) | Source::Choice(_) => Vec::new(),
            Source::Sum(products) => {
                products.iter().flat_map(|product| &product.factors).filter_map(Factor::name).collect()
            }
            Source::Text(parts) => parts.iter().filter_map(Part::name).collect(),
        }
    }

    /// Draws values of the source; `before` gives those of other parameters.
    pub fn draw(&self, random: &mut Random, before: impl Fn(&str) -> Option<Value>) -> Result<Vec<Value>> {
        let value = match &self.source {
            Source::Range(low, high) => Value::Integer(between(random, *low, *high)),
            Source::Choice(rows) => {
                let place = random.below(rows.len() as u64) as usize;
                return Ok(rows.get(place).cloned().unwrap_or_default());
            }
            Source::Sum(products) => Value::Integer(sum(products, &before)?),
            Source::Text(parts) => Value::Text(text(parts, &before)?),
        };
        Ok(vec![value])
    }
}

impl Factor {
    fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name),
            Self::Number(_) => None,
        }
    }
}

impl Part {
    fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name),
            Self::Letters(_) => None,
        }
    }
}

fn between(random: &mut Random, low: i64, high: i64) -> i64 {
    // Two's complement: right also where the width does not fit a signed number.
    let width = high.wrapping_sub(low) as u64;
    low.wrapping_add(random.below(width.saturating_add(1)) as i64)
}

fn sum(products: &[Product], before: &impl Fn(&str) -> Option<Value>) -> Result<i64> {
    let mut sum = 0_i64;
    for product in products {
        let mut value = if product.negative { -1 } else { 1_i64 };
        for factor in &product.factors {
            let factor = match factor {
                Factor::Number(number) => *number,
                Factor::Name(name) => match before(name) {
                    Some(Value::Integer(number)) => number,
                    _ => bail!("`{name}` is not a number"),
                },
            };
            value = value.saturating_mul(factor);
        }
        sum = sum.saturating_add(value);
    }
    Ok(sum)
}

fn text(parts: &[Part], before: &impl Fn(&str) -> Option<Value>) -> Result<String> {
    let mut text = String::new();
    for part in parts {
        match part {
            Part::Letters(letters) => text += letters,
            Part::Name(name) => match before(name) {
                Some(value) => text += &value.to_string(),
                None => bail!("`{name}` has no value"),
            },
        }
    }
    Ok(text)
}
