-- Networks and browsers from which an account was signed in to before, as hashes: while somebody guesses at its password,
-- these are not slowed down.
create table known_clients (
    user_id uuid not null references users (id) on delete cascade,
    client_hash text not null,
    seen_at timestamptz not null,
    primary key (user_id, client_hash)
);
