//! SQL conditions under which a user can read a channel, used by every statement that checks this.

/// Condition for rows of `channels` (with this alias) that the user can read.
macro_rules! is_visible_channel {
    ($alias:literal, $user:literal) => {
        concat!(
            "(",
            $alias,
            ".kind = 'public' or exists (select 1 from channel_members vm where vm.channel_id = ",
            $alias,
            ".id and vm.user_id = ",
            $user,
            "))"
        )
    };
}
pub(crate) use is_visible_channel;

/// Condition for the ID of a channel that the user can read.
macro_rules! is_in_visible_channel {
    ($channel:literal, $user:literal) => {
        concat!(
            "exists (select 1 from channels vc where vc.id = ",
            $channel,
            " and ",
            $crate::db::is_visible_channel!("vc", $user),
            ")"
        )
    };
}
pub(crate) use is_in_visible_channel;

/// Condition for rows of `channels` (with this alias) that everyone who can read the channel `$channel` can read.
macro_rules! is_visible_from {
    ($alias:literal, $channel:literal) => {
        concat!(
            "(",
            $alias,
            ".kind = 'public' or ",
            $alias,
            ".id = ",
            $channel,
            ")"
        )
    };
}
pub(crate) use is_visible_from;

/// Condition for members of a workspace who can read a channel.
macro_rules! is_reader {
    ($workspace:literal, $channel:literal, $user:literal) => {
        concat!(
            "(exists (select 1 from members vr where vr.workspace_id = ",
            $workspace,
            " and vr.user_id = ",
            $user,
            ") and ",
            $crate::db::is_in_visible_channel!($channel, $user),
            ")"
        )
    };
}
pub(crate) use is_reader;

/// Condition for the ID of a channel that the tools of a task can use: the user can read the channel, and so can
/// everyone who can read the channel `$shared`, which is null if only the user reads the conversation.
macro_rules! is_shared_channel {
    ($channel:literal, $user:literal, $shared:literal) => {
        concat!(
            "(",
            $crate::db::is_in_visible_channel!($channel, $user),
            " and (",
            $channel,
            " = ",
            $shared,
            " or ",
            $shared,
            " is null or exists (select 1 from channels pc where pc.id = ",
            $channel,
            " and pc.kind = 'public')))"
        )
    };
}
pub(crate) use is_shared_channel;
