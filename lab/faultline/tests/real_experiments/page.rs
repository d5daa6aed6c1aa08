//! A report as its readers have it.

use faultline_testkit::{
    Result,
    browser::{Browser, SKIP_MESSAGE},
};
use std::{fs, path::PathBuf};

/// The folder of a report.
pub struct Page(pub PathBuf);

impl Page {
    /// The report as Markdown.
    pub fn text(&self) -> String {
        fs::read_to_string(self.0.join("report.md")).expect("the report as Markdown")
    }

    /// That it says this.
    pub fn says(&self, words: &str) {
        let text = self.text();
        assert!(
            text.contains(words),
            "the report does not say {words:?}:\n{}",
            text.get(..6000).unwrap_or(&text)
        );
    }

    /// A column of a table, of the runs of `arm`, added up.
    pub fn added_up(&self, table: &str, column: &str, arm: &str) -> f64 {
        let [head, rows @ ..] = &self.table(table)[..] else {
            panic!("{table} is empty")
        };
        let at = place(table, head, column);
        let runs = rows
            .iter()
            .filter(|cells| cells[0].starts_with(&format!("{arm}, run ")));
        let values: Vec<f64> = runs.filter_map(|cells| cells[at].parse().ok()).collect();
        assert!(!values.is_empty(), "{table} has no run of {arm}");
        values.iter().sum()
    }

    /// A cell of a table, by the names of its row and its column.
    pub fn cell(&self, table: &str, column: &str, row: &str) -> String {
        self.cell_about(table, column, row, "")
    }

    /// The same where several rows have one name: of the one whose second cell is `about`, unless that is empty.
    pub fn cell_about(&self, table: &str, column: &str, row: &str, about: &str) -> String {
        let [head, rows @ ..] = &self.table(table)[..] else {
            panic!("{table} is empty")
        };
        let at = place(table, head, column);
        let mut rows = rows
            .iter()
            .filter(|cells| cells[0] == row && (about.is_empty() || cells[1] == about));
        rows.next()
            .unwrap_or_else(|| panic!("{table} has no row {row} {about}"))[at]
            .clone()
    }

    /// A table's rows, the first its head.
    fn table(&self, name: &str) -> Vec<Vec<String>> {
        let path = self.0.join(format!("tables/{name}.csv"));
        let text =
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        text.lines().map(cells).collect()
    }

    /// In a real browser: nothing fails and nothing is asked of anybody.
    pub fn opens(&self) -> Result<()> {
        if !Browser::is_installed() {
            println!("{SKIP_MESSAGE}");
            return Ok(());
        }
        let mut browser = Browser::start()?;
        browser.window(1280, 960, false)?;
        browser.open(&self.0.join("report.html"))?;
        browser.screenshot(&self.0.join("report.png"), false)?;
        assert_eq!(browser.console_messages(), [] as [String; 0]);
        let others: Vec<&String> = browser
            .requests()
            .iter()
            .filter(|url| !url.starts_with("file:"))
            .collect();
        assert!(others.is_empty(), "{others:?}");
        Ok(())
    }
}

/// Where a column is.
fn place(table: &str, head: &[String], column: &str) -> usize {
    head.iter()
        .position(|title| title == column)
        .unwrap_or_else(|| panic!("{table} has no column {column}: {head:?}"))
}

/// The cells of a line of CSV; none of these tables has a quotation mark in a cell.
fn cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut quoted = false;
    for letter in line.chars() {
        match letter {
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            letter => cells
                .iter_mut()
                .last()
                .expect("one cell at least")
                .push(letter),
        }
    }
    cells
}
