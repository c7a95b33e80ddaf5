//! Text form of arrays, as PostgreSQL clients write it.

/// The elements of a text such as `{1,NULL,"a b"}`; an unquoted NULL is none. None if the text is no array,
/// or one of more dimensions.
///
/// Source: PostgreSQL documentation, "Array Input and Output Syntax".
pub fn array_elements(text: &str) -> Option<Vec<Option<String>>> {
    elements(text.trim().strip_prefix('{')?.strip_suffix('}')?)
}

/// Parses the text between the braces.
fn elements(text: &str) -> Option<Vec<Option<String>>> {
    let mut elements = Vec::new();
    if text.trim().is_empty() {
        return Some(elements);
    }
    let mut letters = text.chars().peekable();
    loop {
        while letters.next_if(|letter| letter.is_whitespace()).is_some() {}
        let mut element = String::new();
        let quoted = letters.next_if_eq(&'"').is_some();
        loop {
            match letters.next() {
                Some('\\') => element.push(letters.next()?),
                Some('"') if quoted => break,
                Some('{' | '}' | '"') if !quoted => return None,
                Some(',') if !quoted => break,
                Some(letter) => element.push(letter),
                None if quoted => return None,
                None => break,
            }
            if !quoted && letters.peek() == Some(&',') {
                break;
            }
        }
        let plain = element.trim_end();
        elements.push(match quoted {
            true => Some(element),
            false if plain.is_empty() => return None,
            false if plain.eq_ignore_ascii_case("null") => None,
            false => Some(plain.to_owned()),
        });
        while letters.next_if(|letter| letter.is_whitespace()).is_some() {}
        match letters.next() {
            Some(',') => {}
            Some(_) => return None,
            None => return Some(elements),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_split_into_elements() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(elements("1, 2 ,NULL"), Some(vec![some("1"), some("2"), None]));
        assert_eq!(elements("\"a,b\",\"NULL\",\"\\\"\""), Some(vec![some("a,b"), some("NULL"), some("\"")]));
        assert_eq!(elements("\"\""), Some(vec![some("")]));
        for wrong in ["1,", ",1", "{1}", "\"a", "\"a\"b"] {
            assert_eq!(elements(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_array_has_braces() {
        assert_eq!(array_elements(" {} "), Some(Vec::new()));
        assert_eq!(array_elements("{a,NULL}"), Some(vec![Some("a".to_owned()), None]));
        for wrong in ["", "a", "{a", "a}", "{{a}}"] {
            assert_eq!(array_elements(wrong), None, "{wrong}");
        }
    }
}
