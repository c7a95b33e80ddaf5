//! A statement with holes, and the parameters that fill them.

use anyhow::{Context, Result, bail};

use super::declaration;
use super::definition::Definition;
use super::hole::{Piece, cut};
use super::random::Random;
use super::value::Value;

/// A query of a workload.
#[derive(Debug)]
pub struct Query {
    /// The query's name in reports.
    pub name: String,
    /// Columns of the query's answer, if the file tells.
    pub columns: Option<usize>,
    /// The query's text with `$1`, `$2`, … in its holes.
    pub shape: String,
    pieces: Vec<Piece>,
    /// The definitions to draw, in this order; only those that the statement needs.
    definitions: Vec<Definition>,
    /// Parameters of the statement: `$1` is the first.
    slots: Vec<String>,
}

impl Query {
    /// A query of a text; `declared` are the parameters it may use, later ones hiding earlier ones.
    pub fn new(name: &str, columns: Option<usize>, text: &str, declared: &[Definition]) -> Result<Self> {
        let mut declared = declared.to_vec();
        let mut slots: Vec<String> = Vec::new();
        let pieces = cut(text.trim(), |hole| {
            let name = name_in(hole, &mut declared)?;
            Ok(slots.iter().position(|slot| *slot == name).unwrap_or_else(|| {
                slots.push(name);
                slots.len() - 1
            }))
        })?;
        let definitions = needed(&slots, &declared)?;
        let shape = filled(&pieces, |place, out| *out += &format!("${}", place + 1));
        let query = Self { name: name.to_owned(), columns, shape, pieces, definitions, slots };
        // Every error of drawing shows here: the types of values do not depend on chance.
        query.draw(&mut Random::of_client(0, 0))?;
        Ok(query)
    }

    /// Draws values for `$1`, `$2`, ….
    pub fn draw(&self, random: &mut Random) -> Result<Vec<Value>> {
        let mut drawn: Vec<(&str, Value)> = Vec::new();
        for definition in &self.definitions {
            let values = definition.draw(random, |name| value_of(&drawn, name))?;
            drawn.extend(definition.names.iter().map(String::as_str).zip(values));
        }
        let value = |slot: &String| value_of(&drawn, slot).with_context(|| format!("`{slot}` has no value"));
        self.slots.iter().map(value).collect()
    }

    /// The query's text with these values as literals.
    pub fn literal(&self, values: &[Value]) -> String {
        filled(&self.pieces, |place, out| {
            if let Some(value) = values.get(place) {
                value.write_literal(out);
            }
        })
    }
}

fn filled(pieces: &[Piece], fill: impl Fn(usize, &mut String)) -> String {
    let mut text = String::with_capacity(512);
    for piece in pieces {
        match piece {
            Piece::Text(letters) => text += letters,
            Piece::Hole(place) => fill(*place, &mut text),
        }
    }
    text
}

fn value_of(drawn: &[(&str, Value)], name: &str) -> Option<Value> {
    drawn.iter().rev().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
}

/// The name of a hole. A definition within the hole is added to `declared`.
fn name_in(hole: &str, declared: &mut Vec<Definition>) -> Result<String> {
    if !hole.contains(':') {
        return Ok(hole.to_owned());
    }
    let definition = declaration::parse(hole)?;
    let [name] = definition.names.as_slice() else { bail!("`{hole}` declares more than one parameter") };
    let name = name.clone();
    declared.push(definition);
    Ok(name)
}

/// The definitions that these parameters need: searched backwards, since a definition uses earlier ones.
fn needed(slots: &[String], declared: &[Definition]) -> Result<Vec<Definition>> {
    let mut wanted: Vec<&str> = slots.iter().map(String::as_str).collect();
    let mut chosen = Vec::new();
    for definition in declared.iter().rev() {
        if definition.names.iter().any(|name| wanted.contains(&name.as_str())) {
            wanted.retain(|wanted| !definition.names.iter().any(|name| name == wanted));
            wanted.extend(definition.needs());
            chosen.push(definition.clone());
        }
    }
    if let Some(unknown) = wanted.first() {
        bail!("parameter `{unknown}` is not declared before it is used: write `-- param {unknown}: …`");
    }
    chosen.reverse();
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn declared(lines: &[&str]) -> Vec<Definition> {
        lines.iter().map(|line| declaration::parse(line).unwrap()).collect()
    }

    #[test]
    fn a_parameter_has_one_value_wherever_it_stands() {
        let declared = declared(&["unused: 1..9", "y: 5..5", "next: y + 1", "city: 'A''{y}'"]);
        let query =
            Query::new("q", None, "SELECT {{next}}, {{ y }}, {{city}}, {{next}}, {{k:3..3}}", &declared)
                .unwrap();
        assert_eq!(query.shape, "SELECT $1, $2, $3, $1, $4");
        let values = query.draw(&mut Random::of_client(1, 1)).unwrap();
        assert_eq!(query.literal(&values), "SELECT 6, 5, 'A''5', 6, 3");
        assert_eq!(query.definitions.len(), 4, "what is not used is not drawn");
    }

    #[test]
    fn parameters_of_one_row_belong_together() {
        let declared = declared(&["(nation, region): (CHINA, ASIA) | (FRANCE, EUROPE)"]);
        let query = Query::new("q", None, "{{region}} {{nation}}", &declared).unwrap();
        let mut random = Random::of_client(1, 1);
        for _ in 0..50 {
            let text = query.literal(&query.draw(&mut random).unwrap());
            assert!(["'ASIA' 'CHINA'", "'EUROPE' 'FRANCE'"].contains(&text.as_str()), "{text}");
        }
    }

    #[test]
    fn a_query_that_cannot_be_drawn_is_refused() {
        let check = |text: &str, lines: &[&str], words: &str| {
            let error = format!("{:#}", Query::new("q", None, text, &declared(lines)).unwrap_err());
            assert!(error.contains(words), "{text}: {error}");
        };
        check("{{a}}", &[], "`a` is not declared");
        check("{{a}}", &["a: b + 1", "b: 1..2"], "`b` is not declared before");
        check("{{a}}", &["b: x | y", "a: b + 1"], "`b` is not a number");
        check("{{a", &[], "without");
        check("{{(a, b): (1, 2)}}", &[], "more than one");
    }
}
