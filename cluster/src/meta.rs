//! The node's metadata store: named tables of bytes to bytes, durable at every write.
//!
//! Written only at checkpoints; between them the write-ahead log covers what is missing.

use std::io;

/// The store cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum MetaError {
    /// The file system or the store failed.
    #[error("metadata store: {0}")]
    Io(#[from] io::Error),
    /// What was read makes no sense.
    #[error("metadata store: corrupt: {0}")]
    Corrupt(String),
}

impl MetaError {
    /// A value that could not be decoded.
    pub fn corrupt(e: impl std::fmt::Display) -> Self {
        Self::Corrupt(e.to_string())
    }
}

/// One change of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Table name.
    pub table: &'static str,
    /// Key.
    pub key: Vec<u8>,
    /// New value; `None` deletes.
    pub value: Option<Vec<u8>>,
}

impl Change {
    /// Sets `key` to `value`.
    pub fn put(table: &'static str, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        Self {
            table,
            key: key.into(),
            value: Some(value.into()),
        }
    }

    /// Deletes `key`.
    pub fn delete(table: &'static str, key: impl Into<Vec<u8>>) -> Self {
        Self {
            table,
            key: key.into(),
            value: None,
        }
    }
}

/// The store.
pub struct MetaStore {}

impl MetaStore {
    /// The value of `key`.
    pub fn get(&self, table: &'static str, key: &[u8]) -> Result<Option<Vec<u8>>, MetaError> {
        let _ = (table, key);
        todo!()
    }

    /// Every pair whose key starts with `prefix`, in key order.
    pub fn scan(&self, table: &'static str, prefix: &[u8]) -> Result<Vec<(Vec<u8>, Vec<u8>)>, MetaError> {
        let _ = (table, prefix);
        todo!()
    }

    /// Applies all changes or none; durable when it returns. An error is fatal for the node's writes.
    pub fn write(&self, changes: Vec<Change>) -> Result<(), MetaError> {
        let _ = changes;
        todo!()
    }
}
