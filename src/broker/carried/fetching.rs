//! The asking side of a fetch: what another member answers, as it comes.

use super::answer::{self, Told};
use crate::broker::fetch::Fetched;
use crate::log::Piece;
use bytes::{Buf, Bytes};
use cluster::forward::Reply;
use futures::StreamExt;

/// The member did not answer, or not to the end. Rejected: reading changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the partitions' leader did not answer: {0}")]
pub struct Lost(pub String);

/// What came of another member.
pub(super) enum Part {
    /// A pass whose stored bytes, this many, follow. Whoever has no room for them drops the answer now.
    Begins(usize),
    /// A pass, whole.
    Pass(Vec<Told<Fetched>>),
    /// So many bytes could be read by now.
    More(usize),
}

/// An answer that comes.
pub(super) struct Incoming {
    reply: Reply,
    count: usize,
    /// A pass whose bytes are still coming, and the partition they are for.
    pass: Option<(Vec<Told<Fetched>>, usize)>,
    /// Came and was not looked at.
    rest: Bytes,
}

impl Incoming {
    /// An answer about `count` partitions.
    pub fn new(reply: Reply, count: usize) -> Self {
        Self {
            reply,
            count,
            pass: None,
            rest: Bytes::new(),
        }
    }

    /// The next part; `None` at the end. Cancel safe.
    pub async fn next(&mut self) -> Result<Option<Part>, Lost> {
        loop {
            if let Some((pass, at)) = &mut self.pass {
                fill(pass, at, &mut self.rest);
                if *at == pass.len() {
                    let whole = self.pass.take().map(|(pass, _)| pass);
                    return Ok(whole.map(Part::Pass));
                }
            }
            if !self.rest.is_empty() && self.pass.is_none() {
                return self.begin().map(Some).map_err(|malformed| Lost(malformed.to_string()));
            }
            match self.reply.next().await {
                Some(Ok(part)) => self.rest = part,
                Some(Err(error)) => return Err(Lost(error.to_string())),
                None if self.pass.is_some() => return Err(Lost("an answer cut short".into())),
                None => return Ok(None),
            }
        }
    }

    fn begin(&mut self) -> Result<Part, crate::broker::encoding::Malformed> {
        let mut input: &[u8] = &self.rest;
        match input.try_get_u8()? {
            answer::PASS => {
                let pass = answer::decode_pass(&mut input, self.count)?;
                let head = self.rest.len() - input.len();
                self.rest.advance(head);
                let bytes = pass.iter().flatten().map(|fetched| fetched.slice.bytes).sum();
                self.pass = Some((pass, 0));
                Ok(Part::Begins(bytes))
            }
            answer::MORE => {
                let bytes = input.try_get_u64()?;
                self.rest = Bytes::new();
                Ok(Part::More(usize::try_from(bytes).unwrap_or(usize::MAX)))
            }
            _ => Err(crate::broker::encoding::Malformed("a part of an unknown kind")),
        }
    }
}

/// Gives bytes that came to the partitions they are for, from the `at`th on.
fn fill(pass: &mut [Told<Fetched>], at: &mut usize, rest: &mut Bytes) {
    while let Some(told) = pass.get_mut(*at) {
        if let Ok(fetched) = told {
            let have: usize = fetched.slice.pieces.iter().map(memory).sum();
            let lacks = fetched.slice.bytes.saturating_sub(have);
            if lacks > 0 {
                if rest.is_empty() {
                    return;
                }
                let piece = rest.split_to(lacks.min(rest.len()));
                let whole = piece.len() == lacks;
                fetched.slice.pieces.push(Piece::Memory(piece));
                if !whole {
                    return;
                }
            }
        }
        *at += 1;
    }
}

fn memory(piece: &Piece) -> usize {
    match piece {
        Piece::Memory(bytes) => bytes.len(),
        Piece::File { len, .. } => *len,
    }
}
