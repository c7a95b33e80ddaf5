//! Functions of the session: calls become values, or get the role and the token of the session as arguments.

use std::net::SocketAddr;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Query, SelectItem,
    SetExpr, Value, ValueWithSpan,
};
use nyala_engine::schemas_in_path;

use super::session_facts::SessionFacts;
use super::snippets::{quoted, substituted};
use super::walk::Rewrite;
use crate::backends::WITH_SESSION;
use crate::catalog::{DATABASE, WITH_ROLE};

/// Replaces calls of session functions by their values.
pub struct SessionFunctions<'a, F> {
    /// The values of the session.
    pub facts: &'a F,
}

impl<F: SessionFacts> Rewrite for SessionFunctions<'_, F> {
    /// Keeps the name of the function as the title of an output column.
    fn query(&mut self, query: &mut Query) {
        if let SetExpr::Select(select) = query.body.as_mut() {
            for item in &mut select.projection {
                let SelectItem::UnnamedExpr(expr) = item else { continue };
                let named = match &*expr {
                    Expr::Function(function) => {
                        self.value(function).map(|value| (value, Ident::new(name_of(function))))
                    }
                    Expr::Identifier(word) => self.word(word).map(|value| (value, word.clone())),
                    _ => None,
                };
                if let Some((expr, alias)) = named {
                    *item = SelectItem::ExprWithAlias { expr, alias };
                }
            }
        }
    }

    fn expr(&mut self, expr: &mut Expr) {
        if let Some(expanded) = expanded(expr) {
            *expr = expanded;
        } else if let Expr::Identifier(word) = expr {
            if let Some(value) = self.word(word) {
                *expr = value;
            }
        } else if let Expr::Function(function) = expr {
            self.name_role(function);
            self.name_session(function);
            if let Some(value) = self.value(function) {
                *expr = value;
            }
        }
    }
}

impl<F: SessionFacts> SessionFunctions<'_, F> {
    /// The value of a word that calls a function without parentheses.
    fn word(&self, word: &Ident) -> Option<Expr> {
        match word.value.to_lowercase().as_str() {
            _ if word.quote_style.is_some() => None,
            "current_role" => Some(text(self.facts.user())),
            "current_catalog" => Some(text(DATABASE.to_owned())),
            _ => None,
        }
    }

    fn value(&self, function: &Function) -> Option<Expr> {
        let arguments = arguments(function);
        match (name_of(function).as_str(), arguments.as_slice()) {
            ("current_user" | "session_user" | "current_role" | "user", []) => Some(text(self.facts.user())),
            ("pg_client_encoding", []) => self.facts.setting("client_encoding").map(text),
            ("pg_backend_pid", []) => Some(number(self.facts.process_id())),
            ("inet_client_addr", []) => Some(match self.facts.client().parse::<SocketAddr>() {
                Ok(address) => text(address.ip().to_string()),
                Err(_) => Expr::Value(Value::Null.with_empty_span()),
            }),
            ("inet_client_port", []) => Some(match self.facts.client().parse::<SocketAddr>() {
                Ok(address) => number(i32::from(address.port())),
                Err(_) => Expr::Value(Value::Null.with_empty_span()),
            }),
            ("current_schema", []) => self.facts.setting("search_path").map(|path| text(first_schema(&path))),
            ("current_setting", [name] | [name, _]) => match literal(name) {
                Some(known) if arguments.len() == 1 => self.facts.setting(&known).map(text),
                Some(maybe) => {
                    let value = self.facts.setting(&maybe).map_or(Value::Null, Value::SingleQuotedString);
                    Some(Expr::Value(value.with_empty_span()))
                }
                None => self.setting_by_name(name),
            },
            _ => None,
        }
    }
}

impl<F: SessionFacts> SessionFunctions<'_, F> {
    /// Puts the session's role first in a question for privileges that leaves it out.
    fn name_role(&self, function: &mut Function) {
        let name = name_of(function);
        let wanted = WITH_ROLE.iter().find(|(known, _)| *known == name).map(|(_, count)| *count);
        if let (Some(wanted), FunctionArguments::List(list)) = (wanted, &mut function.args)
            && list.args.len() + 1 == wanted
        {
            let role = FunctionArg::Unnamed(FunctionArgExpr::Expr(text(self.facts.role())));
            list.args.insert(0, role);
        }
    }

    /// Puts the session's token first in a call that acts on sessions.
    fn name_session(&self, function: &mut Function) {
        let name = name_of(function);
        let counts = WITH_SESSION.iter().find(|(known, _)| *known == name).map(|(_, counts)| *counts);
        let Some(counts) = counts else { return };
        if matches!(function.args, FunctionArguments::None) {
            return;
        }
        if let FunctionArguments::List(list) = &mut function.args
            && counts.contains(&list.args.len())
        {
            let session = FunctionArg::Unnamed(FunctionArgExpr::Expr(text(self.facts.token())));
            list.args.insert(0, session);
        }
    }

    /// The value of a setting with a name that is known only when the query runs.
    fn setting_by_name(&self, name: &Expr) -> Option<Expr> {
        let settings = self.facts.settings();
        let cases: Vec<String> = settings
            .iter()
            .map(|(name, value)| format!("WHEN {} THEN {}", quoted(&name.to_lowercase()), quoted(value)))
            .collect();
        substituted(&format!("CASE lower(p) {} END", cases.join(" ")), name)
    }
}

/// The first schema of a search path, without empty names and `$user`.
fn first_schema(path: &str) -> String {
    let named = schemas_in_path(path).find(|schema| !schema.is_empty() && schema != "$user");
    named.unwrap_or_else(|| "public".to_owned())
}

/// Replaces `information_schema._pg_expandarray(array)` by the items of the array (`.x`) or their numbers (`.n`).
fn expanded(expr: &Expr) -> Option<Expr> {
    let (function, field) = match expr {
        Expr::Function(function) => (function, "x".to_owned()),
        Expr::CompoundFieldAccess { root, access_chain } => {
            let [AccessExpr::Dot(Expr::Identifier(field))] = access_chain.as_slice() else { return None };
            match root.as_ref() {
                Expr::Nested(inner) => match inner.as_ref() {
                    Expr::Function(function) => (function, field.value.to_lowercase()),
                    // The column of a subquery already is the item, since the call in it was replaced.
                    named @ Expr::CompoundIdentifier(_) if field.value == "x" => return Some(named.clone()),
                    _ => return None,
                },
                _ => return None,
            }
        }
        _ => return None,
    };
    let arguments = arguments(function);
    let (true, [array]) = (name_of(function) == "_pg_expandarray", arguments.as_slice()) else {
        return None;
    };
    // A list that is built by functions with rows was written as `unnest` when the text was read.
    let text = if field == "n" { "unnest(generate_subscripts(CAST(p AS BIGINT[]), 1))" } else { "unnest(p)" };
    substituted(text, array)
}

fn name_of(function: &Function) -> String {
    let last = function.name.0.last().and_then(|part| part.as_ident());
    last.map(|name| name.value.to_lowercase()).unwrap_or_default()
}

/// The plain arguments of a call. Others are left out, so that the call fits none of the patterns above.
fn arguments(function: &Function) -> Vec<&Expr> {
    let FunctionArguments::List(list) = &function.args else {
        return Vec::new();
    };
    let plain = list.args.iter().filter_map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    });
    plain.collect()
}

fn literal(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(ValueWithSpan { value, .. }) => value.clone().into_string(),
        Expr::Cast { expr, .. } => literal(expr),
        _ => None,
    }
}

fn text(value: String) -> Expr {
    Expr::Value(Value::SingleQuotedString(value).with_empty_span())
}

fn number(value: i32) -> Expr {
    Expr::Value(Value::Number(value.to_string(), false).with_empty_span())
}
