//! An upper bound of the tokens that the parser reads, counted without parsing.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::Token;

/// Counts how often the parser reads the tokens of a text at most.
///
/// The parser reads `((SELECT …) a JOIN …)` as a bracketed query, fails, and reads it again as a join: the contents
/// of a run of brackets with a query in it are read as often as the run is long, and nested runs multiply.
#[derive(Default)]
pub struct Attempts {
    readings: usize,
    /// For each open bracket, how often its contents are read.
    times: Vec<usize>,
    /// Number of brackets that opened directly before the next token.
    run: usize,
}

impl Attempts {
    /// An upper bound of the tokens that are read; a token that is read twice counts twice.
    pub fn readings(&self) -> usize {
        self.readings
    }

    /// Takes the next token, which is not white space.
    pub fn count(&mut self, token: &Token) {
        let around = self.times.last().copied().unwrap_or(1);
        self.readings = self.readings.saturating_add(around);
        match token {
            Token::LParen => {
                self.times.push(around);
                self.run += 1;
                return;
            }
            Token::RParen => {
                self.times.pop();
            }
            Token::Word(word) if self.run > 1 && begins_query(word.keyword) => {
                if let Some(times) = self.times.last_mut() {
                    *times = around.saturating_mul(self.run);
                }
            }
            Token::SemiColon => self.times.clear(),
            _ => {}
        }
        self.run = 0;
    }
}

fn begins_query(keyword: Keyword) -> bool {
    matches!(keyword, Keyword::SELECT | Keyword::WITH | Keyword::VALUES | Keyword::TABLE | Keyword::FROM)
}
