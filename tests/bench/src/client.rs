//! A thin layer over librdkafka's C API: no future, no box per message, so that the client takes little of the cores it
//! shares with the broker.

use anyhow::{Result, anyhow, bail};
use rdkafka::bindings as rk;
use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_void};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

static ACKED: AtomicU64 = AtomicU64::new(0);
static FAILED: AtomicU64 = AtomicU64::new(0);

/// Records acknowledged and failed so far, over all producers of the process.
pub fn delivered() -> (u64, u64) {
    (ACKED.load(Relaxed), FAILED.load(Relaxed))
}

unsafe extern "C" fn on_delivery(_: *mut rk::rd_kafka_t, m: *const rk::rd_kafka_message_t, _: *mut c_void) {
    // SAFETY: librdkafka hands a valid message to its delivery callback.
    let error = unsafe { (*m).err };
    if error as i32 == 0 {
        ACKED.fetch_add(1, Relaxed);
    } else if FAILED.fetch_add(1, Relaxed) < 3 {
        eprintln!("delivery failed: {}", text(error));
    }
}

unsafe extern "C" fn quiet(_: *const rk::rd_kafka_t, _: i32, _: *const c_char, _: *const c_char) {}

fn text(e: rk::rd_kafka_resp_err_t) -> String {
    // SAFETY: librdkafka returns a static string for every code.
    unsafe { CStr::from_ptr(rk::rd_kafka_err2str(e)) }
        .to_string_lossy()
        .into_owned()
}

/// A producer or consumer handle; leaked on purpose, since a run is a process.
#[derive(Clone, Copy)]
pub struct Client(*mut rk::rd_kafka_t);

// SAFETY: librdkafka handles may be used from any thread.
unsafe impl Send for Client {}

/// A topic of a producer.
#[derive(Clone, Copy)]
pub struct TopicHandle(*mut rk::rd_kafka_topic_t);

/// What a producer starts from; the caller's own properties come last.
pub fn producer(bootstrap: &str, linger_ms: &str, own: &[String]) -> Result<Client> {
    let base = [
        ("acks", "all"),
        ("linger.ms", linger_ms),
        ("batch.size", "1048576"),
        ("batch.num.messages", "100000"),
        ("max.in.flight.requests.per.connection", "5"),
        ("queue.buffering.max.messages", "1000000"),
        ("queue.buffering.max.kbytes", "262144"),
        ("message.timeout.ms", "120000"),
        ("reconnect.backoff.ms", "5"),
        ("reconnect.backoff.max.ms", "50"),
    ];
    Client::open(true, bootstrap, &base, own)
}

/// What a consumer starts from.
pub fn consumer(bootstrap: &str, own: &[String]) -> Result<Client> {
    let base = [
        ("group.id", "bench"),
        ("auto.offset.reset", "earliest"),
        ("enable.auto.commit", "false"),
        ("fetch.message.max.bytes", "1048576"),
        ("fetch.max.bytes", "52428800"),
        ("queued.max.messages.kbytes", "131072"),
        ("queued.min.messages", "1000000"),
        ("fetch.wait.max.ms", "500"),
    ];
    let client = Client::open(false, bootstrap, &base, own)?;
    // SAFETY: a live consumer handle.
    unsafe { rk::rd_kafka_poll_set_consumer(client.0) };
    Ok(client)
}

impl Client {
    fn open(is_producer: bool, bootstrap: &str, base: &[(&str, &str)], own: &[String]) -> Result<Self> {
        // SAFETY: plain C API use; every pointer outlives its call.
        unsafe {
            let conf = rk::rd_kafka_conf_new();
            let mut reason = [0 as c_char; 512];
            let own = own
                .iter()
                .map(|p| p.split_once('=').ok_or_else(|| anyhow!("-X takes KEY=VALUE, not {p}")))
                .collect::<Result<Vec<_>>>()?;
            let all = [("bootstrap.servers", bootstrap)]
                .into_iter()
                .chain(base.iter().copied())
                .chain(own);
            for (key, value) in all {
                let (k, v) = (CString::new(key)?, CString::new(value)?);
                if rk::rd_kafka_conf_set(conf, k.as_ptr(), v.as_ptr(), reason.as_mut_ptr(), reason.len()) as i32 != 0 {
                    bail!("{key}={value}: {}", CStr::from_ptr(reason.as_ptr()).to_string_lossy());
                }
            }
            let kind = if is_producer {
                rk::rd_kafka_conf_set_dr_msg_cb(conf, Some(on_delivery));
                rk::rd_kafka_type_t::RD_KAFKA_PRODUCER
            } else {
                rk::rd_kafka_type_t::RD_KAFKA_CONSUMER
            };
            rk::rd_kafka_conf_set_log_cb(conf, Some(quiet));
            let handle = rk::rd_kafka_new(kind, conf, reason.as_mut_ptr(), reason.len());
            if handle.is_null() {
                bail!("{}", CStr::from_ptr(reason.as_ptr()).to_string_lossy());
            }
            Ok(Self(handle))
        }
    }

    /// Makes a topic, replicated as the broker likes; one that is there is fine.
    pub fn create_topic(self, topic: &str, partitions: u32) -> Result<()> {
        // SAFETY: as above; the queue and event are destroyed on every path.
        unsafe {
            let mut reason = [0 as c_char; 256];
            let name = CString::new(topic)?;
            let new =
                rk::rd_kafka_NewTopic_new(name.as_ptr(), partitions as i32, -1, reason.as_mut_ptr(), reason.len());
            let queue = rk::rd_kafka_queue_new(self.0);
            rk::rd_kafka_CreateTopics(self.0, [new].as_mut_ptr(), 1, std::ptr::null(), queue);
            let event = rk::rd_kafka_queue_poll(queue, 20_000);
            let mut failure = None;
            if event.is_null() {
                failure = Some("no answer".to_owned());
            } else {
                let mut n = 0;
                let result = rk::rd_kafka_event_CreateTopics_result(event);
                if rk::rd_kafka_event_error(event) as i32 != 0 {
                    failure = Some(text(rk::rd_kafka_event_error(event)));
                } else if !result.is_null() {
                    let topics = rk::rd_kafka_CreateTopics_result_topics(result, &mut n);
                    let code = rk::rd_kafka_topic_result_error(*topics);
                    let exists = rk::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS;
                    if code as i32 != 0 && code != exists {
                        failure = Some(text(code));
                    }
                }
                rk::rd_kafka_event_destroy(event);
            }
            rk::rd_kafka_queue_destroy(queue);
            rk::rd_kafka_NewTopic_destroy(new);
            failure.map_or(Ok(()), |f| Err(anyhow!("CreateTopics {topic}: {f}")))
        }
    }

    /// A handle to produce to, with metadata already fetched so that no clock counts it.
    pub fn topic(self, topic: &str) -> Result<TopicHandle> {
        let name = CString::new(topic)?;
        // SAFETY: as above.
        unsafe {
            let handle = rk::rd_kafka_topic_new(self.0, name.as_ptr(), std::ptr::null_mut());
            let mut metadata = std::ptr::null();
            if rk::rd_kafka_metadata(self.0, 0, handle, &mut metadata, 20_000) as i32 == 0 {
                rk::rd_kafka_metadata_destroy(metadata);
            }
            Ok(TopicHandle(handle))
        }
    }

    /// Queues a record; `Ok(false)` when the client's queue is full. With `copy` unset, `value` must live until the
    /// record is delivered.
    pub fn send(self, topic: TopicHandle, partition: i32, value: &[u8], copy: bool) -> Result<bool> {
        let flags = if copy { 2 } else { 0 };
        // SAFETY: librdkafka only reads `value`, and the caller keeps it alive unless it is copied.
        let refused = unsafe {
            rk::rd_kafka_produce(
                topic.0,
                partition,
                flags,
                value.as_ptr().cast_mut().cast(),
                value.len(),
                std::ptr::null(),
                0,
                std::ptr::null_mut(),
            )
        } != 0;
        if !refused {
            return Ok(true);
        }
        // SAFETY: reads a thread-local.
        let code = unsafe { rk::rd_kafka_last_error() };
        if code == rk::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__QUEUE_FULL {
            return Ok(false);
        }
        bail!("produce: {}", text(code))
    }

    /// Serves delivery reports.
    pub fn poll(self, timeout_ms: i32) {
        // SAFETY: a live handle.
        unsafe { rk::rd_kafka_poll(self.0, timeout_ms) };
    }

    /// Assigns all partitions, from the first record or from the end.
    pub fn assign(self, topic: &str, partitions: u32, at_end: bool) -> Result<()> {
        let name = CString::new(topic)?;
        // SAFETY: as above; the list is copied by assign.
        unsafe {
            let list = rk::rd_kafka_topic_partition_list_new(partitions as i32);
            for p in 0..partitions as i32 {
                let entry = rk::rd_kafka_topic_partition_list_add(list, name.as_ptr(), p);
                (*entry).offset = -2;
                if at_end {
                    let (mut low, mut high) = (0, 0);
                    rk::rd_kafka_query_watermark_offsets(self.0, name.as_ptr(), p, &mut low, &mut high, 10_000);
                    (*entry).offset = high;
                }
            }
            let code = rk::rd_kafka_assign(self.0, list);
            rk::rd_kafka_topic_partition_list_destroy(list);
            if code as i32 != 0 {
                bail!("assign: {}", text(code));
            }
        }
        Ok(())
    }

    /// Hands each received value to `take`, a batch at a time; answers how many came.
    pub fn receive(self, timeout_ms: i32, most: usize, mut take: impl FnMut(&[u8])) -> usize {
        // SAFETY: messages are valid until destroyed, and each is destroyed once.
        unsafe {
            let queue = rk::rd_kafka_queue_get_consumer(self.0);
            let mut batch: Vec<*mut rk::rd_kafka_message_t> = vec![std::ptr::null_mut(); most];
            let n = rk::rd_kafka_consume_batch_queue(queue, timeout_ms, batch.as_mut_ptr(), batch.len()).max(0);
            rk::rd_kafka_queue_destroy(queue);
            let mut got = 0;
            for &m in &batch[..n as usize] {
                if (*m).err as i32 == 0 {
                    got += 1;
                    let value = if (*m).payload.is_null() {
                        &[]
                    } else {
                        std::slice::from_raw_parts((*m).payload as *const u8, (*m).len)
                    };
                    take(value);
                } else {
                    eprintln!("consume: {}", text((*m).err));
                }
                rk::rd_kafka_message_destroy(m);
            }
            got
        }
    }
}

/// Nanoseconds on the monotonic clock, comparable between threads.
pub fn now_ns() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}
