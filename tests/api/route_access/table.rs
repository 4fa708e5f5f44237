//! The table of what is allowed (`table.txt`) and that of ids in queries and bodies (`ids.txt`), read.

use std::fmt;

/// Who calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestCaller {
    Nobody,
    Viewer,
    Member,
    Admin,
    /// The admin of another workspace.
    Foreign,
    /// A key of an admin that has this scope alone.
    Key(&'static str),
}

/// The columns of the table.
pub const COLUMNS: &[TestCaller] = &[
    TestCaller::Nobody,
    TestCaller::Viewer,
    TestCaller::Member,
    TestCaller::Admin,
    TestCaller::Foreign,
    TestCaller::Key("chat:read"),
    TestCaller::Key("chat:write"),
    TestCaller::Key("workspace:admin"),
    TestCaller::Key("agents:read"),
    TestCaller::Key("agents:write"),
    TestCaller::Key("agents:delete"),
    TestCaller::Key("agents:admin"),
    TestCaller::Key("agents:use"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cell {
    Ok,
    Refused(u16),
    /// The call makes no sense for this asker.
    Nothing,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ok => f.pad("ok"),
            Self::Refused(status) => f.pad(&status.to_string()),
            Self::Nothing => f.pad("-"),
        }
    }
}

#[derive(Debug, Clone)]
pub struct Row {
    /// `POST /v1/channels`
    pub route: String,
    /// What sets this call apart from others of the route.
    pub variant: String,
    pub cells: Vec<Cell>,
}

impl Row {
    pub fn path(&self) -> &str {
        self.route.split_once(' ').unwrap().1
    }

    pub fn changes(&self) -> bool {
        !self.route.starts_with("GET ")
    }

    /// Whether the asker made what the call is about.
    pub fn is_own(&self) -> bool {
        self.variant.starts_with("own")
    }

    /// Whether only an admin may change this. A call of the API has ended when it is seen, so nothing is left to cancel; trying
    /// the model changes nothing.
    pub fn takes_an_admin(&self) -> bool {
        let changes =
            self.changes() && self.variant != "of the API" && self.route != "POST /v1/model-test";
        changes && self.cells[3] == Cell::Ok && self.cells[2] != Cell::Ok
    }

    pub fn name(&self) -> String {
        if self.variant.is_empty() {
            self.route.clone()
        } else {
            format!("{} ({})", self.route, self.variant)
        }
    }
}

fn lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
}

/// Every row of `table.txt`: a method, a path, perhaps a variant in parentheses, and a cell for each column.
pub fn rows() -> Vec<Row> {
    lines(include_str!("table.txt")).map(row).collect()
}

fn row(line: &str) -> Row {
    let (named, cells) = if let Some((named, cells)) = line.split_once(')') {
        (named.to_owned() + ")", cells)
    } else {
        let mut parts = line.splitn(3, ' ').filter(|part| !part.is_empty());
        let method = parts.next().unwrap();
        let rest = line[method.len()..].trim_start();
        let (path, cells) = rest.split_once(' ').unwrap_or((rest, ""));
        (format!("{method} {path}"), cells)
    };
    let mut words = named.split_whitespace();
    let route = format!("{} {}", words.next().unwrap(), words.next().unwrap());
    let variant = words.collect::<Vec<_>>().join(" ");
    let cells: Vec<Cell> = cells
        .split_whitespace()
        .map(|cell| match cell {
            "ok" => Cell::Ok,
            "-" => Cell::Nothing,
            "401" | "403" | "404" => Cell::Refused(cell.parse().unwrap()),
            other => panic!("table.txt: `{other}` is no cell, in {line}"),
        })
        .collect();
    assert_eq!(cells.len(), COLUMNS.len(), "table.txt: {line}");
    Row {
        route,
        variant: variant.trim_matches(['(', ')']).to_owned(),
        cells,
    }
}

/// An id in a query or a body.
#[derive(Debug, Clone)]
pub struct IdField {
    pub route: String,
    /// `query` or `body`
    pub place: String,
    pub name: String,
    /// The kind of object; `none` where it names no object.
    pub kind: String,
    /// What another workspace's id is answered with.
    pub status: u16,
}

/// Every row of `ids.txt`: a method, a path, `query` or `body`, the field, the kind of object, and perhaps another status than
/// 404.
pub fn id_fields() -> Vec<IdField> {
    lines(include_str!("ids.txt"))
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [method, path, place, name, kind, rest @ ..] = words.as_slice() else {
                panic!("ids.txt: {line}");
            };
            IdField {
                route: format!("{method} {path}"),
                place: (*place).to_owned(),
                name: (*name).to_owned(),
                kind: (*kind).replace('-', " "),
                status: rest.first().map_or(404, |status| status.parse().unwrap()),
            }
        })
        .collect()
}
