//! The condition under which a user can read a channel: every statement that checks it uses these.

/// Condition on a row of `channels` with this alias.
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

/// Condition on the ID of a channel.
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
