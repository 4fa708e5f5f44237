-- Items that want a person's attention. They contain no text, so deletions, edits, and rights need no rule of their own.
-- `recipient_id` is a person or, for a mention of a group or a new thread, the channel: one row, whatever the number of its members.
-- A member who changes such a row gets a copy with the same ID. `seq` sorts; `changed_seq` is the workspace's `seq` at the last change.
create table inbox_items (
    id uuid not null,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    recipient_id uuid not null,
    reason text not null,
    subject_type text not null,
    subject_id uuid not null,
    actor_id uuid,
    channel_id uuid references channels (id) on delete cascade,
    thread_id uuid references threads (id) on delete cascade,
    conversation_id uuid,
    message_id uuid references messages (id) on delete cascade,
    seq bigint not null,
    changed_seq bigint not null,
    state text not null,
    until timestamptz,
    -- Whether the item opens without a notification.
    is_quiet boolean not null,
    created_at timestamptz not null,
    changed_at timestamptz not null,
    primary key (recipient_id, id)
);
create unique index inbox_items_subject on inbox_items (recipient_id, reason, subject_id);
create index inbox_items_list on inbox_items (recipient_id, state, seq);
create index inbox_items_changed on inbox_items (recipient_id, changed_seq);
create index inbox_items_conversation on inbox_items (recipient_id, conversation_id, state);
create index inbox_items_of_subject on inbox_items (subject_id);
create index inbox_items_workspace on inbox_items (workspace_id);
create index inbox_items_channel on inbox_items (channel_id);
create index inbox_items_thread on inbox_items (thread_id);
create index inbox_items_message on inbox_items (message_id);
create index inbox_items_due on inbox_items (until) where until is not null;
create index inbox_items_age on inbox_items (changed_at);

-- A person's notification level in a channel.
alter table channel_members add column level text not null default 'mentions';
create index channel_members_all on channel_members (channel_id) where level = 'all';

-- A person's read marker in a conversation. Without a row, `channel_members.read_seq` counts for the main line of a thread.
alter table reads rename to thread_reads;
create table reads (
    user_id uuid not null references users (id) on delete cascade,
    conversation_id uuid not null,
    thread_id uuid not null references threads (id) on delete cascade,
    channel_id uuid not null references channels (id) on delete cascade,
    seq bigint not null,
    primary key (user_id, conversation_id)
);
insert into reads (user_id, conversation_id, thread_id, channel_id, seq)
    select user_id, thread_id, thread_id, channel_id, seq from thread_reads;
drop table thread_reads;
create index reads_channel on reads (channel_id, user_id);
create index reads_thread on reads (thread_id);
create index reads_conversation on reads (conversation_id);

-- A person's level in a conversation; without a row it is `mentions`. The server inserts a row when somebody takes part, and never
-- changes its level; `cause` is `manual` once the person chose the level. Rows end with the membership of the channel. A follower has
-- an inbox item while a message of somebody else follows `done_seq` and the read marker; `until` postpones it.
alter table follows rename to thread_follows;
create table follows (
    conversation_id uuid not null,
    thread_id uuid not null references threads (id) on delete cascade,
    user_id uuid not null references users (id) on delete cascade,
    channel_id uuid not null references channels (id) on delete cascade,
    level text not null,
    cause text not null,
    done_seq bigint not null default 0,
    until timestamptz,
    changed_seq bigint not null default 0,
    created_at timestamptz not null,
    primary key (conversation_id, user_id),
    foreign key (channel_id, user_id) references channel_members (channel_id, user_id) on delete cascade
);
insert into follows (conversation_id, thread_id, user_id, channel_id, level, cause, created_at)
    select thread_id, thread_id, user_id, channel_id, level, cause, created_at from thread_follows;
drop table thread_follows;
create index follows_member on follows (channel_id, user_id);
create index follows_thread on follows (thread_id);
create index follows_user on follows (user_id, level);
create index follows_all on follows (conversation_id) where level = 'all';
-- Unread counts leave muted threads out.
create index follows_muted on follows (user_id, conversation_id) where level = 'none';
create index follows_due on follows (until) where until is not null;
