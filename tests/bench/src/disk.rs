//! What the disk itself can do: one appended 4 KiB pwrite + fdatasync at a time.

use crate::client::now_ns;
use crate::meter::percentiles;
use clap::Args;
use serde_json::{Map, Value, json};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// The probe.
#[derive(Clone, Debug, Args)]
pub struct DiskProbe {
    /// Folder on the disk to measure.
    #[arg(long)]
    pub dir: PathBuf,
    /// How many writes.
    #[arg(long, default_value_t = 2000)]
    pub writes: u64,
}

impl DiskProbe {
    /// Measures in a file that is removed afterwards.
    pub fn run(&self) -> anyhow::Result<Value> {
        std::fs::create_dir_all(&self.dir)?;
        let path = self.dir.join("disk-probe");
        let file = File::create(&path)?;
        let block = [0x5a; 4096];
        let mut times = Vec::with_capacity(self.writes as usize);
        for i in 0..self.writes {
            let start = now_ns();
            file.write_all_at(&block, i * 4096)?;
            file.sync_data()?;
            times.push(now_ns() - start);
        }
        std::fs::remove_file(&path)?;
        let mut out = Map::new();
        out.insert("mode".into(), json!("disk"));
        percentiles(times, &mut out);
        Ok(Value::Object(out))
    }
}
