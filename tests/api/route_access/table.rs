//! Expected access to each route, and the IDs in queries and bodies. Access follows from `security` in the API document and the
//! exceptions in `table.txt`; IDs follow from the document and the exceptions in `ids.txt`.

use std::{collections::BTreeMap, fmt, sync::LazyLock};

use serde_json::Value;

/// The checked-in API document; a test compares it to the one that is served.
static DOCUMENT: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../../openapi.json")).unwrap());

const METHODS: [&str; 5] = ["get", "put", "post", "patch", "delete"];

/// Names of all operations of the checked-in document.
pub fn documented_operations() -> Vec<String> {
    operations(&DOCUMENT)
        .into_iter()
        .map(|(name, _)| name)
        .collect()
}

/// Every operation of a document: its name, such as `GET /v1/channels`, and its object.
pub fn operations(document: &Value) -> Vec<(String, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    let mut all = Vec::new();
    for (path, item) in paths {
        for method in METHODS {
            if let Some(operation) = item.get(method) {
                all.push((format!("{} {path}", method.to_uppercase()), operation));
            }
        }
    }
    all
}

/// Lowest role (`None`: no session needed) and key scopes (`None`: keys are not accepted) that `security` requires.
pub fn access_of(operation: &Value) -> (Option<&str>, Option<Vec<&str>>) {
    let security = operation["security"].as_array().unwrap();
    let list = |name: &str| {
        let list = security.iter().find_map(|one| one[name].as_array())?;
        Some(
            list.iter()
                .map(|word| word.as_str().unwrap())
                .collect::<Vec<_>>(),
        )
    };
    (list("session").map(|roles| roles[0]), list("key"))
}

/// Checks whether `security` lists guests.
pub fn accepts_guests(operation: &Value) -> bool {
    let security = operation["security"].as_array().unwrap();
    let mut roles = security
        .iter()
        .filter_map(|one| one["session"].as_array())
        .flatten();
    roles.any(|role| role == "guest")
}

/// Kind of caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestCaller {
    Nobody,
    Viewer,
    Member,
    Admin,
    /// The admin of another workspace.
    Foreign,
    /// An admin's key that has only this scope.
    Key(&'static str),
    /// A guest in #general.
    Guest,
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
    TestCaller::Guest,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cell {
    Ok,
    Refused(u16),
    /// The call is not applicable to this caller.
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
    /// Such as `POST /v1/channels`.
    pub route: String,
    /// Distinguishes this call from other calls of the route.
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

    /// Checks whether the caller created the call's object.
    pub fn is_own(&self) -> bool {
        self.variant.starts_with("own")
    }

    /// Checks whether the call is a change that only an admin can make.
    ///
    /// Excludes tasks of the Responses API, which have already ended and cannot be canceled; the model test, which does not change
    /// anything; and the refresh of a tool, which stores what the tool's server lists.
    pub fn takes_an_admin(&self) -> bool {
        let decides_nothing = [
            "POST /v1/model-test",
            "POST /v1/server/certificate",
            "PUT /v1/imports/{id}/archive",
            "POST /v1/hooks/{id}/requests/{request_id}/post",
            "POST /v1/bots/{id}/subscription/test",
            "POST /v1/bots/{id}/subscription/deliveries/{delivery_id}/replay",
            "POST /v1/tools/{id}/refresh",
        ];
        let changes = self.changes()
            && self.variant != "of the API"
            && !decides_nothing.contains(&self.route.as_str());
        changes && self.cells[3] == Cell::Ok && self.cells[2] != Cell::Ok
    }

    /// Status for callers with access, if it is a refusal because the test's server does not have what the route changes.
    pub fn refusal(&self) -> Option<u16> {
        match self.route.as_str() {
            // The server neither orders its certificate nor sends email.
            "POST /v1/server/certificate"
            | "POST /v1/server/mail-test"
            | "POST /v1/mail/confirmation"
            | "POST /v1/auth/reset"
            | "POST /v1/identity-providers/{id}/links"
            | "POST /v1/invites/{id}/send" => Some(422),
            // The link in the example does not exist.
            "POST /v1/mail/confirm"
            | "POST /v1/mail/unsubscribe"
            | "POST /v1/auth/reset/confirm" => Some(404),
            // No identity provider, bot, or runner answers.
            "POST /v1/auth/oidc/{id}/start"
            | "POST /v1/identity-providers/{id}/try"
            | "POST /v1/commands/{name}"
            | "POST /v1/skills/import"
            | "POST /v1/messages/{id}/buttons/{button_id}" => Some(503),
            // No import is running or paused.
            "POST /v1/imports/{id}/pause" | "POST /v1/imports/{id}/resume" => Some(409),
            // No sign-in waits for a password.
            "POST /v1/auth/oidc/link" => Some(401),
            _ => None,
        }
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

/// Rows for all documented routes; a row in `table.txt` replaces its route's documented row.
pub fn rows() -> Vec<Row> {
    let mut listed: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for row in lines(include_str!("table.txt")).map(row) {
        listed.entry(row.route.clone()).or_default().push(row);
    }
    let mut rows = Vec::new();
    for (route, operation) in operations(&DOCUMENT) {
        let documented = documented_cells(operation);
        let mut own = listed.remove(&route).unwrap_or_else(|| {
            vec![Row {
                route,
                variant: String::new(),
                cells: Vec::new(),
            }]
        });
        for row in &mut own {
            if row.cells.is_empty() {
                row.cells.clone_from(&documented);
            }
        }
        rows.append(&mut own);
    }
    assert!(
        listed.is_empty(),
        "table.txt has rows for unknown routes: {:?}",
        listed.keys()
    );
    rows
}

/// Example of the route's JSON body, if it has one.
pub fn body_example(route: &str) -> Option<Value> {
    let (method, path) = route.split_once(' ').unwrap();
    let operation = &DOCUMENT["paths"][path][method.to_lowercase()];
    operation["requestBody"]["content"]["application/json"]
        .get("example")
        .cloned()
}

/// Required query parameters of the route that contain an ID, and the kind of object for each.
pub fn required_ids(route: &str) -> Vec<(String, String)> {
    let (method, path) = route.split_once(' ').unwrap();
    let operation = &DOCUMENT["paths"][path][method.to_lowercase()];
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    parameters
        .filter(|parameter| parameter["in"] == "query" && parameter["required"] == true)
        .filter_map(|parameter| {
            let kind = kind_of(&parameter["schema"])?;
            Some((parameter["name"].as_str()?.to_owned(), kind))
        })
        .collect()
}

/// Cells derived from the role and scopes.
fn documented_cells(operation: &Value) -> Vec<Cell> {
    let (role, scopes) = access_of(operation);
    let ranks = ["viewer", "member", "admin"];
    let rank = |role: &str| ranks.iter().position(|known| *known == role).unwrap();
    let cell = |caller: &TestCaller| {
        let Some(lowest) = role else {
            return Cell::Ok;
        };
        let has_role = |role: &str| rank(role) >= rank(lowest);
        let is_allowed = match caller {
            TestCaller::Nobody => return Cell::Refused(401),
            TestCaller::Foreign => return Cell::Refused(404),
            TestCaller::Viewer => has_role("viewer"),
            TestCaller::Member => has_role("member"),
            TestCaller::Admin => has_role("admin"),
            TestCaller::Guest => accepts_guests(operation),
            TestCaller::Key(scope) => scopes
                .as_ref()
                .is_some_and(|needed| needed.iter().all(|needed| needed == scope)),
        };
        if is_allowed {
            Cell::Ok
        } else {
            Cell::Refused(403)
        }
    };
    COLUMNS.iter().map(cell).collect()
}

/// Parses a row of `table.txt`: a method, a path, an optional variant in parentheses, and either one cell per column
/// or none.
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
    assert!(
        cells.is_empty() || cells.len() == COLUMNS.len(),
        "table.txt: {line}"
    );
    Row {
        route,
        variant: variant.trim_matches(['(', ')']).to_owned(),
        cells,
    }
}

/// An ID field of a query or a body.
#[derive(Debug, Clone)]
pub struct IdField {
    pub route: String,
    /// Either `query` or `body`.
    pub place: String,
    pub name: String,
    /// Kind of object; `none` if the field does not contain the ID of an object.
    pub kind: String,
    /// Status of a request with an ID from another workspace.
    pub status: u16,
}

/// All fields of queries and bodies that contain an object's ID.
pub fn id_fields() -> Vec<IdField> {
    let mut listed: BTreeMap<(String, String, String), IdField> = lines(include_str!("ids.txt"))
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [method, path, place, name, kind, rest @ ..] = words.as_slice() else {
                panic!("ids.txt: {line}");
            };
            let field = IdField {
                route: format!("{method} {path}"),
                place: (*place).to_owned(),
                name: (*name).to_owned(),
                kind: (*kind).to_owned(),
                status: rest.first().map_or(404, |status| status.parse().unwrap()),
            };
            let key = (field.route.clone(), field.place.clone(), field.name.clone());
            (key, field)
        })
        .collect();
    let mut fields = Vec::new();
    for (route, operation) in operations(&DOCUMENT) {
        for (place, name, schema) in named_fields(operation) {
            let key = (route.clone(), place.to_owned(), name.clone());
            fields.push(listed.remove(&key).unwrap_or_else(|| IdField {
                kind: kind_of(&schema).unwrap_or_else(|| {
                    panic!("{route}: which kind of object does {name} in the {place} name? Give it an ID type, or a row in ids.txt")
                }),
                route: route.clone(),
                place: place.to_owned(),
                name,
                status: 404,
            }));
        }
    }
    assert!(
        listed.is_empty(),
        "ids.txt has rows for unknown fields: {:?}",
        listed.keys()
    );
    fields
}

/// Fields of the query and the body whose names suggest that they contain an ID, with their schemas.
fn named_fields(operation: &Value) -> Vec<(&'static str, String, Value)> {
    let is_id = |name: &str| {
        name.ends_with("_id") || name.ends_with("_ids") || ["attachments", "owner"].contains(&name)
    };
    let mut fields = Vec::new();
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let name = parameter["name"].as_str().unwrap();
        let is_cursor = ["after", "before", "around"].contains(&name);
        if parameter["in"] == "query" && (is_id(name) || is_cursor) {
            fields.push(("query", name.to_owned(), parameter["schema"].clone()));
        }
    }
    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
    for (name, schema) in properties(schema) {
        if is_id(&name) {
            fields.push(("body", name, schema));
        }
    }
    fields
}

/// Fields of a schema, including those of its variants.
fn properties(schema: &Value) -> BTreeMap<String, Value> {
    if let Some(name) = schema["$ref"].as_str() {
        let pointer = name.trim_start_matches('#');
        return properties(DOCUMENT.pointer(pointer).unwrap());
    }
    let own = schema["properties"].as_object().into_iter().flatten();
    let mut all: BTreeMap<String, Value> = own
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    for list in ["oneOf", "allOf", "anyOf"] {
        for part in schema[list].as_array().into_iter().flatten() {
            all.extend(properties(part));
        }
    }
    all
}

/// Kind of object for an ID type, including lists of IDs and nullable IDs.
fn kind_of(schema: &Value) -> Option<String> {
    if let Some(name) = schema["$ref"].as_str() {
        return kind_of(DOCUMENT.pointer(name.trim_start_matches('#'))?);
    }
    if let Some(pattern) = schema["pattern"].as_str() {
        let (prefix, _) = pattern.strip_prefix('^')?.split_once("_[0-7]")?;
        let kind = match prefix {
            "chan" => "channel",
            "inv" => "invite",
            "msg" => "message",
            "res" => "resolution",
            "resp" => "response",
            "sbx" => "sandbox",
            "sess" => "session",
            "ws" => "workspace",
            other => other,
        };
        return Some(kind.to_owned());
    }
    let variants = ["oneOf", "anyOf"]
        .iter()
        .filter_map(|list| schema[*list].as_array());
    variants
        .flatten()
        .chain(schema.get("items"))
        .find_map(kind_of)
}
