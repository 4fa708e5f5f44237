-- Exports of workspaces: archives that admins download within a day.
create table exports (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    created_by uuid not null,
    scope text not null,
    format text not null,
    with_files boolean not null,
    state text not null,
    -- The attempt that writes the archive. An earlier one that still runs can add nothing.
    attempt uuid not null,
    -- Where the archive goes on after its last stored entry.
    place jsonb not null,
    -- Records in the archive, by kind.
    counts jsonb not null,
    -- Size of the stored entries. Pieces behind them belong to an attempt that was interrupted.
    size_bytes bigint not null,
    entries bigint not null,
    problem text,
    created_at timestamptz not null,
    finished_at timestamptz,
    expires_at timestamptz
);
create index exports_workspace on exports (workspace_id, id);
create index exports_state on exports (state, id);
create index exports_expired on exports (expires_at) where expires_at is not null;

-- Pieces of archives, which are blobs, so that any node can serve them.
create table export_pieces (
    export_id uuid not null references exports (id) on delete cascade,
    start bigint not null,
    size_bytes bigint not null,
    hash text not null references blobs (hash),
    primary key (export_id, start)
);
create index export_pieces_hash on export_pieces (hash);

-- Entries of archives, for the directory at their end.
create table export_entries (
    export_id uuid not null references exports (id) on delete cascade,
    n bigint not null,
    name text not null,
    method bigint not null,
    crc bigint not null,
    size_bytes bigint not null,
    packed_bytes bigint not null,
    start bigint not null,
    hash text not null,
    primary key (export_id, n)
);
