-- Failed sign-ins, counted over all nodes. One text for SQLite and PostgreSQL.

-- Rate limit buckets of accounts, addresses, and sessions, on PostgreSQL only: SQLite has a single node, which keeps them in memory. A bucket
-- is full at `full_at`, by the clock of the database, and its row is deleted soon after. `key_hash` is a SHA-256 hash.
create table login_attempts (
    kind text not null,
    key_hash text not null,
    full_at timestamptz not null,
    primary key (kind, key_hash)
);
create index login_attempts_full on login_attempts (full_at);
