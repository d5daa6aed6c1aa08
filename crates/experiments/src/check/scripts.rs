//! What the plan's words lead to: scripts, what these source and start in turn, and files of options.
//!
//! Nothing is run. What a word means is guessed from the text, and every file that it could mean is read: one too many
//! does no harm, one too few could hide a vote account.

use super::code::{units, words};
use crate::plan::{Expanded, Plan, expand};
use faultline_record::recorder::in_path;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

/// A longer file is no script.
const LONGEST: u64 = 1 << 20;
/// Scripts that start scripts are followed so far.
const DEEPEST: usize = 5;
/// Files that are read at most, and words that are looked for.
const MOST: usize = 64;
const MOST_WORDS: usize = 50_000;
/// Variables that are known at most, and the bytes of a word with its variables filled in.
const MOST_VARIABLES: usize = 1000;
const LONGEST_WORD: usize = 4096;
/// The system's own programs start no validator; files of the kernel are none.
const NOT_FOLLOWED: [&str; 9] = [
    "/usr/bin",
    "/usr/sbin",
    "/usr/lib",
    "/usr/share",
    "/bin",
    "/sbin",
    "/proc",
    "/sys",
    "/dev",
];
/// Before a script's name.
const STARTERS: [&str; 8] = ["exec", "source", ".", "sh", "bash", "nohup", "sudo", "eval"];

/// What was read, and what should have been.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Scripts {
    /// Text files with their text. Keypairs are not among them.
    pub(super) texts: BTreeMap<PathBuf, String>,
    /// Words that start something which is only known once it runs.
    pub(super) unfollowed: BTreeSet<String>,
}

/// Follows every command of the plan. `home` is that of its user.
pub(super) fn follow(plan: &Plan, home: Option<&Path>) -> Scripts {
    let (mut found, mut nothing) = (Scripts::default(), BTreeSet::new());
    let (Some(arm), Some(lane)) = (plan.arms.first(), plan.lanes.first()) else {
        return found;
    };
    let arms = plan.arms.iter().map(|arm| (arm, lane));
    let lanes = plan.lanes.iter().skip(1).map(|lane| (arm, lane));
    for (arm, lane) in arms.chain(lanes) {
        if let Ok(expanded) = expand(plan, arm, lane, &plan.folder, 1) {
            let (variables, seen) = (expanded.environment.clone(), BTreeSet::new());
            let mut walk = Walk {
                plan,
                home,
                variables,
                seen,
                nothing,
                found,
            };
            walk.command(&expanded);
            (nothing, found) = (walk.nothing, walk.found);
        }
    }
    found
}

/// One command being followed.
struct Walk<'a> {
    plan: &'a Plan,
    home: Option<&'a Path>,
    variables: BTreeMap<String, String>,
    /// Files that it came to.
    seen: BTreeSet<PathBuf>,
    /// Words, each with the script that has it, that mean no file: of all commands.
    nothing: BTreeSet<(Option<PathBuf>, String)>,
    /// Of all commands.
    found: Scripts,
}

impl Walk<'_> {
    fn command(&mut self, expanded: &Expanded) {
        for word in &expanded.command {
            if word.contains(char::is_whitespace) {
                self.code(word, None, 0);
            } else {
                self.word(word, None, 0);
            }
        }
        for word in expanded
            .environment
            .values()
            .flat_map(|value| value.split_whitespace())
        {
            self.word(word, None, 0);
        }
    }

    /// A script's text, or what stands behind `-c`.
    fn code(&mut self, text: &str, own: Option<&Path>, depth: usize) {
        for unit in units(text) {
            let mut starts = true;
            for word in words(&unit) {
                if let Some((name, value)) = word.split_once('=').filter(|(name, _)| is_name(name))
                {
                    let value = self.filled(value);
                    if self.variables.len() < MOST_VARIABLES {
                        self.variables.insert(name.to_owned(), value.clone());
                    }
                    self.word(&value, own, depth);
                    continue;
                }
                let filled = self.filled(word);
                let known = self.word(&filled, own, depth);
                if starts
                    && !known
                    && filled.len() > 1
                    && filled.starts_with(['$', '`'])
                    && filled != "$@"
                {
                    self.found.unfollowed.insert(word.to_owned());
                }
                starts = STARTERS.contains(&word);
            }
        }
    }

    /// Reads whatever files this word could mean; whether there is one.
    fn word(&mut self, word: &str, own: Option<&Path>, depth: usize) -> bool {
        // `--config=FILE`
        let word = word.rsplit_once('=').map_or(word, |(_, value)| value);
        let key = (own.map(Path::to_owned), word.to_owned());
        if word.is_empty()
            || word.starts_with('-')
            || word.len() > LONGEST_WORD
            || self.nothing.contains(&key)
        {
            return false;
        }
        if self.nothing.len() >= MOST_WORDS {
            self.found
                .unfollowed
                .insert(format!("whatever comes after {MOST_WORDS} words"));
            return false;
        }
        // Through its components, so that a file is not told as `folder/./file`.
        let meant = self
            .meant(word, own)
            .into_iter()
            .map(|file| file.components().collect::<PathBuf>());
        let files: Vec<PathBuf> = meant.filter(|file| file.is_file()).collect();
        for file in &files {
            // The plan's own words are followed wherever they lead.
            let system = NOT_FOLLOWED.iter().any(|folder| file.starts_with(folder));
            if !(system && (own.is_some() || !is_program(file))) {
                self.file(file, depth);
            }
        }
        if files.is_empty() {
            self.nothing.insert(key);
        }
        !files.is_empty()
    }

    fn meant(&self, word: &str, own: Option<&Path>) -> Vec<PathBuf> {
        let working = self
            .plan
            .workload
            .working_folder
            .as_deref()
            .unwrap_or(Path::new("/"));
        let bases = [
            Some(working),
            self.plan.file.parent(),
            own.and_then(Path::parent),
            self.home,
        ];
        let below = |rest: &str| {
            bases
                .into_iter()
                .flatten()
                .map(|base| base.join(rest))
                .collect::<Vec<_>>()
        };
        match word.split_once('/') {
            // A folder that only the script knows is most often its own: `$(dirname $0)/x`, `$HERE/x`, `~/x`.
            Some((head, rest)) if head.is_empty() || head.starts_with(['$', '~', '`']) => {
                let mut all = if head.is_empty() {
                    vec![PathBuf::from(word)]
                } else {
                    Vec::new()
                };
                if !all.iter().any(|file| file.is_file()) {
                    all.extend(below(rest.trim_start_matches('/')));
                }
                all
            }
            Some(_) => below(word),
            None => below(word).into_iter().chain(in_path(word)).collect(),
        }
    }

    fn file(&mut self, file: &Path, depth: usize) {
        let Ok(real) = std::fs::canonicalize(file) else {
            return;
        };
        if !self.seen.insert(real.clone()) {
            return;
        }
        let text = match text(file) {
            Ok(Some(text)) => text,
            Ok(None) => return,
            Err(_) => {
                self.found.unfollowed.insert(file.display().to_string());
                return;
            }
        };
        if self.is_written_to(&real) && !(text.starts_with("#!") || is_program(file)) {
            return;
        }
        if depth >= DEEPEST
            || (self.found.texts.len() >= MOST && !self.found.texts.contains_key(file))
        {
            self.found.unfollowed.insert(file.display().to_string());
            return;
        }
        self.found.texts.insert(file.to_owned(), text.clone());
        self.code(&text, Some(file), depth + 1);
    }

    /// Whether it is what runs write: an old log has the words of an old command.
    fn is_written_to(&self, file: &Path) -> bool {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let lanes = self.plan.lanes.iter();
        let mut folders = lanes.flat_map(|lane| {
            [
                Some(&lane.ledger),
                lane.accounts.as_ref(),
                lane.snapshots.as_ref(),
            ]
        });
        name.ends_with(".log")
            || name.contains(".log.")
            || file.starts_with(&self.plan.folder)
            || file == self.plan.file
            || folders.any(|folder| folder.is_some_and(|folder| file.starts_with(folder)))
    }

    /// With the variables that are known in place of `$NAME` and `${NAME}`.
    fn filled(&self, word: &str) -> String {
        let mut out = String::new();
        let mut rest = word;
        while let Some((before, after)) = rest.split_once('$') {
            out += before;
            let braced = after
                .strip_prefix('{')
                .and_then(|inside| inside.split_once('}'));
            let bare = after
                .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                .unwrap_or(after.len());
            let (name, behind) = braced.unwrap_or_else(|| after.split_at(bare));
            match self.variables.get(name) {
                Some(value) => {
                    out += value;
                    rest = behind;
                }
                None => {
                    out.push('$');
                    rest = after;
                }
            }
            // Variables that hold one another would never end growing.
            if out.len() > LONGEST_WORD {
                return word.to_owned();
            }
        }
        out + rest
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(file).is_ok_and(|meta| meta.permissions().mode() & 0o111 != 0)
}

/// The text of a text file; `None` for anything else, and for a keypair.
fn text(file: &Path) -> std::io::Result<Option<String>> {
    let meta = std::fs::metadata(file)?;
    if !meta.is_file() || meta.len() > LONGEST {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    std::fs::File::open(file)?
        .take(LONGEST + 1)
        .read_to_end(&mut bytes)?;
    let text = String::from_utf8(bytes)
        .ok()
        .filter(|text| !text.contains('\0') && text.len() as u64 <= LONGEST);
    let numbers = |c: char| c.is_ascii_digit() || c.is_whitespace() || matches!(c, '[' | ']' | ',');
    Ok(text.filter(|text| !text.chars().all(numbers)))
}

#[cfg(test)]
mod tests;
