//! What clients saw, as it happened: one event a line, as JSON.

use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

/// Milliseconds since the run began, by a clock that does not jump.
pub type Millis = u64;

/// Something a client saw, or that was done to the members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Event {
    /// What there is: once, at the beginning.
    Began {
        members: Vec<u32>,
        partitions: i32,
        groups: Vec<String>,
    },
    /// A record of a producer, which has a partition to itself and numbers its records, was acknowledged.
    Acknowledged {
        at: Millis,
        partition: i32,
        number: u64,
        offset: i64,
    },
    /// A producer was told that a record can't be delivered.
    GaveUp {
        at: Millis,
        partition: i32,
        number: u64,
        why: String,
    },
    /// A producer has ended: it sent the numbers below this one.
    Sent { partition: i32, count: u64 },
    /// Records were read: the numbers at `first` and the offsets behind it. `via`: the member asked; `None`, as a group.
    Read {
        at: Millis,
        via: Option<u32>,
        partition: i32,
        first: i64,
        numbers: Vec<u64>,
    },
    /// A member told who leads a partition.
    Led {
        at: Millis,
        via: u32,
        partition: i32,
        epoch: i32,
        leader: i32,
    },
    /// A group's commit was accepted.
    Committed {
        at: Millis,
        group: String,
        partition: i32,
        offset: i64,
    },
    /// A member told, when asked at `asked`, where a group is; -1: nowhere yet.
    Position {
        asked: Millis,
        at: Millis,
        via: u32,
        group: String,
        partition: i32,
        offset: i64,
    },
    /// Nothing is written any more, and a member told where a partition ends.
    End { via: u32, partition: i32, offset: i64 },
    /// Something is done to the members, or no longer.
    Fault { at: Millis, text: String },
    /// Nothing is done to them from now on.
    Healed { at: Millis },
}

/// Writes a history, from any thread.
pub struct Recorder {
    began: Instant,
    file: Mutex<BufWriter<File>>,
}

impl Recorder {
    /// A new history in a file.
    ///
    /// # Errors
    /// The file can't be made.
    pub fn create(path: &Path) -> anyhow::Result<Self> {
        let file = File::create(path).with_context(|| format!("{}", path.display()))?;
        Ok(Self {
            began: Instant::now(),
            file: Mutex::new(BufWriter::new(file)),
        })
    }

    /// The time now.
    pub fn now(&self) -> Millis {
        self.began.elapsed().as_millis() as Millis
    }

    /// Adds an event.
    ///
    /// # Panics
    /// Where the history can't be written: nothing could be judged.
    pub fn add(&self, event: &Event) {
        let mut line = serde_json::to_vec(event).expect("an event is JSON");
        line.push(b'\n');
        let mut file = self.file.lock().expect("nobody panicked");
        file.write_all(&line).expect("room for the history");
    }

    /// Brings what was added to the file.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn flush(&self) -> anyhow::Result<()> {
        Ok(self.file.lock().expect("nobody panicked").flush()?)
    }
}

/// Reads a history back.
///
/// # Errors
/// The file can't be read, or a line is no event.
pub fn read(path: &Path) -> anyhow::Result<Vec<Event>> {
    let file = File::open(path).with_context(|| format!("{}", path.display()))?;
    let event = |(number, line): (usize, std::io::Result<String>)| {
        serde_json::from_str(&line?).with_context(|| format!("{}:{}", path.display(), number + 1))
    };
    BufReader::new(file).lines().enumerate().map(event).collect()
}
