-- Imports of archives of other products. `preview` and the choices in `options` are deleted when an import has ended.
create table imports (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    created_by uuid not null,
    -- Null until it was detected.
    format text,
    -- Such as `slack:T024BE7LD`; null until the archive was read.
    source text,
    state text not null,
    phase text not null,
    options jsonb not null,
    size_bytes bigint,
    received_bytes bigint not null,
    preview jsonb,
    report jsonb not null,
    -- The next entry of the phase; in the phase of messages, the unit of the archive, such as a day of a channel, and the entry in it.
    position bigint not null,
    message bigint not null,
    done bigint not null,
    total bigint not null,
    problem text,
    created_at timestamptz not null,
    started_at timestamptz,
    finished_at timestamptz
);
create index imports_workspace on imports (workspace_id, id);
create index imports_state on imports (state, id);
create index imports_age on imports (created_at) where started_at is null;

-- Pieces of archives, which are blobs, so that any node can read them.
create table import_pieces (
    import_id uuid not null references imports (id) on delete cascade,
    start bigint not null,
    size_bytes bigint not null,
    hash text not null references blobs (hash),
    primary key (import_id, start)
);
create index import_pieces_hash on import_pieces (hash);

-- People, channels, and other objects of a source, and their objects here.
create table imported (
    workspace_id uuid not null references workspaces (id) on delete cascade,
    source text not null,
    kind text not null,
    key text not null,
    id uuid not null,
    primary key (workspace_id, source, kind, key)
);
create index imported_id on imported (id);
