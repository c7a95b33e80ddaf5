//! Patterns of paths: `*` stands for any part of a name, `?` for one character, `[a-c]` for one of some, `**` for any folders.

/// Whether a part of a path is a pattern.
pub fn is_pattern(part: &str) -> bool {
    part.contains(['*', '?', '['])
}

/// Whether the parts of a path fit those of a pattern.
pub fn fits(pattern: &[String], parts: &[&str]) -> bool {
    let Some((first, rest)) = pattern.split_first() else { return parts.is_empty() };
    if first == "**" {
        return (0..=parts.len()).any(|skipped| fits(rest, parts.get(skipped..).unwrap_or_default()));
    }
    let Some((part, others)) = parts.split_first() else { return false };
    fits_name(first, part) && fits(rest, others)
}

/// Whether a name fits a pattern. Hidden files of other programs fit only a pattern that begins with the same sign.
fn fits_name(pattern: &str, name: &str) -> bool {
    let is_note = name.starts_with('.') || (name.starts_with('_') && !name.contains('='));
    let begins = name.chars().next().is_some_and(|first| pattern.starts_with(first));
    (begins || !is_note) && matches(&pattern.chars().collect::<Vec<_>>(), &name.chars().collect::<Vec<_>>())
}

/// If the rest does not fit, goes back to the last `*` only, so that no pattern takes long.
fn matches(pattern: &[char], name: &[char]) -> bool {
    let (mut at, mut place, mut star) = (0, 0, None);
    while place < name.len() {
        let next = pattern.get(at).and_then(|sign| step(pattern, at, *sign, name.get(place).copied()));
        match (pattern.get(at), next) {
            (Some('*'), _) => {
                star = Some((at, place));
                at += 1;
            }
            (_, Some(next)) => {
                at = next;
                place += 1;
            }
            _ => match star {
                Some((back, taken)) => {
                    at = back + 1;
                    place = taken + 1;
                    star = Some((back, taken + 1));
                }
                None => return false,
            },
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(|sign| *sign == '*')
}

/// The place in the pattern after it took a character; none if it does not fit.
fn step(pattern: &[char], at: usize, sign: char, character: Option<char>) -> Option<usize> {
    let character = character?;
    match sign {
        '*' => None,
        '?' => Some(at + 1),
        '[' => {
            let length = pattern.get(at + 1..)?.iter().position(|sign| *sign == ']')?;
            let set = pattern.get(at + 1..at + 1 + length)?;
            let (is_not, set) = match set.split_first() {
                Some(('!' | '^', rest)) => (true, rest),
                _ => (false, set),
            };
            (is_in(set, character) != is_not).then_some(at + length + 2)
        }
        sign => (sign == character).then_some(at + 1),
    }
}

fn is_in(set: &[char], character: char) -> bool {
    match set {
        [from, '-', to, rest @ ..] => (*from..=*to).contains(&character) || is_in(rest, character),
        [one, rest @ ..] => *one == character || is_in(rest, character),
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_paths() {
        let check = |pattern: &str, path: &str, expected: bool| {
            let pattern: Vec<String> = pattern.split('/').map(str::to_owned).collect();
            let parts: Vec<&str> = path.split('/').collect();
            assert_eq!(fits(&pattern, &parts), expected, "{pattern:?} {path}");
        };
        check("*.csv", "a.csv", true);
        check("*.csv", "a.csv.gz", false);
        check("*.csv", "x/a.csv", false);
        check("*.csv", "_a.csv", false);
        check("_*.csv", "_a.csv", true);
        check("**/*.csv", "a.csv", true);
        check("**/*.csv", "x/y/a.csv", true);
        check("*/a?.csv", "x/a1.csv", true);
        check("*/a?.csv", "x/a.csv", false);
        check("[a-c]x[!1].csv", "bx2.csv", true);
        check("[a-c]x[!1].csv", "bx1.csv", false);
        check("[a-c].csv", "d.csv", false);
        check("*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false);
        check("[", "[", false);
    }
}
