-- Time at which the person last proved again who they are, within the session.
alter table sessions add column confirmed_at timestamptz;

-- Steps of signing in that are not finished, so that any node can finish them. A row is deleted by the step that uses it. `id_hash` is
-- the SHA-256 of the secret that the client holds.
create table auth_flows (
    id_hash text primary key,
    kind text not null,
    user_id uuid references users (id) on delete cascade,
    expires_at timestamptz not null
);
create index auth_flows_user on auth_flows (user_id);
create index auth_flows_expiry on auth_flows (expires_at);
