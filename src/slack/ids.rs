//! Slack's IDs: a letter and the characters of a `TypeID` in capitals.

use uuid::Uuid;

use crate::{
    chat::channels::ChannelKind,
    ids::{BotId, ChannelId, FileId, UserId, WorkspaceId},
    time::Timestamp,
};

const SUFFIX_LEN: usize = 26;

fn with_letter(letter: char, id: Uuid) -> String {
    let typed = UserId(id).to_string();
    let suffix = typed.rsplit('_').next().unwrap_or_default();
    format!("{letter}{}", suffix.to_ascii_uppercase())
}

pub fn team_id(id: WorkspaceId) -> String {
    with_letter('T', id.0)
}

/// ID of a public or private channel, or of a direct one.
pub fn channel_id(id: ChannelId, kind: ChannelKind) -> String {
    match kind {
        ChannelKind::Public | ChannelKind::Private => with_letter('C', id.0),
        ChannelKind::Direct => with_letter('D', id.0),
    }
}

/// ID of a person, an agent, or a bot as a user.
pub fn user_id(id: Uuid) -> String {
    with_letter('U', id)
}

pub fn bot_id(id: BotId) -> String {
    with_letter('B', id.0)
}

/// The app of a bot, which Slack names in addition to the bot.
pub fn app_id(id: BotId) -> String {
    with_letter('A', id.0)
}

pub fn file_id(id: FileId) -> String {
    with_letter('F', id.0)
}

/// A file's ID in Slack's form, or a `TypeID`.
pub fn parse_file(text: &str) -> Option<FileId> {
    let id = parse("F", text).map(FileId);
    id.or_else(|| FileId::parse(text).ok())
}

fn parse(letters: &str, text: &str) -> Option<Uuid> {
    let (first, suffix) = text.split_at_checked(1)?;
    if !letters.contains(first) || suffix.len() != SUFFIX_LEN {
        return None;
    }
    let typed = format!("user_{}", suffix.to_ascii_lowercase());
    UserId::parse(&typed).ok().map(|id| id.0)
}

/// A channel's ID in Slack's form, or a `TypeID`.
pub fn parse_channel(text: &str) -> Option<ChannelId> {
    let id = parse("CDG", text).map(ChannelId);
    id.or_else(|| ChannelId::parse(text).ok())
}

/// ID of a person, an agent, or a bot in Slack's form, or a `TypeID`.
pub fn parse_user(text: &str) -> Option<Uuid> {
    let typed = || {
        let (kind, _) = text.rsplit_once('_')?;
        match kind {
            "user" => UserId::parse(text).ok().map(|id| id.0),
            "bot" => BotId::parse(text).ok().map(|id| id.0),
            "agent" => crate::ids::AgentId::parse(text).ok().map(|id| id.0),
            _ => None,
        }
    };
    parse("UW", text).or_else(typed)
}

pub fn parse_bot(text: &str) -> Option<BotId> {
    let id = parse("B", text).map(BotId);
    id.or_else(|| BotId::parse(text).ok())
}

/// A time in the form of a `ts`.
pub fn ts_at(at: Timestamp) -> String {
    let ms = at.unix_ms();
    format!("{}.{:03}000", ms / 1000, ms % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_survive_a_round_trip() {
        let id = ChannelId::new();
        for kind in ChannelKind::ALL {
            assert_eq!(parse_channel(&channel_id(id, *kind)), Some(id));
        }
        assert_eq!(parse_channel(&id.to_string()), Some(id));
        let user = Uuid::now_v7();
        assert_eq!(parse_user(&user_id(user)), Some(user));
        assert_eq!(parse_user(&BotId(user).to_string()), Some(user));
        for wrong in [
            "",
            ".1",
            "x",
            "1.1234567",
            "-1",
            "999999999999.1",
            "1.2.3",
            "C",
            "é",
        ] {
            assert_eq!(parse_channel(wrong), None, "{wrong}");
            assert_eq!(parse_user(wrong), None, "{wrong}");
        }
    }
}
