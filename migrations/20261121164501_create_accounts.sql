-- Accounts and workspaces. One text for SQLite and PostgreSQL. IDs are UUIDv7; times are bound by the program, in UTC, to the
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
    created_at timestamptz not null
);
create index workspaces_last_claim on workspaces (last_claim);

-- Bytes that count in the storage quota: of agents with their versions and files, of messages, and of uploads.
create table workspace_sizes (
    workspace_id uuid primary key references workspaces (id) on delete cascade,
    agent_bytes bigint not null,
    message_bytes bigint not null default 0,
    file_bytes bigint not null default 0
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
