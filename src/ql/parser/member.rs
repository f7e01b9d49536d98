//! The cluster's members.

use super::super::ast::{DefineReplica, MemberRole, ReplicaChange, Statement};
use super::super::error::{Error, ErrorKind};
use super::super::lexer::Token;
use super::Parser;

impl Parser<'_> {
    pub(super) fn define_replica(&mut self) -> Result<Statement, Error> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.name()?;
        let (mut at, mut clients_at, mut http_at, mut kafka_at) = (None, None, None, None);
        let (mut node, mut roles) = (None, None);
        loop {
            if self.eat("AT")? {
                let address = self.string()?;
                self.once(&mut at, "AT", address)?;
            } else if self.eat("CLIENTS")? {
                let address = self.at_address()?;
                self.once(&mut clients_at, "CLIENTS AT", address)?;
            } else if self.eat("HTTP")? {
                let address = self.at_address()?;
                self.once(&mut http_at, "HTTP AT", address)?;
            } else if self.eat("KAFKA")? {
                let address = self.at_address()?;
                self.once(&mut kafka_at, "KAFKA AT", address)?;
            } else if self.eat("NODE")? {
                let id = self.node_id()?;
                self.once(&mut node, "NODE", id)?;
            } else if self.eat("ROLES")? {
                let given = self.roles()?;
                self.once(&mut roles, "ROLES", given)?;
            } else if let Some(at) = at {
                return Ok(Statement::DefineReplica(DefineReplica {
                    if_not_exists,
                    name,
                    at,
                    clients_at,
                    http_at,
                    kafka_at,
                    node,
                    roles,
                }));
            } else {
                return Err(self.unexpected("AT and the member's address"));
            }
        }
    }

    fn at_address(&mut self) -> Result<String, Error> {
        self.expect("AT")?;
        self.string()
    }

    fn node_id(&mut self) -> Result<String, Error> {
        let id = self.string()?;
        if id.len() != 32 || !id.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(ErrorKind::InvalidValue("a node id is 32 hex digits".to_owned()).at(self.last));
        }
        Ok(id.to_ascii_lowercase())
    }

    /// Roles in the order they are declared in, each once.
    fn roles(&mut self) -> Result<Vec<MemberRole>, Error> {
        let mut roles = self.list(|parser| {
            let role = match parser.peek()?.0 {
                Token::Word(word) => match word.to_ascii_lowercase().as_str() {
                    "serving" => MemberRole::Serving,
                    "writable" => MemberRole::Writable,
                    "coordinating" => MemberRole::Coordinating,
                    _ => {
                        let span = parser.peek()?.1;
                        return Err(ErrorKind::NoSuchRole(word.to_owned()).at(span));
                    }
                },
                _ => return Err(parser.unexpected("serving, writable or coordinating")),
            };
            parser.next()?;
            Ok(role)
        })?;
        roles.sort_unstable();
        roles.dedup();
        Ok(roles)
    }

    pub(super) fn alter_replica(&mut self) -> Result<Statement, Error> {
        let name = self.name()?;
        let change = match self.one_of(&["AT", "CLIENTS", "HTTP", "KAFKA", "ROLES", "LEADS"])? {
            "AT" => ReplicaChange::At(self.string()?),
            "CLIENTS" => ReplicaChange::ClientsAt(self.address_or_none()?),
            "HTTP" => ReplicaChange::HttpAt(self.address_or_none()?),
            "KAFKA" => ReplicaChange::KafkaAt(self.address_or_none()?),
            "ROLES" => ReplicaChange::Roles(self.roles()?),
            _ if self.eat("NONE")? => ReplicaChange::Leads(None),
            _ => ReplicaChange::Leads(Some(self.small_count(0, u32::MAX)?)),
        };
        Ok(Statement::AlterReplica { name, change })
    }

    fn address_or_none(&mut self) -> Result<Option<String>, Error> {
        match self.eat("NONE")? {
            true => Ok(None),
            false => self.at_address().map(Some),
        }
    }

    pub(super) fn define_node_roles(&mut self) -> Result<Statement, Error> {
        self.expect("ROLES")?;
        let roles = match self.eat("NONE")? {
            true => Vec::new(),
            false => self.roles()?,
        };
        Ok(Statement::DefineNodeRoles(roles))
    }
}
