-- Tables of both engines; those of search follow for each engine. IDs are UUIDv7; times are bound by the program, in UTC, to the
-- microsecond. Kinds and states carry no CHECK: the program parses them.

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
    created_at timestamptz not null,
    -- Whether the client suggests a deep dive to the person.
    suggestions boolean not null default TRUE,
    -- Skeletons of the shown names of people and agents, as written and in lowercase (Unicode Technical Standard 39): a new name is compared
    -- with those of others.
    name_skeleton text not null,
    name_folded text not null
);
create index users_name_skeleton on users (name_skeleton);
create index users_name_folded on users (name_folded);

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
create index sessions_expiry on sessions (expires_at);

-- Networks and browsers from which an account was signed in to before, as hashes: while somebody guesses at its password,
-- these are not slowed down.
create table known_clients (
    user_id uuid not null references users (id) on delete cascade,
    client_hash text not null,
    seen_at timestamptz not null,
    primary key (user_id, client_hash)
);

-- What happened to an account: sign-ins and failures, password changes, new keys. Deleted after 90 days.
create table auth_events (
    id uuid primary key,
    user_id uuid not null references users (id) on delete cascade,
    kind text not null,
    -- For a new key, its name.
    detail text,
    user_agent text,
    address text,
    created_at timestamptz not null
);
create index auth_events_user on auth_events (user_id, id);
create index auth_events_created on auth_events (created_at);

-- `seq` is the number of the newest event. It is raised in the transaction of the change, so that the order of numbers is the
-- order of commits and no number is missing. `last_claim` orders workspaces by their most recently claimed task.
create table workspaces (
    id uuid primary key,
    name text not null,
    slug text not null unique,
    seq bigint not null,
    pruned_seq bigint not null,
    last_claim bigint not null,
    default_agent_id uuid,
    settings jsonb not null,
    created_at timestamptz not null,
    -- Every message up to this number has been followed by silence or by another message of its conversation.
    quiet_seq bigint not null default 0
);
create index workspaces_last_claim on workspaces (last_claim);

-- Bytes that count in the storage quota: of agents with their versions and files, of messages, and of uploads.
create table workspace_sizes (
    workspace_id uuid primary key references workspaces (id) on delete cascade,
    agent_bytes bigint not null,
    message_bytes bigint not null default 0,
    file_bytes bigint not null default 0,
    response_bytes bigint not null default 0
);

-- Users in a workspace, and their roles.
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

-- The common namespace of people's handles and agents' names: the primary key decides who has a name.
create table handles (
    workspace_id uuid not null references workspaces (id) on delete cascade,
    handle text not null,
    owner_type text not null,
    owner_id uuid not null,
    primary key (workspace_id, handle)
);
create index handles_owner on handles (workspace_id, owner_id);

-- Invitation links; the token is shown once, the row holds its SHA-256.
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
create index invites_creator on invites (created_by);

-- Keys for programs; they act as the member who created them.
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

-- Actions with the powers of an admin.
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

-- The object that a client's ID of a creation led to, so that a resend is harmless.
create table client_ids (
    workspace_id uuid not null references workspaces (id) on delete cascade,
    user_id uuid not null,
    client_id text not null,
    place text not null,
    object_id uuid not null,
    created_at timestamptz not null,
    primary key (workspace_id, user_id, client_id)
);

-- Erasures of people's data. One that was interrupted is finished later: every step can be repeated, so its progress is not
-- stored. `alias_id` replaces the person wherever they are named. `handle` is the admin's confirmation; it is removed at the
-- end, when `user_id` becomes the alias.
create table erasures (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    user_id uuid not null,
    alias_id uuid not null,
    handle text not null,
    requested_by uuid not null,
    messages bigint not null,
    files bigint not null,
    account_deleted boolean not null,
    started_at timestamptz not null,
    finished_at timestamptz
);
create unique index erasures_open on erasures (workspace_id, user_id) where finished_at is null;
create index erasures_unfinished on erasures (started_at) where finished_at is null;

-- Current state of each agent. `base_id` is the agent whose profile comes first. `summary` is the profile without its long
-- texts, for lists and names. `access` lists who may use the agent, from its base if it has no list of its own; null means
-- everyone. `instructions_bytes` and `profile_bytes` are sizes of its own texts: a change of a base is checked against all of
-- its children without reading those.
create table agents (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    name text not null,
    status text not null,
    is_system boolean not null,
    mentionable boolean not null,
    version bigint not null,
    base_id uuid,
    profile jsonb not null,
    summary jsonb,
    access jsonb,
    instructions_bytes bigint not null default 0,
    profile_bytes bigint not null default 0,
    created_by uuid,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    -- The persona that an agent itself names, not one of its bases.
    persona_id uuid,
    name_skeleton text not null,
    name_folded text not null,
    unique (workspace_id, name)
);
create index agents_order on agents (workspace_id, id);
create index agents_status on agents (workspace_id, status, id);
-- Sizes follow the long texts in a row: the index spares reading those.
create index agents_children on agents (base_id, id, instructions_bytes, profile_bytes) where base_id is not null;
create index agents_persona on agents (persona_id, id) where persona_id is not null;
create index agents_name_skeleton on agents (workspace_id, name_skeleton);
create index agents_name_folded on agents (workspace_id, name_folded);

-- Every version of an agent, complete: as written (`profile`) and merged with its bases (`resolved`). `bases` names those,
-- each with its version. `bytes` is what the version counts in the storage quota.
create table agent_versions (
    agent_id uuid not null references agents (id) on delete cascade,
    version bigint not null,
    name text,
    mentionable boolean,
    status text,
    profile jsonb not null,
    resolved jsonb not null,
    bases jsonb,
    bytes bigint not null default 0,
    change_summary text,
    changed_by uuid,
    changed_at timestamptz not null,
    -- Texts of versions that a change of a base makes are stored once. `profile_of` is the earlier version of the agent with the
    -- same profile as written; its own `profile` is empty then. With `is_split`, the instructions in `resolved` are those of the
    -- bases only, those of the profile follow them, and the files are in the profile.
    profile_of bigint,
    is_split boolean not null default FALSE,
    -- `part_versions` is the version that last changed each part of what the agent is told; its `changed_by` is the part's author.
    part_versions jsonb not null,
    primary key (agent_id, version)
);

-- Names of agents that were deleted permanently, for the messages that they wrote.
create table agent_names (
    agent_id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    name text not null
);
create index agent_names_workspace on agent_names (workspace_id);

-- Metadata pairs of each agent, to find agents by them: `pair` is the SHA-256 of key and value.
create table agent_metadata (
    workspace_id uuid not null references workspaces (id) on delete cascade,
    pair text not null,
    agent_id uuid not null references agents (id) on delete cascade,
    primary key (workspace_id, pair, agent_id)
);
create index agent_metadata_agent on agent_metadata (agent_id);

-- Bases whose children get a new version in the background. `after_id` is the last child that has one; the row is deleted
-- after the last child. `reserved_bytes` is what the versions of the remaining children will take; it counts until those are
-- stored.
create table agent_refreshes (
    base_id uuid primary key references agents (id) on delete cascade,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    requested_by uuid not null,
    after_id uuid not null,
    reserved_bytes bigint not null default 0,
    created_at timestamptz not null
);
create index agent_refreshes_workspace on agent_refreshes (workspace_id, created_at);

-- Files of an agent, or of a workspace for all its agents (`owner_id` is the workspace then). SOUL.md and IDENTITY.md have no
-- rows: they are views of the profile. A deleted file keeps its row without content, so that its version numbers continue.
create table agent_files (
    workspace_id uuid not null references workspaces (id) on delete cascade,
    owner_id uuid not null,
    path text not null,
    content text,
    version bigint not null,
    updated_by uuid not null,
    updated_at timestamptz not null,
    primary key (owner_id, path)
);
create index agent_files_workspace on agent_files (workspace_id);

-- Every version of a file.
create table agent_file_versions (
    owner_id uuid not null,
    path text not null,
    version bigint not null,
    content text,
    changed_by uuid not null,
    changed_at timestamptz not null,
    primary key (owner_id, path, version),
    foreign key (owner_id, path) references agent_files (owner_id, path) on delete cascade
);

-- Limits for code that agents run: what a workspace allows, and what an agent requests.
create table sandbox_policies (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    name text not null,
    limits jsonb not null,
    created_by uuid not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    unique (workspace_id, name)
);
create index sandbox_policies_order on sandbox_policies (workspace_id, id);

-- Rules for every agent of a workspace; without a row there are none.
create table workspace_policies (
    workspace_id uuid primary key references workspaces (id) on delete cascade,
    required_text text,
    allowed_tools jsonb,
    sandbox_policy_id uuid,
    members_write_agents boolean not null,
    updated_by uuid not null,
    updated_at timestamptz not null,
    -- Switches of the workspace, merged by key.
    memory jsonb not null default '{}',
    -- Strategy of the workspace: a default and exceptions by mode.
    compaction jsonb not null default '{}',
    -- What agents know about the workspace, merged by key.
    workspace_context jsonb not null default '{}',
    -- Version of a policy; 0 before the first change.
    version bigint not null default 0,
    -- Both switches are off until somebody turns them on.
    adaptation_allowed boolean not null default FALSE,
    -- Whether API clients can call the model without an agent.
    bare_model boolean not null default TRUE,
    -- Who sees what calls cost.
    show_costs text not null default 'everyone',
    -- Who must approve actions of agents: a default for the workspace, and rules for single actions.
    trust_level bigint not null default 2,
    approval_rules jsonb not null default '[]',
    trusted_domains jsonb not null default '[]'
);

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
    created_at timestamptz not null,
    -- Whether agents remember a thread.
    memory text not null default 'on'
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
    -- Origin of a binding: a person or the channel. A binding by the channel holds while the mode is `all`.
    bound_by text not null default 'person',
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
create index messages_workspace on messages (workspace_id, seq);
create index messages_conversation on messages (conversation_id, seq, deleted_at, kind);

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
    -- Membership change of the event, so that a process that did not commit it can apply it before delivery. Null for most events.
    access jsonb,
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

-- A fork starts from a message of a thread's main line. `title_from` is the message that its title was taken from: at first
-- the forked one, then the first of a person; null if a person chose the title. `last_seq` is that of the newest message;
-- `resolution_id` is the newest published resolution.
create table forks (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    channel_id uuid not null references channels (id) on delete cascade,
    thread_id uuid not null references threads (id) on delete cascade,
    message_id uuid not null references messages (id) on delete cascade,
    title text not null,
    title_from uuid,
    description text,
    context text not null,
    status text not null,
    stale boolean not null,
    message_count bigint not null,
    last_seq bigint not null,
    resolution_id uuid,
    created_by uuid not null,
    created_at timestamptz not null,
    resolved_at timestamptz,
    -- Agents that work on a goal in a fork, in turns: their IDs in order, the turns so far, and the state. Null for other forks.
    collaboration jsonb
);
create index forks_thread on forks (thread_id, id);
create index forks_message on forks (message_id);
create index forks_channel on forks (channel_id);
create index forks_active on forks (workspace_id, id) where status = 'active';

-- Resolutions of a fork: at most one draft, the published one, and those that it replaced. `version` counts published ones;
-- `revision` counts the edits of a draft, which is its ETag. `covers_seq` is the newest message that it was made from.
-- `announced_at` is the time of the last announced edit; `is_announced` is false if there is a newer edit.
create table resolutions (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    channel_id uuid not null references channels (id) on delete cascade,
    thread_id uuid not null references threads (id) on delete cascade,
    fork_id uuid not null references forks (id) on delete cascade,
    version bigint not null,
    status text not null,
    revision bigint not null,
    generated_by text,
    edited_by jsonb not null,
    headline text not null,
    conclusion text not null,
    key_points jsonb not null,
    open_questions jsonb not null,
    deferred_items jsonb not null,
    search_text text not null,
    covers_seq bigint not null,
    message_id uuid,
    published_seq bigint,
    publisher_type text,
    publisher_id uuid,
    is_announced boolean not null,
    announced_at timestamptz not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    published_at timestamptz,
    -- Why a draft was extracted although a model is connected: the error code of the model call.
    fallback_reason text
);
create unique index resolutions_version on resolutions (fork_id, version);
create unique index resolutions_draft on resolutions (fork_id) where status = 'draft';
create unique index resolutions_published on resolutions (fork_id) where status = 'published';
create unique index resolutions_message on resolutions (message_id) where message_id is not null;
create index resolutions_workspace on resolutions (workspace_id, published_seq) where status = 'published';
create index resolutions_channel on resolutions (channel_id, published_seq) where status = 'published';
create index resolutions_thread on resolutions (thread_id);
create index resolutions_unannounced on resolutions (announced_at) where is_announced = false;

-- Action items of every version of a resolution. An item keeps its ID from version to version; only the row of the published
-- version counts as the item.
create table action_items (
    resolution_id uuid not null references resolutions (id) on delete cascade,
    id uuid not null,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    position bigint not null,
    text text not null,
    owner_id uuid,
    owner_name text,
    due text,
    done boolean not null,
    done_at timestamptz,
    done_by uuid,
    sources jsonb not null,
    created_at timestamptz not null,
    primary key (resolution_id, id)
);
create index action_items_id on action_items (id);
create index action_items_owner on action_items (workspace_id, owner_id, id);
-- Open action items by due date, which every prompt with the workspace context lists.
create index action_items_open on action_items (workspace_id, coalesce(due, '9999-12-31'), id) where not done;

-- The task queue, and the record of calls that were never queued: those have no conversation, and no agent unless the call
-- named one. One task per agent and conversation runs at a time. A task that `holds_slot` keeps its turn while it waits.
-- Whoever writes for a running task must name its `lease_token`.
create table tasks (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    kind text not null,
    status text not null,
    agent_id uuid,
    agent_version bigint,
    channel_id uuid references channels (id) on delete cascade,
    thread_id uuid references threads (id) on delete cascade,
    conversation_id uuid,
    trigger_message_id uuid,
    reply_message_id uuid,
    notice_message_id uuid,
    requested_by uuid not null,
    retry_of uuid,
    parent_task_id uuid,
    root_task_id uuid not null,
    depth bigint not null,
    attempt bigint not null,
    retry_counts jsonb not null,
    retry_at timestamptz,
    wait_reason text,
    holds_slot boolean not null,
    input jsonb not null,
    output jsonb,
    token_usage jsonb,
    error jsonb,
    worker_id uuid,
    lease_token uuid,
    lease_until timestamptz,
    queued_at timestamptz not null,
    started_at timestamptz,
    completed_at timestamptz,
    -- Tasks in the background take no conversation's turn, run when nothing else is due, and do not count toward the queue's limit.
    lane text not null default 'foreground',
    -- A task that waits for a person is `parked`: it is queued, but not due, takes no turn, and does not count toward the queue's
    -- limit. `round` counts model calls that were followed by calls of tools.
    round bigint not null default 0,
    parked boolean not null default FALSE,
    -- A link of a chain is parked until the link `after_task_id` completes, and reads the messages before `before_seq`: its own start.
    -- `child_key` names a child of a task, so that it exists once. `run_since` is the start of the current run (Unix time in ms);
    -- `run_ms` adds up the runs that have ended.
    after_task_id uuid,
    child_key text,
    before_seq bigint,
    run_since bigint,
    run_ms bigint not null default 0,
    -- API key that started the chain of a link: it posted the message, or retried a link. Null for a person. The ID stays when the key is revoked.
    api_key_id uuid,
    -- Brief and answer of a delegated task: context texts, so they can be gone.
    brief_id uuid,
    answer_id uuid,
    -- The run that a task belongs to, which has the UUID of the run's root task, and the step that the task works for.
    run_id uuid,
    step_id text
);
create index tasks_queue on tasks (workspace_id, id) where status = 'queued';
create index tasks_running on tasks (lease_until) where status = 'running';
create index tasks_conversation on tasks (conversation_id, agent_id) where status in ('queued', 'running');
create index tasks_thread on tasks (thread_id, id);
create index tasks_workspace on tasks (workspace_id, id);
create index tasks_agent on tasks (agent_id, id);
create index tasks_trigger on tasks (trigger_message_id);
create unique index tasks_retry_of on tasks (retry_of) where retry_of is not null;
-- At most one resolution of a fork is being drafted.
create unique index tasks_resolve on tasks (conversation_id) where kind = 'resolve' and status in ('queued', 'running');
-- Tasks that another one asked for are canceled with it.
create index tasks_parent on tasks (parent_task_id) where parent_task_id is not null;
-- At most one pass of a conversation is active.
create unique index tasks_compact on tasks (conversation_id) where kind = 'compact' and status in ('queued', 'running');
-- The next task is found without reading those that wait for people.
create index tasks_due on tasks (workspace_id, id) where status = 'queued' and not parked;
create index tasks_parked on tasks (workspace_id, id) where parked;
-- Only tasks with rounds have actions.
create index tasks_requester on tasks (workspace_id, requested_by) where round > 0;
create index tasks_after on tasks (after_task_id) where after_task_id is not null;
create unique index tasks_child on tasks (parent_task_id, child_key) where child_key is not null;
create index tasks_tree on tasks (root_task_id, id) where parent_task_id is not null;
-- Runs that have not ended, by their root tasks.
create index tasks_runs on tasks (workspace_id, id) where kind = 'workflow' and status in ('queued', 'running');

-- What a task's model was sent last, with IDs and estimates, and the outcome of each call.
create table task_contexts (
    task_id uuid primary key references tasks (id) on delete cascade,
    manifest jsonb not null,
    attempts jsonb not null
);

-- Texts that were sent, each stored once per source: a message that a hundred prompts contain is one row. `hash` is the
-- SHA-256 of source type, source ID, and text. It is null once the text was removed, because a hash confirms a guess.
create table context_texts (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    hash text,
    text text not null,
    last_used_at timestamptz not null
);
create unique index context_texts_hash on context_texts (workspace_id, hash);
create index context_texts_age on context_texts (workspace_id, last_used_at);

-- Parts of the prompt of a task, in order. Without foreign key to the text: an expired text leaves the ID and the tokens.
create table context_parts (
    task_id uuid not null references tasks (id) on delete cascade,
    position bigint not null,
    name text not null,
    source_type text,
    source_id uuid,
    role text not null,
    tokens bigint not null,
    text_id uuid not null,
    -- The only person to whom a part is shown.
    only_user_id uuid,
    primary key (task_id, position)
);

-- Sources of derived texts. One message can have many texts (labeled, as a question, before an edit), and one text many
-- messages (a summary).
create table citations (
    source_type text not null,
    source_id uuid not null,
    owner_type text not null,
    owner_id uuid not null,
    primary key (source_type, source_id, owner_type, owner_id)
);
create index citations_owner on citations (owner_type, owner_id, source_type, source_id);

-- Stored responses of `/v1/responses`: `input` holds the items that the request added to the conversation, `response` is the
-- response as it was sent. `previous_id` is the response that it continues, which may be deleted already. Only `user_id` can
-- see it, in this workspace, until `expires_at`. A continuation runs with the same version of the agent.
create table responses (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    user_id uuid not null references users (id) on delete cascade,
    previous_id uuid,
    agent_id uuid,
    agent_version bigint,
    task_id uuid not null references tasks (id) on delete cascade,
    input jsonb not null,
    response jsonb not null,
    created_at timestamptz not null,
    expires_at timestamptz not null,
    -- Stored responses count in the storage quota, like uploads.
    counted_bytes bigint not null default 0
);
create index responses_workspace on responses (workspace_id, id);
create index responses_user on responses (user_id, id);
create index responses_task on responses (task_id);
create index responses_expiry on responses (expires_at);

-- One row for each workspace, month (UTC), user, agent, and model, raised when a task ends. `agent_id` is the ID of the
-- workspace if no agent ran; `model` is empty if none was called. `cost_usd` is null as long as no price is known.
create table usage (
    workspace_id uuid not null references workspaces (id) on delete cascade,
    month text not null,
    user_id uuid not null,
    agent_id uuid not null,
    model text not null,
    tasks bigint not null,
    failed bigint not null,
    input_tokens bigint not null,
    output_tokens bigint not null,
    cost_usd double precision,
    primary key (workspace_id, month, user_id, agent_id, model)
);

-- Stored bytes, once per SHA-256. On SQLite they are in the file of that name below `blobs/`; on PostgreSQL in the chunks of
-- `upload_id`.
create table blobs (
    hash text primary key,
    upload_id uuid not null unique,
    size_bytes bigint not null,
    created_at timestamptz not null,
    -- Place of the bytes: `db` (chunks of `upload_id`), `file` (beside a SQLite database), or `s3` (object `HASH/UPLOAD` below the
    -- prefix of `OPENVIBE_BLOBS_URL`).
    store text not null
);

-- Chunks of 1 MiB, the last one shorter. They are stored before the row of their blob, so that nothing holds a whole upload.
create table blob_chunks (
    upload_id uuid not null,
    n bigint not null,
    bytes bytea not null,
    -- Incomplete uploads are removed when they have got no chunk for a day.
    created_at timestamptz,
    primary key (upload_id, n)
);

-- Uploads. `message_id` is the message that a file is attached to; a file without one that is not an agent's picture is deleted
-- after a day.
create table files (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    hash text not null references blobs (hash),
    name text not null,
    content_type text not null,
    size_bytes bigint not null,
    width bigint,
    height bigint,
    created_by uuid not null,
    client_id text,
    message_id uuid,
    is_avatar boolean not null,
    created_at timestamptz not null
);
create index files_workspace on files (workspace_id, id);
create index files_hash on files (hash);
create index files_creator on files (created_by, workspace_id);
create index files_message on files (message_id) where message_id is not null;
create index files_unattached on files (created_at) where message_id is null and is_avatar = false;

-- One row for each call, stored before the request leaves, so that canceled, failed, and lost calls count. `input` and `output` are
-- tokens: estimates until the call ends, and afterwards if `estimated`. No foreign key for the task: the row of an API call's task is
-- written after its calls. Without a task: the test of a connection.
create table model_calls (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    task_id uuid,
    root_task_id uuid,
    attempt bigint not null,
    purpose text not null,
    user_id uuid not null,
    agent_id uuid,
    model text not null,
    input bigint not null,
    output bigint not null,
    cost_usd double precision,
    estimated boolean not null,
    outcome text not null,
    started_at timestamptz not null,
    ended_at timestamptz,
    -- `round` counts the calls of a tool loop. A running call has reserved `reserved` tokens and, if the model has a price, as many billionths
    -- of a US dollar as `reserved_nano_usd`. The prices are in US dollars per million tokens; with them, a lost call has a cost, too.
    round bigint not null default 1,
    reserved bigint not null default 0,
    reserved_nano_usd bigint,
    input_usd double precision,
    output_usd double precision
);
create index model_calls_task on model_calls (task_id);
create index model_calls_user on model_calls (workspace_id, user_id, id);
create index model_calls_age on model_calls (started_at);
create index model_calls_open on model_calls (root_task_id) where outcome = 'running';

-- What the responses of a model server revealed about a model (refused fields, context window, token counts), so that a restart
-- does not forget it. `facts` is JSON of the client for such servers.
create table model_facts (
    server text not null,
    model text not null,
    facts text not null,
    updated_at timestamptz not null,
    primary key (server, model)
);

-- The model server that an admin connected. After it is disconnected, the row stays without an address, so that versions continue.
create table model_settings (
    workspace_id uuid primary key references workspaces (id) on delete cascade,
    provider text,
    base_url text,
    model text,
    utility_model text,
    status text not null,
    checked_at timestamptz not null,
    version bigint not null
);

-- Secrets, encrypted with a key that is not in the database. `owner_id` is the ID of the object that they belong to.
create table secrets (
    owner_id text primary key,
    key_id text not null,
    nonce text not null,
    ciphertext text not null
);

-- Entries. `key` names what an entry belongs to (a conversation, a person, a person and an agent, an agent, the workspace), so
-- that limits and deduplication need one index. `hash` is the keyed hash of the normalized text; null if the server has no
-- secret key. `channel_id` is the channel to which `visibility` restricts the use. The sources are rows in `citations`. A
-- forgotten entry keeps its row without the text, so that it is not made again from the same messages. `words` is the number of
-- its words in `memory_words`.
create table memories (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    scope text not null,
    key text not null,
    kind text not null,
    text text not null,
    hash text,
    words bigint not null,
    agent_id uuid references agents (id) on delete cascade,
    user_id uuid,
    about_user_id uuid,
    thread_id uuid references threads (id) on delete cascade,
    conversation_id uuid,
    compaction_id uuid,
    channel_id uuid references channels (id) on delete cascade,
    visibility text not null,
    trust text not null,
    origin text not null,
    status text not null,
    superseded_by uuid,
    share_with_organization boolean not null,
    flagged boolean not null,
    uses bigint not null,
    last_used_at timestamptz,
    expires_at timestamptz,
    version bigint not null,
    created_by uuid,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    forgotten_at timestamptz,
    -- File of an agent that an entry is a paragraph of.
    path text
);
create index memories_workspace on memories (workspace_id, id);
create index memories_key on memories (workspace_id, key, status);
create index memories_hash on memories (workspace_id, hash);
create index memories_agent on memories (agent_id);
create index memories_thread on memories (thread_id);
create index memories_channel on memories (channel_id);
create index memories_user on memories (workspace_id, user_id);
create index memories_about on memories (workspace_id, about_user_id);
create index memories_compaction on memories (compaction_id);
-- Entries whose time is over.
create index memories_expired on memories (expires_at) where expires_at is not null and forgotten_at is null;
-- Entries by hand of a person, which are counted.
create index memories_author on memories (workspace_id, created_by, origin, status);
-- Entries that a removed one had superseded are current again.
create index memories_superseded on memories (superseded_by);
-- Automatic entries expire some time after their last use.
create index memories_unused on memories (workspace_id, coalesce(last_used_at, created_at))
    where origin = 'auto' and forgotten_at is null;

-- Switches of a person; without a row, both are on.
create table memory_settings (
    workspace_id uuid not null references workspaces (id) on delete cascade,
    user_id uuid not null references users (id) on delete cascade,
    enabled boolean not null,
    persona boolean not null,
    updated_at timestamptz not null,
    adapt boolean not null default FALSE,
    primary key (workspace_id, user_id)
);
create index memory_settings_user on memory_settings (user_id);

-- A conversation (thread or fork) from an agent's first reply on. Its eligible messages from `covered_from_seq` to
-- `covered_to_seq` are all in segments; null if that is not known.
create table conversations (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    thread_id uuid not null references threads (id) on delete cascade,
    fork_id uuid,
    last_compacted_at timestamptz,
    covered_to_seq bigint
);
create index conversations_workspace on conversations (workspace_id);
create index conversations_thread on conversations (thread_id);

-- First message that is sent to an agent in a conversation; null as long as there are no segments. `turns` counts replies.
create table conversation_agents (
    conversation_id uuid not null references conversations (id) on delete cascade,
    agent_id uuid not null references agents (id) on delete cascade,
    window_start_seq bigint,
    turns bigint not null,
    -- Preset of an agent in a conversation, and what chose it. `preset_turn` is the turn in which rules and mode default were
    -- evaluated last; null if they are evaluated in the next one.
    preset text,
    chosen_by text,
    preset_turn bigint,
    primary key (conversation_id, agent_id)
);
create index conversation_agents_agent on conversation_agents (agent_id);
create index conversation_agents_preset on conversation_agents (preset) where preset is not null;

-- Segments: records of compacted ranges. The entries made from a segment are rows of memory. `gist` is empty if a message of
-- the segment was deleted; then the messages are not covered until it is made again. `blanked` counts how often that happened.
create table compactions (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    conversation_id uuid not null references conversations (id) on delete cascade,
    thread_id uuid not null references threads (id) on delete cascade,
    fork_id uuid,
    trigger text not null,
    state text not null,
    from_seq bigint not null,
    to_seq bigint not null,
    from_message_id uuid not null,
    to_message_id uuid not null,
    message_count bigint not null,
    tokens_before bigint not null,
    tokens_after bigint not null,
    agents jsonb not null,
    gist text not null,
    left_out jsonb not null,
    model text not null,
    task_id uuid not null,
    created_by uuid not null,
    created_at timestamptz not null,
    expanded_at timestamptz,
    blanked bigint not null default 0,
    version bigint not null
);
create index compactions_conversation on compactions (conversation_id, from_seq);
create index compactions_workspace on compactions (workspace_id);
create index compactions_thread on compactions (thread_id);

-- Files of people, which agents read: USER.md. A deleted file keeps its row without content, so that its version numbers
-- continue.
create table user_files (
    workspace_id uuid not null references workspaces (id) on delete cascade,
    user_id uuid not null references users (id) on delete cascade,
    content text,
    visibility text not null,
    version bigint not null,
    updated_at timestamptz not null,
    primary key (workspace_id, user_id)
);
create index user_files_user on user_files (user_id);

-- Current state of each persona. `content` holds its texts and its picture. `approved_text` is the text of the last approval,
-- which agents receive.
create table personas (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    name text not null,
    content jsonb not null,
    pipeline_status text not null,
    approved_text text,
    version bigint not null,
    created_by uuid not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    unique (workspace_id, name)
);
create index personas_order on personas (workspace_id, id);

-- Every version of a persona, complete. `bytes` is what the version counts in the storage quota.
create table persona_versions (
    persona_id uuid not null references personas (id) on delete cascade,
    version bigint not null,
    name text not null,
    content jsonb not null,
    pipeline_status text not null,
    bytes bigint not null,
    change_summary text not null,
    changed_by uuid not null,
    changed_at timestamptz not null,
    primary key (persona_id, version)
);

-- Approved personas whose agents get a new version in the background; as `agent_refreshes`.
create table persona_refreshes (
    persona_id uuid primary key references personas (id) on delete cascade,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    requested_by uuid not null,
    after_id uuid not null,
    reserved_bytes bigint not null,
    created_at timestamptz not null
);
create index persona_refreshes_workspace on persona_refreshes (workspace_id, created_at);

-- Add-ons, presets, and rules of a workspace, from the first change on; until then, it has those of the server.
create table prompt_profiles (
    workspace_id uuid primary key references workspaces (id) on delete cascade,
    document jsonb not null,
    version bigint not null,
    updated_by uuid not null,
    updated_at timestamptz not null
);

-- Deleted presets that agents may still name: these get a version without it in the background; as `persona_refreshes`.
create table preset_removals (
    workspace_id uuid not null references workspaces (id) on delete cascade,
    preset text not null,
    requested_by uuid not null,
    after_id uuid not null,
    created_at timestamptz not null,
    primary key (workspace_id, preset)
);

-- How a person and an agent get along in a conversation; only that person can read it. `scores` are those of the newest messages,
-- without text. `turns` counts the agent's replies to the person since the row was created, `event_turn` is the turn of the newest
-- reflection on an event, and `interval_turns` holds the turn of the newest reflection by metaprompt. The row expires some time
-- after `last_message_at`. Without foreign key to the fork, as in `conversations`.
create table adaptation_states (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    user_id uuid not null references users (id) on delete cascade,
    agent_id uuid not null references agents (id) on delete cascade,
    thread_id uuid not null references threads (id) on delete cascade,
    conversation_id uuid not null,
    mood text not null,
    user_skill text not null,
    task_complexity text not null,
    last_event jsonb,
    scores jsonb not null,
    turns bigint not null,
    event_turn bigint,
    interval_turns jsonb not null,
    last_message_at timestamptz not null,
    created_at timestamptz not null,
    unique (conversation_id, agent_id, user_id)
);
create index adaptation_states_own on adaptation_states (workspace_id, user_id, id);
create index adaptation_states_user on adaptation_states (user_id);
create index adaptation_states_agent on adaptation_states (agent_id);
create index adaptation_states_thread on adaptation_states (thread_id);
create index adaptation_states_expiry on adaptation_states (last_message_at);

-- Budgets, in the order in which admins listed them. `subject_id` is the person or the agent; null for each of them, and for the budget of
-- the workspace. `amount` is in tokens or in billionths of a US dollar, as `unit` says.
create table budgets (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    position bigint not null,
    scope text not null,
    subject_id uuid,
    period text not null,
    unit text not null,
    amount bigint not null,
    warn_at double precision not null
);
create index budgets_workspace on budgets (workspace_id, position);

-- Version of the list of budgets of a workspace; no row before the first change.
create table budget_lists (
    workspace_id uuid primary key references workspaces (id) on delete cascade,
    version bigint not null
);

-- What calls of a period have used, and what running calls have reserved, in the unit of the budget. The subject is a person, an agent, or
-- the workspace. `period` is `YYYY-MM-DD` or `YYYY-MM` in UTC. Without foreign key for the subject, which can be any of three objects.
create table budget_counters (
    budget_id uuid not null references budgets (id) on delete cascade,
    subject_id uuid not null,
    period text not null,
    spent bigint not null,
    reserved bigint not null,
    primary key (budget_id, subject_id, period)
);

-- The registry. `listed_at` is when the functions of a server were last read. Secrets are in `secrets`, under the ID of the tool.
create table tools (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    kind text not null,
    name text not null,
    title text not null,
    enabled boolean not null,
    config jsonb not null,
    channel_ids jsonb,
    trusted_reads boolean not null,
    status text not null,
    listed_at timestamptz,
    version bigint not null,
    created_by uuid not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    -- Functions that a server lists and that cannot be used, as a JSON list of names and reasons. Null until the first list.
    rejected jsonb,
    unique (workspace_id, name)
);
create index tools_order on tools (workspace_id, id);

-- Functions of servers: the definition that was last listed, and the one that an admin accepted. Only the accepted one is offered,
-- while the listed one has the same hash. A function that is no longer listed is kept only if it was accepted.
create table tool_functions (
    tool_id uuid not null references tools (id) on delete cascade,
    name text not null,
    definition jsonb not null,
    definition_hash text not null,
    is_listed boolean not null,
    accepted_definition jsonb,
    accepted_hash text,
    effect text,
    risk text,
    title text,
    accepted_by uuid,
    accepted_at timestamptz,
    primary key (tool_id, name)
);

-- Text that the model wrote in a round, for its next call. Rows end with the task, whose reply has the text.
create table task_rounds (
    task_id uuid not null references tasks (id) on delete cascade,
    round bigint not null,
    text text not null,
    calls bigint not null,
    -- Members of messages with calls, such as signatures of reasoning, that a model's server wants back in the next requests of the task.
    -- `model` is the only model that receives them.
    model text,
    vendor text,
    primary key (task_id, round)
);

-- What a task has seen besides its requester's own messages. `source_id` is the author of messages, or the file; `label` names
-- it on the card of an approval.
create table task_taints (
    task_id uuid not null references tasks (id) on delete cascade,
    kind text not null,
    source_id uuid not null,
    label text not null,
    -- Texts that shape an agent, as sources of kind `author`: `author_id` is the person who wrote the text (null if nobody knows), `agent_id`
    -- the agent that has it (null for the steps of a workflow), and `part` its name. Whether a source counts depends on the author's
    -- role when a call is decided.
    author_id uuid,
    agent_id uuid,
    part text,
    primary key (task_id, kind, source_id)
);
create index task_taints_source on task_taints (source_id);
create index task_taints_author on task_taints (author_id) where author_id is not null;

-- Short names of messages and files in the results of a task's calls.
create table task_handles (
    task_id uuid not null references tasks (id) on delete cascade,
    kind text not null,
    number bigint not null,
    source_id uuid not null,
    primary key (task_id, kind, number),
    unique (task_id, kind, source_id)
);

-- Calls of tools. Arguments and result are context texts, so they can be gone. `call_hash` finds equal calls; the approver's
-- `arguments_hash` also covers task, round, and definition. Only the holder of `lease_token` stores the result. `hits` counts what
-- a search found.
create table actions (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    task_id uuid not null references tasks (id) on delete cascade,
    kind text not null,
    round bigint not null,
    call bigint not null,
    call_id text not null,
    name text not null,
    function text not null,
    title text not null,
    tool_id uuid,
    host text,
    effect text not null,
    state text not null,
    definition_hash text not null,
    arguments_hash text not null,
    call_hash text not null,
    arguments_id uuid not null,
    result_id uuid,
    sources jsonb not null,
    granted_by text,
    is_grantable boolean not null,
    grant_id uuid,
    hits bigint,
    error text,
    note text,
    runs bigint not null,
    lease_token uuid,
    timeout_s bigint not null,
    is_extended boolean not null,
    expires_at timestamptz,
    granted_at timestamptz,
    repeats jsonb,
    created_at timestamptz not null,
    started_at timestamptz,
    ended_at timestamptz,
    unique (task_id, round, call)
);
create index actions_workspace on actions (workspace_id, id);
create index actions_open on actions (workspace_id, id) where state in ('waiting', 'unknown');
create index actions_expiry on actions (expires_at) where state = 'waiting';
create index actions_running on actions (started_at) where state = 'running';

-- Permissions for calls of a function without a question, for an hour. `uses` counts the calls.
create table grants (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    agent_id uuid not null references agents (id) on delete cascade,
    requested_by uuid not null,
    thread_id uuid not null references threads (id) on delete cascade,
    fork_id uuid,
    tool_id uuid,
    function text not null,
    title text not null,
    host text,
    sources jsonb not null,
    uses bigint not null,
    created_at timestamptz not null,
    expires_at timestamptz not null
);
create index grants_person on grants (workspace_id, requested_by, id);
create index grants_agent on grants (agent_id);
create index grants_thread on grants (thread_id);

-- Trees in which agents work one after the other, or that were stopped. No task starts in a tree that was stopped.
create table task_trees (
    root_task_id uuid primary key references tasks (id) on delete cascade,
    score bigint not null default 0,
    stopped_at timestamptz
);

-- The agent of a channel, with its mode and the maximum of its unasked replies per day (UTC). Without `agent_id`, the channel has
-- none; the row stays, because `replies` counts those of the day `replied_on`, of all agents. `announced_on` is the last day with
-- a notice about the limit.
create table channel_agents (
    channel_id uuid primary key references channels (id) on delete cascade,
    agent_id uuid,
    mode text not null,
    daily_max bigint not null,
    replied_on timestamptz,
    replies bigint not null default 0,
    announced_on timestamptz
);
create index channel_agents_agent on channel_agents (agent_id);

-- Jobs that one server at a time runs, by the clock of the database.
create table jobs (
    name text primary key,
    due_at timestamptz not null,
    lease_until timestamptz,
    -- The node that runs a job.
    node_id uuid
);

-- What a model wrote for one person about the messages of a thread from `from_seq` to `to_seq`, for a day. The lines are one
-- context text (JSON) that cites every message and author the model read, so it can be gone. `lines_left` counts lines without
-- room, `messages_left` older messages that were not read.
create table catch_ups (
    thread_id uuid not null references threads (id) on delete cascade,
    user_id uuid not null,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    from_seq bigint not null,
    to_seq bigint not null,
    message_count bigint not null,
    text_id uuid not null,
    model text not null,
    lines_left bigint not null,
    messages_left bigint not null,
    created_at timestamptz not null,
    primary key (thread_id, user_id)
);
create index catch_ups_person on catch_ups (workspace_id, user_id, thread_id);
create index catch_ups_age on catch_ups (created_at);

-- A delegation, by the task that made it and its key there. `words` and `answer` are hashes of sets of words; `all_words` has those
-- with digits, too. `answer_words` is the number of the answer's words.
create table tree_delegations (
    task_id uuid not null references tasks (id) on delete cascade,
    child_key text not null,
    root_task_id uuid not null,
    caller_id uuid not null,
    target text not null,
    words text not null,
    all_words text not null,
    is_on_path boolean not null,
    answer text,
    answer_words bigint,
    primary key (task_id, child_key)
);
create index tree_delegations_root on tree_delegations (root_task_id, caller_id, target);

-- Turns of collaborations, by the words of their texts.
create table tree_turns (
    task_id uuid primary key references tasks (id) on delete cascade,
    root_task_id uuid not null,
    agent_id uuid not null,
    words text not null
);
create index tree_turns_root on tree_turns (root_task_id, agent_id);

-- A root task `replay` for one person, for 7 days. `draft` is the resolved profile with its names.
create table replays (
    task_id uuid primary key references tasks (id) on delete cascade,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    user_id uuid not null,
    agent_id uuid not null,
    draft jsonb not null,
    created_at timestamptz not null
);
create index replays_person on replays (workspace_id, user_id, task_id);
create index replays_age on replays (created_at);

-- A reply that the child `task_id` writes again. The answer is one context text (JSON) that cites the prompt of the reply, so it can be
-- gone. Without an answer, `skip_reason` or the error of the task is set once the task has ended.
create table replay_cases (
    task_id uuid primary key references tasks (id) on delete cascade,
    replay_id uuid not null references replays (task_id) on delete cascade,
    reply_task_id uuid not null,
    is_partial boolean not null default FALSE,
    skip_reason text,
    text_id uuid
);
create index replay_cases_replay on replay_cases (replay_id, reply_task_id);

-- Current state of each workflow. `content` holds its description, agents, trigger, and steps. Messages in
-- `trigger_channel_id` can start runs; `dropped` counts those that started no run because too many had started in their minute.
create table workflows (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    name text not null,
    content jsonb not null,
    status text not null,
    paused_reason text,
    owner_id uuid not null,
    trigger_channel_id uuid,
    dropped bigint not null,
    version bigint not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    -- Messages that start runs: a copy from `content`, so that a post reads no steps of workflows that it does not start.
    on_message jsonb,
    unique (workspace_id, name)
);
create index workflows_order on workflows (workspace_id, id);
create index workflows_trigger on workflows (trigger_channel_id, id) where trigger_channel_id is not null;

-- Every version of a workflow, complete. `bytes` is what the version counts in the storage quota.
create table workflow_versions (
    workflow_id uuid not null references workflows (id) on delete cascade,
    version bigint not null,
    name text not null,
    content jsonb not null,
    status text not null,
    bytes bigint not null,
    change_summary text not null,
    changed_by uuid not null,
    changed_at timestamptz not null,
    primary key (workflow_id, version)
);

-- One execution of a workflow in its version then. `cause_id` is the message or schedule that started it, `message_id` the message
-- that its first texts come from. `agents` has the versions of the workflow's agents, `local_date` the day on which it started there.
-- Its state is that of its root task.
create table runs (
    id uuid primary key references tasks (id) on delete cascade,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    workflow_id uuid not null references workflows (id) on delete cascade,
    workflow_version bigint not null,
    cause text not null,
    cause_id text,
    requested_by uuid not null,
    channel_id uuid references channels (id) on delete cascade,
    thread_id uuid references threads (id) on delete cascade,
    message_id uuid,
    input text not null,
    agents jsonb not null,
    local_date text not null,
    created_at timestamptz not null
);
create index runs_workspace on runs (workspace_id, id);
create index runs_workflow on runs (workflow_id, created_at);
create index runs_channel on runs (channel_id) where channel_id is not null;
create index runs_thread on runs (thread_id) where thread_id is not null;

-- Steps of a run, each once. `attempt` counts resumed steps; `jump` is the step that a condition leads to. The output is a context
-- text, so it can be gone. At `due_at`, a step that waits is looked at again.
create table run_steps (
    run_id uuid not null references runs (id) on delete cascade,
    step_id text not null,
    position bigint not null,
    kind text not null,
    state text not null,
    attempt bigint not null,
    task_id uuid,
    fork_id uuid,
    action_id uuid,
    jump text,
    output_id uuid,
    error text,
    due_at timestamptz,
    started_at timestamptz,
    ended_at timestamptz,
    primary key (run_id, step_id)
);
create index run_steps_due on run_steps (due_at) where due_at is not null;
create index run_steps_fork on run_steps (fork_id) where fork_id is not null;

-- `target_id` is an agent or a workflow. `prompt` is the input of a workflow, and blank for a heartbeat, which reads a file of its agent.
-- Without `thread_id`, each slot starts a thread in the channel. `is_by_key`: an API key wrote the prompt. `failures` counts the tasks
-- that failed since the last one that completed. `last_task_id` is the newest task, of a slot or started by hand.
create table schedules (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    name text not null,
    cron text not null,
    timezone text not null,
    target_type text not null,
    target_id uuid not null,
    prompt text not null,
    channel_id uuid references channels (id) on delete cascade,
    thread_id uuid references threads (id) on delete cascade,
    missed text not null,
    status text not null,
    paused_reason text,
    owner_id uuid not null,
    next_run_at timestamptz,
    last_task_id uuid,
    failures bigint not null,
    version bigint not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    -- Key that wrote the prompt: its scopes hold for each slot, and its end pauses the schedule. Null for a person. The ID stays when the
    -- key is revoked.
    api_key_id uuid
);
create index schedules_due on schedules (next_run_at) where status = 'active';
create index schedules_workspace on schedules (workspace_id, id);
create index schedules_channel on schedules (channel_id) where channel_id is not null;
create index schedules_thread on schedules (thread_id) where thread_id is not null;

-- Times of schedules that came. The key makes a slot exist once, whoever claims it. `slot_count` is the number of slots that were
-- missed from `slot_at`, otherwise 1.
create table schedule_slots (
    schedule_id uuid not null references schedules (id) on delete cascade,
    slot_at timestamptz not null,
    state text not null,
    reason text,
    task_id uuid,
    slot_count bigint not null,
    primary key (schedule_id, slot_at)
);
create index schedule_slots_age on schedule_slots (slot_at);

-- One row per node. `incarnation` changes at each start. `lease_until` is compared with the clock of the database; an expired node is lost.
-- `settings` has hashes of settings that all nodes need to share; `figures` is what the Nodes page shows.
create table nodes (
    id uuid primary key,
    name text not null,
    incarnation uuid not null,
    version text not null,
    mode text not null,
    state text not null,
    started_at timestamptz not null,
    lease_until timestamptz not null,
    settings jsonb not null,
    figures jsonb not null
);

-- People with a socket, by node. No foreign keys: rows are written often and replaced when a node starts.
create table presence (
    node_id uuid not null,
    workspace_id uuid not null,
    user_id uuid not null,
    primary key (node_id, workspace_id, user_id)
);
create index presence_workspace on presence (workspace_id);

-- Rows of the last 10 minutes, on PostgreSQL only: SQLite has a single node. `target` is a session, a key, or a user, as `kind` says; without
-- foreign keys, because most targets are deleted by the same transaction. `created_at` is by the clock of the database.
create table revocations (
    id uuid primary key,
    kind text not null,
    target uuid not null,
    workspace_id uuid,
    except_session uuid,
    created_at timestamptz not null
);
create index revocations_created on revocations (created_at, id);

-- Rate limit buckets of accounts, addresses, and sessions, on PostgreSQL only: SQLite has a single node, which keeps them in memory. A bucket
-- is full at `full_at`, by the clock of the database, and its row is deleted soon after. `key_hash` is a SHA-256 hash.
create table login_attempts (
    kind text not null,
    key_hash text not null,
    full_at timestamptz not null,
    primary key (kind, key_hash)
);
create index login_attempts_full on login_attempts (full_at);

-- Approvals that an action needs: of the requester, an admin, any member, or the person in `user_id`, as `who` says. `decided_by` approved
-- it, or denied the action. People can be aliases of erased ones, so they are no foreign keys.
create table action_needs (
    action_id uuid not null references actions (id) on delete cascade,
    position bigint not null,
    who text not null,
    user_id uuid,
    decided_by uuid,
    decided_at timestamptz,
    primary key (action_id, position)
);

-- Messages of very many words whose index entries have outdated properties. A job replaces them, oldest first.
create table search_backlog (
    message_id uuid primary key references messages (id) on delete cascade,
    queued_at timestamptz not null
);
create index search_backlog_order on search_backlog (queued_at, message_id);

-- The newest version of each agent whose changes were announced in a private or direct channel.
create table told_versions (
    channel_id uuid not null references channels (id) on delete cascade,
    agent_id uuid not null references agents (id) on delete cascade,
    version bigint not null,
    primary key (channel_id, agent_id)
);
create index told_versions_agent on told_versions (agent_id);

-- Members of function calls, such as signatures of reasoning, that a model's server wants back. They are kept for programs that do not
-- return them.
create table response_vendor_members (
    workspace_id uuid not null references workspaces (id) on delete cascade,
    user_id uuid not null references users (id) on delete cascade,
    call_id text not null,
    model text not null,
    members text not null,
    -- Calls of agents' functions with their results, which programs that call other functions in the same round do not receive.
    rounds text,
    expires_at timestamptz not null,
    primary key (workspace_id, user_id, model, call_id)
);
create index response_vendor_members_user on response_vendor_members (user_id);
create index response_vendor_members_expiry on response_vendor_members (expires_at);
