-- Bots and their incoming webhooks.

-- `person` or `bot`. A bot has no password and is not a member of a workspace.
alter table users add column kind text not null default 'person';

create table bots (
    id uuid primary key references users (id) on delete cascade,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    handle text not null,
    about text,
    status text not null,
    created_by uuid not null,
    created_at timestamptz not null,
    last_used_at timestamptz,
    version bigint not null
);

create index bots_workspace on bots (workspace_id, id);

create table hooks (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    bot_id uuid not null references bots (id) on delete cascade,
    channel_id uuid not null references channels (id) on delete cascade,
    may_notify text not null,
    secret_hash text not null unique,
    created_by uuid not null,
    created_at timestamptz not null,
    last_used_at timestamptz
);

create index hooks_workspace on hooks (workspace_id, id);
create index hooks_bot on hooks (bot_id);
create index hooks_channel on hooks (channel_id);

-- The newest thread of each key of a webhook.
create table hook_threads (
    hook_id uuid not null references hooks (id) on delete cascade,
    thread_key text not null,
    thread_id uuid not null references threads (id) on delete cascade,
    created_at timestamptz not null,
    primary key (hook_id, thread_key)
);

create index hook_threads_thread on hook_threads (thread_id);
create index hook_threads_age on hook_threads (created_at);
