//! From a command to who answers it.

use super::call::{Call, Peer, Session, Shared};
use super::decode::Command;
use super::errors::Refusal;
use super::keys::shown;
use super::metrics::UNKNOWN;
use super::reply::Reply;
use super::table::{Does, Row, find};
use super::write::{Begun, xadd};
use super::xread::{Asked, xread};
use super::{read, session};
use crate::auth;
use crate::connections::Room;
use std::sync::Arc;

/// Whether a command may take long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lasts {
    No,
    /// It has much to do.
    ByItself,
    /// It waits for what somebody else does.
    ForOthers,
}

/// A command that is known, or not.
pub(crate) struct Known {
    /// Its number in the table, or the place of those that are not in it.
    pub number: usize,
    row: Option<&'static Row>,
}

impl Known {
    /// Looks a command up.
    pub(crate) fn of(command: &Command) -> Self {
        match find(command.name()) {
            Some((number, row)) => Self { number, row: Some(row) },
            None => Self {
                number: UNKNOWN,
                row: None,
            },
        }
    }

    /// Whether the next command may begin before this one is answered.
    pub(crate) fn is_append(&self) -> bool {
        self.row.is_some_and(|row| row.does == Does::Xadd)
    }

    /// Whether it may take long.
    pub(crate) fn lasts(&self, command: &Command) -> Lasts {
        match self.row.filter(|row| row.does == Does::Xread) {
            None => Lasts::No,
            Some(_) if Asked::parse(command).is_ok_and(|asked| asked.blocks()) => Lasts::ForOthers,
            Some(_) => Lasts::ByItself,
        }
    }

    /// The row, if the command may be sent now, and is long enough.
    fn admit(&self, shared: &Shared, peer: &Peer, command: &Command) -> Result<&'static Row, Refusal> {
        // Before anything else is told.
        if !self.row.is_some_and(|row| row.does.is_for_strangers()) {
            auth::standing(&shared.view(), &peer.who())?;
        }
        let Some(row) = self.row else {
            let name = shown(command.name());
            return Err(Refusal::wrong(format!("unknown command '{name}'")));
        };
        match (row.least..=row.most).contains(&command.len()) {
            true => Ok(row),
            false => Err(Refusal::wrong(format!(
                "wrong number of arguments for '{}' command",
                row.name
            ))),
        }
    }
}

/// Begins an append.
pub(crate) async fn begin(shared: &Arc<Shared>, peer: &Arc<Peer>, known: &Known, command: &Command) -> Begun {
    let begun = async {
        let row = known.admit(shared, peer, command)?;
        let call = Call {
            shared,
            peer,
            name: row.name,
            number: known.number,
        };
        xadd(&call, command).await
    };
    begun.await.unwrap_or_else(|refusal| Begun::Done(refusal.into()))
}

/// Answers any other command. What the answer holds of memory is added to `room`.
pub(crate) async fn execute(
    shared: &Arc<Shared>,
    peer: &Arc<Peer>,
    session: &mut Session,
    known: &Known,
    command: &Command,
    room: &mut Room,
) -> Reply {
    let answered = async {
        let row = known.admit(shared, peer, command)?;
        let call = Call {
            shared,
            peer,
            name: row.name,
            number: known.number,
        };
        answer(&call, session, row.does, command, room).await
    };
    answered.await.unwrap_or_else(Reply::Refused)
}

async fn answer(
    call: &Call<'_>,
    session: &mut Session,
    does: Does,
    command: &Command,
    room: &mut Room,
) -> Result<Reply, Refusal> {
    match does {
        Does::Auth => session::sign_in(call, command).await,
        Does::Hello => session::hello(call, session, command).await,
        Does::Reset => Ok(session::reset(call, session)),
        Does::Quit => {
            session.quits = true;
            Ok(Reply::Simple("OK"))
        }
        Does::Ping => Ok(session::ping(command)),
        Does::Echo => Ok(Reply::Bulk(command.get(1).unwrap_or_default().to_vec().into())),
        Does::Select => session::select(command),
        Does::Client => session::client(call, session, command),
        Does::Command => session::command(command),
        Does::Info => Ok(session::info(call, command)),
        Does::Exists => read::exists(call, command),
        Does::Type => read::kind(call, command),
        Does::Xlen => read::xlen(call, command).await,
        Does::Xrange | Does::Xrevrange => read::xrange(call, command, room).await,
        Does::Xinfo => read::xinfo(call, command, room).await,
        Does::Xread => xread(call, &Asked::parse(command)?, session.protocol, room).await,
        Does::Xtrim => super::write::xtrim(call, command).await,
        // Appends are begun, not answered: see `begin`.
        Does::Xadd => Err(Refusal::wrong("an append went the wrong way")),
        Does::Refused(why) => Err(Refusal::wrong(format!("{} is not done here: {why}", call.name))),
    }
}
