//! Messages in and out.

use super::super::ast::{ChangeVerb, Read, Statement};
use super::super::error::{Error, ErrorKind};
use super::super::lexer::Token;
use super::super::value::Value;
use super::Parser;
use super::literal::ANY;

impl Parser<'_> {
    pub(super) fn create(&mut self) -> Result<Statement, Error> {
        let table = self.name()?;
        let id = self.record_id()?;
        self.expect_mark('=')?;
        let value = self.fields()?;
        Ok(Statement::Create { table, id, value })
    }

    fn record_id(&mut self) -> Result<Option<Value>, Error> {
        if !self.eat_mark(':')? {
            return Ok(None);
        }
        match self.value(0)? {
            id @ (Value::String(_) | Value::Int(_) | Value::Uuid(_)) => Ok(Some(id)),
            other => Err(ErrorKind::UnexpectedToken {
                expected: "an id (a string, a whole number or a uuid)".to_owned(),
                found: other.kind().to_owned(),
            }
            .at(self.last)),
        }
    }

    pub(super) fn insert(&mut self) -> Result<Statement, Error> {
        self.expect("INTO")?;
        let table = self.name()?;
        self.expect_mark('(')?;
        let mut fields: Vec<String> = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        loop {
            let field = self.field()?;
            if !seen.insert(field.clone()) {
                return Err(ErrorKind::FieldTwice(field).at(self.last));
            }
            fields.push(field);
            if !self.eat_mark(',')? {
                break;
            }
        }
        self.expect_mark(')')?;
        self.expect("VALUES")?;
        let rows = self.list(|parser| {
            parser.expect_mark('(')?;
            let row = parser.list(|parser| parser.value(0))?;
            if row.len() != fields.len() {
                let message = format!("the row has {} values for {} fields", row.len(), fields.len());
                return Err(ErrorKind::InvalidValue(message).at(parser.last));
            }
            parser.expect_mark(')')?;
            Ok(row)
        })?;
        Ok(Statement::Insert { table, fields, rows })
    }

    pub(super) fn change(&mut self, verb: &str) -> Result<Statement, Error> {
        let verb = match verb.to_ascii_uppercase().as_str() {
            "UPDATE" => ChangeVerb::Update,
            "UPSERT" => ChangeVerb::Upsert,
            _ => ChangeVerb::Delete,
        };
        if verb == ChangeVerb::Delete {
            self.eat("FROM")?;
        }
        let table = self.name()?;
        let id = self.record_id()?;
        let value = match verb {
            ChangeVerb::Delete => None,
            _ => {
                self.expect_mark('=')?;
                Some(self.fields()?)
            }
        };
        Ok(Statement::Change { verb, table, id, value })
    }

    pub(super) fn read(&mut self) -> Result<Statement, Error> {
        self.expect("FROM")?;
        let mut read = Read {
            topic: self.name()?,
            partition: None,
            consumer: None,
            after: None,
            limit: None,
        };
        loop {
            if self.eat("PARTITION")? {
                let partition = self.small_count(0, i32::MAX as u32)?;
                self.once(&mut read.partition, "PARTITION", partition)?;
            } else if self.eat("FOR")? {
                self.expect("CONSUMER")?;
                let consumer = self.reader()?;
                self.once(&mut read.consumer, "FOR CONSUMER", consumer)?;
            } else if self.eat("AFTER")? {
                let after = self.count(0, ANY)?;
                self.once(&mut read.after, "AFTER", after)?;
            } else if self.eat("LIMIT")? {
                let limit = self.count(0, ANY)?;
                self.once(&mut read.limit, "LIMIT", limit)?;
            } else {
                return Ok(Statement::Read(read));
            }
        }
    }

    /// The name of a reader or group, never empty.
    pub(super) fn reader(&mut self) -> Result<String, Error> {
        let name = self.string()?;
        if name.is_empty() {
            return Err(ErrorKind::InvalidValue("a reader's name cannot be empty".to_owned()).at(self.last));
        }
        Ok(name)
    }

    /// Positions, from 1.
    pub(super) fn position(&mut self) -> Result<u64, Error> {
        if let Token::End = self.peek()?.0 {
            return Err(self.unexpected("a position"));
        }
        self.count(1, ANY)
    }
}
