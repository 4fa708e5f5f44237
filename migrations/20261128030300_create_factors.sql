-- Wrong second factors of a sign-in.
alter table auth_flows add column wrong_codes bigint not null default 0;

-- Authenticator apps. The secret that an app shares with the server is a row of `secrets`. The app counts from `confirmed_at`, when the
-- person entered a first code. `last_step` is the time step of the newest code that was used: each step is accepted once.
create table totp_apps (
    user_id uuid primary key references users (id) on delete cascade,
    confirmed_at timestamptz,
    last_step bigint not null default 0
);

-- Unused recovery codes of accounts with a second factor, as SHA-256 hashes.
create table recovery_codes (
    user_id uuid not null references users (id) on delete cascade,
    code_hash text not null,
    primary key (user_id, code_hash)
);

-- Passkeys (Web Authentication). `public_key` is a SubjectPublicKeyInfo; both it and `credential_id` are in URL-safe Base64.
-- `counter` is the newest signature counter of the authenticator; 0 if it has none.
create table passkeys (
    id uuid primary key,
    user_id uuid not null references users (id) on delete cascade,
    credential_id text not null unique,
    algorithm text not null,
    public_key text not null,
    counter bigint not null,
    name text not null,
    created_at timestamptz not null,
    used_at timestamptz
);
create index passkeys_user on passkeys (user_id, id);
