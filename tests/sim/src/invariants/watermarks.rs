//! High watermarks and log starts never go back: not for who looks again, nor behind what was acknowledged before.
//!
//! A leader that was replaced and does not know it yet may show what it knew; it shows its epoch with it, and what later
//! leaders show is at least that.

use super::{Checked, check};
use std::collections::BTreeMap;

const NAME: &str = "watermarks";

#[derive(Default)]
pub struct Watermarks {
    /// By partition and epoch: the largest high watermark and log start shown.
    shown: BTreeMap<(u32, i32), (i64, i64)>,
    /// The end of what was acknowledged, by partition.
    acknowledged: BTreeMap<u32, i64>,
    /// Log starts that were acknowledged.
    trimmed: BTreeMap<u32, i64>,
}

impl Watermarks {
    /// What a look must find that begins now: by epoch.
    pub fn before(&self, partition: u32) -> BTreeMap<i32, (i64, i64)> {
        let shown = self.shown.range((partition, i32::MIN)..=(partition, i32::MAX));
        shown.map(|((_, epoch), marks)| (*epoch, *marks)).collect()
    }

    /// A look that began when `before` was shown found these.
    pub fn show(
        &mut self,
        partition: u32,
        before: &BTreeMap<i32, (i64, i64)>,
        epoch: i32,
        high_watermark: i64,
        log_start: i64,
    ) -> Checked {
        check(NAME, log_start <= high_watermark, || {
            format!("partition {partition}: log start {log_start} above high watermark {high_watermark}")
        })?;
        for (was, (high, start)) in before.range(..=epoch) {
            check(NAME, high_watermark >= *high && log_start >= *start, || {
                format!(
                    "partition {partition}: {log_start}..{high_watermark} in epoch {epoch}, after {start}..{high} in epoch {was}"
                )
            })?;
        }
        let shown = self.shown.entry((partition, epoch)).or_default();
        *shown = (shown.0.max(high_watermark), shown.1.max(log_start));
        Ok(())
    }

    pub fn acknowledge(&mut self, partition: u32, end: i64) {
        let known = self.acknowledged.entry(partition).or_default();
        *known = end.max(*known);
    }

    /// The end of what was acknowledged.
    pub fn acknowledged(&self, partition: u32) -> i64 {
        self.acknowledged.get(&partition).copied().unwrap_or(0)
    }

    pub fn trim(&mut self, partition: u32, to: i64) {
        let known = self.trimmed.entry(partition).or_default();
        *known = to.max(*known);
    }

    /// What all nodes agree on once everything has healed.
    pub fn end(&self, partition: u32, high_watermark: i64, log_start: i64) -> Checked {
        let end = self.acknowledged(partition);
        check(NAME, high_watermark >= end, || {
            format!("partition {partition}: ends at {high_watermark}, {end} was acknowledged")
        })?;
        let start = self.trimmed.get(&partition).copied().unwrap_or(0);
        check(NAME, log_start >= start, || {
            format!("partition {partition}: begins at {log_start}, {start} was acknowledged")
        })
    }
}
