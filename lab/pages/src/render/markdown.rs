use std::fmt::Write as _;

use super::text::{cards_heading, cell_text, clean, events, numeric_columns, standing_text};
use crate::model::{Block, Chart, Column, Mark, Report, RunCard, Section, Table};

pub fn markdown(report: &Report) -> String {
    let mut out = format!("# {}\n\n", escaped(&report.title));
    paragraph(&mut out, &escaped(&report.subtitle));
    paragraph(
        &mut out,
        &format!(
            "**{}.** {}",
            standing_text(report),
            escaped(&report.verdict.headline)
        ),
    );
    for answers in &report.answers {
        paragraph(&mut out, &format!("**{}**", escaped(&answers.name)));
        list(
            &mut out,
            answers
                .findings
                .iter()
                .map(|finding| format!("*{}*: {}", finding.verdict, escaped(&finding.text))),
        );
    }
    let mut listed_marks = Vec::new();
    blocks(&mut out, &report.overview, &mut listed_marks);
    list(
        &mut out,
        report.verdict.points.iter().map(|point| escaped(point)),
    );
    if !report.caveats.is_empty() {
        out.push_str("## Read this first\n\n");
        list(
            &mut out,
            report
                .caveats
                .iter()
                .map(|one| format!("{} *Remedy: {}*", escaped(&one.what), escaped(&one.remedy))),
        );
    }
    if !report.runs.is_empty() {
        writeln!(out, "## {}\n", escaped(cards_heading(report))).unwrap_or_default();
        report.runs.iter().for_each(|run| card(&mut out, run));
    }
    report
        .sections
        .iter()
        .for_each(|section| chapter(&mut out, section, &mut listed_marks));
    if !report.made_by.is_empty() {
        out.push_str("---\n\n");
        paragraph(&mut out, &escaped(&report.made_by));
    }
    while out.ends_with("\n\n") {
        out.pop();
    }
    out
}

fn card(out: &mut String, run: &RunCard) {
    writeln!(out, "### {}\n", escaped(&run.name)).unwrap_or_default();
    list(
        out,
        [("arm".to_owned(), run.arm.clone())]
            .into_iter()
            .filter(|(_, arm)| !arm.is_empty())
            .chain(run.facts.iter().cloned())
            .map(|(name, value)| format!("{}: {}", escaped(&name), escaped(&value))),
    );
}

fn chapter<'a>(out: &mut String, section: &'a Section, listed_marks: &mut Vec<&'a [Mark]>) {
    writeln!(out, "## {}\n", escaped(&section.title)).unwrap_or_default();
    blocks(out, &section.blocks, listed_marks);
}

/// Events shared by several figures are listed once.
fn blocks<'a>(out: &mut String, blocks: &'a [Block], listed_marks: &mut Vec<&'a [Mark]>) {
    for block in blocks {
        match block {
            Block::Text(text) => paragraph(out, &escaped(text)),
            Block::Fold(title) => {
                writeln!(out, "### {}\n", escaped(title)).unwrap_or_default();
            }
            Block::Table(table) => {
                writeln!(out, "**{}**\n", escaped(&table.title)).unwrap_or_default();
                out.push_str(&self::table(table));
                out.push('\n');
                paragraph(out, &escaped(&table.note));
            }
            Block::Figure(figure) => {
                let title = escaped(&figure.title);
                let id = &figure.id;
                writeln!(out, "**{title}**\n\n![{title}](figures/{id}.svg)\n").unwrap_or_default();
                paragraph(out, &escaped(&figure.caption));
                if let Chart::Timeline(timeline) = &figure.chart
                    && !listed_marks.contains(&timeline.marks.as_slice())
                {
                    listed_marks.push(&timeline.marks);
                    list(
                        out,
                        events(timeline).map(|(at, mark)| format!("{at}: {}", escaped(&mark.name))),
                    );
                }
            }
        }
    }
}

pub fn table(table: &Table) -> String {
    let mut out = String::new();
    let head = |column: &Column| match column.unit.as_str() {
        "" => escaped(&column.title),
        unit => format!("{} ({})", escaped(&column.title), escaped(unit)),
    };
    row(&mut out, table.columns.iter().map(head));
    let numeric = numeric_columns(table).into_iter();
    row(
        &mut out,
        numeric.map(|numeric| if numeric { "---:" } else { "---" }.to_owned()),
    );
    for cells in &table.rows {
        row(&mut out, cells.iter().map(|cell| escaped(&cell_text(cell))));
    }
    out
}

fn row(out: &mut String, cells: impl Iterator<Item = String>) {
    out.push('|');
    for cell in cells {
        write!(out, " {cell} |").unwrap_or_default();
    }
    out.push('\n');
}

fn paragraph(out: &mut String, text: &str) {
    if !text.is_empty() {
        out.push_str(text);
        out.push_str("\n\n");
    }
}

fn list(out: &mut String, items: impl Iterator<Item = String>) {
    let before = out.len();
    for item in items {
        writeln!(out, "- {item}").unwrap_or_default();
    }
    if out.len() > before {
        out.push('\n');
    }
}

/// Escapes markup, HTML, links and cell ends.
fn escaped(text: &str) -> String {
    let text = clean(text);
    let mut out = String::with_capacity(text.len());
    for (index, letter) in text.char_indices() {
        let needs_escape = match letter {
            '\\' | '`' | '*' | '[' | ']' | '|' | '~' | '$' | '!' => true,
            // GitHub ignores these within a word.
            '_' => {
                let before = text[..index].chars().next_back();
                let after = text[index + 1..].chars().next();
                !(before.is_some_and(char::is_alphanumeric)
                    && after.is_some_and(char::is_alphanumeric))
            }
            '#' | '+' | '-' | '=' => text[..index].trim().is_empty(),
            // A leading number would start a list.
            '.' | ')' => {
                let before = text[..index].trim_start();
                let ends = text[index + 1..]
                    .chars()
                    .next()
                    .is_none_or(|next| next == ' ');
                ends && !before.is_empty() && before.bytes().all(|byte| byte.is_ascii_digit())
            }
            _ => false,
        };
        match letter {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            // A bare address would become a link.
            ':' if text[index..].starts_with("://") => out.push_str("&#58;"),
            '@' => out.push_str("&#64;"),
            letter if needs_escape => out.extend(['\\', letter]),
            letter => out.push(letter),
        }
    }
    out
}
