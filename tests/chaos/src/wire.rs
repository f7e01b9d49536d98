//! A Kafka client of raw requests: it asks the member it is told to, whoever leads.

use anyhow::{Context, bail, ensure};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
use kafka_protocol::messages::{
    ApiKey, BrokerId, FetchRequest, FetchResponse, GroupId, ListOffsetsRequest, ListOffsetsResponse, MetadataRequest,
    MetadataResponse, OffsetFetchRequest, OffsetFetchResponse, RequestHeader, ResponseHeader, TopicName,
};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use kafka_protocol::records::RecordBatchDecoder;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// No answer is longer.
const LONGEST: usize = 16 << 20;

/// One connection, made when it is needed.
pub struct Wire {
    to: SocketAddr,
    patience: Duration,
    stream: Option<TcpStream>,
    next: i32,
}

/// Who leads a partition, as a member tells it.
#[derive(Clone, Copy, Debug)]
pub struct Led {
    /// The partition.
    pub partition: i32,
    /// The leader's epoch.
    pub epoch: i32,
    /// Its broker id.
    pub leader: i32,
}

fn name(topic: &str) -> TopicName {
    TopicName(StrBytes::from_string(topic.to_owned()))
}

impl Wire {
    /// To a member, each of whose answers must come within `patience`.
    pub fn new(to: SocketAddr, patience: Duration) -> Self {
        Self {
            to,
            patience,
            stream: None,
            next: 0,
        }
    }

    fn call<Q: Encodable, R: Decodable>(&mut self, key: ApiKey, version: i16, request: &Q) -> anyhow::Result<R> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect_timeout(&self.to, self.patience)?;
                stream.set_read_timeout(Some(self.patience))?;
                stream.set_write_timeout(Some(self.patience))?;
                stream.set_nodelay(true)?;
                stream
            }
        };
        self.next += 1;
        let mut out = BytesMut::new();
        out.put_i32(0);
        RequestHeader::default()
            .with_request_api_key(key as i16)
            .with_request_api_version(version)
            .with_correlation_id(self.next)
            .with_client_id(Some(StrBytes::from_static_str("chaos")))
            .encode(&mut out, key.request_header_version(version))?;
        request.encode(&mut out, version)?;
        let length = (out.len() - 4) as i32;
        out[..4].copy_from_slice(&length.to_be_bytes());
        stream.write_all(&out)?;
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length) as usize;
        ensure!(length <= LONGEST, "an answer of {length} bytes");
        let mut content = vec![0; length];
        stream.read_exact(&mut content)?;
        let mut content = Bytes::from(content);
        ensure!(
            content.len() >= 4 && content.clone().get_i32() == self.next,
            "an answer to something else"
        );
        ResponseHeader::decode(&mut content, key.response_header_version(version))?;
        let answer = R::decode(&mut content, version)?;
        // Only a connection in a known state is used again.
        self.stream = Some(stream);
        Ok(answer)
    }

    /// Who leads the partitions of a topic, where the member knows.
    ///
    /// # Errors
    /// No answer, or a refusal.
    pub fn leaders(&mut self, topic: &str) -> anyhow::Result<Vec<Led>> {
        let asked = MetadataRequestTopic::default().with_name(Some(name(topic)));
        let request = MetadataRequest::default().with_topics(Some(vec![asked]));
        let answer: MetadataResponse = self.call(ApiKey::Metadata, 9, &request)?;
        let topic = answer.topics.into_iter().next().context("no topic")?;
        ensure!(topic.error_code == 0, "error {}", topic.error_code);
        let known = topic.partitions.iter().filter(|p| p.error_code == 0);
        let led = known.map(|p| Led {
            partition: p.partition_index,
            epoch: p.leader_epoch,
            leader: p.leader_id.0,
        });
        Ok(led.collect())
    }

    /// Where a group is in each partition of a topic; -1: nowhere.
    ///
    /// # Errors
    /// No answer, or a refusal.
    pub fn positions(&mut self, group: &str, topic: &str, partitions: i32) -> anyhow::Result<Vec<(i32, i64)>> {
        let asked = OffsetFetchRequestTopic::default()
            .with_name(name(topic))
            .with_partition_indexes((0..partitions).collect());
        let request = OffsetFetchRequest::default()
            .with_group_id(GroupId(StrBytes::from_string(group.to_owned())))
            .with_topics(Some(vec![asked]));
        let answer: OffsetFetchResponse = self.call(ApiKey::OffsetFetch, 5, &request)?;
        ensure!(answer.error_code == 0, "error {}", answer.error_code);
        let topic = answer.topics.into_iter().next().context("no topic")?;
        let known = topic.partitions.iter().filter(|p| p.error_code == 0);
        Ok(known.map(|p| (p.partition_index, p.committed_offset)).collect())
    }

    /// Where a partition ends.
    ///
    /// # Errors
    /// No answer, or a refusal.
    pub fn end(&mut self, topic: &str, partition: i32) -> anyhow::Result<i64> {
        let partition = ListOffsetsPartition::default()
            .with_partition_index(partition)
            .with_timestamp(-1);
        let topic = ListOffsetsTopic::default()
            .with_name(name(topic))
            .with_partitions(vec![partition]);
        let request = ListOffsetsRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_topics(vec![topic]);
        let answer: ListOffsetsResponse = self.call(ApiKey::ListOffsets, 6, &request)?;
        let topic = answer.topics.first().context("no topic")?;
        let partition = topic.partitions.first().context("no partition")?;
        ensure!(partition.error_code == 0, "error {}", partition.error_code);
        Ok(partition.offset)
    }

    /// The values of records from an offset on, at most some hundred KiB; none at the end.
    ///
    /// # Errors
    /// No answer, a refusal, or batches that are not whole.
    pub fn fetch(&mut self, topic: &str, partition: i32, offset: i64) -> anyhow::Result<Vec<(i64, Bytes)>> {
        let partition = FetchPartition::default()
            .with_partition(partition)
            .with_fetch_offset(offset)
            .with_partition_max_bytes(256 << 10);
        let topic = FetchTopic::default()
            .with_topic(name(topic))
            .with_partitions(vec![partition]);
        let request = FetchRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_max_wait_ms(0)
            .with_min_bytes(0)
            .with_max_bytes(1 << 20)
            .with_session_epoch(-1)
            .with_topics(vec![topic]);
        let answer: FetchResponse = self.call(ApiKey::Fetch, 11, &request)?;
        let topic = answer.responses.into_iter().next().context("no topic")?;
        let partition = topic.partitions.into_iter().next().context("no partition")?;
        if partition.error_code != 0 {
            bail!("error {}", partition.error_code);
        }
        let mut batches = partition.records.unwrap_or_default();
        let records = RecordBatchDecoder::decode_all(&mut batches)?;
        let records = records.into_iter().flat_map(|set| set.records);
        // The first batch may begin before.
        let asked = records.filter(|record| record.offset >= offset);
        Ok(asked.map(|r| (r.offset, r.value.unwrap_or_default())).collect())
    }
}
