//! Removes session tokens, which a door puts into calls of functions, from statements in logs and lists.

/// Hexadecimal digits of a token, after the number of its session.
const DIGITS: usize = 32;

/// The text without arguments such as `'12:0f…'`, also without one that is cut off at the end of the text.
pub fn without_tokens(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\'') {
        let (before, quoted) = rest.split_at(at);
        shown.push_str(before);
        match token(quoted) {
            Some(bytes) => {
                let behind = quoted.get(bytes..).unwrap_or_default();
                rest = behind.strip_prefix(", ").unwrap_or(behind);
            }
            None => {
                shown.push('\'');
                rest = quoted.get(1..).unwrap_or_default();
            }
        }
    }
    shown + rest
}

/// The length of the token that the text begins with, quotes included.
fn token(text: &str) -> Option<usize> {
    let (number, rest) = text.strip_prefix('\'')?.split_once(':')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
    let is_cut = digits == rest.len();
    let is_token = digits == DIGITS && rest.as_bytes().get(digits) == Some(&b'\'');
    (is_number && (is_token || is_cut)).then(|| text.len().min(number.len() + digits + 3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_left_out() {
        let token = "0123456789abcdef0123456789abcdef";
        let check = |text: &str, expected: &str| assert_eq!(without_tokens(text), expected);
        check(&format!("SELECT pg_sleep('12:{token}', 600)"), "SELECT pg_sleep(600)");
        check(&format!("SELECT f('1:{token}'), f('1:{token}', 'x')"), "SELECT f(), f('x')");
        check("SELECT f('12:0123", "SELECT f(");
        check("SELECT '12:00', 'it''s', '12:0123'", "SELECT '12:00', 'it''s', '12:0123'");
        check("", "");
    }
}
