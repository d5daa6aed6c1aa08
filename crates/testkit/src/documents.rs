//! Command lines in the documents.

use clap::error::ErrorKind;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// A command line of a document.
#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    /// `docs/LAB.md:12`.
    pub location: String,
    /// The program's name and its arguments.
    pub words: Vec<String>,
    /// Whether it is from a shell block. Elsewhere, commands often lack their arguments.
    pub is_whole: bool,
}

/// Programs that may precede a program, with the number of words that belong to them.
const LAUNCHERS: [(&str, usize); 3] = [("runuser", 4), ("tmux", 4), ("sudo", 1)];

/// All command lines of this program in README, CONTRIBUTING and `docs`, except the decisions, which are history.
///
/// # Errors
///
/// A document cannot be read.
pub fn command_lines(root: &Path, program: &str) -> io::Result<Vec<Line>> {
    let mut files = vec![PathBuf::from("README.md"), PathBuf::from("CONTRIBUTING.md")];
    for folder in ["docs", "docs/runbooks"] {
        for entry in fs::read_dir(root.join(folder))? {
            files.push(Path::new(folder).join(entry?.file_name()));
        }
    }
    files.retain(|file| file.extension().is_some_and(|extension| extension == "md"));
    files.sort();
    let mut found = Vec::new();
    for file in files {
        let text = fs::read_to_string(root.join(&file))?;
        for (number, command, is_whole) in shell(&text) {
            let words = simple_commands(&command)
                .into_iter()
                .filter_map(|words| of_program(words, program));
            let location = format!("{}:{number}", file.display());
            found.extend(words.map(|words| Line {
                location: location.clone(),
                words,
                is_whole,
            }));
        }
    }
    Ok(found)
}

/// Errors of the lines that `parse` refuses. A line outside of a shell block may lack required arguments.
pub fn refused(
    lines: &[Line],
    parse: impl Fn(&[String]) -> Result<(), clap::Error>,
) -> Vec<String> {
    let wrong = lines.iter().filter_map(|line| {
        let error = parse(&line.words).err()?;
        let is_answer = [ErrorKind::DisplayHelp, ErrorKind::DisplayVersion].contains(&error.kind());
        let is_part = [
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
            ErrorKind::MissingRequiredArgument,
            ErrorKind::MissingSubcommand,
        ]
        .contains(&error.kind());
        let is_fine = is_answer || (is_part && !line.is_whole);
        (!is_fine).then(|| format!("{}: {}\n{error}", line.location, line.words.join(" ")))
    });
    wrong.collect()
}

/// Lines of shell blocks, and text in backquotes elsewhere: line number, text, and whether it is from a block.
fn shell(text: &str) -> Vec<(usize, String, bool)> {
    let mut found = Vec::new();
    let mut block: Option<bool> = None;
    let mut continued = String::new();
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        if let Some(language) = trimmed.strip_prefix("```") {
            // The last line of a block may end with a backslash.
            if !continued.is_empty() {
                found.push((index, std::mem::take(&mut continued), true));
            }
            block = if block.is_some() {
                None
            } else {
                Some(["sh", "console"].contains(&language))
            };
        } else if block == Some(true) {
            continued.push_str(trimmed.strip_prefix("$ ").unwrap_or(trimmed));
            if continued.ends_with('\\') {
                continued.pop();
            } else {
                found.push((index + 1, std::mem::take(&mut continued), true));
            }
        } else if block.is_none() {
            let quoted = line.split('`').skip(1).step_by(2);
            found.extend(quoted.map(|command| (index + 1, command.to_owned(), false)));
        }
    }
    found
}

/// The words of each command of a line, without comments. `1` replaces the output of a `$(...)`.
fn simple_commands(line: &str) -> Vec<Vec<String>> {
    let mut line = line.to_owned();
    while let Some((before, (_, after))) = line
        .split_once("$(")
        .and_then(|(b, rest)| Some((b, rest.split_once(')')?)))
    {
        line = format!("{before}1{after}");
    }
    let words = shlex::split(&line).unwrap_or_default();
    let commands = words.split(|word| ["&&", "||", "|", ";", "&"].contains(&word.as_str()));
    commands
        .map(|words| {
            words
                .iter()
                .take_while(|word| *word != ">")
                .cloned()
                .collect()
        })
        .collect()
}

/// The command without its launcher, if it is one of this program.
fn of_program(mut words: Vec<String>, program: &str) -> Option<Vec<String>> {
    while words.first().is_some_and(|word| word.contains('=')) {
        words.remove(0);
    }
    let first = words.first()?.clone();
    if first == "cargo" {
        let at = words.iter().position(|word| word == "--")?;
        let is_ours =
            words.get(1)? == "run" && words.windows(2).any(|pair| pair == ["--bin", program]);
        words.drain(..at);
        if let Some(name) = words.first_mut() {
            program.clone_into(name);
        }
        return is_ours.then_some(words);
    }
    if let Some((_, own)) = LAUNCHERS.iter().find(|(launcher, _)| *launcher == first) {
        words.drain(..(*own).min(words.len()));
    }
    let first = words.first()?;
    (first.rsplit('/').next() == Some(program) && !first.starts_with("/etc")).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<(usize, String, bool)> {
        let lines = shell(text)
            .into_iter()
            .flat_map(|(number, line, is_whole)| {
                let commands = simple_commands(&line)
                    .into_iter()
                    .filter_map(|words| of_program(words, "tool"));
                commands
                    .map(move |words| (number, words.join(" "), is_whole))
                    .collect::<Vec<_>>()
            });
        lines.collect()
    }

    #[test]
    fn documented_commands_are_found_after_prefixes_like_sudo() {
        let text = "```sh\nA=1 tool run --x 'a b'   # a comment\nrunuser -u me -- tool once && systemctl reload tool\n\
                    tool do --pid $(pidof it) \\\n  --last\ncargo run --release --bin tool -- run\n```\n";
        let expected = [
            (2, "tool run --x a b".to_owned(), true),
            (3, "tool once".to_owned(), true),
            (5, "tool do --pid 1 --last".to_owned(), true),
            (6, "tool run".to_owned(), true),
        ];
        assert_eq!(of(text), expected);
    }

    #[test]
    fn a_continued_line_ends_with_its_block() {
        assert_eq!(
            of("```sh\ntool a \\\n```\nText.\n```sh\ntool b\n```\n"),
            [
                (2, "tool a".to_owned(), true),
                (6, "tool b".to_owned(), true)
            ]
        );
    }

    #[test]
    fn only_console_blocks_have_commands_and_prose_has_fragments() {
        assert_eq!(
            of("```toml\ntool x\n```\nSee `tool y`, `/etc/tool` and `apt-get install tool`."),
            [(4, "tool y".to_owned(), false)]
        );
    }
}
