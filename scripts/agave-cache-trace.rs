
/// `AGAVE_PROGRAM_CACHE_TRACE=FILE`: what the program cache was asked and what it did, as lines of text. Without the variable
/// nothing is done. Threads leave events in a bounded queue and never wait; a thread of its own writes them.
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

    /// Events that wait; more are dropped, and counted.
    const WAITING: usize = 65_536;
    /// So much is lost when the process ends.
    const FLUSH: Duration = Duration::from_millis(100);

    static QUEUE: OnceLock<Option<SyncSender<Event>>> = OnceLock::new();
    static DROPPED: AtomicU64 = AtomicU64::new(0);

    thread_local! {
        /// Of this thread's last lookup.
        static SLOT: Cell<u64> = const { Cell::new(0) };
        /// How long this thread's last load took.
        static LOADED_US: Cell<u64> = const { Cell::new(0) };
    }

    /// In which slot, by which thread.
    type Event = (u64, Thread, What);

    enum What {
        /// Programs, how many transactions use each, and whether it was found.
        Look(Vec<(Pubkey, u64, bool)>),
        /// Microseconds it took.
        Load(Pubkey, u64, About),
        Evict(Pubkey),
        /// A transaction has deployed, upgraded or closed it.
        Change(Pubkey, About),
    }

    /// What is known of an entry.
    struct About {
        loader: &'static str,
        /// Of its accounts.
        size: Option<usize>,
        kind: &'static str,
    }

    fn queue() -> Option<&'static SyncSender<Event>> {
        QUEUE.get_or_init(|| std::env::var_os("AGAVE_PROGRAM_CACHE_TRACE").map(|path| begin(&path))).as_ref()
    }

    fn begin(path: &std::ffi::OsStr) -> SyncSender<Event> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file =
            file.unwrap_or_else(|error| panic!("AGAVE_PROGRAM_CACHE_TRACE: {}: {error}", path.to_string_lossy()));
        let (queue, events) = sync_channel(WAITING);
        let writer = thread::Builder::new().name("cacheTrace".to_owned());
        writer.spawn(move || Writer::new(file).run(&events)).expect("AGAVE_PROGRAM_CACHE_TRACE: no thread");
        queue
    }

    fn send(what: What) {
        let Some(queue) = queue() else { return };
        if queue.try_send((SLOT.get(), thread::current(), what)).is_err() {
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What a batch asks for, and how many of its transactions; only of its first round, and only if it is to be written.
    pub(crate) fn asked(is_first: bool, programs: impl Iterator<Item = (Pubkey, u64)>) -> Option<Vec<(Pubkey, u64)>> {
        (is_first && queue().is_some()).then(|| programs.collect())
    }

    /// The batch has looked its programs up, and some are missing.
    pub(crate) fn look(
        asked: Option<Vec<(Pubkey, u64)>>,
        missing: impl Iterator<Item = Pubkey>,
        batch: &ProgramCacheForTxBatch,
    ) {
        let Some(asked) = asked else { return };
        SLOT.set(batch.slot);
        let missing: Vec<Pubkey> = missing.collect();
        let is_builtin = |key: &Pubkey| {
            let entry = batch.entries.get(key);
            entry.is_some_and(|entry| matches!(entry.program, ProgramCacheEntryType::Builtin(_)))
        };
        let programs = asked.into_iter().map(|(key, uses)| (key, uses, !missing.contains(&key)));
        let programs = programs.filter(|(key, _, found)| !found || !is_builtin(key)).collect();
        send(What::Look(programs));
    }

    /// This thread has compiled a program. From 3.0 on it is called only with the feature `metrics`, which validators have.
    #[allow(dead_code)]
    pub(crate) fn compiled(us: &[u64]) {
        LOADED_US.set(us.iter().sum());
    }

    /// What was compiled last is put into the cache.
    pub(crate) fn load(key: Pubkey, entry: &ProgramCacheEntry, size: Option<usize>) {
        if queue().is_some() {
            send(What::Load(key, LOADED_US.take(), About::new(entry, size)));
        }
    }

    pub(crate) fn evict(key: Pubkey) {
        send(What::Evict(key));
    }

    pub(crate) fn change(key: Pubkey, entry: &ProgramCacheEntry, size: Option<usize>) {
        if queue().is_some() {
            SLOT.set(entry.deployment_slot);
            send(What::Change(key, About::new(entry, size)));
        }
    }

    impl About {
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

    impl Display for About {
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
                let event = events.recv_timeout(FLUSH);
                let dropped = DROPPED.swap(0, Ordering::Relaxed);
                if dropped > 0 {
                    writeln!(self.out, "dropped {dropped}")?;
                }
                match event {
                    Ok((slot, thread, what)) => self.write(slot, &thread, what)?,
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return self.out.flush(),
                }
                if flushed.elapsed() >= FLUSH {
                    self.out.flush()?;
                    flushed = Instant::now();
                }
            }
        }

        fn write(&mut self, slot: u64, thread: &Thread, what: What) -> std::io::Result<()> {
            let thread = self.thread(thread)?;
            match what {
                What::Look(programs) => {
                    let mut line = format!("look {slot} {thread}");
                    for (key, uses, found) in programs {
                        let mark = if found { "" } else { "-" };
                        write!(line, " {mark}{}", self.program(&key)?).map_err(std::io::Error::other)?;
                        if uses != 1 {
                            write!(line, "*{uses}").map_err(std::io::Error::other)?;
                        }
                    }
                    writeln!(self.out, "{line}")
                }
                What::Load(key, us, about) => {
                    let program = self.program(&key)?;
                    writeln!(self.out, "load {slot} {thread} {program} {us} {about}")
                }
                What::Evict(key) => {
                    let program = self.program(&key)?;
                    writeln!(self.out, "evict {slot} {thread} {program}")
                }
                What::Change(key, about) => {
                    let program = self.program(&key)?;
                    writeln!(self.out, "change {slot} {thread} {program} {about}")
                }
            }
        }

        /// The number of a program, which is written when it is new.
        fn program(&mut self, key: &Pubkey) -> std::io::Result<usize> {
            let next = self.programs.len();
            if let Some(known) = self.programs.get(key) {
                return Ok(*known);
            }
            self.programs.insert(*key, next);
            writeln!(self.out, "program {next} {key}").map(|()| next)
        }

        fn thread(&mut self, thread: &Thread) -> std::io::Result<usize> {
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
