//! Files of a skill as untrusted data: their paths, their texts, and the front matter of `SKILL.md`.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::agents::AgentError;

/// The file that describes a skill.
pub(super) const MAIN: &str = "SKILL.md";
pub(super) const FILES_MAX: usize = 64;
/// Maximum size of all files of a skill together, in bytes.
pub(super) const BYTES_MAX: usize = 1024 * 1024;
const PATH_BYTES_MAX: usize = 256;
const NAME_BYTES_MAX: usize = 64;
const DESCRIPTION_CHARS_MAX: usize = 1024;
const FRONT_MATTER_BYTES_MAX: usize = 16 * 1024;
const FENCE: &str = "---";

/// A text file of a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SkillFileForm {
    /// Path below the skill's folder, such as `scripts/check.sh`, at most 256 bytes.
    pub path: String,
    pub content: String,
}

/// The checked texts of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillText {
    pub(super) name: String,
    pub(super) description: String,
    /// Sorted by path.
    pub(super) files: Vec<SkillFileForm>,
}

/// Front matter of `SKILL.md`; other fields are ignored.
#[derive(Deserialize)]
struct FrontMatter {
    name: String,
    description: String,
}

/// Reason why a file does not fit.
pub(super) fn bad_file(path: &str, rule: &str) -> AgentError {
    AgentError::BadSkill(format!("{}: {rule}", shown(path)))
}

fn bad_line(path: &str, line: usize, rule: &str) -> AgentError {
    AgentError::BadSkill(format!("{}, line {line}: {rule}", shown(path)))
}

/// A path as errors show it.
fn shown(path: &str) -> String {
    let plain = path
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c });
    plain.take(PATH_BYTES_MAX).collect()
}

/// Number of the line at a position in a text, from 1.
fn line_at(text: &[u8], at: usize) -> usize {
    1 + memchr::memchr_iter(b'\n', &text[..at]).count()
}

/// Checks a path of a file, or of a folder.
pub(super) fn check_path(path: &str) -> Result<(), AgentError> {
    if path.len() > PATH_BYTES_MAX {
        let rule = format!("a path can have at most {PATH_BYTES_MAX} bytes");
        return Err(bad_file(path, &rule));
    }
    let is_bad = |part: &str| matches!(part, "" | "." | "..");
    let is_bad_char = |c: char| c.is_control() || matches!(c, '\\' | ':');
    if path.split('/').any(is_bad) || path.contains(is_bad_char) {
        let rule = "a path must lead from the skill's folder downward, without `..`, `\\`, and `:`";
        return Err(bad_file(path, rule));
    }
    Ok(())
}

/// Checks the path of a folder in a repository, and returns it without slashes at its end.
///
/// # Errors
/// `Invalid`.
pub fn folder_path(path: &str) -> Result<&str, AgentError> {
    let path = path.trim_end_matches('/');
    check_path(path).map(|()| path).map_err(|_| {
        let rule =
            "path must lead from the repository's root to a folder, such as `skills/release-notes`";
        AgentError::Invalid(rule.to_owned(), "path")
    })
}

/// # Errors
/// `BadSkill` with the line of the first byte that is not UTF-8.
pub(super) fn utf8(path: &str, bytes: Vec<u8>) -> Result<String, AgentError> {
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        let line = line_at(e.as_bytes(), at);
        bad_line(path, line, "the text is not UTF-8")
    })
}

/// Names in a folder tree that would be the same file on a system that ignores case.
#[derive(Default)]
struct Tree {
    /// Folders as written, by their path in lowercase.
    folders: BTreeMap<String, String>,
    files: BTreeSet<String>,
}

impl Tree {
    fn add_folder(&mut self, path: &str) -> Result<(), AgentError> {
        let key = path.to_lowercase();
        if self.files.contains(&key) {
            return Err(bad_file(path, "a file and a folder have this name"));
        }
        let known = self.folders.entry(key).or_insert_with(|| path.to_owned());
        if known != path {
            return Err(bad_file(
                path,
                "another folder has this name in different case",
            ));
        }
        Ok(())
    }

    fn add_file(&mut self, path: &str) -> Result<(), AgentError> {
        for (at, _) in path.match_indices('/') {
            self.add_folder(&path[..at])?;
        }
        let key = path.to_lowercase();
        if self.folders.contains_key(&key) {
            return Err(bad_file(path, "a file and a folder have this name"));
        }
        if !self.files.insert(key) {
            return Err(bad_file(
                path,
                "another file has this name, perhaps in different case",
            ));
        }
        Ok(())
    }
}

/// Text of the front matter between its fences.
fn front_matter(content: &str) -> Result<&str, AgentError> {
    let rule = "the file must begin with front matter: `---`, `name:`, `description:`, `---`";
    let first = content.find('\n').map_or(content.len(), |at| at + 1);
    if content[..first].trim_end() != FENCE {
        return Err(bad_line(MAIN, 1, rule));
    }
    let mut end = first;
    for line in content[first..].split_inclusive('\n') {
        if line.trim_end() == FENCE {
            return Ok(&content[first..end]);
        }
        end += line.len();
        if end - first > FRONT_MATTER_BYTES_MAX {
            let rule = format!("the front matter has more than {FRONT_MATTER_BYTES_MAX} bytes");
            return Err(bad_file(MAIN, &rule));
        }
    }
    Err(bad_line(
        MAIN,
        1,
        "the front matter does not end with `---`",
    ))
}

/// Number of the line in `SKILL.md` that sets a field of the front matter.
fn line_of(yaml: &str, field: &str) -> usize {
    let sets = |line: &str| {
        line.strip_prefix(field)
            .is_some_and(|rest| rest.starts_with(':'))
    };
    yaml.lines().position(sets).map_or(1, |before| before + 2)
}

fn read_front_matter(content: &str) -> Result<FrontMatter, AgentError> {
    let yaml = front_matter(content)?;
    let read: FrontMatter = serde_yaml_ng::from_str(yaml).map_err(|e| {
        let line = e.location().map_or(1, |at| at.line() + 1);
        // The message ends with the position in the front matter, not in the file.
        let text = e.to_string();
        let rule = text.split(" at line ").next().unwrap_or_default();
        bad_line(MAIN, line, rule)
    })?;
    let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let name = read.name.as_str();
    if !(1..=NAME_BYTES_MAX).contains(&name.len()) || !name.bytes().all(is_plain) {
        let rule = "name must have 1 to 64 lowercase letters, digits, and `-`";
        return Err(bad_line(MAIN, line_of(yaml, "name"), rule));
    }
    let chars = read.description.trim().chars().count();
    if !(1..=DESCRIPTION_CHARS_MAX).contains(&chars) {
        let rule = format!("description must have 1 to {DESCRIPTION_CHARS_MAX} characters");
        return Err(bad_line(MAIN, line_of(yaml, "description"), &rule));
    }
    // Escapes in quoted YAML can produce characters that the file itself does not contain, such as NUL, which PostgreSQL rejects.
    let is_control = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if read.description.contains(is_control) {
        let rule = "description must not have control characters";
        return Err(bad_line(MAIN, line_of(yaml, "description"), rule));
    }
    Ok(read)
}

impl SkillText {
    /// Checks the files of a skill.
    ///
    /// # Errors
    /// `BadSkill`.
    pub fn of(files: Vec<SkillFileForm>) -> Result<Self, AgentError> {
        Self::with_folders(files, &[])
    }

    /// Checks the files of a skill, and the folders of an archive, which can be empty.
    pub(super) fn with_folders(
        mut files: Vec<SkillFileForm>,
        folders: &[String],
    ) -> Result<Self, AgentError> {
        if files.len() > FILES_MAX {
            let rule = format!("a skill can have at most {FILES_MAX} files");
            return Err(AgentError::BadSkill(rule));
        }
        let bytes: usize = files.iter().map(|file| file.content.len()).sum();
        if bytes > BYTES_MAX {
            let rule = "the files have more than 1 MiB together";
            return Err(AgentError::BadSkill(rule.to_owned()));
        }
        let mut tree = Tree::default();
        for folder in folders {
            check_path(folder)?;
            tree.add_folder(folder)?;
        }
        for file in &files {
            check_path(&file.path)?;
            tree.add_file(&file.path)?;
            if let Some(at) = memchr::memchr(0, file.content.as_bytes()) {
                let line = line_at(file.content.as_bytes(), at);
                return Err(bad_line(
                    &file.path,
                    line,
                    "the text contains a NUL character",
                ));
            }
        }
        let main = files.iter().find(|file| file.path == MAIN);
        let main = main.ok_or_else(|| bad_file(MAIN, "the file is missing"))?;
        let read = read_front_matter(&main.content)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self {
            name: read.name,
            description: read.description.trim().to_owned(),
            files,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, content: &str) -> SkillFileForm {
        SkillFileForm {
            path: path.to_owned(),
            content: content.to_owned(),
        }
    }

    fn main(front: &str) -> SkillFileForm {
        file(MAIN, &format!("---\n{front}\n---\nSteps.\n"))
    }

    fn fault(files: Vec<SkillFileForm>) -> String {
        match SkillText::of(files) {
            Err(AgentError::BadSkill(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    const GOOD: &str =
        "name: tides\ndescription: >\n  Reads the\n  tide table.\nallowed-tools: Bash";

    #[test]
    fn the_front_matter_has_the_name_and_the_description() {
        let read = SkillText::of(vec![main(GOOD), file("a/b.txt", "x")]).unwrap();
        assert_eq!(read.name, "tides");
        assert_eq!(read.description, "Reads the tide table.");
        let windows = GOOD.replace('\n', "\r\n");
        let text = format!("---\r\n{windows}\r\n---\r\n");
        assert_eq!(
            SkillText::of(vec![file(MAIN, &text)]).unwrap().name,
            "tides"
        );
    }

    #[test]
    fn errors_name_the_file_and_the_line() {
        for (front, place) in [
            ("name: Tides\ndescription: x", "SKILL.md, line 2: name"),
            (
                "license: x\nname: a_b\ndescription: x",
                "SKILL.md, line 3: name",
            ),
            (
                "name: tides\ndescription: ' '",
                "SKILL.md, line 3: description",
            ),
            ("name: tides\ndescription: [x]", "SKILL.md, line 3"),
            ("name: tides", "SKILL.md, line "),
            (
                "name: tides\nname: other\ndescription: x",
                "SKILL.md, line ",
            ),
        ] {
            let text = fault(vec![main(front)]);
            assert!(text.starts_with(place), "{front}: {text}");
        }
        assert!(fault(vec![file(MAIN, "# Tides")]).starts_with("SKILL.md, line 1"));
        assert!(fault(vec![file(MAIN, "---\nname: tides\n")]).starts_with("SKILL.md, line 1"));
        assert!(fault(Vec::new()).starts_with("SKILL.md: "));
        let nul = fault(vec![main(GOOD), file("a.txt", "1\n2\n\0")]);
        assert!(nul.starts_with("a.txt, line 3"), "{nul}");
        let long = "x".repeat(DESCRIPTION_CHARS_MAX + 1);
        fault(vec![main(&format!("name: tides\ndescription: {long}"))]);
    }

    #[test]
    fn a_text_that_is_not_utf8_names_its_line() {
        let Err(AgentError::BadSkill(text)) = utf8("a.bin", b"1\n2\xff".to_vec()) else {
            panic!("accepted");
        };
        assert!(text.starts_with("a.bin, line 2"), "{text}");
    }

    #[test]
    fn paths_stay_below_the_folder_and_differ_in_more_than_case() {
        for path in [
            "/a", "../a", "a/../b", "a//b", "a/", "./a", "", "a\\b", "C:a", "a\nb",
        ] {
            fault(vec![main(GOOD), file(path, "x")]);
        }
        for (one, other) in [
            ("a.txt", "A.TXT"),
            ("a", "a/b"),
            ("A", "a/b"),
            ("x/a", "X/b"),
            ("Ä", "ä"),
            ("skill.md", "b"),
        ] {
            fault(vec![main(GOOD), file(one, "x"), file(other, "y")]);
            fault(vec![file(other, "y"), main(GOOD), file(one, "x")]);
        }
        let fits = vec![
            main(GOOD),
            file("x/a", "1"),
            file("x/b", "2"),
            file("é/ü", "3"),
        ];
        assert!(SkillText::of(fits).is_ok());
    }

    #[test]
    fn number_and_size_of_files_are_limited() {
        let files = |n: usize| {
            let more = (1..n).map(|n| file(&format!("{n}.txt"), "x"));
            more.chain([main(GOOD)]).collect::<Vec<_>>()
        };
        assert!(SkillText::of(files(FILES_MAX)).is_ok());
        fault(files(FILES_MAX + 1));
        let rest = BYTES_MAX - main(GOOD).content.len();
        let with = |n: usize| vec![main(GOOD), file("a.txt", &"x".repeat(n))];
        assert!(SkillText::of(with(rest)).is_ok());
        fault(with(rest + 1));
    }

    #[test]
    fn escapes_in_a_description_produce_no_control_characters() {
        for escape in ["\\0", "\\e", "\\r"] {
            let text = fault(vec![main(&format!(
                "name: tides\ndescription: \"a{escape}b\""
            ))]);
            assert!(text.starts_with("SKILL.md, line 3: description"), "{text}");
        }
        let lines = "name: tides\ndescription: \"a\\n\\tb\"";
        assert!(SkillText::of(vec![main(lines)]).is_ok());
    }

    #[test]
    fn aliases_in_front_matter_do_not_multiply() {
        let level = |(name, of): (char, char)| {
            format!(
                "{name}: &{name} [{}]\n",
                vec![format!("*{of}"); 9].join(", ")
            )
        };
        let levels: String = ('b'..='k').zip('a'..='j').map(level).collect();
        let yaml = format!("a: &a [x, x, x]\n{levels}name: tides\ndescription: x");
        let began = std::time::Instant::now();
        drop(SkillText::of(vec![main(&yaml)]));
        assert!(began.elapsed() < std::time::Duration::from_secs(2));
    }
}
