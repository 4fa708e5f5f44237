-- Tokens with which identity providers send accounts and groups (SCIM 2.0), at most two per provider.
create table scim_tokens (
    id uuid primary key,
    provider_id uuid not null references identity_providers (id) on delete cascade,
    token_hash text not null unique,
    created_at timestamptz not null,
    last_used_at timestamptz
);
create index scim_tokens_provider on scim_tokens (provider_id, id);

-- Accounts that providers manage. `data` is the resource as it was sent; the keys are lowercase copies for filters. An account of which
-- `active` is false joins no workspace of the provider.
create table scim_users (
    provider_id uuid not null references identity_providers (id) on delete cascade,
    user_id uuid not null references users (id) on delete cascade,
    user_key text not null,
    external_id text,
    email_key text,
    display_key text,
    active boolean not null,
    data jsonb not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    primary key (provider_id, user_id),
    unique (provider_id, user_key)
);
create index scim_users_user on scim_users (user_id);
create index scim_users_external on scim_users (provider_id, external_id);
create index scim_users_email on scim_users (provider_id, email_key);
create index scim_users_display on scim_users (provider_id, display_key);

-- Groups of providers. Their names are those of the rules for roles.
create table scim_groups (
    id uuid primary key,
    provider_id uuid not null references identity_providers (id) on delete cascade,
    display_name text not null,
    display_key text not null,
    external_id text,
    created_at timestamptz not null,
    updated_at timestamptz not null
);
create index scim_groups_provider on scim_groups (provider_id, id);
create index scim_groups_display on scim_groups (provider_id, display_key);
create index scim_groups_external on scim_groups (provider_id, external_id);

create table scim_group_members (
    group_id uuid not null references scim_groups (id) on delete cascade,
    provider_id uuid not null,
    user_id uuid not null,
    primary key (group_id, user_id),
    foreign key (provider_id, user_id) references scim_users (provider_id, user_id) on delete cascade
);
create index scim_group_members_user on scim_group_members (provider_id, user_id);
