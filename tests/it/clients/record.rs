//! Records as the tests send and expect them; what tests/clients/exchange.py reads and prints.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub partition: i32,
    pub key: Option<String>,
    pub value: Option<String>,
    pub headers: Vec<(String, Option<String>)>,
    /// Milliseconds since the epoch; none: the client's clock.
    pub timestamp: Option<i64>,
}

/// Records to be produced to one topic.
#[derive(Clone, Debug, Serialize)]
pub struct Produce {
    pub topic: String,
    pub codec: &'static str,
    pub records: Vec<Record>,
}

/// A topic to be read from its beginning, with the number of records in each partition.
#[derive(Clone, Debug, Serialize)]
pub struct Consume {
    pub topic: String,
    pub counts: Vec<i64>,
}

/// A record as it was read.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Read {
    pub offset: i64,
    #[serde(flatten)]
    pub record: Record,
}

/// What was read of one topic.
#[derive(Clone, Debug, Deserialize)]
pub struct Consumed {
    pub topic: String,
    pub records: Vec<Read>,
}
