-- Limits of what model calls use. One text for SQLite and PostgreSQL.

-- Budgets, in the order in which admins listed them. `subject_id` is the person or the agent; null for each of them, and for the budget of
-- the workspace. `amount` is in tokens or in billionths of a US dollar, as `unit` says.
create table budgets (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    position bigint not null,
    scope text not null,
    subject_id uuid,
    period text not null,
    unit text not null,
    amount bigint not null,
    warn_at double precision not null
);
create index budgets_workspace on budgets (workspace_id, position);

-- Version of the list of budgets of a workspace; no row before the first change.
create table budget_lists (
    workspace_id uuid primary key references workspaces (id) on delete cascade,
    version bigint not null
);

-- What calls of a period have used, and what running calls have reserved, in the unit of the budget. The subject is a person, an agent, or
-- the workspace. `period` is `YYYY-MM-DD` or `YYYY-MM` in UTC. Without foreign key for the subject, which can be any of three objects.
create table budget_counters (
    budget_id uuid not null references budgets (id) on delete cascade,
    subject_id uuid not null,
    period text not null,
    spent bigint not null,
    reserved bigint not null,
    primary key (budget_id, subject_id, period)
);

-- `round` counts the calls of a tool loop. A running call has reserved `reserved` tokens and, if the model has a price, as many billionths
-- of a US dollar as `reserved_nano_usd`. The prices are in US dollars per million tokens; with them, a lost call has a cost, too.
alter table model_calls add column round bigint not null default 1;
alter table model_calls add column reserved bigint not null default 0;
alter table model_calls add column reserved_nano_usd bigint;
alter table model_calls add column input_usd double precision;
alter table model_calls add column output_usd double precision;

-- Who sees what calls cost.
alter table workspace_policies add column show_costs text not null default 'everyone';
