-- Ended access whose sockets every node closes. One text for SQLite and PostgreSQL.

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
