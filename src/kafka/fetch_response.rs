//! The Fetch answer, versions 4 to 17, written by hand: headers into one buffer, stored bytes by reference between them.

use super::endpoints::Endpoint;
use super::fetch_sessions::TopicKey;
use super::reply::{Refusal, begin};
use super::table::Api;
use crate::log::Piece;
use bytes::{BufMut, BytesMut};
use kafka_protocol::ResponseError;

/// One partition's part of the answer.
#[derive(Clone, Default)]
pub(crate) struct PartitionAnswer {
    /// Index into the topics.
    pub topic: usize,
    pub partition: i32,
    pub error: Option<ResponseError>,
    /// -1 with an error.
    pub high_watermark: i64,
    /// Without transactions the high watermark.
    pub last_stable_offset: i64,
    pub log_start: i64,
    /// KIP-595: (epoch, its end) where the client's log went another way.
    pub diverging: Option<(i32, i64)>,
    /// KIP-951: (broker, epoch) of the leader, with error 6 or 74.
    pub leader: Option<(i32, i32)>,
    pub pieces: Vec<Piece>,
    /// Bytes in all pieces.
    pub bytes: usize,
}

/// What the answer says besides partitions.
pub(crate) struct FetchHead<'a> {
    pub api: &'a Api,
    pub version: i16,
    pub correlation: i32,
    /// `read_committed` wants a list of aborted transactions, `read_uncommitted` none.
    pub committed: bool,
    pub error: Option<ResponseError>,
    pub session: i32,
    /// Brokers named as leaders.
    pub endpoints: &'a [Endpoint],
}

/// Writes the answer; partitions of one topic that follow each other share its header.
pub(crate) fn write(
    head: &FetchHead<'_>,
    topics: &[TopicKey],
    partitions: Vec<PartitionAnswer>,
) -> Result<Vec<Piece>, Refusal> {
    let mut out = Out {
        buffer: begin(head.api, head.version, head.correlation, 64 + 64 * partitions.len()),
        version: head.version,
        flexible: head.api.is_flexible(head.version),
        cuts: Vec::new(),
        stored: 0,
    };
    out.buffer.put_i32(0); // throttle_time_ms
    if head.version >= 7 {
        out.buffer.put_i16(code(head.error));
        out.buffer.put_i32(head.session);
    }
    let mut partitions = partitions;
    let runs = partitions.chunk_by(|a, b| a.topic == b.topic).count();
    out.array(runs);
    let mut rest = &mut partitions[..];
    while let Some(first) = rest.first() {
        let topic = first.topic;
        let len = rest.iter().take_while(|p| p.topic == topic).count();
        let (run, after) = rest.split_at_mut(len);
        rest = after;
        out.topic(&topics[topic], run, head.committed);
    }
    if out.flexible {
        out.endpoints(head.endpoints);
    }
    out.finish()
}

struct Out {
    buffer: BytesMut,
    version: i16,
    flexible: bool,
    /// Where stored bytes go between the headers.
    cuts: Vec<(usize, Vec<Piece>)>,
    stored: usize,
}

impl Out {
    fn topic(&mut self, key: &TopicKey, partitions: &mut [PartitionAnswer], committed: bool) {
        if self.version >= 13 {
            self.buffer.put_slice(key.id.as_bytes());
        } else {
            self.text(&key.name);
        }
        self.array(partitions.len());
        for partition in partitions {
            self.partition(partition, committed);
        }
        self.no_tags();
    }

    fn partition(&mut self, p: &mut PartitionAnswer, committed: bool) {
        let out = &mut self.buffer;
        out.put_i32(p.partition);
        out.put_i16(code(p.error));
        out.put_i64(p.high_watermark);
        out.put_i64(p.last_stable_offset);
        if self.version >= 5 {
            out.put_i64(p.log_start);
        }
        // A partition that is not there has an empty list, whatever was asked, as in Kafka.
        let absent = matches!(
            p.error,
            Some(
                ResponseError::UnknownTopicOrPartition
                    | ResponseError::InvalidTopicException
                    | ResponseError::UnknownTopicId
            )
        );
        match (committed || absent, self.flexible) {
            (true, _) => self.array(0),
            (false, true) => out.put_u8(0),
            (false, false) => out.put_i32(-1),
        }
        if self.version >= 11 {
            self.buffer.put_i32(-1); // preferred_read_replica
        }
        self.array(p.bytes);
        if !p.pieces.is_empty() {
            self.stored += p.bytes;
            self.cuts.push((self.buffer.len(), std::mem::take(&mut p.pieces)));
        }
        if self.flexible {
            let tags = usize::from(p.diverging.is_some()) + usize::from(p.leader.is_some());
            self.varint(tags);
            if let Some((epoch, end)) = p.diverging {
                self.buffer.put_slice(&[0, 13]);
                self.buffer.put_i32(epoch);
                self.buffer.put_i64(end);
                self.no_tags();
            }
            if let Some((broker, epoch)) = p.leader {
                self.buffer.put_slice(&[1, 9]);
                self.buffer.put_i32(broker);
                self.buffer.put_i32(epoch);
                self.no_tags();
            }
        }
    }

    /// The tagged field `node_endpoints` (0), from version 16 where a leader is named.
    fn endpoints(&mut self, endpoints: &[Endpoint]) {
        if self.version < 16 || endpoints.is_empty() {
            return self.no_tags();
        }
        let outer = std::mem::take(&mut self.buffer);
        self.array(endpoints.len());
        for endpoint in endpoints {
            self.buffer.put_i32(endpoint.broker);
            self.text(&endpoint.host);
            self.buffer.put_i32(i32::from(endpoint.port));
            self.buffer.put_u8(0); // rack
            self.no_tags();
        }
        let content = std::mem::replace(&mut self.buffer, outer);
        self.buffer.put_slice(&[1, 0]);
        self.varint(content.len());
        self.buffer.put_slice(&content);
    }

    /// A count or a length of 32 bits, or compact.
    fn array(&mut self, len: usize) {
        match self.flexible {
            true => self.varint(len + 1),
            false => self.buffer.put_i32(len as i32),
        }
    }

    fn text(&mut self, text: &str) {
        match self.flexible {
            true => self.varint(text.len() + 1),
            false => self.buffer.put_i16(text.len() as i16),
        }
        self.buffer.put_slice(text.as_bytes());
    }

    fn no_tags(&mut self) {
        if self.flexible {
            self.buffer.put_u8(0);
        }
    }

    fn varint(&mut self, mut n: usize) {
        while n >= 0x80 {
            self.buffer.put_u8(n as u8 | 0x80);
            n >>= 7;
        }
        self.buffer.put_u8(n as u8);
    }

    fn finish(mut self) -> Result<Vec<Piece>, Refusal> {
        super::reply::finish(&mut self.buffer, self.stored)?;
        let buffer = self.buffer.freeze();
        let mut out = Vec::with_capacity(2 * self.cuts.len() + 1);
        let mut from = 0;
        for (at, pieces) in self.cuts {
            out.push(Piece::Memory(buffer.slice(from..at)));
            out.extend(pieces);
            from = at;
        }
        if from < buffer.len() {
            out.push(Piece::Memory(buffer.slice(from..)));
        }
        Ok(out)
    }
}

fn code(error: Option<ResponseError>) -> i16 {
    error.map_or(0, |e| e.code())
}

#[cfg(test)]
#[path = "fetch_response_test.rs"]
mod tests;
