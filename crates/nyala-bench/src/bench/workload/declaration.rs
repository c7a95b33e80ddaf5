//! Reads declarations of parameters: `year: 1992..1997`, `region: ASIA | EUROPE`,
//! `(nation, region): (CHINA, ASIA) | (FRANCE, EUROPE)`, `next: year + 1`, `brand: 'MFGR#{m}{c}{b}'`.

use anyhow::{Context, Result, bail};

use super::definition::{Definition, Factor, Part, Product, Source};
use super::value::{Value, unquoted};

/// Reads `names: source`.
pub fn parse(text: &str) -> Result<Definition> {
    let (names, source) =
        text.split_once(':').with_context(|| format!("`{text}` is not of the form `name: values`"))?;
    let names = names_of(names.trim())?;
    let source = source.trim();
    let source =
        source_of(source, names.len()).with_context(|| format!("parameter `{}`", names.join(", ")))?;
    Ok(Definition { names, source })
}

/// One name, or several in brackets.
fn names_of(text: &str) -> Result<Vec<String>> {
    let inner = in_brackets(text).unwrap_or(text);
    let names: Vec<String> = inner.split(',').map(|name| name.trim().to_owned()).collect();
    match names.iter().find(|name| !is_name(name)) {
        Some(name) => bail!("`{name}` is not a name: use letters, digits and `_`"),
        None => Ok(names),
    }
}

/// Whether a text may be the name of a parameter.
pub fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn source_of(text: &str, names: usize) -> Result<Source> {
    let choices = split_outside(text, '|');
    if choices.len() > 1 || names > 1 {
        return choice(&choices, names);
    }
    if let Some(template) = unquoted(text) {
        return parts(&template).map(Source::Text);
    }
    if let Some((low, high)) = text.split_once("..") {
        return range(low, high);
    }
    sum(text).map(Source::Sum)
}

fn choice(choices: &[&str], names: usize) -> Result<Source> {
    let rows: Vec<Vec<Value>> =
        choices.iter().map(|choice| row(choice.trim(), names)).collect::<Result<_>>()?;
    Ok(Source::Choice(rows))
}

fn row(text: &str, names: usize) -> Result<Vec<Value>> {
    let row: Vec<Value> = match in_brackets(text) {
        Some(inner) if names > 1 => split_outside(inner, ',').into_iter().map(Value::of_word).collect(),
        _ => vec![Value::of_word(text)],
    };
    if row.len() != names {
        bail!("`{text}` has {} values for {names} parameters", row.len());
    }
    Ok(row)
}

fn range(low: &str, high: &str) -> Result<Source> {
    let number = |text: &str| text.trim().parse().with_context(|| format!("`{text}` is not a whole number"));
    let (low, high): (i64, i64) = (number(low)?, number(high)?);
    if low > high {
        bail!("`{low}..{high}` is empty: the smaller number comes first");
    }
    Ok(Source::Range(low, high))
}

/// Products with `+` and `-` between them.
fn sum(text: &str) -> Result<Vec<Product>> {
    let mut products = Vec::new();
    let mut rest = text.trim();
    let mut negative = false;
    loop {
        let end = rest.find(['+', '-']).unwrap_or(rest.len());
        let (product, after) = rest.split_at(end);
        let factors = product.split('*').map(|word| factor(word.trim())).collect::<Result<_>>()?;
        products.push(Product { negative, factors });
        let Some(sign) = after.chars().next() else { return Ok(products) };
        negative = sign == '-';
        rest = after.get(1..).unwrap_or_default();
    }
}

fn factor(word: &str) -> Result<Factor> {
    if let Ok(number) = word.parse() {
        return Ok(Factor::Number(number));
    }
    if is_name(word) {
        return Ok(Factor::Name(word.to_owned()));
    }
    bail!("`{word}` is neither a number nor a name; a text stands in quotes, choices are separated by `|`")
}

/// A text with names in braces.
fn parts(template: &str) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    let mut rest = template;
    while let Some((letters, after)) = rest.split_once('{') {
        let (name, after) =
            after.split_once('}').with_context(|| format!("`{{` without `}}` in `{template}`"))?;
        if !is_name(name) {
            bail!("`{name}` in `{template}` is not a name");
        }
        parts.extend([Part::Letters(letters.to_owned()), Part::Name(name.to_owned())]);
        rest = after;
    }
    parts.push(Part::Letters(rest.to_owned()));
    parts.retain(|part| *part != Part::Letters(String::new()));
    Ok(parts)
}

fn in_brackets(text: &str) -> Option<&str> {
    text.strip_prefix('(')?.strip_suffix(')')
}

/// Cuts at a character where it stands outside quotes and brackets.
fn split_outside(text: &str, separator: char) -> Vec<&str> {
    let (mut parts, mut start) = (Vec::new(), 0);
    let (mut quoted, mut depth) = (false, 0_i32);
    for (at, c) in text.char_indices() {
        match c {
            '\'' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            _ => {}
        }
        if c == separator && !quoted && depth == 0 {
            parts.push(text.get(start..at).unwrap_or_default());
            start = at + separator.len_utf8();
        }
    }
    parts.push(text.get(start..).unwrap_or_default());
    parts
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::bench::workload::Random;

    fn drawn(declaration: &str) -> Vec<String> {
        let definition = parse(declaration).unwrap();
        let mut random = Random::of_client(1, 1);
        let before = |name: &str| match name {
            "year" => Some(Value::Integer(1994)),
            "month" => Some(Value::Integer(2)),
            "stem" => Some(Value::Text("PERU     ".to_owned())),
            _ => None,
        };
        let mut texts: Vec<String> = (0..200)
            .map(|_| {
                let values = definition.draw(&mut random, before).unwrap();
                values.iter().map(ToString::to_string).collect::<Vec<_>>().join("/")
            })
            .collect();
        texts.sort();
        texts.dedup();
        texts
    }

    #[test]
    fn declarations_give_these_values() {
        let check =
            |declaration: &str, expected: &[&str]| assert_eq!(drawn(declaration), expected, "{declaration}");
        check("a: 3..5", &["3", "4", "5"]);
        check("a: -1..0", &["-1", "0"]);
        check("a: 7..7", &["7"]);
        check("a: ASIA | MIDDLE EAST", &["ASIA", "MIDDLE EAST"]);
        check("a: 'x|y' | 'z '", &["x|y", "z "]);
        check("(a, b): (x, 1) | ('y, z', 2)", &["x/1", "y, z/2"]);
        check("(a, b): (x, 1)", &["x/1"]);
        check("a: year + 1", &["1995"]);
        check("a: year*100 + month - 1", &["199401"]);
        check("a: '{stem}{month}'", &["PERU     2"]);
        check("a: 'constant'", &["constant"]);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_reason() {
        let check = |declaration: &str, words: &str| {
            let error = format!("{:#}", parse(declaration).unwrap_err());
            assert!(error.contains(words), "{declaration}: {error}");
        };
        check("year 1992", "name: values");
        check("1a: 1..2", "not a name");
        check("a: 5..1", "is empty");
        check("a: 1..x", "not a whole number");
        check("(a, b): (1, 2) | (3)", "1 values for 2 parameters");
        check("a: 'x{'", "without");
        check("a: what is this", "neither a number nor a name");
    }
}
