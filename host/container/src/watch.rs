//! Whether a job's private directories hold more than it may write.

use std::sync::Arc;
use std::time::Duration;

use codebox_core::{Denial, DenialKind, LimitKind, Limits};
use codebox_files::{Ceiling, Dir, Used, measure};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep_until};

/// The least time between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// The most that a file system adds for an entry: a block.
const ENTRY: u64 = 4096;

/// How many looks one after the other may miss something before the job is taken to hide it. One alone may: directories
/// are moved while they are looked through.
const BLIND: u32 = 5;

/// The directories, and how much may be in them.
pub(crate) struct Watch {
    over: Arc<Over>,
    /// When to look again.
    next: Instant,
    looking: Option<JoinHandle<Look>>,
    /// Looks in a row that missed something.
    blind: u32,
    /// Directories that could not be looked into, once that is why the job is ended.
    hidden: Option<u64>,
}

struct Over {
    dirs: Vec<Dir>,
    ceiling: Ceiling,
}

/// What a look came to.
struct Look {
    used: Used,
    took: Duration,
}

impl Watch {
    /// Nothing where neither bytes nor files are limited.
    pub(crate) fn over(dirs: Vec<Dir>, limits: &Limits) -> Option<Self> {
        let ceiling =
            Ceiling { bytes: limits.disk.at().map(|size| size.get()), entries: limits.files.at().map(u64::from) };
        let over = Arc::new(Over { dirs, ceiling });
        (ceiling.bytes.is_some() || ceiling.entries.is_some()).then(|| Self {
            over,
            next: Instant::now() + PAUSE,
            looking: None,
            blind: 0,
            hidden: None,
        })
    }

    /// Looks again and again; ends when a limit is passed, or what may be beyond it is kept from being looked at. The wait
    /// can be given up and taken up again.
    pub(crate) async fn passed(&mut self) -> LimitKind {
        loop {
            if self.looking.is_none() {
                sleep_until(self.next).await;
            }
            if let Some(kind) = self.look().await {
                return kind;
            }
        }
    }

    /// Looks, beside everything else, or goes on with a look that is under way.
    async fn look(&mut self) -> Option<LimitKind> {
        let over = &self.over;
        let looking = self.looking.get_or_insert_with(|| {
            let over = Arc::clone(over);
            spawn_blocking(move || {
                let began = std::time::Instant::now();
                Look { used: over.used(), took: began.elapsed() }
            })
        });
        let looked = looking.await;
        self.looking = None;
        // One that panicked saw nothing.
        let Look { used, took } =
            looked.unwrap_or(Look { used: Used { unseen: 1, ..Used::default() }, took: Duration::ZERO });
        // A tenth of the time at most, however much there is to look at.
        self.next = Instant::now() + PAUSE.max(took * 9);
        self.judge(&used)
    }

    /// The limit that is passed, or may well be.
    fn judge(&mut self, used: &Used) -> Option<LimitKind> {
        self.blind = if used.unseen > 0 { self.blind + 1 } else { 0 };
        let passed = self.over.passed(used);
        if passed.is_none() && self.blind >= BLIND {
            self.hidden = Some(used.unseen);
            return Some(if self.over.ceiling.bytes.is_some() { LimitKind::Disk } else { LimitKind::Files });
        }
        passed
    }

    /// What is there now that the job is over. Nothing looks any more afterwards.
    pub(crate) async fn left(&mut self) -> Left {
        // Not two at one time: each opens what is closed, and closes it again.
        if let Some(looking) = self.looking.take() {
            let _ = looking.await;
        }
        let over = Arc::clone(&self.over);
        let used = spawn_blocking(move || over.used()).await.unwrap_or(Used { unseen: 1, ..Used::default() });
        let full = self.over.ceiling.bytes.is_some_and(|most| used.bytes >= most).then_some(LimitKind::Disk);
        Left { full, bytes: (used.unseen == 0).then_some(used.bytes) }
    }

    /// Why the job was ended that kept something from being looked at.
    pub(crate) fn denial(&self) -> Option<Denial> {
        let count = self.hidden?;
        Some(Denial {
            what: DenialKind::Fs,
            detail: format!("{count} directories that cannot be looked into, so that nothing tells what they hold"),
            hint: "keep directories open to their owner, and fewer of them".to_owned(),
        })
    }
}

/// What a job's directories hold at its end.
pub(crate) struct Left {
    /// Whether there is no room left: what a job runs into whose writes fail.
    pub full: Option<LimitKind>,
    /// What they take, where all of it was seen.
    pub bytes: Option<u64>,
}

impl Over {
    fn passed(&self, used: &Used) -> Option<LimitKind> {
        // What directories themselves take is no doing of the job's, and a file that is just as long as may be is no breach.
        let own = ENTRY.saturating_mul(used.entries.saturating_add(2));
        if self.ceiling.bytes.is_some_and(|most| used.bytes > most.saturating_add(own)) {
            return Some(LimitKind::Disk);
        }
        self.ceiling.entries.is_some_and(|most| used.entries > most).then_some(LimitKind::Files)
    }

    fn used(&self) -> Used {
        let mut sum = Used::default();
        for dir in &self.dirs {
            // Up to twice the ceiling, so that what is a little over it is seen for what it is.
            let twice = Ceiling { bytes: self.ceiling.bytes.map(|most| most.saturating_mul(2)), ..self.ceiling };
            let used = measure(dir, twice);
            sum.bytes = sum.bytes.saturating_add(used.bytes);
            sum.entries = sum.entries.saturating_add(used.entries);
            sum.unseen = sum.unseen.saturating_add(used.unseen);
        }
        sum
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
