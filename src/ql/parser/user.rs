//! Users and grants.

use super::super::ast::{Credential, DefineUser, Grant, Privilege, Scope, Secret, Statement, UserChange, UserRole};
use super::super::error::{Error, ErrorKind};
use super::super::lexer::Token;
use super::Parser;

impl Parser<'_> {
    pub(super) fn define_user(&mut self) -> Result<Statement, Error> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.name()?;
        let scope = match self.eat("ON")? {
            true => self.scope()?,
            false => Scope::Store,
        };
        self.expect("ROLE")?;
        let role = self.user_role()?;
        let credential = match self.one_of(&["PASSWORD", "PASSHASH"])? {
            "PASSWORD" => Credential::Password(self.password()?),
            _ => Credential::Hash(Secret::new(self.string()?)),
        };
        Ok(Statement::DefineUser(DefineUser {
            if_not_exists,
            name,
            scope,
            role,
            credential,
        }))
    }

    fn scope(&mut self) -> Result<Scope, Error> {
        if self.eat("NAMESPACE")? {
            return Ok(Scope::Namespace(self.name()?));
        }
        self.eat("DATABASE")?;
        let namespace = self.name()?;
        self.expect_mark('.')?;
        let database = self.name()?;
        Ok(Scope::Database { namespace, database })
    }

    fn user_role(&mut self) -> Result<UserRole, Error> {
        let (token, span) = self.peek()?.clone();
        let Token::Word(word) = token else {
            return Err(self.unexpected("viewer, editor or owner"));
        };
        self.next()?;
        Ok(match word.to_ascii_lowercase().as_str() {
            "viewer" => UserRole::Viewer,
            "editor" => UserRole::Editor,
            "owner" => UserRole::Owner,
            _ => return Err(ErrorKind::NoSuchRole(word.to_owned()).at(span)),
        })
    }

    /// A password. What stands in its place is not shown, as it may be one that was not put in quotes.
    fn password(&mut self) -> Result<Secret, Error> {
        let span = self.peek()?.1;
        let password = self.string().map_err(|_| {
            ErrorKind::UnexpectedToken {
                expected: "a password in quotes".to_owned(),
                found: "something else".to_owned(),
            }
            .at(span)
        })?;
        match password.is_empty() {
            true => Err(ErrorKind::PasswordEmpty.at(self.last)),
            false => Ok(Secret::new(password)),
        }
    }

    pub(super) fn alter_user(&mut self) -> Result<Statement, Error> {
        let name = self.name()?;
        self.expect("SET")?;
        let change = match self.one_of(&["ROLE", "PASSWORD"])? {
            "ROLE" => UserChange::Role(self.user_role()?),
            _ => UserChange::Password(self.password()?),
        };
        Ok(Statement::AlterUser { name, change })
    }

    pub(super) fn grant(&mut self) -> Result<Grant, Error> {
        self.grant_or_revoke("TO")
    }

    pub(super) fn revoke(&mut self) -> Result<Grant, Error> {
        self.grant_or_revoke("FROM")
    }

    fn grant_or_revoke(&mut self, link: &str) -> Result<Grant, Error> {
        let mut privileges = Vec::new();
        loop {
            let privilege = match self.one_of(&["READ", "WRITE"])? {
                "READ" => Privilege::Read,
                _ => Privilege::Write,
            };
            if !privileges.contains(&privilege) {
                privileges.push(privilege);
            }
            if !self.eat_mark(',')? {
                break;
            }
        }
        self.expect("ON")?;
        let table = self.name()?;
        self.expect(link)?;
        let user = self.name()?;
        Ok(Grant {
            privileges,
            table,
            user,
        })
    }
}
