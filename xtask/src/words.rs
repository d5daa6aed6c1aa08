//! Keeps words that the glossary replaces out of text for users: string literals, help of
//! programs, pages, alerts, dashboards, units, the package and output of scripts.

mod shipped;

use crate::run::{has_extension, is_production, production, read, tokens};
use anyhow::Context;
use proc_macro2::{TokenStream, TokenTree};
use std::path::{Path, PathBuf};

const TABLE: (&str, &str) = ("docs/GLOSSARY.md", "## Words to avoid\n");

const PROGRAMS: [&str; 3] = ["crates", "daemon", "lab"];

pub(crate) fn check(
    root: &Path,
    files: &[PathBuf],
    broken: &mut Vec<String>,
) -> anyhow::Result<()> {
    let words = words_to_avoid(&read(root, Path::new(TABLE.0))?)?;
    for file in files {
        for text in texts(root, file).with_context(|| file.display().to_string())? {
            if let Some(word) = words.iter().find(|word| has(&text, word)) {
                broken.push(format!(
                    "{}: {word:?} in {:?}: see {}",
                    file.display(),
                    text.trim(),
                    TABLE.0
                ));
            }
        }
    }
    Ok(())
}

fn texts(root: &Path, file: &Path) -> anyhow::Result<Vec<String>> {
    if is_page(file) {
        let text = prose(&read(root, file)?);
        return Ok(text.lines().map(str::to_owned).collect());
    }
    if !PROGRAMS.iter().any(|folder| file.starts_with(folder)) || !is_production(file) {
        return shipped::texts(root, file);
    }
    // clap makes help from comments.
    let with_comments = ["cli", "cli.rs", "args.rs"]
        .iter()
        .any(|name| file.iter().any(|part| part == *name));
    let mut literals = Vec::new();
    let tokens = tokens(production(&read(root, file)?))?;
    collect(tokens, with_comments, &mut literals);
    Ok(literals)
}

fn words_to_avoid(page: &str) -> anyhow::Result<Vec<String>> {
    let (_, table) = page
        .split_once(TABLE.1)
        .with_context(|| format!("{}: no {:?}", TABLE.0, TABLE.1))?;
    let rows = table.lines().filter(|line| line.starts_with('|')).skip(2);
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    Ok(cells
        .flat_map(|cell| cell.split(','))
        .map(|word| word.trim().to_owned())
        .collect())
}

fn is_page(file: &Path) -> bool {
    let is_documentation = file.starts_with("docs")
        && !file.starts_with("docs/decisions")
        && !file.ends_with("GLOSSARY.md");
    (is_documentation || file == Path::new("README.md")) && has_extension(file, "md")
}

fn prose(page: &str) -> String {
    let blocks = page.split("```").step_by(2);
    blocks
        .flat_map(|block| block.split('`').step_by(2))
        .collect()
}

fn collect(tokens: TokenStream, with_comments: bool, found: &mut Vec<String>) {
    let mut is_comment = false;
    for token in tokens {
        match token {
            TokenTree::Group(group) => collect(group.stream(), with_comments, found),
            TokenTree::Ident(name) => is_comment = name == "doc",
            TokenTree::Literal(literal) if !is_comment || with_comments => {
                found.extend(Some(literal.to_string()).filter(|text| text.contains('"')));
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

fn has(text: &str, word: &str) -> bool {
    let text = text.to_lowercase();
    let is_letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(word).any(|(at, _)| {
        let (before, after) = (text.get(..at), text.get(at + word.len()..));
        !is_letter(before.and_then(|t| t.chars().next_back()))
            && !is_letter(after.and_then(|t| t.chars().next()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_literals_are_checked_and_comments_only_as_help_text() {
        let code: TokenStream = "/// Nobody.\nfn f() { say(\"nobody listens\", 'x', 1); }"
            .parse()
            .unwrap();
        let (mut plain, mut help) = (Vec::new(), Vec::new());
        collect(code.clone(), false, &mut plain);
        collect(code, true, &mut help);
        assert_eq!(plain, ["\"nobody listens\""]);
        assert_eq!(help.len(), 2);
    }

    #[test]
    fn a_forbidden_word_matches_only_as_a_whole_word() {
        assert!(has("\"Nobody listens\"", "nobody") && has("it goes on.", "goes on"));
        assert!(!has("untold", "told") && !has("told_you", "told"));
    }

    #[test]
    fn the_word_checker_reads_its_table_and_skips_code() {
        let page = "## Words to avoid\n\n| word | use |\n| --- | --- |\n| told, tells | reports |\n| mend | fix |\n";
        assert_eq!(words_to_avoid(page).unwrap(), ["told", "tells", "mend"]);
        assert_eq!(prose("a `told` b\n```\ntold\n```\nc"), "a  b\n\nc");
    }
}
