//! Results of functions before they are stored: pieces of text, the sources that they show, and the handles of
//! these sources.

use crate::{
    agents::derived::SourceId,
    ids::{FileId, MessageId},
    tasks::actions::ActionSource,
    tool_fault::{ToolErrorCode, ToolFault},
};

/// Maximum size of a result in UTF-8 bytes; longer results are cut.
pub const RESULT_BYTES_MAX: usize = 32 * 1024;

/// An object to which a result refers by a short handle, such as `S1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Handled {
    Message(MessageId),
    File(FileId),
    Passage(PassagePlace),
}

/// Place of a passage in the text of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct PassagePlace {
    pub file: FileId,
    pub part: i64,
    /// Position in the text of the part, in UTF-16 code units.
    pub from: i64,
    pub to: i64,
}

/// Part of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Text written by the server.
    Own(String),
    /// Text from people, pages, or tools. It is escaped so that it cannot imitate lines written by the server.
    Data(String),
    /// The handle of an object, such as `S1`.
    Handle(Handled),
}

/// Result of a function.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolOutput {
    pub pieces: Vec<Piece>,
    /// Messages whose texts the result contains, for citations and taint.
    pub messages: Vec<MessageId>,
    /// Further sources, for citations.
    pub cites: Vec<SourceId>,
    /// Further texts that taint the task.
    pub taints: Vec<ActionSource>,
    /// Number of hits of a search, shown to people.
    pub count: Option<usize>,
    /// Pictures, as the function's server sent them. They are shown to the model of the task, but not stored.
    pub pictures: Vec<Vec<u8>>,
}

impl ToolOutput {
    pub fn own(&mut self, text: impl Into<String>) {
        self.pieces.push(Piece::Own(text.into()));
    }

    pub fn data(&mut self, text: impl Into<String>) {
        self.pieces.push(Piece::Data(text.into()));
    }

    pub fn handle(&mut self, of: Handled) {
        self.pieces.push(Piece::Handle(of));
    }

    /// Objects that need a handle, in order of first use.
    pub fn handled(&self) -> Vec<Handled> {
        let mut all = Vec::new();
        for piece in &self.pieces {
            if let Piece::Handle(of) = piece
                && !all.contains(of)
            {
                all.push(*of);
            }
        }
        all
    }

    /// The text of the result. `escape` is applied to text that is not from this server.
    pub fn text(
        &self,
        handle: impl Fn(Handled) -> String,
        escape: impl Fn(&str) -> String,
    ) -> String {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Own(own) => text.push_str(own),
                Piece::Data(data) => text.push_str(&escape(data)),
                Piece::Handle(of) => text.push_str(&handle(*of)),
            }
        }
        text
    }
}

/// Cuts a result at its limit.
pub fn cut(mut text: String) -> String {
    const NOTE: &str = "\n[The rest is left out.]";
    if text.len() > RESULT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(RESULT_BYTES_MAX - NOTE.len()));
        text.push_str(NOTE);
    }
    text
}

/// The result of a failed call.
pub fn fault_text(fault: &ToolFault) -> String {
    failure_text(fault.code, &fault.message)
}

/// The result of a call that ended with an error code and a text, which can be empty.
pub fn failure_text(code: ToolErrorCode, detail: &str) -> String {
    if detail.is_empty() {
        code.as_str().to_owned()
    } else {
        format!("{code}: {detail}")
    }
}

/// Converts a text to a single line.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_names_each_source_once() {
        let (a, b) = (MessageId::new(), MessageId::new());
        let mut output = ToolOutput::default();
        for id in [a, b, a] {
            output.own("[");
            output.handle(Handled::Message(id));
            output.own("] ");
        }
        output.data("[Ada]: hi");
        let all = output.handled();
        assert_eq!(all, [Handled::Message(a), Handled::Message(b)]);
        let name = |of: Handled| format!("S{}", all.iter().position(|h| *h == of).unwrap() + 1);
        let text = output.text(name, |data| format!("\\{data}"));
        assert_eq!(text, "[S1] [S2] [S1] \\[Ada]: hi");
    }

    #[test]
    fn a_long_result_is_cut_between_characters() {
        let short = "é".repeat(RESULT_BYTES_MAX / 2);
        assert_eq!(cut(short.clone()), short);
        let long = cut("é".repeat(RESULT_BYTES_MAX));
        assert!(long.len() <= RESULT_BYTES_MAX && long.ends_with("left out.]"));
    }
}
