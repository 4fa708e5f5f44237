-- Members of function calls, such as signatures of reasoning, that a model's server wants back. They are kept for programs that do not
-- return them. One text for SQLite and PostgreSQL.
create table response_vendor_members (
    workspace_id uuid not null references workspaces (id) on delete cascade,
    user_id uuid not null references users (id) on delete cascade,
    call_id text not null,
    model text not null,
    members text not null,
    expires_at timestamptz not null,
    primary key (workspace_id, user_id, model, call_id)
);
create index response_vendor_members_user on response_vendor_members (user_id);
create index response_vendor_members_expiry on response_vendor_members (expires_at);
