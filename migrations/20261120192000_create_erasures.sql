-- Taking a person's data out of a workspace. One text for SQLite and PostgreSQL.

-- What was begun is finished also after a crash: every step can be done again, so nothing says how far it came. `alias_id` stands
-- for the person wherever they are named from now on. `handle` is what the admin wrote to be sure, and goes with `user_id`
-- (which becomes the alias) when all is done.
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
