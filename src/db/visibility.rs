//! SQL conditions that many statements check, mainly those under which a user can read something.

/// Condition for rows of `channels` (with this alias) that the user can read: public ones, except for guests, and joined ones.
macro_rules! is_visible_channel {
    ($alias:literal, $user:literal) => {
        concat!(
            "((",
            $alias,
            ".kind = 'public' and not exists (select 1 from members vg where vg.workspace_id = ",
            $alias,
            ".workspace_id and vg.user_id = ",
            $user,
            " and vg.role = 'guest')) or exists (select 1 from channel_members vm where vm.channel_id = ",
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

/// Condition for rows of `channels` (with this alias) that all guests in the channel `$channel` can read. The index of guests makes it
/// cheap in a channel without any.
macro_rules! is_visible_to_guests_of {
    ($alias:literal, $channel:literal) => {
        concat!(
            "not exists (select 1 from members fg cross join channel_members fc where fg.workspace_id = ",
            $alias,
            ".workspace_id and fg.role = 'guest' and fc.channel_id = ",
            $channel,
            " and fc.user_id = fg.user_id and not exists (select 1 from channel_members fo where fo.channel_id = ",
            $alias,
            ".id and fo.user_id = fg.user_id))"
        )
    };
}
pub(crate) use is_visible_to_guests_of;

/// Condition for channels that a guest can read.
macro_rules! has_guests {
    ($workspace:literal, $channel:literal) => {
        concat!(
            "exists (select 1 from members hg cross join channel_members hc where hg.workspace_id = ",
            $workspace,
            " and hg.role = 'guest' and hc.channel_id = ",
            $channel,
            " and hc.user_id = hg.user_id)"
        )
    };
}
pub(crate) use has_guests;

/// Condition for the ID of a person whom the user can see in a workspace: everyone for most, but for guests only themselves and people
/// who share a channel with them.
macro_rules! is_visible_person {
    ($workspace:literal, $person:literal, $user:literal) => {
        concat!(
            "(not exists (select 1 from members pg where pg.workspace_id = ",
            $workspace,
            " and pg.user_id = ",
            $user,
            " and pg.role = 'guest') or ",
            $person,
            " = ",
            $user,
            " or exists (select 1 from channel_members po join channels pc on pc.id = po.channel_id \
             join channel_members pt on pt.channel_id = po.channel_id where po.user_id = ",
            $user,
            " and pc.workspace_id = ",
            $workspace,
            " and pt.user_id = ",
            $person,
            "))"
        )
    };
}
pub(crate) use is_visible_person;

/// Condition for rows of `channels` (with this alias) that everyone who can read the channel `$channel` can read.
macro_rules! is_visible_from {
    ($alias:literal, $channel:literal) => {
        concat!(
            "((",
            $alias,
            ".kind = 'public' and ",
            $crate::db::is_visible_to_guests_of!($alias, $channel),
            ") or ",
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
            " and pc.kind = 'public' and ",
            $crate::db::is_visible_to_guests_of!("pc", $shared),
            ")))"
        )
    };
}
pub(crate) use is_shared_channel;

/// Condition for rows `v` of `vector_stores` that the user can read, and so can everyone who can read the channel `$shared`, which is
/// null if only the user reads the conversation. A vector store without a channel is read by everyone in its workspace except for guests.
macro_rules! is_readable_store {
    ($user:literal, $shared:literal) => {
        concat!(
            "(v.deleted_at is null and ((v.channel_id is null and not exists (select 1 from members sg where sg.workspace_id = v.workspace_id and sg.user_id = ",
            $user,
            " and sg.role = 'guest') and not ",
            $crate::db::has_guests!("v.workspace_id", $shared),
            ") or ",
            $crate::db::is_shared_channel!("v.channel_id", $user, $shared),
            "))"
        )
    };
}
pub(crate) use is_readable_store;

/// Condition for rows `s` of `skills` that the user can read. If all channels of a skill were deleted, only admins can.
macro_rules! is_readable_skill {
    ($user:literal) => {
        concat!(
            "((s.for_all and not exists (select 1 from members sg where sg.workspace_id = s.workspace_id and sg.user_id = ",
            $user,
            " and sg.role = 'guest')) or exists (select 1 from skill_channels sc where sc.skill_id = s.id and ",
            $crate::db::is_in_visible_channel!("sc.channel_id", $user),
            ") or (not s.for_all and not exists (select 1 from skill_channels so where so.skill_id = s.id) \
             and exists (select 1 from members sa where sa.workspace_id = s.workspace_id and sa.user_id = ",
            $user,
            " and sa.role = 'admin')))"
        )
    };
}
pub(crate) use is_readable_skill;

/// Condition for rows `s` of `skills` that a reply in the channel `$channel` can use: everyone who reads the reply can read the skill.
/// `$shared` is the channel, or null if only the user reads the conversation.
macro_rules! is_usable_skill {
    ($user:literal, $shared:literal, $channel:literal) => {
        concat!(
            "((s.for_all and not exists (select 1 from members sg where sg.workspace_id = s.workspace_id and sg.user_id = ",
            $user,
            " and sg.role = 'guest') and not ",
            $crate::db::has_guests!("s.workspace_id", $shared),
            ") or exists (select 1 from skill_channels sc where sc.skill_id = s.id and sc.channel_id = ",
            $channel,
            "))"
        )
    };
}
pub(crate) use is_usable_skill;

/// Condition for the ID of a file whose text does not taint tasks, because it is in a vector store with `trusted_reads`.
macro_rules! is_trusted_file {
    ($file:literal) => {
        concat!(
            "exists (select 1 from vector_store_files tf join vector_stores tv on tv.id = tf.store_id where tf.file_id = ",
            $file,
            " and tv.trusted_reads and tv.deleted_at is null)"
        )
    };
}
pub(crate) use is_trusted_file;

/// Condition for the ID of a thread that is the example of a new workspace: its author is not a member of any workspace.
macro_rules! is_example {
    ($thread:literal) => {
        concat!(
            "exists (select 1 from threads et join users eu on eu.id = et.created_by and eu.kind = 'example' where et.id = ",
            $thread,
            ")"
        )
    };
}
pub(crate) use is_example;
