
/// Writes lookups and changes of the program cache to the file `AGAVE_PROGRAM_CACHE_TRACE`, if this variable is set.
/// Threads put events into a bounded queue and never wait. Another thread writes the events.
pub(crate) mod cache_trace {
    use {
        super::{ProgramCacheEntry, ProgramCacheEntryOwner, ProgramCacheEntryType, ProgramCacheForTxBatch, Pubkey},
        std::{
            cell::Cell,
            collections::HashMap,
            fmt::{Display, Formatter, Write as _},
            fs::{File, OpenOptions},
            io::{BufWriter, Write},
            sync::{
                atomic::{AtomicU64, Ordering},
                mpsc::{sync_channel, Receiver, RecvTimeoutError, SyncSender},
                OnceLock,
            },
            thread::{self, Thread, ThreadId},
            time::{Duration, Instant},
        },
    };

    /// Further events are dropped and counted.
    const QUEUE_CAPACITY: usize = 65_536;
    /// A killed process loses the events of this time.
    const FLUSH_INTERVAL: Duration = Duration::from_millis(100);

    static QUEUE: OnceLock<Option<SyncSender<Event>>> = OnceLock::new();
    static DROPPED: AtomicU64 = AtomicU64::new(0);

    thread_local! {
        /// The slot of this thread's last lookup or change.
        static SLOT: Cell<u64> = const { Cell::new(0) };
        /// The time of this thread's last compilation.
        static LOADED_US: Cell<u64> = const { Cell::new(0) };
    }

    /// The slot, the thread, and what the cache did.
    type Event = (u64, Thread, Action);

    enum Action {
        /// Each program, how many transactions use it, and whether the cache has it.
        Lookup(Vec<(Pubkey, u64, bool)>),
        /// The program, and microseconds of its compilation.
        Load(Pubkey, u64, EntryInfo),
        Evict(Pubkey),
        /// A transaction deployed, upgraded, extended or closed the program.
        Change(Pubkey, EntryInfo),
    }

    struct EntryInfo {
        loader: &'static str,
        /// Bytes of the program's accounts; Agave 4.4 and later do not report them.
        size: Option<usize>,
        kind: &'static str,
    }

    fn queue() -> Option<&'static SyncSender<Event>> {
        QUEUE.get_or_init(|| std::env::var_os("AGAVE_PROGRAM_CACHE_TRACE").map(|path| start_writer(&path))).as_ref()
    }

    fn start_writer(path: &std::ffi::OsStr) -> SyncSender<Event> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file =
            file.unwrap_or_else(|error| panic!("AGAVE_PROGRAM_CACHE_TRACE: {}: {error}", path.to_string_lossy()));
        let (queue, events) = sync_channel(QUEUE_CAPACITY);
        let writer = thread::Builder::new().name("cacheTrace".to_owned());
        writer.spawn(move || Writer::new(file).run(&events)).expect("AGAVE_PROGRAM_CACHE_TRACE: no thread");
        queue
    }

    fn send(action: Action) {
        let Some(queue) = queue() else { return };
        if queue.try_send((SLOT.get(), thread::current(), action)).is_err() {
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The programs of a batch, each with its number of transactions. `None` without a trace, and if the batch looks up
    /// its missing programs again.
    pub(crate) fn requests(is_first: bool, programs: impl Iterator<Item = (Pubkey, u64)>) -> Option<Vec<(Pubkey, u64)>> {
        (is_first && queue().is_some()).then(|| programs.collect())
    }

    /// Records the lookup of a batch, after the cache reported the `missing` programs.
    pub(crate) fn lookup(
        requests: Option<Vec<(Pubkey, u64)>>,
        missing: impl Iterator<Item = Pubkey>,
        batch: &ProgramCacheForTxBatch,
    ) {
        let Some(requests) = requests else { return };
        SLOT.set(batch.slot);
        let missing: Vec<Pubkey> = missing.collect();
        let is_builtin = |key: &Pubkey| {
            let entry = batch.entries.get(key);
            entry.is_some_and(|entry| matches!(entry.program, ProgramCacheEntryType::Builtin(_)))
        };
        let programs = requests.into_iter().map(|(key, uses)| (key, uses, !missing.contains(&key)));
        let programs = programs.filter(|(key, _, found)| !found || !is_builtin(key)).collect();
        send(Action::Lookup(programs));
    }

    /// Called after a compilation. From 3.0 on, the caller needs the feature `metrics`, which validators have.
    #[allow(dead_code)]
    pub(crate) fn compiled(us: &[u64]) {
        LOADED_US.set(us.iter().sum());
    }

    /// Called when the cache takes the program that this thread compiled last.
    pub(crate) fn load(key: Pubkey, entry: &ProgramCacheEntry, size: Option<usize>) {
        if queue().is_some() {
            send(Action::Load(key, LOADED_US.take(), EntryInfo::new(entry, size)));
        }
    }

    pub(crate) fn evict(key: Pubkey) {
        send(Action::Evict(key));
    }

    pub(crate) fn change(key: Pubkey, entry: &ProgramCacheEntry, size: Option<usize>) {
        if queue().is_some() {
            SLOT.set(entry.deployment_slot);
            send(Action::Change(key, EntryInfo::new(entry, size)));
        }
    }

    impl EntryInfo {
        fn new(entry: &ProgramCacheEntry, size: Option<usize>) -> Self {
            let loader = match entry.account_owner {
                ProgramCacheEntryOwner::NativeLoader => "native",
                ProgramCacheEntryOwner::LoaderV1 => "v1",
                ProgramCacheEntryOwner::LoaderV2 => "v2",
                ProgramCacheEntryOwner::LoaderV3 => "v3",
                ProgramCacheEntryOwner::LoaderV4 => "v4",
            };
            let kind = match entry.program {
                ProgramCacheEntryType::Loaded(_) => "loaded",
                ProgramCacheEntryType::Unloaded(_) => "unloaded",
                ProgramCacheEntryType::Closed => "closed",
                ProgramCacheEntryType::FailedVerification(_) => "failed",
                _ => "other",
            };
            Self { loader, size, kind }
        }
    }

    impl Display for EntryInfo {
        fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
            let size = self.size.map_or("?".to_owned(), |size| size.to_string());
            write!(f, "{} {size} {}", self.loader, self.kind)
        }
    }

    struct Writer {
        out: BufWriter<File>,
        programs: HashMap<Pubkey, usize>,
        threads: HashMap<ThreadId, usize>,
    }

    impl Writer {
        fn new(file: File) -> Self {
            Self { out: BufWriter::with_capacity(1 << 16, file), programs: HashMap::new(), threads: HashMap::new() }
        }

        fn run(&mut self, events: &Receiver<Event>) {
            if let Err(error) = self.write_all(events) {
                eprintln!("AGAVE_PROGRAM_CACHE_TRACE: {error}; nothing more is written");
            }
        }

        fn write_all(&mut self, events: &Receiver<Event>) -> std::io::Result<()> {
            let program = std::env::current_exe().ok();
            let name = program.as_deref().and_then(|path| path.file_name()).unwrap_or_default().to_string_lossy();
            writeln!(self.out, "trace 1 {} {}", name.replace(' ', "_"), env!("CARGO_PKG_VERSION"))?;
            self.out.flush()?;
            let mut flushed = Instant::now();
            loop {
                let event = events.recv_timeout(FLUSH_INTERVAL);
                let dropped = DROPPED.swap(0, Ordering::Relaxed);
                if dropped > 0 {
                    writeln!(self.out, "dropped {dropped}")?;
                }
                match event {
                    Ok((slot, thread, action)) => self.write(slot, &thread, action)?,
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return self.out.flush(),
                }
                if flushed.elapsed() >= FLUSH_INTERVAL {
                    self.out.flush()?;
                    flushed = Instant::now();
                }
            }
        }

        fn write(&mut self, slot: u64, thread: &Thread, action: Action) -> std::io::Result<()> {
            let thread = self.thread_number(thread)?;
            match action {
                Action::Lookup(programs) => {
                    let mut line = format!("look {slot} {thread}");
                    for (key, uses, found) in programs {
                        let mark = if found { "" } else { "-" };
                        write!(line, " {mark}{}", self.program_number(&key)?).map_err(std::io::Error::other)?;
                        if uses != 1 {
                            write!(line, "*{uses}").map_err(std::io::Error::other)?;
                        }
                    }
                    writeln!(self.out, "{line}")
                }
                Action::Load(key, us, info) => {
                    let program = self.program_number(&key)?;
                    writeln!(self.out, "load {slot} {thread} {program} {us} {info}")
                }
                Action::Evict(key) => {
                    let program = self.program_number(&key)?;
                    writeln!(self.out, "evict {slot} {thread} {program}")
                }
                Action::Change(key, info) => {
                    let program = self.program_number(&key)?;
                    writeln!(self.out, "change {slot} {thread} {program} {info}")
                }
            }
        }

        /// Returns the number of a program, and writes the number of a new one.
        fn program_number(&mut self, key: &Pubkey) -> std::io::Result<usize> {
            let next = self.programs.len();
            if let Some(known) = self.programs.get(key) {
                return Ok(*known);
            }
            self.programs.insert(*key, next);
            writeln!(self.out, "program {next} {key}").map(|()| next)
        }

        fn thread_number(&mut self, thread: &Thread) -> std::io::Result<usize> {
            let next = self.threads.len();
            if let Some(known) = self.threads.get(&thread.id()) {
                return Ok(*known);
            }
            self.threads.insert(thread.id(), next);
            let name = thread.name().unwrap_or("?").replace(char::is_whitespace, "_");
            writeln!(self.out, "thread {next} {name}").map(|()| next)
        }
    }
}
