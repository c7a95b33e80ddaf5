//! The depth of the trees of a text, counted over its tokens without recursion.
//!
//! The count is never less than the depth of the tree that the parser makes: a clause starts a new expression
//! only where the parser cannot take its keyword for an operand.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::Token;

/// The nesting of the text read so far.
pub struct Shape {
    pub levels: Vec<Level>,
    pub brackets: usize,
    /// Number of set operations of the whole statement.
    pub set_operations: usize,
    /// Number of set operations that are planned as joins.
    pub differences: usize,
    before: Before,
}

/// The previous token, as far as it decides the meaning of the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Before {
    #[default]
    Nothing,
    /// The next word is part of a name, even if it is a keyword.
    Period,
    /// The next word is an operand.
    Operator,
    Distinct,
    /// A `*` that comes next stands for all columns.
    List,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            levels: vec![Level::default()],
            brackets: 0,
            set_operations: 0,
            differences: 0,
            before: Before::Nothing,
        }
    }
}

/// Whether a token is a constant or a parameter.
fn is_operand(token: &Token) -> bool {
    matches!(
        token,
        Token::Number(..)
            | Token::Placeholder(_)
            | Token::SingleQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::DollarQuotedString(_)
            | Token::NationalStringLiteral(_)
            | Token::HexStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
    )
}

impl Before {
    fn then(self, token: &Token) -> Self {
        match token {
            Token::Period => Self::Period,
            Token::Word(_) if self == Self::Period => Self::Nothing,
            Token::Word(word) => match word.keyword {
                Keyword::DISTINCT => Self::Distinct,
                Keyword::SELECT | Keyword::ALL => Self::List,
                Keyword::AND | Keyword::OR | Keyword::NOT | Keyword::IS | Keyword::IN | Keyword::LIKE => {
                    Self::Operator
                }
                _ => Self::Nothing,
            },
            Token::Comma | Token::LParen => Self::List,
            Token::Mul if matches!(self, Self::Period | Self::Distinct | Self::List) => Self::Nothing,
            Token::SemiColon
            | Token::LBracket
            | Token::LBrace
            | Token::RParen
            | Token::RBracket
            | Token::RBrace => Self::Nothing,
            token if is_operand(token) => Self::Nothing,
            _ => Self::Operator,
        }
    }
}

impl Shape {
    /// Takes the next token, which is not white space.
    pub fn count(&mut self, token: &Token) {
        let before = self.before;
        self.before = before.then(token);
        match token {
            Token::LParen | Token::LBrace => self.open(false),
            Token::LBracket => {
                // Chained subscripts nest in the tree without nested brackets.
                self.current(|level| level.operators += 1);
                self.open(false);
            }
            Token::RParen | Token::RBracket | Token::RBrace => self.close_bracket(),
            Token::Comma => {
                self.leave_cases();
                self.current(Level::start_expression);
            }
            Token::SemiColon => *self = Self::default(),
            Token::Word(_) if before == Before::Period => {}
            Token::Word(word) => self.count_word(word.keyword, before),
            token if is_operand(token) || *token == Token::EOF => {}
            _ => self.current(|level| level.operators += 1),
        }
    }

    fn count_word(&mut self, keyword: Keyword, before: Before) {
        match keyword {
            Keyword::CASE => self.open(true),
            Keyword::END if self.levels.last().is_some_and(|level| level.is_case) => self.close(),
            Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT | Keyword::MINUS => {
                self.set_operations += 1;
                self.differences += usize::from(keyword != Keyword::UNION);
                self.current(|level| level.start_clause(before));
            }
            _ => self.current(|level| level.count_word(keyword, before)),
        }
    }

    fn current(&mut self, change: impl FnOnce(&mut Level)) {
        if let Some(level) = self.levels.last_mut() {
            change(level);
        }
    }

    fn open(&mut self, is_case: bool) {
        self.brackets += usize::from(!is_case);
        self.levels.push(Level { is_case, ..Level::default() });
    }

    fn close_bracket(&mut self) {
        self.leave_cases();
        if self.levels.len() > 1 {
            self.brackets -= 1;
            self.close();
        }
    }

    /// Closes the levels that CASE opened wrongly: no comma and no closing bracket can stand within a CASE.
    fn leave_cases(&mut self) {
        while self.levels.last().is_some_and(|level| level.is_case) {
            self.close();
        }
    }

    fn close(&mut self) {
        let depth = self.levels.pop().map_or(0, |level| level.depth());
        self.current(|level| level.inner = level.inner.max(depth));
    }
}

/// Counts since the last opening bracket or CASE.
#[derive(Default)]
pub struct Level {
    /// Whether CASE opened the level, so that END closes it.
    is_case: bool,
    /// Number of AND and OR since the last comma or clause.
    pub logical: usize,
    /// Number of other binary operators since the last AND, OR, comma or clause.
    pub operators: usize,
    /// Number of NOT, signs and other prefixes: they nest without brackets.
    pub prefixes: usize,
    /// Number of BETWEEN whose AND has not come yet.
    between: usize,
    /// Depth of the deepest bracket in the current expression.
    inner: usize,
    /// Depth of the deepest expression that has ended.
    ended: usize,
}

impl Level {
    /// An upper bound of the depth of the trees on this level.
    pub fn depth(&self) -> usize {
        self.ended.max(self.current_depth())
    }

    fn current_depth(&self) -> usize {
        // Chains of AND and OR are balanced.
        let balanced = self.logical.checked_ilog2().map_or(0, |depth| depth as usize + 1);
        1 + self.operators + self.prefixes + self.inner + balanced
    }

    fn count_word(&mut self, keyword: Keyword, before: Before) {
        match keyword {
            Keyword::AND if self.between > 0 => {
                self.between -= 1;
                self.operators += 1;
            }
            Keyword::AND | Keyword::OR => {
                self.ended = self.depth();
                self.logical += 1;
                self.operators = 0;
                self.prefixes = 0;
                self.between = 0;
            }
            Keyword::FROM if before == Before::Distinct => self.operators += 1,
            // `BY` and not `GROUP`, which is in `WITHIN GROUP`, too.
            Keyword::SELECT
            | Keyword::FROM
            | Keyword::WHERE
            | Keyword::BY
            | Keyword::HAVING
            | Keyword::ON
            | Keyword::VALUES => self.start_clause(before),
            // The arms of a CASE do not nest.
            Keyword::WHEN | Keyword::THEN | Keyword::ELSE if self.is_case => self.start_clause(before),
            Keyword::NOT | Keyword::EXPLAIN | Keyword::INTERVAL => self.prefixes += 1,
            Keyword::BETWEEN => {
                self.between += 1;
                self.operators += 1;
            }
            Keyword::XOR => self.operators += 1,
            Keyword::AT
            | Keyword::COLLATE
            | Keyword::DIV
            | Keyword::ILIKE
            | Keyword::IN
            | Keyword::IS
            | Keyword::JOIN
            | Keyword::LIKE
            | Keyword::MATCH
            | Keyword::MEMBER
            | Keyword::NOTNULL
            | Keyword::OPERATOR
            | Keyword::OVERLAPS
            | Keyword::REGEXP
            | Keyword::RLIKE
            | Keyword::SIMILAR => self.operators += 1,
            _ => {}
        }
    }

    /// Starts a clause at its first word, unless the word is an operand: there are columns of such names.
    fn start_clause(&mut self, before: Before) {
        if before != Before::Operator {
            self.start_expression();
        }
    }

    fn start_expression(&mut self) {
        *self = Self { is_case: self.is_case, ended: self.depth(), ..Self::default() };
    }
}
