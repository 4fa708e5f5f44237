-- What a workspace demands of the sessions that enter it; no row demands nothing. `providers` lists identity providers; null permits every
-- way to sign in. `from_day` is the first day on which the second factor is required, such as 2026-12-01; null means at once.
create table workspace_sign_ins (
    workspace_id uuid primary key references workspaces (id) on delete cascade,
    second_factor text not null,
    from_day text,
    providers jsonb,
    idle_s bigint not null,
    age_s bigint not null
);

-- What the person proved in a session: a second factor, or a link of the operator, which meets every demand until a time. The longest time
-- without use is kept, because using the session in another workspace ends the present one.
alter table sessions add column second_factor_at timestamptz;
alter table sessions add column exempt_until timestamptz;
alter table sessions add column longest_idle_s bigint not null default 0;
