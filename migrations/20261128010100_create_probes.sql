-- Announced probes: requests by which a check finds out how the server is reached. Each row permits one request.
create table probes (
    nonce text primary key,
    expires_at timestamptz not null
);
