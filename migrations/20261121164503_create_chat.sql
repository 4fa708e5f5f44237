-- Channels, conversations, messages, and events. One text for SQLite and PostgreSQL.
--
-- A conversation is the main line of a thread or a fork; `conversation_id` is the ID of the thread or of the fork. IDs are
-- unique across both. `thread_id` is the thread also in a fork, so a row belongs to a fork if the two differ.

-- Public, private, and direct channels. `direct_key` names the people (and the agent) of a direct channel, so that the same
-- people get the same channel. Everyone joins channels that are `joined_by_all`.
create table channels (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    kind text not null,
    name text,
    topic text,
    direct_key text,
    agent_id uuid,
    joined_by_all boolean not null,
    created_by uuid,
    created_at timestamptz not null,
    archived_at timestamptz,
    unique (workspace_id, name),
    unique (workspace_id, direct_key)
);
create index channels_workspace on channels (workspace_id, id);

-- Nothing before `joined_seq` is unread; everything up to `read_seq` is read, except in threads with a mark of their own.
create table channel_members (
    channel_id uuid not null references channels (id) on delete cascade,
    user_id uuid not null references users (id) on delete cascade,
    joined_seq bigint not null,
    read_seq bigint not null,
    joined_at timestamptz not null,
    primary key (channel_id, user_id)
);
create index channel_members_user on channel_members (user_id, channel_id);
create index channel_members_order on channel_members (channel_id, joined_at, user_id);

-- People of each direct channel, also while they are not in the workspace: when they return, they are in it again.
create table direct_members (
    user_id uuid not null references users (id) on delete cascade,
    channel_id uuid not null references channels (id) on delete cascade,
    primary key (user_id, channel_id)
);
create index direct_members_channel on direct_members (channel_id);

-- `last_seq` orders the list of a channel.
create table threads (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    channel_id uuid not null references channels (id) on delete cascade,
    root_message_id uuid not null,
    title text,
    status text not null,
    reply_count bigint not null,
    participants jsonb not null,
    last_seq bigint not null,
    last_activity_at timestamptz not null,
    created_by uuid not null,
    created_at timestamptz not null
);
create index threads_channel on threads (channel_id, last_seq);
create index threads_workspace on threads (workspace_id, id);

-- Agents that conversations were bound to, each with its version. The one with `is_bound` replies to messages that mention no
-- agent, if `auto_reply` is set. `stood_in`: a notice said that another agent replies while this one is turned off; reset by
-- its next reply. `handed_over_…` describe the last handoff to the agent, so that another one soon after it replaces its
-- notice.
create table bindings (
    conversation_id uuid not null,
    agent_id uuid not null,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    thread_id uuid not null references threads (id) on delete cascade,
    agent_version bigint not null,
    is_bound boolean not null,
    auto_reply boolean not null,
    stood_in boolean not null default false,
    handed_over_by uuid,
    handed_over_from uuid,
    handed_over_at timestamptz,
    handoff_notice_id uuid,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    primary key (conversation_id, agent_id)
);
create unique index bindings_bound on bindings (conversation_id) where is_bound;
create index bindings_agent on bindings (agent_id);
create index bindings_thread on bindings (thread_id);
create index bindings_workspace on bindings (workspace_id);

-- `seq` is the number of the message.created event. A deleted message keeps its row without the text. `attachments` is what
-- showing a message needs of its files, so that reading it takes no join. `counted_bytes` is what the message counts in the
-- storage quota.
create table messages (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    channel_id uuid not null references channels (id) on delete cascade,
    thread_id uuid not null references threads (id) on delete cascade,
    conversation_id uuid not null,
    parent_id uuid,
    seq bigint not null,
    author_type text not null,
    author_id uuid,
    kind text not null,
    state text not null,
    content text not null,
    content_plain text not null,
    mentions jsonb not null,
    reactions jsonb not null,
    attachments jsonb not null default '[]',
    metadata jsonb not null,
    client_id text,
    counted_bytes bigint not null default 0,
    created_at timestamptz not null,
    edited_at timestamptz,
    deleted_at timestamptz
);
create index messages_conversation on messages (conversation_id, seq);
create index messages_workspace on messages (workspace_id, seq);

-- Targets of a message's mentions: users, or the channel if it mentions everyone. For the counts of unread mentions.
create table message_mentions (
    channel_id uuid not null references channels (id) on delete cascade,
    target_id uuid not null,
    seq bigint not null,
    thread_id uuid not null references threads (id) on delete cascade,
    message_id uuid not null references messages (id) on delete cascade,
    primary key (channel_id, target_id, seq)
);
create index message_mentions_message on message_mentions (message_id);
create index message_mentions_thread on message_mentions (thread_id, target_id, seq);

-- A person's read marker in a thread; without a row, `channel_members.read_seq` counts.
create table reads (
    user_id uuid not null references users (id) on delete cascade,
    thread_id uuid not null references threads (id) on delete cascade,
    channel_id uuid not null references channels (id) on delete cascade,
    seq bigint not null,
    primary key (user_id, thread_id)
);
create index reads_channel on reads (channel_id, user_id);
create index reads_thread on reads (thread_id);

-- A person's level in a thread; without a row it is `mentions`. The server inserts a row when somebody takes part, and never
-- changes one; `cause` is `manual` once the person chose the level. Rows end with the membership of the channel.
create table follows (
    thread_id uuid not null references threads (id) on delete cascade,
    user_id uuid not null references users (id) on delete cascade,
    channel_id uuid not null references channels (id) on delete cascade,
    level text not null,
    cause text not null,
    created_at timestamptz not null,
    primary key (thread_id, user_id),
    foreign key (channel_id, user_id) references channel_members (channel_id, user_id) on delete cascade
);
create index follows_member on follows (channel_id, user_id);
create index follows_user on follows (user_id);
create index follows_all on follows (thread_id) where level = 'all';
-- Unread counts leave muted threads out.
create index follows_muted on follows (user_id, thread_id) where level = 'none';

-- The event log. `frame` is the text that was sent to sockets. `message_id` finds the frames that contain a message's text.
-- Recipients are the workspace or those who see the channel, and `user_id`; if `is_restricted`, only the users in
-- `event_recipients` and, if `includes_managers`, people who manage agents.
create table events (
    workspace_id uuid not null references workspaces (id) on delete cascade,
    seq bigint not null,
    type text not null,
    channel_id uuid,
    user_id uuid,
    message_id uuid,
    is_restricted boolean not null,
    includes_managers boolean not null,
    frame text not null,
    ts timestamptz not null,
    primary key (workspace_id, seq)
);
create index events_message on events (message_id) where message_id is not null;
create index events_age on events (ts);

create table event_recipients (
    workspace_id uuid not null,
    seq bigint not null,
    user_id uuid not null,
    primary key (workspace_id, seq, user_id),
    foreign key (workspace_id, seq) references events (workspace_id, seq) on delete cascade
);
