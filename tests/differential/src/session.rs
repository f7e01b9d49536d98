//! One scenario's run against one server: its connections, its steps, and what was answered.

use crate::answer;
use crate::normal::{DAY, Normaliser, Projection};
use crate::wire::{Received, Wire};
use anyhow::{Context, Result, bail, ensure};
use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{CreateTopicsRequest, ListOffsetsRequest, MetadataRequest, RequestHeader, TopicName};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt::Debug;
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use uuid::Uuid;

/// The connection a step uses unless it names another.
pub const MAIN: &str = "main";
/// How long an answer may take before it counts as none.
const WAIT: Duration = Duration::from_secs(20);

/// One request and its normalised answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    /// The step's name, unique in its scenario.
    pub step: String,
    /// API key of the request; -1 where the frame is no request.
    pub api: i16,
    /// Version of the request.
    pub version: i16,
    /// `{"body": ..}`, `"closed"`, `"silent"` or `"undecodable"`.
    pub answer: Value,
}

/// A request sent whose answer is still to be read.
struct Pending {
    step: String,
    api: i16,
    version: i16,
    correlation: i32,
}

struct Line {
    wire: Wire,
    pending: VecDeque<Pending>,
}

/// One scenario's run against one server.
pub struct Session {
    address: SocketAddr,
    scenario: &'static str,
    lines: HashMap<String, Line>,
    steps: HashSet<String>,
    exchanges: Vec<Exchange>,
    normaliser: Normaliser,
    projection: Projection,
    wait: Duration,
    correlation: i32,
    base_time: i64,
}

impl Session {
    /// Starts `scenario` against the broker at `address`.
    pub fn new(address: SocketAddr, scenario: &'static str) -> Result<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as i64;
        let base_time = now - DAY;
        Ok(Session {
            address,
            scenario,
            lines: HashMap::new(),
            steps: HashSet::new(),
            exchanges: Vec::new(),
            normaliser: Normaliser::new(base_time, address.port(), scenario),
            projection: Projection::default(),
            wait: WAIT,
            correlation: 0,
            base_time,
        })
    }

    /// What was exchanged.
    pub fn finish(self) -> Vec<Exchange> {
        self.exchanges
    }

    /// A time a day ago, ms since 1970, fixed for the run: records stamped near it print as `T+n`.
    pub fn time(&self) -> i64 {
        self.base_time
    }

    /// The full name of the scenario's topic `suffix`.
    pub fn name(&self, suffix: &str) -> TopicName {
        TopicName(StrBytes::from_string(format!("d.d.{}_{suffix}", self.scenario)))
    }

    /// The name of the scenario's group `suffix`.
    pub fn group(&self, suffix: &str) -> StrBytes {
        StrBytes::from_string(format!("{}_{suffix}", self.scenario))
    }

    /// Looks at the answers of the following steps through `projection`.
    pub fn look(&mut self, projection: Projection) {
        self.projection = projection;
    }

    /// Takes an answer to the following steps for absent after `wait`.
    pub fn patience(&mut self, wait: Duration) {
        self.wait = wait;
    }

    /// Sends `request` on the main connection and reads its answer. Where none came, the answer's default.
    pub fn call<R>(&mut self, step: impl Into<String>, version: i16, request: &R) -> Result<R::Response>
    where
        R: Request,
        R::Response: Debug + Default,
    {
        self.call_on(MAIN, step, version, request)
    }

    /// [`Session::call`] on the connection named `line`.
    pub fn call_on<R>(&mut self, line: &str, step: impl Into<String>, version: i16, request: &R) -> Result<R::Response>
    where
        R: Request,
        R::Response: Debug + Default,
    {
        self.send_on(line, step, version, request)?;
        self.receive_on::<R>(line)
    }

    /// Sends `request` on `line` and leaves its answer to [`Session::receive_on`].
    pub fn send_on<R: Request>(
        &mut self,
        line: &str,
        step: impl Into<String>,
        version: i16,
        request: &R,
    ) -> Result<()> {
        let mut body = BytesMut::new();
        request.encode(&mut body, version)?;
        self.send_body_on::<R>(line, step, version, &body)
    }

    /// Sends `body`, whatever it is, under an honest header of `R` on `line`.
    pub fn send_body_on<R: Request>(
        &mut self,
        line: &str,
        step: impl Into<String>,
        version: i16,
        body: &[u8],
    ) -> Result<()> {
        self.correlation += 1;
        let frame = frame::<R>(version, self.correlation, body)?;
        let mut bytes = (frame.len() as u32).to_be_bytes().to_vec();
        bytes.extend(frame);
        self.push(line, step.into(), R::KEY, version, &bytes)
    }

    /// Sends `body`, whatever it is, under an honest header of `R` on the main connection; reads the answer.
    pub fn call_body<R>(&mut self, step: impl Into<String>, version: i16, body: &[u8]) -> Result<R::Response>
    where
        R: Request,
        R::Response: Debug + Default,
    {
        self.send_body_on::<R>(MAIN, step, version, body)?;
        self.receive_on::<R>(MAIN)
    }

    /// Sends a frame whose header is the caller's own (its correlation id is `correlation`); the answer is decoded as one to
    /// `R` of `answer_version`.
    pub fn call_frame<R>(
        &mut self,
        step: impl Into<String>,
        frame: &[u8],
        correlation: i32,
        answer_version: i16,
    ) -> Result<R::Response>
    where
        R: Request,
        R::Response: Debug + Default,
    {
        let mut bytes = (frame.len() as u32).to_be_bytes().to_vec();
        bytes.extend(frame);
        self.call_framed::<R>(step, &bytes, correlation, answer_version)
    }

    /// [`Session::call_frame`] of bytes that hold their lengths themselves, of one frame or several, one of them answered.
    pub fn call_framed<R>(
        &mut self,
        step: impl Into<String>,
        bytes: &[u8],
        correlation: i32,
        answer_version: i16,
    ) -> Result<R::Response>
    where
        R: Request,
        R::Response: Debug + Default,
    {
        let before = std::mem::replace(&mut self.correlation, correlation);
        self.push(MAIN, step.into(), R::KEY, answer_version, bytes)?;
        self.correlation = before;
        self.receive_on::<R>(MAIN)
    }

    /// Sends `bytes` without any framing on a connection of their own, and says what became of it: closed, silent, or
    /// a frame that nobody asked for.
    pub fn raw(&mut self, step: impl Into<String>, bytes: &[u8]) -> Result<()> {
        let step = self.unique(step.into())?;
        let mut wire = Wire::connect(self.address)?;
        wire.send_raw(bytes);
        let answer = match wire.receive(self.wait)? {
            Received::Frame(_) => "undecodable",
            Received::Closed => "closed",
            Received::Silent => "silent",
        };
        self.exchanges.push(Exchange {
            step,
            api: -1,
            version: -1,
            answer: answer.into(),
        });
        Ok(())
    }

    fn push(&mut self, line: &str, step: String, api: i16, version: i16, bytes: &[u8]) -> Result<()> {
        let step = self.unique(step)?;
        if !self.lines.contains_key(line) {
            let opened = Line {
                wire: Wire::connect(self.address)?,
                pending: VecDeque::new(),
            };
            self.lines.insert(line.to_owned(), opened);
        }
        let opened = self.lines.get_mut(line).context("just opened")?;
        opened.wire.send_raw(bytes);
        opened.pending.push_back(Pending {
            step,
            api,
            version,
            correlation: self.correlation,
        });
        Ok(())
    }

    fn unique(&mut self, step: String) -> Result<String> {
        ensure!(
            self.steps.insert(step.clone()),
            "step {step} twice in {}",
            self.scenario
        );
        Ok(step)
    }

    /// Reads the answer to the oldest request not yet answered on `line`.
    pub fn receive_on<R>(&mut self, line: &str) -> Result<R::Response>
    where
        R: Request,
        R::Response: Debug + Default,
    {
        let opened = self.lines.get_mut(line).context("no such connection")?;
        let pending = opened.pending.pop_front().context("nothing was asked")?;
        let (answer, response) = match opened.wire.receive(self.wait)? {
            Received::Frame(frame) => match decode::<R>(&frame, &pending) {
                Ok(response) => {
                    let body = self.normaliser.apply(answer::tree(&response)?, &self.projection);
                    (serde_json::json!({ "body": body }), Some(response))
                }
                Err(error) => (format!("undecodable: {error}").into(), None),
            },
            Received::Closed => ("closed".into(), None),
            Received::Silent => ("silent".into(), None),
        };
        let Pending { step, api, version, .. } = pending;
        if response.is_none() {
            // What else was asked on this connection has the same fate.
            let line = self.lines.remove(line).context("just read")?;
            self.exchanges.push(Exchange {
                step,
                api,
                version,
                answer: answer.clone(),
            });
            for Pending { step, api, version, .. } in line.pending {
                self.exchanges.push(Exchange {
                    step,
                    api,
                    version,
                    answer: answer.clone(),
                });
            }
        } else {
            self.exchanges.push(Exchange {
                step,
                api,
                version,
                answer,
            });
        }
        Ok(response.unwrap_or_default())
    }

    /// How many answers are still to be read on `line`; 0 when it was closed.
    pub fn pending(&self, line: &str) -> usize {
        self.lines.get(line).map_or(0, |line| line.pending.len())
    }

    /// Closes `line` without a word.
    pub fn hang_up(&mut self, line: &str) {
        self.lines.remove(line);
    }

    /// Sends `request` on a connection of its own; the answer is not recorded.
    pub fn quiet<R: Request>(&mut self, version: i16, request: &R) -> Result<R::Response> {
        quiet(self.address, version, request)
    }

    /// Creates the scenario's topic `suffix` with `configs` and waits until it can be used. Not recorded.
    pub fn topic_with(&mut self, suffix: &str, partitions: i32, configs: &[(&str, &str)]) -> Result<TopicName> {
        let name = self.name(suffix);
        let answer = self.quiet(5, &creation(&name, partitions, configs))?;
        let code = answer.topics.first().map(|topic| topic.error_code);
        ensure!(code == Some(0), "creating {name:?} answered {code:?}: {answer:?}");
        self.settle(&name, partitions)?;
        Ok(name)
    }

    /// Creates the topic as a recorded step; `None` where it is refused.
    pub fn topic_or_refusal(
        &mut self,
        suffix: &str,
        partitions: i32,
        configs: &[(&str, &str)],
    ) -> Result<Option<TopicName>> {
        let name = self.name(suffix);
        self.look(Projection::hide(&["configs"]));
        let answer = self.call(format!("create {suffix}"), 5, &creation(&name, partitions, configs))?;
        self.look(Projection::default());
        if answer.topics.iter().any(|topic| topic.error_code != 0) {
            return Ok(None);
        }
        self.settle(&name, partitions)?;
        Ok(Some(name))
    }

    /// [`Session::topic_with`] without configs.
    pub fn topic(&mut self, suffix: &str, partitions: i32) -> Result<TopicName> {
        self.topic_with(suffix, partitions, &[])
    }

    /// Waits until `topic` has `partitions` partitions, each with a leader that answers; 0: until there is none such.
    pub fn settle(&mut self, topic: &TopicName, partitions: i32) -> Result<()> {
        self.until(&format!("{topic:?} has {partitions} partitions"), |session| {
            let found = session.describe(topic)?;
            if partitions == 0 {
                return Ok(found.is_none());
            }
            if found.is_none_or(|(_, count)| count != partitions as usize) {
                return Ok(false);
            }
            let wanted = (0..partitions)
                .map(|index| {
                    ListOffsetsPartition::default()
                        .with_partition_index(index)
                        .with_timestamp(-1)
                })
                .collect();
            let wanted = ListOffsetsTopic::default()
                .with_name(topic.clone())
                .with_partitions(wanted);
            let request = ListOffsetsRequest::default()
                .with_replica_id((-1).into())
                .with_topics(vec![wanted]);
            let answer = session.quiet(2, &request)?;
            Ok(answer
                .topics
                .iter()
                .flat_map(|topic| &topic.partitions)
                .all(|partition| partition.error_code == 0))
        })
    }

    /// The id of `topic`.
    pub fn topic_id(&mut self, topic: &TopicName) -> Result<Uuid> {
        Ok(self.describe(topic)?.map_or(Uuid::nil(), |(id, _)| id))
    }

    fn describe(&mut self, topic: &TopicName) -> Result<Option<(Uuid, usize)>> {
        let wanted = MetadataRequestTopic::default().with_name(Some(topic.clone()));
        let answer = self.quiet(10, &MetadataRequest::default().with_topics(Some(vec![wanted])))?;
        Ok(answer
            .topics
            .iter()
            .find(|found| found.error_code == 0 && found.name.as_ref() == Some(topic))
            .map(|found| {
                let led = found
                    .partitions
                    .iter()
                    .filter(|partition| partition.leader_id.0 >= 0)
                    .count();
                (found.topic_id, led)
            }))
    }

    /// Asks `done` again and again until it says yes. What it asks is not recorded.
    pub fn until(&mut self, what: &str, mut done: impl FnMut(&mut Session) -> Result<bool>) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !done(self)? {
            if Instant::now() > deadline {
                bail!("waited in vain until {what}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

fn creation(name: &TopicName, partitions: i32, configs: &[(&str, &str)]) -> CreateTopicsRequest {
    let configs = configs
        .iter()
        .map(|(name, value)| {
            CreatableTopicConfig::default()
                .with_name(StrBytes::from_string((*name).to_owned()))
                .with_value(Some(StrBytes::from_string((*value).to_owned())))
        })
        .collect();
    let topic = CreatableTopic::default()
        .with_name(name.clone())
        .with_num_partitions(partitions)
        .with_replication_factor(1)
        .with_configs(configs);
    CreateTopicsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(10_000)
}

/// Sends `request` on a connection of its own and reads the answer.
pub fn quiet<R: Request>(address: SocketAddr, version: i16, request: &R) -> Result<R::Response> {
    let mut body = BytesMut::new();
    request.encode(&mut body, version)?;
    let mut wire = Wire::connect(address)?;
    wire.send(&frame::<R>(version, 1, &body)?);
    let pending = Pending {
        step: String::new(),
        api: R::KEY,
        version,
        correlation: 1,
    };
    match wire.receive(WAIT)? {
        Received::Frame(frame) => decode::<R>(&frame, &pending),
        other => bail!("request {} version {version}: {other:?}", R::KEY),
    }
}

/// A request frame without its length: an honest header, then `body`.
pub fn frame<R: Request>(version: i16, correlation: i32, body: &[u8]) -> Result<Vec<u8>> {
    let header = RequestHeader::default()
        .with_request_api_key(R::KEY)
        .with_request_api_version(version)
        .with_correlation_id(correlation)
        .with_client_id(Some(StrBytes::from_static_str("differential")));
    let mut bytes = BytesMut::new();
    header.encode(&mut bytes, R::header_version(version))?;
    bytes.extend_from_slice(body);
    Ok(bytes.to_vec())
}

fn decode<R: Request>(frame: &[u8], pending: &Pending) -> Result<R::Response> {
    let (correlation, rest) = frame
        .split_first_chunk::<4>()
        .context("an answer without a correlation id")?;
    ensure!(
        i32::from_be_bytes(*correlation) == pending.correlation,
        "the answer to another request"
    );
    let mut rest = Bytes::copy_from_slice(rest);
    if R::Response::header_version(pending.version) >= 1 {
        let tags = rest.split_to(1);
        ensure!(tags[..] == [0], "tags in the response header");
    }
    let response = R::Response::decode(&mut rest, pending.version)?;
    ensure!(rest.is_empty(), "{} bytes left over", rest.len());
    Ok(response)
}
