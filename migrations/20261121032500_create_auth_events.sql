-- What happened to an account: sign-ins and failures, password changes, new keys. Deleted after 90 days.
create table auth_events (
    id uuid primary key,
    user_id uuid not null references users (id) on delete cascade,
    kind text not null,
    -- Of a new key: its name.
    detail text,
    user_agent text,
    address text,
    created_at timestamptz not null
);
create index auth_events_user on auth_events (user_id, id);
create index auth_events_created on auth_events (created_at);
