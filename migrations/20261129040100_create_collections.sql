-- Purpose of an upload through the OpenAI routes, which keeps it; null for uploads that are attached to messages.
alter table files add column purpose text;

-- Collections of files. `channel_id` decides who can read them; null for everyone in the workspace except for guests.
create table vector_stores (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    handle text,
    name text not null,
    description text not null,
    channel_id uuid references channels (id) on delete cascade,
    editors text not null,
    trusted_reads boolean not null,
    -- Strings by key, as a JSON object.
    metadata text not null,
    expires_after_days bigint,
    last_active_at timestamptz not null,
    created_by uuid not null,
    created_at timestamptz not null,
    version bigint not null
);
create unique index vector_stores_handle on vector_stores (workspace_id, handle) where handle is not null;
create index vector_stores_workspace on vector_stores (workspace_id, created_at, id);
create index vector_stores_channel on vector_stores (channel_id) where channel_id is not null;

create table vector_store_files (
    store_id uuid not null references vector_stores (id) on delete cascade,
    file_id uuid not null references files (id) on delete cascade,
    -- Values by key, as a JSON object.
    attributes text not null,
    batch_id uuid,
    created_at timestamptz not null,
    primary key (store_id, file_id)
);
create index vector_store_files_file on vector_store_files (file_id);
create index vector_store_files_order on vector_store_files (store_id, created_at, file_id);
create index vector_store_files_batch on vector_store_files (batch_id) where batch_id is not null;

create table vector_store_batches (
    id uuid primary key,
    store_id uuid not null references vector_stores (id) on delete cascade,
    is_cancelled boolean not null,
    created_at timestamptz not null
);
create index vector_store_batches_store on vector_store_batches (store_id);
