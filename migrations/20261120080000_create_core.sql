-- One text for SQLite and PostgreSQL. Ids are UUIDv7; times are bound by the program, in UTC, to the microsecond.
-- Kinds and states that will grow carry no CHECK: the program parses them.

-- Facts about this database as a whole: `epoch` changes when a backup is restored.
create table meta (
    key text primary key,
    value text not null
);

-- People, whichever workspaces they are in.
create table users (
    id uuid primary key,
    email text not null unique,
    name text not null,
    avatar_url text,
    password_hash text not null,
    created_at timestamptz not null
);

-- Browser sessions; the cookie holds the token, the row its SHA-256.
create table sessions (
    id uuid primary key,
    user_id uuid not null references users (id) on delete cascade,
    token_hash text not null unique,
    user_agent text,
    address text,
    created_at timestamptz not null,
    last_seen_at timestamptz not null,
    expires_at timestamptz not null
);
create index sessions_user on sessions (user_id, id);

-- `seq` is the number of the newest event: it is raised in the transaction of the change, so that the
-- order of numbers is the order of commits and no number is missing. `task_turn` says when the workspace last had its
-- turn in the task queue.
create table workspaces (
    id uuid primary key,
    name text not null,
    slug text not null unique,
    seq bigint not null,
    pruned_seq bigint not null,
    task_turn bigint not null,
    default_agent_id uuid,
    settings jsonb not null,
    created_at timestamptz not null
);
create index workspaces_turn on workspaces (task_turn);

-- Who is in a workspace, as what.
create table members (
    workspace_id uuid not null references workspaces (id) on delete cascade,
    user_id uuid not null references users (id) on delete cascade,
    role text not null,
    handle text not null,
    joined_at timestamptz not null,
    primary key (workspace_id, user_id)
);
create index members_user on members (user_id, workspace_id);
create index members_order on members (workspace_id, joined_at, user_id);

-- The one namespace of people's handles and agents' names: the primary key decides who has a name.
create table handles (
    workspace_id uuid not null references workspaces (id) on delete cascade,
    handle text not null,
    owner_type text not null,
    owner_id uuid not null,
    primary key (workspace_id, handle)
);
create index handles_owner on handles (workspace_id, owner_id);

-- Links that bring people in; the token is shown once, the row holds its SHA-256.
create table invites (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    token_hash text not null unique,
    email text,
    role text not null,
    max_uses bigint,
    uses bigint not null,
    created_by uuid not null references users (id),
    created_at timestamptz not null,
    expires_at timestamptz
);
create index invites_workspace on invites (workspace_id, id);
create index invites_maker on invites (created_by);

-- Keys for programs; they act as the member who made them.
create table api_keys (
    id uuid primary key,
    workspace_id uuid not null,
    user_id uuid not null,
    name text not null,
    token_hash text not null unique,
    scopes jsonb not null,
    created_at timestamptz not null,
    expires_at timestamptz,
    last_used_at timestamptz,
    foreign key (workspace_id, user_id) references members (workspace_id, user_id) on delete cascade
);
create index api_keys_member on api_keys (workspace_id, user_id, id);

-- What was done by whom with the powers of an admin.
create table audit_log (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    actor_id uuid not null,
    action text not null,
    target text,
    data jsonb not null,
    created_at timestamptz not null
);
create index audit_log_workspace on audit_log (workspace_id, id);

-- What a client's id of a create led to, so that the same again is harmless.
create table client_ids (
    workspace_id uuid not null references workspaces (id) on delete cascade,
    user_id uuid not null,
    client_id text not null,
    place text not null,
    object_id uuid not null,
    created_at timestamptz not null,
    primary key (workspace_id, user_id, client_id)
);

-- Public, private and direct channels. `direct_key` names the people (and the agent) of a direct one, so that the same
-- people get the same one. Everyone joins those that are `joined_by_all`.
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

-- Who is in a channel. Nothing before `joined_seq` is unread; everything up to `read_seq` is read, save in threads that
-- have a mark of their own.
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

-- Conversations. `agent_id` is who answers messages that mention nobody; `last_seq` orders a channel's list.
create table threads (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    channel_id uuid not null references channels (id) on delete cascade,
    root_message_id uuid not null,
    title text,
    status text not null,
    agent_id uuid,
    reply_count bigint not null,
    participants jsonb not null,
    last_seq bigint not null,
    last_activity_at timestamptz not null,
    created_by uuid not null,
    created_at timestamptz not null
);
create index threads_channel on threads (channel_id, last_seq);
create index threads_workspace on threads (workspace_id, id);

-- Which version of an agent a place (a thread, later a fork) works with, and whether it answers unasked.
create table bindings (
    place_id uuid not null,
    agent_id uuid not null,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    thread_id uuid not null references threads (id) on delete cascade,
    fork_id uuid,
    agent_version bigint not null,
    auto_reply boolean not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    primary key (place_id, agent_id)
);
create index bindings_thread on bindings (thread_id);
create index bindings_workspace on bindings (workspace_id);

-- What was said. `seq` is that of the message.created event. A deleted row stays, without its text.
create table messages (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    channel_id uuid not null references channels (id) on delete cascade,
    thread_id uuid not null references threads (id) on delete cascade,
    fork_id uuid,
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
    metadata jsonb not null,
    client_id text,
    created_at timestamptz not null,
    edited_at timestamptz,
    deleted_at timestamptz
);
create index messages_thread on messages (thread_id, seq) where fork_id is null;
create index messages_fork on messages (fork_id, seq) where fork_id is not null;
create index messages_channel on messages (channel_id, seq) where fork_id is null;
create index messages_workspace on messages (workspace_id, seq);

-- Whom a message names: a person, or the channel when it names everyone. For the counts of unread mentions.
create table message_mentions (
    channel_id uuid not null references channels (id) on delete cascade,
    target_id uuid not null,
    seq bigint not null,
    thread_id uuid not null references threads (id) on delete cascade,
    message_id uuid not null references messages (id) on delete cascade,
    primary key (channel_id, target_id, seq)
);
create index message_mentions_message on message_mentions (message_id);
create index message_mentions_thread on message_mentions (thread_id);

-- How far a person has read a thread; without a row, `channel_members.read_seq` counts.
create table reads (
    user_id uuid not null references users (id) on delete cascade,
    thread_id uuid not null references threads (id) on delete cascade,
    channel_id uuid not null references channels (id) on delete cascade,
    seq bigint not null,
    primary key (user_id, thread_id)
);
create index reads_channel on reads (channel_id, user_id);
create index reads_thread on reads (thread_id);

-- The log. `frame` is the very text that was sent to sockets. `message_id` finds the frames that hold a message's text.
create table events (
    workspace_id uuid not null references workspaces (id) on delete cascade,
    seq bigint not null,
    type text not null,
    channel_id uuid,
    user_id uuid,
    message_id uuid,
    frame text not null,
    ts timestamptz not null,
    primary key (workspace_id, seq)
);
create index events_message on events (message_id) where message_id is not null;
create index events_age on events (ts);

-- Agents as they are now; `config` is the part that shapes what they say.
create table agents (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    name text not null,
    status text not null,
    is_system boolean not null,
    mentionable boolean not null,
    version bigint not null,
    profile jsonb not null,
    created_by uuid,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    unique (workspace_id, name)
);
create index agents_order on agents (workspace_id, id);

-- Every state an agent was ever in, whole: as written (`profile`) and with its bases merged in (`resolved`).
create table agent_versions (
    agent_id uuid not null references agents (id) on delete cascade,
    version bigint not null,
    profile jsonb not null,
    resolved jsonb not null,
    change_summary text,
    changed_by uuid,
    changed_at timestamptz not null,
    primary key (agent_id, version)
);

-- The one queue. `place_id` is the thread or fork: one task per agent runs there at a time. A task that `holds_place` keeps
-- its turn while it waits. Whoever writes for a running task must name its `lease_token`.
create table tasks (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    kind text not null,
    status text not null,
    agent_id uuid not null,
    agent_version bigint not null,
    channel_id uuid not null references channels (id) on delete cascade,
    thread_id uuid not null references threads (id) on delete cascade,
    fork_id uuid,
    place_id uuid not null,
    trigger_message_id uuid,
    reply_message_id uuid,
    notice_message_id uuid,
    requested_by uuid not null,
    retry_of uuid,
    parent_task_id uuid,
    root_task_id uuid not null,
    depth bigint not null,
    attempt bigint not null,
    counts jsonb not null,
    retry_at timestamptz,
    wait_reason text,
    holds_place boolean not null,
    input jsonb not null,
    output jsonb,
    token_usage jsonb,
    error jsonb,
    worker_id uuid,
    lease_token uuid,
    lease_until timestamptz,
    queued_at timestamptz not null,
    started_at timestamptz,
    completed_at timestamptz
);
create index tasks_queue on tasks (workspace_id, id) where status = 'queued';
create index tasks_running on tasks (lease_until) where status = 'running';
create index tasks_place on tasks (place_id, agent_id) where status in ('queued', 'running');
create index tasks_thread on tasks (thread_id, id);
create index tasks_workspace on tasks (workspace_id, id);
create index tasks_agent on tasks (agent_id, id);
create index tasks_trigger on tasks (trigger_message_id);
create unique index tasks_retry_of on tasks (retry_of) where retry_of is not null;

-- Exactly what a task's model was sent last, with ids and estimates; and how each call ended.
create table task_contexts (
    task_id uuid primary key references tasks (id) on delete cascade,
    manifest jsonb not null,
    attempts jsonb not null
);
