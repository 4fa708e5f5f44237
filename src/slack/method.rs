//! The methods of Slack's Web API that are offered.

use crate::text_enum::text_enum;

text_enum! {
    pub enum SlackMethod {
        ApiTest = "api.test",
        AuthTest = "auth.test",
        TeamInfo = "team.info",
        BotsInfo = "bots.info",
        AppsConnectionsOpen = "apps.connections.open",
        EmojiList = "emoji.list",
        ChatPostMessage = "chat.postMessage",
        ChatUpdate = "chat.update",
        ChatDelete = "chat.delete",
        ChatPostEphemeral = "chat.postEphemeral",
        ChatUnfurl = "chat.unfurl",
        ChatGetPermalink = "chat.getPermalink",
        ConversationsList = "conversations.list",
        ConversationsInfo = "conversations.info",
        ConversationsHistory = "conversations.history",
        ConversationsReplies = "conversations.replies",
        ConversationsMembers = "conversations.members",
        ConversationsOpen = "conversations.open",
        ConversationsJoin = "conversations.join",
        ConversationsLeave = "conversations.leave",
        ConversationsSetTopic = "conversations.setTopic",
        UsersConversations = "users.conversations",
        UsersList = "users.list",
        UsersInfo = "users.info",
        UsersLookupByEmail = "users.lookupByEmail",
        UsersGetPresence = "users.getPresence",
        UsergroupsList = "usergroups.list",
        ReactionsAdd = "reactions.add",
        ReactionsRemove = "reactions.remove",
        ReactionsGet = "reactions.get",
        PinsAdd = "pins.add",
        PinsRemove = "pins.remove",
        PinsList = "pins.list",
        FilesGetUploadUrl = "files.getUploadURLExternal",
        FilesCompleteUpload = "files.completeUploadExternal",
        FilesInfo = "files.info",
        FilesDelete = "files.delete",
    }
}

/// Effect of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MethodKind {
    Read,
    Write,
}

impl SlackMethod {
    pub fn kind(self) -> MethodKind {
        match self {
            Self::AppsConnectionsOpen
            | Self::ChatPostMessage
            | Self::ChatUpdate
            | Self::ChatDelete
            | Self::ChatPostEphemeral
            | Self::ChatUnfurl
            | Self::ConversationsOpen
            | Self::ConversationsJoin
            | Self::ConversationsLeave
            | Self::ConversationsSetTopic
            | Self::ReactionsAdd
            | Self::ReactionsRemove
            | Self::PinsAdd
            | Self::PinsRemove
            | Self::FilesGetUploadUrl
            | Self::FilesCompleteUpload
            | Self::FilesDelete => MethodKind::Write,
            _ => MethodKind::Read,
        }
    }
}
