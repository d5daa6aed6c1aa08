//! Checks that a file has the format's tables, and nothing that computes, such as a view.

use super::UntrustedDatabase;
use crate::{
    error::{Error, Result},
    schema::{ColumnKind, PRIMARY_KEY, TABLES, TableSpec},
};
use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

/// The file's tables and their columns; an older file may have fewer.
pub type PresentTables = HashMap<String, HashSet<String>>;

const MAX_SHOWN_CHARS: usize = 80;

/// Constraints that a column of a later version may have.
const UNKNOWN_COLUMN_CONSTRAINTS: [&str; 3] = ["", "NOT NULL", "NOT NULL UNIQUE"];

/// Returns the known tables of the file. Ignores other tables, and indexes of plain columns.
///
/// # Errors
/// [`Error::Refused`] for a table that is missing, unless it may be, or declared differently, and
/// for anything that computes: view, trigger, virtual table, generated column, default, check, index
/// of an expression.
pub fn check_recording_tables(database: &UntrustedDatabase, path: &Path) -> Result<PresentTables> {
    let mut present_tables = PresentTables::new();
    for object in schema_objects(database)? {
        let is_plain_table = object.is_plain_table();
        let SchemaObject {
            kind, name, sql, ..
        } = object;
        let spec = TABLES
            .iter()
            .find(|spec| spec.name.eq_ignore_ascii_case(&name));
        let present_columns = match (kind.as_str(), spec) {
            ("table", Some(spec)) if is_plain_table => check_columns(&sql, spec).map(Some),
            ("table", None) if is_plain_table => Ok(None),
            ("table", _) => Err(format!(
                "`{}` is a virtual table; a recording has only plain ones",
                excerpt(&name)
            )),
            ("index", _) if is_plain_index(&sql) => Ok(None),
            ("index", _) => Err(format!(
                "`{}` is an index of an expression or of some rows; a recording has none",
                excerpt(&name)
            )),
            _ => Err(format!(
                "`{}` is a {}; a recording has only tables and indexes",
                excerpt(&name),
                excerpt(&kind)
            )),
        };
        if let Some(columns) = present_columns.map_err(|what| Error::refused(path, what))? {
            present_tables.insert(name, columns);
        }
    }
    match TABLES
        .iter()
        .find(|spec| !spec.may_be_missing() && !present_tables.contains_key(spec.name))
    {
        Some(spec) => Err(Error::refused(
            path,
            format!("its table `{}` is missing", spec.name),
        )),
        None => Ok(present_tables),
    }
}

pub struct SchemaObject {
    pub kind: String,
    pub name: String,
    root_page: i64,
    pub sql: String,
}

impl SchemaObject {
    /// A virtual table has no page.
    pub fn is_plain_table(&self) -> bool {
        let words = self.sql.split_whitespace().take(2);
        self.kind == "table" && self.root_page > 0 && words.eq(["CREATE", "TABLE"])
    }
}

pub fn schema_objects(database: &UntrustedDatabase) -> Result<Vec<SchemaObject>> {
    let sql = "SELECT type, name, rootpage, sql FROM sqlite_schema";
    database.collect(sql, [], |row| {
        let text = |i| {
            row.get::<_, Option<String>>(i)
                .map(Option::unwrap_or_default)
        };
        Ok(SchemaObject {
            kind: text(0)?,
            name: text(1)?,
            root_page: row.get::<_, Option<i64>>(2)?.unwrap_or(0),
            sql: text(3)?,
        })
    })
}

/// Also true for SQLite's own index of a constraint, which has no SQL.
fn is_plain_index(sql: &str) -> bool {
    let plain =
        |c: char| c.is_ascii_alphanumeric() || c.is_ascii_whitespace() || "_\",()".contains(c);
    sql.is_empty()
        || (sql.chars().all(plain) && sql.matches('(').count() == 1 && sql.ends_with(')'))
}

pub fn excerpt(text: &str) -> String {
    text.chars()
        .take(MAX_SHOWN_CHARS)
        .flat_map(char::escape_debug)
        .collect()
}

/// Returns the columns' names. A primary key must be declared as in the format. The format's
/// other columns may lack their constraint; those without one may be missing if the table may be.
/// Columns that the format does not have are allowed if their type is known or absent.
fn check_columns(sql: &str, spec: &TableSpec) -> Result<HashSet<String>, String> {
    let declared = parse_declarations(sql, spec);
    let declared = declared
        .ok_or_else(|| format!("`{}` is declared otherwise than in a recording", spec.name))?;
    for (name, declaration) in &declared {
        let column = spec.columns.iter().find(|column| column.name == *name);
        // Another version may use another type, and other programs may omit it.
        let kinds = [
            ColumnKind::Integer.sql(),
            ColumnKind::Real.sql(),
            ColumnKind::Text.sql(),
            "",
        ];
        let rest = kinds
            .iter()
            .find_map(|kind| declaration.strip_prefix(kind))
            .map(str::trim_start);
        let is_allowed = match column {
            Some(column) if column.constraint == PRIMARY_KEY => {
                *declaration == format!("{} {PRIMARY_KEY}", column.kind.sql())
            }
            Some(column) => rest.is_some_and(|rest| rest.is_empty() || rest == column.constraint),
            None => rest.is_some_and(|rest| UNKNOWN_COLUMN_CONSTRAINTS.contains(&rest)),
        };
        if !is_allowed {
            let (name, declaration) = (excerpt(name), excerpt(declaration));
            return Err(format!(
                "the column `{name}` of `{}` is declared as `{declaration}`, otherwise than in a recording",
                spec.name
            ));
        }
    }
    let names: HashSet<String> = declared
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .collect();
    let may_be_missing = spec.may_be_missing();
    match spec.columns.iter().find(|column| {
        !(names.contains(column.name) || may_be_missing && column.constraint.is_empty())
    }) {
        Some(column) => Err(format!("`{}` has no column `{}`", spec.name, column.name)),
        None => Ok(names),
    }
}

/// Column names and what follows each, parsed from CREATE TABLE; `None` if the statement does not
/// have the writer's form. The statement is never run, because it is untrusted.
fn parse_declarations<'a>(sql: &'a str, spec: &TableSpec) -> Option<Vec<(&'a str, &'a str)>> {
    let body = sql
        .strip_prefix("CREATE TABLE ")?
        .strip_prefix(spec.name)?
        .strip_prefix('(')?;
    let body = body
        .strip_suffix(')')?
        .strip_suffix(spec.unique_constraint)?;
    let column = |text: &'a str| {
        let text = text.trim();
        let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        (!name.is_empty() && name.chars().all(plain)).then(|| (name, rest.trim()))
    };
    body.split(',').map(column).collect()
}
