//! The answers of the status, as a list on the page and as the image `/status.svg`.

use faultline_status::{Answer, Status, Verdict};
use faultline_text::{escaped, utc};
use itertools::Itertools;

/// Lengths in the image's units. A letter is about half as wide as its font size.
const IMAGE_WIDTH: usize = 1000;
const MARGIN: usize = 32;
const LINE_HEIGHT: usize = 27;
const TEXT_LEFT: usize = 150;
const MAX_LINE_LETTERS: usize = 88;

pub fn list(answers: &[Answer]) -> String {
    if answers.is_empty() {
        return String::new();
    }
    let item = |answer: &Answer| {
        let (class, word) = (class(answer.verdict), answer.verdict.word());
        let (title, text) = (answer.subject.title(), code(&answer.text));
        format!(
            "<li><span class=\"badge {class}\">{word}</span> <span><b>{title}:</b> {text}</span></li>\n"
        )
    };
    let items: String = answers.iter().map(item).collect();
    format!("<ul class=\"answers\">\n{items}</ul>\n")
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Fine => "good",
        Verdict::Look => "busy",
        Verdict::Act => "bad",
        Verdict::Unknown => "unknown",
    }
}

/// Text in backticks becomes code.
fn code(text: &str) -> String {
    let part = |(index, part)| match index % 2 {
        0 => escaped(part),
        _ => format!("<code>{}</code>", escaped(part)),
    };
    text.split('`').enumerate().map(part).collect()
}

/// The answers as an SVG to share. Its colors are fixed: the page around it is unknown.
pub fn status_svg(status: &Status) -> String {
    let lines = status
        .answers
        .iter()
        .map(|answer| wrapped(&answer.line()))
        .collect_vec();
    let rows_height: usize = lines
        .iter()
        .map(|lines| lines.len() * LINE_HEIGHT + LINE_HEIGHT / 2)
        .sum();
    let height = 2 * MARGIN + LINE_HEIGHT + LINE_HEIGHT / 2 + rows_height;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {IMAGE_WIDTH} {height}\" width=\"{IMAGE_WIDTH}\" height=\"{height}\" \
         font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif\" font-size=\"17\" fill=\"#1d2226\">\n\
         <rect width=\"{IMAGE_WIDTH}\" height=\"{height}\" rx=\"14\" fill=\"#f6f6f3\" stroke=\"#e4e4de\"/>\n{}",
        heading(status)
    );
    let mut y = MARGIN + LINE_HEIGHT + 2 * LINE_HEIGHT;
    for (answer, lines) in status.answers.iter().zip(&lines) {
        let (color, background) = colors(answer.verdict);
        out += &format!(
            "<rect x=\"{MARGIN}\" y=\"{}\" width=\"98\" height=\"26\" rx=\"13\" fill=\"{background}\"/>\
             <text x=\"{}\" y=\"{y}\" text-anchor=\"middle\" font-weight=\"600\" fill=\"{color}\">{}</text>\n",
            y - 19,
            MARGIN + 49,
            answer.verdict.word()
        );
        for line in lines {
            let line = escaped(line);
            out += &format!("<text x=\"{TEXT_LEFT}\" y=\"{y}\">{line}</text>\n");
            y += LINE_HEIGHT;
        }
        y += LINE_HEIGHT / 2;
    }
    out + "</svg>\n"
}

fn heading(status: &Status) -> String {
    let y = MARGIN + LINE_HEIGHT / 2;
    let target = &status.target;
    let facts = ["Client", "Version"].map(|name| target.fact(name));
    let facts = escaped(&facts.iter().flatten().join(" "));
    let title = format!(
        "<text x=\"{MARGIN}\" y=\"{y}\" font-size=\"22\" font-weight=\"650\">{} <tspan font-size=\"17\" font-weight=\"400\" \
         fill=\"#646c73\">{facts}</tspan></text>\n",
        escaped(target.headline())
    );
    let demo = status.is_demo.then(|| {
        format!(
            "<text x=\"{}\" y=\"{y}\" text-anchor=\"end\" font-weight=\"650\" fill=\"#95610a\">DEMO: simulated</text>\n",
            IMAGE_WIDTH - MARGIN
        )
    });
    let time = utc((status.tick_time * 1e9) as i64);
    format!(
        "{title}{}<text x=\"{MARGIN}\" y=\"{}\" font-size=\"14\" fill=\"#646c73\">faultline {}, {time}</text>\n",
        demo.unwrap_or_default(),
        y + LINE_HEIGHT - 3,
        escaped(&status.faultlined)
    )
}

/// Text and background color of a badge, as on the page.
fn colors(verdict: Verdict) -> (&'static str, &'static str) {
    match verdict {
        Verdict::Fine => ("#1f7a4d", "#e4f3ea"),
        Verdict::Look => ("#95610a", "#fbf0d9"),
        Verdict::Act => ("#b3352c", "#fae6e3"),
        Verdict::Unknown => ("#646c73", "#e4e4de"),
    }
}

fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let length = word.chars().count();
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + length <= MAX_LINE_LETTERS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
