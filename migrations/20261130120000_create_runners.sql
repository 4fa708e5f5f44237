-- Runners: programs that connect to this server and run coding agents on repositories. `connection_id` is the socket that serves a runner;
-- a newer one replaces it. `seen_at` is null until the runner has connected for the first time.
create table runners (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    name text not null,
    key_hash text not null,
    version text,
    sandbox text,
    engines jsonb not null,
    connection_id uuid,
    seen_at timestamptz,
    created_by uuid not null,
    created_at timestamptz not null
);
create unique index runners_key on runners (key_hash);
create index runners_workspace on runners (workspace_id);

-- Repositories that runners offer. `last_number` is the number of the newest session.
create table repositories (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    runner_id uuid not null references runners (id) on delete cascade,
    name text not null,
    base text not null,
    can_push boolean not null,
    is_offered boolean not null,
    is_allowed boolean not null,
    engine text,
    starters text not null,
    last_number bigint not null,
    version bigint not null,
    created_at timestamptz not null
);
create unique index repositories_name on repositories (runner_id, name);
create index repositories_workspace on repositories (workspace_id);

create table repository_channels (
    repository_id uuid not null references repositories (id) on delete cascade,
    channel_id uuid not null references channels (id) on delete cascade,
    primary key (repository_id, channel_id)
);
create index repository_channels_channel on repository_channels (channel_id);

-- People who can start sessions, if `starters` is `users`.
create table repository_starters (
    repository_id uuid not null references repositories (id) on delete cascade,
    user_id uuid not null,
    primary key (repository_id, user_id)
);

-- Work of an agent on a repository in a conversation. `read_seq` is the newest message that the agent has received, `parent` the last commit
-- that was pushed, `reply_id` the reply of the turn that changed the files last, `action_id` the newest push, and
-- `push_sent` whether the runner has to do it.
create table code_sessions (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    repository_id uuid not null references repositories (id) on delete cascade,
    number bigint not null,
    agent_id uuid not null,
    channel_id uuid not null references channels (id) on delete cascade,
    thread_id uuid not null references threads (id) on delete cascade,
    conversation_id uuid not null,
    engine text not null,
    state text not null,
    base_commit text,
    parent text,
    tree text,
    files jsonb not null,
    file_count bigint not null,
    additions bigint not null,
    deletions bigint not null,
    check_state text not null,
    check_ms bigint not null,
    title text,
    body text,
    reply_id uuid,
    action_id uuid,
    push_sent boolean not null,
    pushed_commit text,
    pushed_url text,
    pushed_tree text,
    pushed_text_id uuid,
    pushed_by uuid,
    pushed_at timestamptz,
    notes jsonb not null,
    read_seq bigint not null,
    last_command bigint not null,
    last_event bigint not null,
    started_by uuid not null,
    version bigint not null,
    created_at timestamptz not null,
    turn_at timestamptz not null
);
create index code_sessions_conversation on code_sessions (conversation_id);
create index code_sessions_thread on code_sessions (thread_id);
create index code_sessions_repository on code_sessions (repository_id);
create index code_sessions_reply on code_sessions (reply_id) where reply_id is not null;
create index code_sessions_turn on code_sessions (turn_at);
create index code_sessions_unsent on code_sessions (action_id) where push_sent = FALSE and action_id is not null;

-- A deleted thread stays until the runners of its sessions have the commands to remove their texts.
alter table thread_removals add column is_waiting boolean not null default FALSE;

-- Commands for runners, until they are acknowledged. Each is a JSON object.
create table runner_commands (
    session_id uuid not null references code_sessions (id) on delete cascade,
    n bigint not null,
    task_id uuid,
    command text not null,
    primary key (session_id, n)
);

-- Turns: tasks that a runner works on, with the hash of the key that their agents use; null until the prompt is sent. `is_begun` is true once
-- the runner has the prompt, and `prompt_n` is the number of that command.
create table task_keys (
    task_id uuid primary key references tasks (id) on delete cascade,
    session_id uuid not null references code_sessions (id) on delete cascade,
    key_hash text,
    prompt_n bigint not null,
    is_begun boolean not null,
    plan jsonb not null,
    reported_cost_usd double precision not null,
    created_at timestamptz not null
);
create unique index task_keys_hash on task_keys (key_hash) where key_hash is not null;
create index task_keys_session on task_keys (session_id);

-- All turns whose texts are kept. `text_id` is a context text that is removed with the messages of the prompt; then the log and the steps go.
create table code_turns (
    task_id uuid primary key references tasks (id) on delete cascade,
    session_id uuid not null references code_sessions (id) on delete cascade,
    text_id uuid not null
);
create index code_turns_session on code_turns (session_id);

create table code_steps (
    task_id uuid not null references tasks (id) on delete cascade,
    n bigint not null,
    title text not null,
    kind text not null,
    state text not null,
    ms bigint not null,
    primary key (task_id, n)
);

-- The patch of a session (`owner_id` is the session), the one that was pushed last (`owner_id` is `pushed_text_id`), and the logs of its
-- turns (`owner_id` is the task), compressed.
create table code_texts (
    owner_id uuid primary key,
    session_id uuid not null references code_sessions (id) on delete cascade,
    content bytea not null
);
create index code_texts_session on code_texts (session_id);
