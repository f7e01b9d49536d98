//! Leader epochs of a log (KIP-101): each with the first offset it wrote.

use super::Offset;

/// Oldest first; epochs and offsets both grow.
#[derive(Clone, Debug, Default)]
pub(super) struct Epochs {
    list: Vec<(i32, Offset)>,
}

impl Epochs {
    /// From a checkpoint.
    pub fn new(list: Vec<(i32, Offset)>) -> Self {
        Self { list }
    }

    /// A batch of `epoch` is appended at `offset`.
    pub fn note(&mut self, epoch: i32, offset: Offset) {
        if self.latest().is_none_or(|latest| epoch > latest) {
            self.list.push((epoch, offset));
        }
    }

    /// The log now begins at `log_start`. The epoch that holds it stays, and the latest one.
    pub fn trim(&mut self, log_start: Offset) {
        let below = self.list.partition_point(|(_, first)| *first <= log_start);
        if below > 0 {
            self.list.drain(..below - 1);
            self.list[0].1 = log_start;
        }
    }

    /// Epoch of the newest batch.
    pub fn latest(&self) -> Option<i32> {
        self.list.last().map(|(epoch, _)| *epoch)
    }

    /// See [`super::PartitionLog::epoch_end`]. An epoch from before the first one known ends where that begins.
    pub fn end(&self, epoch: i32, log_end: Offset) -> Option<(i32, Offset)> {
        let latest = self.latest()?;
        if epoch < 0 || epoch > latest {
            return None;
        }
        if epoch == latest {
            return Some((epoch, log_end));
        }
        let above = self.list.partition_point(|(e, _)| *e <= epoch);
        let end = self.list[above].1;
        match above.checked_sub(1) {
            Some(at) => Some((self.list[at].0, end)),
            None => Some((epoch, end)),
        }
    }

    /// For a checkpoint.
    pub fn to_vec(&self) -> Vec<(i32, Offset)> {
        self.list.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn past_present_and_future_epochs() {
        let mut epochs = Epochs::default();
        assert_eq!(epochs.end(0, 0), None);
        for (epoch, offset) in [(2, 0), (2, 5), (5, 10), (6, 30), (6, 40)] {
            epochs.note(epoch, offset);
        }
        let ends = |epochs: &Epochs| [0, 2, 4, 5, 6, 7].map(|e| epochs.end(e, 50));
        let some = Some;
        assert_eq!(
            ends(&epochs),
            [
                some((0, 0)),
                some((2, 10)),
                some((2, 10)),
                some((5, 30)),
                some((6, 50)),
                None
            ]
        );
        epochs.trim(10);
        assert_eq!(
            ends(&epochs),
            [
                some((0, 10)),
                some((2, 10)),
                some((4, 10)),
                some((5, 30)),
                some((6, 50)),
                None
            ]
        );
        epochs.trim(50);
        assert_eq!(epochs.to_vec(), [(6, 50)]);
        assert_eq!(epochs.end(6, 50), Some((6, 50)));
    }
}
