use super::text::{cell_text, clean, events, numeric_columns, runs_heading, verdict_kind_text};
use crate::model::{Block, Caveat, Chart, Column, Finding, Mark, Report, Table};

pub fn markdown(report: &Report) -> String {
    let mut out = format!("# {}\n\n", escaped(&report.title));
    paragraph(&mut out, &report.subtitle);
    out += &format!(
        "**{}.** {}\n\n",
        verdict_kind_text(report),
        escaped(&report.verdict.headline)
    );
    for answers in &report.answers {
        out += &format!("**{}**\n\n", escaped(&answers.name));
        let item = |one: &Finding| format!("*{}*: {}", one.verdict, escaped(&one.text));
        list(&mut out, answers.findings.iter().map(item));
    }
    let mut listed_marks = Vec::new();
    blocks(&mut out, &report.overview, &mut listed_marks);
    list(
        &mut out,
        report.verdict.bullets.iter().map(|bullet| escaped(bullet)),
    );
    if !report.caveats.is_empty() {
        out += "## Read this first\n\n";
        let item = |Caveat { what, remedy }: &Caveat| {
            format!("{} *Remedy: {}*", escaped(what), escaped(remedy))
        };
        list(&mut out, report.caveats.iter().map(item));
    }
    if !report.runs.is_empty() {
        out += &format!("## {}\n\n", escaped(runs_heading(report)));
        for run in &report.runs {
            out += &format!("### {}\n\n", escaped(&run.name));
            let arm = ("arm".to_owned(), run.arm.clone());
            let arm = [&arm].into_iter().filter(|_| !run.arm.is_empty());
            let facts = arm.chain(&run.facts);
            list(
                &mut out,
                facts.map(|(name, value)| format!("{}: {}", escaped(name), escaped(value))),
            );
        }
    }
    for section in &report.sections {
        out += &format!("## {}\n\n", escaped(&section.title));
        blocks(&mut out, &section.blocks, &mut listed_marks);
    }
    if !report.made_by.is_empty() {
        out += "---\n\n";
        paragraph(&mut out, &report.made_by);
    }
    while out.ends_with("\n\n") {
        out.pop();
    }
    out
}

/// Events shared by several figures are listed once.
fn blocks<'a>(out: &mut String, blocks: &'a [Block], listed_marks: &mut Vec<&'a [Mark]>) {
    for block in blocks {
        match block {
            Block::Text(text) => paragraph(out, text),
            Block::Fold(title) => *out += &format!("### {}\n\n", escaped(title)),
            Block::Table(table) => {
                let title = escaped(&table.title);
                *out += &format!("**{title}**\n\n{}\n", self::table(table));
                paragraph(out, &table.note);
            }
            Block::Figure(figure) => {
                let title = escaped(&figure.title);
                let id = &figure.id;
                *out += &format!("**{title}**\n\n![{title}](figures/{id}.svg)\n\n");
                paragraph(out, &figure.caption);
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
    let rule = |numeric| if numeric { "---:" } else { "---" }.to_owned();
    row(&mut out, numeric.map(rule));
    for cells in &table.rows {
        row(&mut out, cells.iter().map(|cell| escaped(&cell_text(cell))));
    }
    out
}

fn row(out: &mut String, cells: impl Iterator<Item = String>) {
    *out += "|";
    for cell in cells {
        *out += &format!(" {cell} |");
    }
    *out += "\n";
}

fn paragraph(out: &mut String, text: &str) {
    if !text.is_empty() {
        *out += &format!("{}\n\n", escaped(text));
    }
}

fn list(out: &mut String, items: impl Iterator<Item = String>) {
    let before = out.len();
    for item in items {
        *out += &format!("- {item}\n");
    }
    if out.len() > before {
        *out += "\n";
    }
}

/// Escapes markup, HTML, links and cell ends.
fn escaped(text: &str) -> String {
    let text = clean(text);
    let mut out = String::with_capacity(text.len());
    for (index, letter) in text.char_indices() {
        let needs_escape = match letter {
            '\\' | '`' | '*' | '[' | ']' | '|' | '~' | '$' | '!' => true,
            // GitHub ignores underscores within a word.
            '_' => {
                let before = text[..index].chars().next_back();
                let after = text[index + 1..].chars().next();
                !(before.is_some_and(char::is_alphanumeric)
                    && after.is_some_and(char::is_alphanumeric))
            }
            '#' | '+' | '-' | '=' => text[..index].trim().is_empty(),
            // A number with a dot or parenthesis would start a list.
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
