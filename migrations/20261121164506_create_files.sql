-- Files of messages, and pictures of agents. One text for SQLite and PostgreSQL.

-- Stored bytes, once per SHA-256. On SQLite they are in the file of that name below `blobs/`; on PostgreSQL in the chunks of
-- `upload_id`.
create table blobs (
    hash text primary key,
    upload_id uuid not null unique,
    size_bytes bigint not null,
    created_at timestamptz not null
);

-- Chunks of 1 MiB, the last one shorter. They are stored before the row of their blob, so that nothing holds a whole upload.
create table blob_chunks (
    upload_id uuid not null,
    n bigint not null,
    bytes bytea not null,
    primary key (upload_id, n)
);

-- Uploads. `message_id` is the message that a file is attached to; a file without one that is no agent's picture is deleted
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
