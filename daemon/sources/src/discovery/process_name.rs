use super::choose::ambiguous;
use super::process::{self, InspectedProcess};
use super::{SearchContext, SearchResult, Target, names};
use faultline_kernel::{Comm, ErrorKind};
use faultline_metrics::{Problem, Status};
use std::path::Path;

/// The full name. The kernel keeps 15 bytes; the rest is compared with the file name of `argv[0]`
/// or the executable.
#[derive(Debug)]
pub(super) struct NameSearch {
    name: String,
}

impl NameSearch {
    pub(super) fn new(name: &str) -> Self {
        NameSearch {
            name: name.to_owned(),
        }
    }

    /// Of several processes, finds the one that is an ancestor of all others, such as a program
    /// with its workers. Without one, the result is ambiguous.
    pub(super) fn find(&self, context: &SearchContext<'_>) -> SearchResult {
        let mut problems = Vec::new();
        let comm = self.comm();
        let named = match names::named(context.root, |its| its == comm) {
            Ok(named) => named,
            Err(error) => return Err(vec![process::problem(&error)]),
        };
        problems.extend(named.problem());
        let mut all = Vec::new();
        for pid in named
            .pids
            .into_iter()
            .filter(|&pid| pid != std::process::id())
        {
            match process::inspect(context.root, pid, "process_name") {
                Ok(inspected) if self.has_full_name(&inspected) => all.push(inspected),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Gone => {}
                Err(error) => problems.push(process::problem(&error)),
            }
        }
        let mut roots: Vec<&InspectedProcess> = all
            .iter()
            .filter(|one| !all.iter().any(|other| other.pid() == one.parent))
            .collect();
        match (roots.pop(), roots.len()) {
            (Some(one), 0) => return Ok(one.target.clone()),
            (None, _) => problems.push(Problem::new(
                Status::Absent,
                format!("no process is called {}", self.name),
            )),
            (Some(_), _) => problems.push(ambiguous(
                &all.iter().map(|one| one.target.clone()).collect::<Vec<_>>(),
            )),
        }
        Err(problems)
    }

    pub(super) fn still_matches(&self, target: &Target) -> bool {
        Comm::new(target.comm.as_bytes()) == self.comm()
    }

    fn comm(&self) -> Comm {
        Comm::new(self.name.as_bytes())
    }

    fn has_full_name(&self, inspected: &InspectedProcess) -> bool {
        let is_name = |path: &Path| path.file_name().is_some_and(|name| name == &*self.name);
        let program = inspected.program.as_deref().map(Path::new);
        let exe = inspected.target.exe.as_deref();
        // A program's own name may end in ` (deleted)`, so both forms are compared.
        let paths = [program, exe, exe.map(process::program_file)];
        self.name.len() <= self.comm().as_bytes().len() || paths.into_iter().flatten().any(is_name)
    }
}
