//! Namespaces, databases, topics.

use super::super::ast::*;
use super::super::error::{Error, ErrorKind};
use super::Parser;
use super::literal::ANY;
use cluster::catalog::MAX_PARTITIONS;
use std::time::Duration;

impl Parser<'_> {
    pub(super) fn use_(&mut self) -> Result<Statement, Error> {
        let (mut namespace, mut database) = (None, None);
        if self.one_of(&["NAMESPACE", "DATABASE"])? == "NAMESPACE" {
            namespace = Some(self.name()?);
            if self.eat("DATABASE")? {
                database = Some(self.name()?);
            }
        } else {
            database = Some(self.name()?);
        }
        Ok(Statement::Use { namespace, database })
    }

    pub(super) fn define_namespace(&mut self) -> Result<Statement, Error> {
        let mut define = DefineNamespace {
            if_not_exists: self.if_not_exists()?,
            name: self.name()?,
            replication: None,
            acknowledge: None,
        };
        loop {
            if self.eat("REPLICATION")? {
                let value = self.replication()?;
                self.once(&mut define.replication, "REPLICATION", value)?;
            } else if self.eat("ACKNOWLEDGE")? {
                let value = self.acknowledge_level()?;
                self.once(&mut define.acknowledge, "ACKNOWLEDGE", value)?;
            } else {
                return Ok(Statement::DefineNamespace(define));
            }
        }
    }

    pub(super) fn alter_namespace(&mut self) -> Result<Statement, Error> {
        let name = self.name()?;
        let change = match self.one_of(&["REPLICATION", "ACKNOWLEDGE"])? {
            "REPLICATION" => NamespaceChange::Replication(self.replication()?),
            _ => NamespaceChange::Acknowledge(self.acknowledge_level()?),
        };
        Ok(Statement::AlterNamespace { name, change })
    }

    fn replication(&mut self) -> Result<Replication, Error> {
        Ok(match self.one_of(&["NONE", "FACTOR"])? {
            "NONE" => Replication::None,
            _ => Replication::Factor(self.small_count(1, u32::from(u16::MAX))?),
        })
    }

    fn acknowledge_level(&mut self) -> Result<AcknowledgeLevel, Error> {
        Ok(match self.one_of(&["LEADER", "MAJORITY"])? {
            "LEADER" => AcknowledgeLevel::Leader,
            _ => AcknowledgeLevel::Majority,
        })
    }

    pub(super) fn define_database(&mut self) -> Result<Statement, Error> {
        Ok(Statement::DefineDatabase {
            if_not_exists: self.if_not_exists()?,
            name: self.name()?,
        })
    }

    pub(super) fn define_topic(&mut self) -> Result<Statement, Error> {
        let mut define = DefineTopic {
            if_not_exists: self.if_not_exists()?,
            name: self.name()?,
            partitions: None,
            retain: None,
            retain_bytes: None,
            max_bytes: None,
        };
        loop {
            if self.eat("PARTITIONS")? {
                let count = self.small_count(1, MAX_PARTITIONS)?;
                self.expect("BY")?;
                let by = self.field()?;
                self.once(&mut define.partitions, "PARTITIONS", Partitions { count, by })?;
            } else if self.eat("RETAIN")? {
                if self.eat("BYTES")? {
                    let bytes = self.count(1, ANY)?;
                    self.once(&mut define.retain_bytes, "RETAIN BYTES", bytes)?;
                } else {
                    let time = self.retention()?;
                    self.once(&mut define.retain, "RETAIN", time)?;
                }
            } else if self.eat("MAX")? {
                self.expect("BYTES")?;
                let bytes = self.small_count(1, i32::MAX as u32)?;
                self.once(&mut define.max_bytes, "MAX BYTES", bytes)?;
            } else {
                return Ok(Statement::DefineTopic(define));
            }
        }
    }

    pub(super) fn alter_topic(&mut self) -> Result<Statement, Error> {
        let name = self.name()?;
        let change = match self.one_of(&["PARTITIONS", "RETAIN", "MAX"])? {
            "PARTITIONS" => TopicChange::Partitions(self.small_count(1, MAX_PARTITIONS)?),
            "RETAIN" if self.eat("BYTES")? => TopicChange::RetainBytes(self.count(1, ANY)?),
            "RETAIN" if self.eat("NONE")? => TopicChange::Retain(None),
            "RETAIN" => TopicChange::Retain(Some(self.retention()?)),
            _ => {
                self.expect("BYTES")?;
                TopicChange::MaxBytes(self.small_count(1, i32::MAX as u32)?)
            }
        };
        Ok(Statement::AlterTopic { name, change })
    }

    /// A duration of at least a millisecond, the unit times of messages are kept in.
    fn retention(&mut self) -> Result<Duration, Error> {
        let time = self.duration()?;
        if time < Duration::from_millis(1) {
            return Err(ErrorKind::InvalidValue("RETAIN takes 1ms at least".to_owned()).at(self.last));
        }
        Ok(time)
    }
}
