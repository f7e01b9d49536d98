//! A script into statements. One entrance: [`parse`]. A script with any error in it is refused as a whole.

mod data;
mod declare;
mod group;
mod literal;
mod member;
mod user;

use super::ast::{Info, Located, Statement};
use super::error::{Error, ErrorKind, Span};
use super::lexer::{Lexer, Token, shorten};
use super::value::Value;
use std::collections::BTreeMap;

/// Bytes a script may have.
pub const MAX_SCRIPT: usize = 16 * 1024 * 1024;
/// How deep arrays and objects may be nested.
pub const MAX_DEPTH: usize = 64;

/// Values a script may hold, so that 16 MiB of `0,0,0,..` do not become a multiple of it in memory.
pub const MAX_VALUES: usize = 1_000_000;

/// Statements a script may have.
pub const MAX_STATEMENTS: usize = 100_000;

/// Values of `$name`, by name.
pub type Parameters = BTreeMap<String, Value>;

/// Words that are never names. Everything else, clause words included, may name a topic.
const RESERVED: &[&str] = &[
    "ALTER",
    "BEGIN",
    "CANCEL",
    "COMMIT",
    "CREATE",
    "DATABASE",
    "DATETIME",
    "DEC",
    "DEFINE",
    "DEL",
    "DELETE",
    "DROP",
    "EXISTS",
    "FALSE",
    "FROM",
    "GET",
    "GRANT",
    "IF",
    "INFO",
    "INSERT",
    "KEYS",
    "LET",
    "MERGE",
    "NAMESPACE",
    "NONE",
    "NOT",
    "NULL",
    "ON",
    "PASSWORD",
    "PUT",
    "READ",
    "RETURN",
    "REVOKE",
    "ROLE",
    "SELECT",
    "SET",
    "STORE",
    "TO",
    "TRUE",
    "UPDATE",
    "UPSERT",
    "USE",
    "USER",
    "UUID",
    "WHERE",
];

/// Whether a word can't be a name, in any case.
pub(crate) fn is_reserved(word: &str) -> bool {
    RESERVED.iter().any(|reserved| word.eq_ignore_ascii_case(reserved))
}

/// Reads a script. Every `$name` in it takes its value from `parameters`.
pub fn parse(script: &str, parameters: &Parameters) -> Result<Vec<Located>, Error> {
    if script.len() > MAX_SCRIPT {
        return Err(ErrorKind::ScriptTooLarge(MAX_SCRIPT).into());
    }
    let mut parser = Parser::new(script, parameters);
    let mut statements = Vec::new();
    let mut group = None;
    loop {
        while parser.eat_mark(';')? {}
        if parser.peek()?.0 == Token::End {
            break;
        }
        let start = parser.peek()?.1.start;
        let statement = parser.statement()?;
        let span = Span {
            start,
            end: parser.last.end,
        };
        match (&statement, group) {
            (Statement::Begin, None) => group = Some(span),
            (Statement::Begin, Some(_)) => {
                return Err(ErrorKind::InvalidGroup("BEGIN cannot stand within BEGIN").at(span));
            }
            (Statement::Commit | Statement::Cancel, Some(_)) => group = None,
            (Statement::Commit | Statement::Cancel, None) => {
                return Err(ErrorKind::InvalidGroup("there is no BEGIN before this").at(span));
            }
            _ => {}
        }
        if statements.len() == MAX_STATEMENTS {
            return Err(ErrorKind::TooManyStatements(MAX_STATEMENTS).at(span));
        }
        statements.push(Located { span, statement });
        if parser.peek()?.0 != Token::End && !parser.eat_mark(';')? {
            return Err(parser.unexpected("`;`"));
        }
    }
    match group {
        Some(span) => Err(ErrorKind::InvalidGroup("there is no COMMIT or CANCEL for this BEGIN").at(span)),
        None => Ok(statements),
    }
}

/// Reads a script from bytes as they came.
pub fn parse_bytes(script: &[u8], parameters: &Parameters) -> Result<Vec<Located>, Error> {
    let text = std::str::from_utf8(script).map_err(|error| {
        let start = error.valid_up_to();
        let end = start + error.error_len().unwrap_or(script.len() - start);
        ErrorKind::InvalidLiteral("a script is UTF-8".to_owned()).at(Span { start, end })
    })?;
    parse(text, parameters)
}

/// Whether a script typed so far ends with a whole statement, so that a shell may run it: the last statement has its
/// semicolon, no string is open, and no BEGIN waits for its end. A script that no further text can mend is whole too.
pub fn is_complete(script: &str) -> bool {
    let mut lexer = Lexer::new(script);
    let (mut at_start, mut in_group) = (true, false);
    loop {
        match lexer.next() {
            Ok((Token::End, _)) => return at_start && !in_group,
            Ok((Token::Mark(';'), _)) => at_start = true,
            Ok((Token::Word(word), _)) if at_start => {
                at_start = false;
                in_group = match word.to_ascii_uppercase().as_str() {
                    "BEGIN" => true,
                    "COMMIT" | "CANCEL" => false,
                    _ => in_group,
                };
            }
            Ok(_) => at_start = false,
            // Only a string may still find its end.
            Err(error) => {
                return !error
                    .span
                    .is_some_and(|span| span.end == script.len() && opens_string(script, span));
            }
        }
    }
}

fn opens_string(script: &str, span: Span) -> bool {
    matches!(script.as_bytes().get(span.start), Some(b'\'' | b'"'))
}

/// Reads one literal, as parameters are given.
pub fn parse_literal(source: &str) -> Result<Value, Error> {
    if source.len() > MAX_SCRIPT {
        return Err(ErrorKind::ScriptTooLarge(MAX_SCRIPT).into());
    }
    let none = Parameters::new();
    let mut parser = Parser::new(source, &none);
    let value = parser.value(0)?;
    match parser.peek()?.0 {
        Token::End => Ok(value),
        _ => Err(parser.unexpected("the end of the literal")),
    }
}

struct Parser<'s> {
    lexer: Lexer<'s>,
    /// The next token once looked at, or the error in its place.
    ahead: Option<(Token<'s>, Span)>,
    /// The span of the last token taken.
    last: Span,
    /// Values read so far.
    values: usize,
    parameters: &'s Parameters,
}

impl<'s> Parser<'s> {
    fn new(source: &'s str, parameters: &'s Parameters) -> Self {
        Self {
            lexer: Lexer::new(source),
            ahead: None,
            last: Span::default(),
            values: 0,
            parameters,
        }
    }

    fn statement(&mut self) -> Result<Statement, Error> {
        let verb = self.peek()?.clone();
        let Token::Word(word) = verb.0 else {
            return Err(self.unexpected("a statement"));
        };
        self.next()?;
        match word.to_ascii_uppercase().as_str() {
            "USE" => self.use_(),
            "DEFINE" => self.define(),
            "ALTER" => self.alter(),
            "DROP" => self.drop_(),
            "CREATE" => self.create(),
            "INSERT" => self.insert(),
            "UPDATE" | "UPSERT" | "DELETE" => self.change(word),
            "READ" => self.read(),
            "ACK" => self.acknowledge(false),
            "NACK" => self.acknowledge(true),
            "GRANT" => self.grant().map(Statement::Grant),
            "REVOKE" => self.revoke().map(Statement::Revoke),
            "INFO" => self.info().map(Statement::Info),
            "BEGIN" => Ok(Statement::Begin),
            "COMMIT" => Ok(Statement::Commit),
            "CANCEL" => Ok(Statement::Cancel),
            _ => Err(self.unexpected_at(
                "a statement (USE, DEFINE, ALTER, DROP, CREATE, INSERT, READ, INFO, ..)",
                verb.1,
            )),
        }
    }

    fn define(&mut self) -> Result<Statement, Error> {
        match self.one_of(&["NAMESPACE", "DATABASE", "TOPIC", "GROUP", "REPLICA", "NODE", "USER"])? {
            "NAMESPACE" => self.define_namespace(),
            "DATABASE" => self.define_database(),
            "TOPIC" => self.define_topic(),
            "GROUP" => self.define_group(),
            "REPLICA" => self.define_replica(),
            "NODE" => self.define_node_roles(),
            _ => self.define_user(),
        }
    }

    fn alter(&mut self) -> Result<Statement, Error> {
        match self.one_of(&["NAMESPACE", "TOPIC", "GROUP", "REPLICA", "USER"])? {
            "NAMESPACE" => self.alter_namespace(),
            "TOPIC" => self.alter_topic(),
            "GROUP" => self.alter_group(),
            "REPLICA" => self.alter_replica(),
            _ => self.alter_user(),
        }
    }

    fn drop_(&mut self) -> Result<Statement, Error> {
        let what = self.one_of(&["NAMESPACE", "DATABASE", "TOPIC", "GROUP", "REPLICA", "USER"])?;
        if what == "GROUP" {
            return self.drop_group();
        }
        let name = self.name()?;
        Ok(match what {
            "NAMESPACE" => Statement::DropNamespace(name),
            "DATABASE" => Statement::DropDatabase(name),
            "TOPIC" => Statement::DropTopic(name),
            "REPLICA" => Statement::DropReplica(name),
            _ => Statement::DropUser(name),
        })
    }

    fn info(&mut self) -> Result<Info, Error> {
        self.expect("FOR")?;
        let kinds = [
            "STORE",
            "NAMESPACE",
            "DATABASE",
            "TOPIC",
            "NODE",
            "USERS",
            "USER",
            "GROUP",
        ];
        Ok(match self.one_of(&kinds)? {
            "STORE" => Info::Store,
            "NAMESPACE" => Info::Namespace,
            "DATABASE" => Info::Database,
            "TOPIC" => Info::Topic(self.name()?),
            "NODE" => Info::Node,
            "USERS" => Info::Users,
            "USER" => Info::User(self.name()?),
            _ => Info::Group(self.string()?),
        })
    }

    // Tokens.

    fn peek(&mut self) -> Result<&(Token<'s>, Span), Error> {
        if self.ahead.is_none() {
            self.ahead = Some(self.lexer.next()?);
        }
        Ok(self.ahead.as_ref().expect("just filled"))
    }

    fn next(&mut self) -> Result<Token<'s>, Error> {
        let (token, span) = match self.ahead.take() {
            Some(ahead) => ahead,
            None => self.lexer.next()?,
        };
        self.last = span;
        Ok(token)
    }

    fn unexpected(&mut self, expected: &str) -> Error {
        match self.peek() {
            Ok((_, span)) => {
                let span = *span;
                self.unexpected_at(expected, span)
            }
            Err(error) => error,
        }
    }

    fn unexpected_at(&self, expected: &str, span: Span) -> Error {
        let found = match self.lexer.text(span) {
            "" => "the end".to_owned(),
            // It may be a password that stands in the wrong place.
            text if text.starts_with(['\'', '"']) => "a string".to_owned(),
            text => format!("`{}`", shorten(text, 40)),
        };
        ErrorKind::UnexpectedToken {
            expected: expected.to_owned(),
            found,
        }
        .at(span)
    }

    fn eat_mark(&mut self, mark: char) -> Result<bool, Error> {
        let there = self.peek()?.0 == Token::Mark(mark);
        if there {
            self.next()?;
        }
        Ok(there)
    }

    fn expect_mark(&mut self, mark: char) -> Result<(), Error> {
        match self.eat_mark(mark)? {
            true => Ok(()),
            false => Err(self.unexpected(&format!("`{mark}`"))),
        }
    }

    fn at_keyword(&mut self, keyword: &str) -> Result<bool, Error> {
        Ok(matches!(self.peek()?.0, Token::Word(word) if word.eq_ignore_ascii_case(keyword)))
    }

    /// Takes the keyword if it is next.
    fn eat(&mut self, keyword: &str) -> Result<bool, Error> {
        let there = self.at_keyword(keyword)?;
        if there {
            self.next()?;
        }
        Ok(there)
    }

    fn expect(&mut self, keyword: &str) -> Result<(), Error> {
        match self.eat(keyword)? {
            true => Ok(()),
            false => Err(self.unexpected(keyword)),
        }
    }

    /// Takes whichever of the keywords is next.
    fn one_of(&mut self, keywords: &[&'static str]) -> Result<&'static str, Error> {
        for keyword in keywords {
            if self.eat(keyword)? {
                return Ok(keyword);
            }
        }
        Err(self.unexpected(&keywords.join(" or ")))
    }

    fn if_not_exists(&mut self) -> Result<bool, Error> {
        if !self.eat("IF")? {
            return Ok(false);
        }
        self.expect("NOT")?;
        self.expect("EXISTS")?;
        Ok(true)
    }

    /// A name: any identifier but the reserved words.
    fn name(&mut self) -> Result<String, Error> {
        match self.peek()?.0 {
            Token::Word(word) if !is_reserved(word) => {
                self.next()?;
                Ok(word.to_owned())
            }
            _ => Err(self.unexpected("a name")),
        }
    }

    /// Items between commas.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T, Error>) -> Result<Vec<T>, Error> {
        let mut items = vec![item(self)?];
        while self.eat_mark(',')? {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Fills a clause that may be given once.
    fn once<T>(&self, slot: &mut Option<T>, clause: &'static str, value: T) -> Result<(), Error> {
        match slot.replace(value) {
            None => Ok(()),
            Some(_) => Err(ErrorKind::ClauseTwice(clause).at(self.last)),
        }
    }
}
