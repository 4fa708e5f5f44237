-- Forks and their resolutions. One text for SQLite and PostgreSQL.

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
    resolved_at timestamptz
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
    published_at timestamptz
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
