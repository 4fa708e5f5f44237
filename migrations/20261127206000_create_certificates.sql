-- Certificates by the names that they are for, separated by commas. `order_url` is an order that has not been completed; its key is
-- stored before the order, so that a crash loses no certificate. All keys and accounts are in `secrets`. Every change increases
-- `version`, so that other nodes notice it.
create table certificates (
    names text primary key,
    version bigint not null,
    chain text,
    expires_at timestamptz,
    renew_at timestamptz,
    order_url text,
    fault text,
    fault_text text,
    attempts bigint not null,
    next_attempt_at timestamptz
);

-- Answers to challenges of a certificate authority, which any node can give.
create table acme_challenges (
    name text not null,
    token text not null,
    answer text not null,
    expires_at timestamptz not null,
    primary key (name, token)
);
