//! How far an index file is written, cut and durable.

/// How far one of the two files is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// Entries whose write was submitted.
    pub(super) submitted: usize,
    /// Entries whose write completed.
    pub(super) written: usize,
    /// Entries known to be durable.
    pub(super) durable: usize,
    /// Entries that may stand in the file, those of failed and repeated writes included.
    reach: usize,
    /// The file's generation at the last cut, until that is durable. A cut that a power loss undoes brings entries of
    /// batches back that are no longer there.
    cut: Option<u32>,
    /// Whether that cut completed.
    is_cut_done: bool,
}

impl Progress {
    /// A file that holds nothing.
    pub(super) const NONE: Self = Self::all(0);

    /// A file that holds this many entries, durably.
    pub(super) const fn all(entries: usize) -> Self {
        Self {
            submitted: entries,
            written: entries,
            durable: entries,
            reach: entries,
            cut: None,
            is_cut_done: false,
        }
    }

    /// Notes that entries up to this one are being written.
    pub(super) fn submit(&mut self, upto: usize) {
        self.submitted = upto;
        self.reach = self.reach.max(upto);
    }

    /// Takes back what is not known to be written: it will be submitted again.
    pub(super) const fn forget_submitted(&mut self) {
        self.submitted = self.written;
    }

    /// Shortens the file to `len` entries; returns whether it must be cut. What is in flight counts as not written: the
    /// cut comes after it, whether it succeeds or not.
    pub(super) fn shorten(&mut self, len: usize) -> bool {
        if self.submitted <= len && self.reach <= len {
            return false;
        }
        self.written = self.written.min(len);
        self.durable = self.durable.min(len);
        self.cut_to_written();
        true
    }

    /// Notes that the file is about to be cut to what is known to be written.
    pub(super) const fn cut_to_written(&mut self) {
        self.submitted = self.written;
        self.reach = self.written;
    }

    /// Notes that a cut was submitted, after which the file has this generation.
    pub(super) const fn cut_submitted(&mut self, generation: u32) {
        self.cut = Some(generation);
        self.is_cut_done = false;
    }

    /// Notes that a cut completed, and those before it.
    pub(super) fn cut_completed(&mut self, generation: u32) {
        self.is_cut_done |= self.cut == Some(generation);
    }

    /// Notes that a cut is durable, or that there was no file to cut.
    pub(super) fn cut_over(&mut self, generation: Option<u32>) {
        if generation.is_some() && self.cut == generation {
            self.cut = None;
        }
    }

    /// Returns the cut that a sync submitted now would make durable.
    pub(super) const fn completed_cut(&self) -> Option<u32> {
        if self.is_cut_done { self.cut } else { None }
    }

    /// Returns whether a sync would make anything durable.
    pub(super) const fn is_unsynced(&self) -> bool {
        self.written > self.durable || self.completed_cut().is_some()
    }

    /// Returns whether exactly this many entries stand in the file, durably.
    pub(super) const fn is_durable(&self, entries: usize) -> bool {
        self.durable == entries && self.cut.is_none()
    }
}
