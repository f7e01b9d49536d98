//! Groups that hand out messages until they are acknowledged.

use super::super::ast::{AcknowledgeMessages, DefineGroup, Nack, Statement};
use super::super::error::Error;
use super::Parser;
use super::literal::ANY;

impl Parser<'_> {
    pub(super) fn define_group(&mut self) -> Result<Statement, Error> {
        let (group, topic) = self.group_on_topic()?;
        self.expect("ACK")?;
        self.expect("DEADLINE")?;
        let mut define = DefineGroup {
            group,
            topic,
            ack_deadline: self.duration()?,
            deliveries: None,
            in_flight: None,
            dead_letter: None,
        };
        loop {
            if self.eat("DELIVERIES")? {
                let count = self.small_count(1, u32::MAX)?;
                self.once(&mut define.deliveries, "DELIVERIES", count)?;
            } else if self.eat("IN")? {
                self.expect("FLIGHT")?;
                let count = self.small_count(1, u32::MAX)?;
                self.once(&mut define.in_flight, "IN FLIGHT", count)?;
            } else if self.eat("DEAD")? {
                self.expect("LETTER")?;
                self.expect("TO")?;
                let topic = self.name()?;
                self.once(&mut define.dead_letter, "DEAD LETTER TO", topic)?;
            } else {
                return Ok(Statement::DefineGroup(define));
            }
        }
    }

    pub(super) fn alter_group(&mut self) -> Result<Statement, Error> {
        let (group, topic) = self.group_on_topic()?;
        self.expect("START")?;
        self.expect("AT")?;
        let start = self.count(0, ANY)?;
        Ok(Statement::AlterGroup { group, topic, start })
    }

    pub(super) fn drop_group(&mut self) -> Result<Statement, Error> {
        let (group, topic) = self.group_on_topic()?;
        Ok(Statement::DropGroup { group, topic })
    }

    fn group_on_topic(&mut self) -> Result<(String, String), Error> {
        let group = self.reader()?;
        self.expect("ON")?;
        self.expect("TOPIC")?;
        Ok((group, self.name()?))
    }

    pub(super) fn acknowledge(&mut self, nack: bool) -> Result<Statement, Error> {
        let topic = self.name()?;
        self.expect("FOR")?;
        self.expect("CONSUMER")?;
        let group = self.reader()?;
        self.expect("AT")?;
        let positions = self.list(Self::position)?;
        let nack = match nack {
            true if self.eat("DELAY")? => Some(Nack {
                delay: Some(self.duration()?),
            }),
            true => Some(Nack { delay: None }),
            false => None,
        };
        Ok(Statement::Acknowledge(AcknowledgeMessages {
            topic,
            group,
            positions,
            nack,
        }))
    }
}
