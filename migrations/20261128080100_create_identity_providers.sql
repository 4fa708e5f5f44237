-- Identity providers (OpenID Connect) that vouch for people. The client secret is a row of `secrets`. `settings` are domains, workspaces,
-- and the rules for roles. `tried_at` is the newest successful try with the present issuer, client, and secret; `last_try` is what a server
-- admin saw in the newest one. `state` and `error` come from the newest request.
create table identity_providers (
    id uuid primary key,
    name text not null,
    issuer text not null,
    client_id text not null,
    settings jsonb not null,
    enabled boolean not null,
    tried_at timestamptz,
    last_try jsonb,
    state text not null,
    error text,
    created_at timestamptz not null,
    version bigint not null
);

-- People as their providers know them. `subject` is the provider's own name for a person, which never changes.
create table identities (
    id uuid primary key,
    provider_id uuid not null references identity_providers (id) on delete cascade,
    subject text not null,
    user_id uuid not null references users (id) on delete cascade,
    email text,
    linked_at timestamptz not null,
    used_at timestamptz,
    unique (provider_id, subject),
    unique (user_id, provider_id)
);

-- Steps of a sign-in that only the browser that began it can finish. `browser_hash` is the SHA-256 of its cookie.
alter table auth_flows add column browser_hash text;
alter table auth_flows add column data jsonb;

-- Identity that started a session, and the provider's name for its own session.
alter table sessions add column identity_id uuid references identities (id) on delete set null;
alter table sessions add column provider_session text;
create index sessions_identity on sessions (identity_id);

-- Provider whose rules set the role of a membership.
alter table members add column managed_by uuid references identity_providers (id) on delete set null;
create index members_managed_by on members (managed_by);
