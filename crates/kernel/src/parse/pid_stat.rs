//! `/proc/PID/stat` and `/proc/PID/task/TID/stat` (proc_pid_stat(5)).

use crate::{
    Comm, ParseError, Parsed,
    text::{count_or_underflow, number},
};

/// `PF_EXITING` of the kernel's `include/linux/sched.h`.
const PF_EXITING: u64 = 0x4;

/// One process with all its threads, dead ones included, or one thread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PidStat {
    pub pid: u32,
    /// May contain spaces and parentheses.
    pub comm: Comm,
    /// For a process, the state of its main thread.
    pub state: State,
    /// 0 if the parent is outside the pid namespace.
    pub ppid: u32,
    /// The thread has begun to exit; it has finished when its state is `Z`.
    pub is_exiting: bool,
    pub minflt: Option<u64>,
    pub majflt: Option<u64>,
    pub utime_ticks: Option<u64>,
    pub stime_ticks: Option<u64>,
    pub num_threads: u64,
    /// Clock ticks from boot to the start.
    pub start_ticks: u64,
    /// In bytes. `None` for a kernel thread, and for an exiting thread that has released its memory
    /// (the kernel writes 0).
    pub vsize: Option<u64>,
    /// Block I/O wait. For a process, the wait of the main thread only. 0 also if
    /// `kernel.task_delayacct` was off when the task started.
    pub delayacct_blkio_ticks: Option<u64>,
}

impl PidStat {
    /// Whether all threads have ended. A main thread that has ended is a zombie while others run.
    pub fn all_threads_ended(&self) -> bool {
        match self.state {
            State::Zombie => self.num_threads <= 1,
            state => state == State::Dead,
        }
    }
}

/// The kernel's state letter. A thread frozen by its cgroup is `S` in v2 and `D` in v1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum State {
    Running,
    Sleeping,
    DiskSleep,
    Stopped,
    TracingStop,
    /// `Z`: has exited. Other threads of the process may still run.
    Zombie,
    Dead,
    Idle,
    /// Another letter, only of kernel threads or other kernels.
    Other(char),
}

impl State {
    pub const NAMED: [Self; 8] = [
        Self::Running,
        Self::Sleeping,
        Self::DiskSleep,
        Self::Stopped,
        Self::TracingStop,
        Self::Zombie,
        Self::Dead,
        Self::Idle,
    ];

    fn from_letter(letter: char) -> Self {
        match letter {
            'R' => Self::Running,
            'S' => Self::Sleeping,
            'D' => Self::DiskSleep,
            'T' => Self::Stopped,
            't' => Self::TracingStop,
            'Z' => Self::Zombie,
            'X' | 'x' => Self::Dead,
            'I' => Self::Idle,
            other => Self::Other(other),
        }
    }

    /// Such as `disk_sleep`; `None` for another letter.
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::Running => "running",
            Self::Sleeping => "sleeping",
            Self::DiskSleep => "disk_sleep",
            Self::Stopped => "stopped",
            Self::TracingStop => "tracing_stop",
            Self::Zombie => "zombie",
            Self::Dead => "dead",
            Self::Idle => "idle",
            Self::Other(_) => return None,
        })
    }
}

pub fn parse(text: &[u8]) -> Parsed<PidStat> {
    parse_fields(text)
        .ok_or_else(|| ParseError::new(1, text, "malformed stat line, or fewer than 42 fields"))
}

fn parse_fields(text: &[u8]) -> Option<PidStat> {
    let mut line = Fields::of(text)?;
    Some(PidStat {
        pid: number(text.get(..memchr::memchr(b' ', text)?)?)?,
        comm: line.comm,
        state: line.state,
        ppid: line.number(4)?,
        is_exiting: line.number::<u64>(9)? & PF_EXITING != 0,
        minflt: line.count_or_underflow(10)?,
        majflt: line.count_or_underflow(12)?,
        utime_ticks: line.count_or_underflow(14)?,
        stime_ticks: line.count_or_underflow(15)?,
        num_threads: line.number(20)?,
        start_ticks: line.number(22)?,
        vsize: line.count_or_underflow(23)?.filter(|bytes| *bytes > 0),
        delayacct_blkio_ticks: line.count_or_underflow(42)?,
    })
}

/// Not parsed by procfs-core, which takes seven times as long for its 52 fields: this file is read
/// hundreds of times more often than others (decision 1).
struct Fields<'a> {
    comm: Comm,
    state: State,
    rest: &'a [u8],
    /// Number of the last field that was read, as in proc_pid_stat(5).
    last_number: usize,
}

impl<'a> Fields<'a> {
    fn of(text: &'a [u8]) -> Option<Self> {
        let comm = Comm::new(comm_bytes(text)?);
        let after_name = text.get(memchr::memrchr(b')', text)? + 1..)?;
        let mut line = Fields {
            comm,
            state: State::Other(' '),
            rest: after_name.trim_ascii_end().strip_prefix(b" ")?,
            last_number: 2,
        };
        line.state = State::from_letter(char::from(*line.field(3)?.first()?));
        Some(line)
    }

    fn field(&mut self, number: usize) -> Option<&'a [u8]> {
        let mut fields = self
            .rest
            .splitn(number - self.last_number + 1, |byte| *byte == b' ');
        let field = fields.nth(number - self.last_number - 1)?;
        self.rest = fields.next().unwrap_or_default();
        self.last_number = number;
        Some(field)
    }

    fn number<T: TryFrom<u64>>(&mut self, field_number: usize) -> Option<T> {
        number(self.field(field_number)?)
    }

    fn count_or_underflow(&mut self, field_number: usize) -> Option<Option<u64>> {
        count_or_underflow(self.field(field_number)?)
    }
}

/// The text in parentheses. `None` unless a number and a space precede the parentheses, and a space
/// and a state follow.
fn comm_bytes(text: &[u8]) -> Option<&[u8]> {
    let (open, close) = (memchr::memchr(b'(', text)?, memchr::memrchr(b')', text)?);
    let state = text.get(close + 1..)?.strip_prefix(b" ")?.first()?;
    let is_valid = text.first()?.is_ascii_digit()
        && text.get(..open)?.ends_with(b" ")
        && state.is_ascii_graphic();
    text.get(open + 1..close).filter(|_| is_valid)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &[u8] = include_bytes!("../../tests/text/linux-6.18/pid_stat");

    #[test]
    fn a_captured_line_gives_each_needed_field() {
        let stat = parse(LINE).unwrap();
        let expected = PidStat {
            pid: 4748,
            comm: Comm::new(b"cat"),
            state: State::Running,
            ppid: 4746,
            is_exiting: false,
            minflt: Some(100),
            majflt: Some(0),
            utime_ticks: Some(0),
            stime_ticks: Some(0),
            num_threads: 1,
            start_ticks: 89736,
            vsize: Some(3_133_440),
            delayacct_blkio_ticks: Some(0),
        };
        assert_eq!(stat, expected);
    }

    /// Every field has its own number as its value, so that a shifted field shows.
    fn numbered(comm: &str) -> String {
        let fields: Vec<String> = (4..=52).map(|n| n.to_string()).collect();
        format!("1 ({comm}) S {}\n", fields.join(" "))
    }

    #[test]
    fn each_stat_field_is_read_from_its_documented_position() {
        let stat = parse(numbered("x").as_bytes()).unwrap();
        assert_eq!(
            (stat.ppid, stat.minflt, stat.majflt),
            (4, Some(10), Some(12))
        );
        assert_eq!(
            (stat.utime_ticks, stat.stime_ticks, stat.num_threads),
            (Some(14), Some(15), 20)
        );
        assert_eq!(
            (stat.start_ticks, stat.vsize, stat.delayacct_blkio_ticks),
            (22, Some(23), Some(42))
        );
    }

    #[test]
    fn zombie_and_dead_states_count_as_exiting() {
        let exiting = |flags: &str| {
            parse(
                numbered("x")
                    .replace(" 9 ", &format!(" {flags} "))
                    .as_bytes(),
            )
            .unwrap()
            .is_exiting
        };
        assert_eq!(
            ["4227084", "4194308", "4194560", "0"].map(exiting),
            [true, true, false, false]
        );
    }

    #[test]
    fn without_memory_the_virtual_size_is_absent() {
        assert_eq!(
            parse(numbered("kthreadd").replace(" 23 ", " 0 ").as_bytes())
                .unwrap()
                .vsize,
            None
        );
    }

    #[test]
    fn every_process_state_letter_has_a_name_and_unknown_ones_none() {
        let name = |letter: &str| {
            parse(
                numbered("x")
                    .replace(" S ", &format!(" {letter} "))
                    .as_bytes(),
            )
            .unwrap()
            .state
            .name()
        };
        let names: Vec<_> = ["R", "S", "D", "T", "t", "Z", "X", "I"]
            .map(name)
            .into_iter()
            .flatten()
            .collect();
        assert_eq!(names, State::NAMED.map(|state| state.name().unwrap()));
        assert_eq!(
            (name("x"), name("P"), name("?")),
            (Some("dead"), None, None)
        );
    }

    #[test]
    fn a_name_with_spaces_parentheses_and_newlines_does_not_shift_fields() {
        for comm in ["a) R 1 2 (b", ")", "((", "", "tmux: server", "a\nb"] {
            let stat = parse(numbered(comm).as_bytes()).unwrap();
            assert_eq!(
                (stat.comm.as_bytes(), stat.delayacct_blkio_ticks),
                (comm.as_bytes(), Some(42)),
                "{comm:?}"
            );
        }
    }

    #[test]
    fn a_line_without_a_number_a_name_or_a_state_is_refused() {
        for cut in [
            "(x) S 1",
            "1(x) S 1",
            "1 )x( S 1",
            "1 (x)",
            "1 (x) ",
            "1 (x) \n",
            "1 (x)\u{e9} S",
            "1 (",
            ")",
        ] {
            assert!(parse(cut.as_bytes()).is_err(), "{cut:?}");
        }
    }

    #[test]
    fn non_utf_8_bytes_of_a_process_name_are_kept() {
        let line = [&b"1 (v\xe9"[..], &numbered("x").as_bytes()[4..]].concat();
        assert_eq!(parse(&line).unwrap().comm.as_bytes(), b"v\xe9");
    }

    #[test]
    fn a_negative_terminal_group_is_parsed() {
        assert_eq!(
            parse(numbered("x").replace(" 8 ", " -1 ").as_bytes())
                .unwrap()
                .minflt,
            Some(10)
        );
    }

    #[test]
    fn a_truncated_line_is_an_error_instead_of_zeros() {
        let whole = numbered("x");
        let cut = whole.find(" 42 ").unwrap();
        assert!(parse(&whole.as_bytes()[..cut]).is_err());

        assert!(parse(b"").is_err());
        assert!(parse(b"1 x S 1").is_err());
    }

    #[test]
    fn a_counter_that_underflowed_is_unknown_and_the_others_are_kept() {
        for below_zero in ["-4096", "18446744073709547520"] {
            let line = numbered("x").replace(" 14 ", &format!(" {below_zero} "));
            let stat = parse(line.as_bytes()).unwrap();
            assert_eq!((stat.utime_ticks, stat.stime_ticks), (None, Some(15)));
        }
    }
}
