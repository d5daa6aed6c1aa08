use super::candidates::{ambiguous, inspect_all};
use super::process::{self, InspectedProcess};
use super::{SearchContext, SearchResult, Target, names};
use faultline_kernel::Comm;
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
        let pids = names::named(context.root, |its| its == comm, &mut problems)
            .map_err(|error| vec![process::problem(&error)])?;
        let pids = pids.into_iter().filter(|&pid| pid != std::process::id());
        let mut all = inspect_all(context.root, pids, "process_name", &mut problems);
        all.retain(|inspected| self.has_full_name(inspected));
        let has_parent = |one: &InspectedProcess| {
            all.iter()
                .any(|other| other.target.process.pid == one.parent)
        };
        let roots: Vec<_> = all.iter().filter(|one| !has_parent(one)).collect();
        problems.push(match roots.as_slice() {
            [one] => return Ok(one.target.clone()),
            [] => Problem::new(
                Status::Absent,
                format!("no process is called {}", self.name),
            ),
            _ => ambiguous(&all.into_iter().map(|one| one.target).collect::<Vec<_>>()),
        });
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
