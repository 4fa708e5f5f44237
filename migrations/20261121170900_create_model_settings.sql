-- Model servers of workspaces, and sealed secrets. One text for SQLite and PostgreSQL.

-- The model server that an admin connected. After it is disconnected, the row stays without an address, so that versions continue.
create table model_settings (
    workspace_id uuid primary key references workspaces (id) on delete cascade,
    provider text,
    base_url text,
    model text,
    utility_model text,
    status text not null,
    checked_at timestamptz not null,
    version bigint not null
);

-- Secrets, encrypted with a key that is not in the database. `owner_id` is the ID of the object that they belong to.
create table secrets (
    owner_id text primary key,
    key_id text not null,
    nonce text not null,
    ciphertext text not null
);
