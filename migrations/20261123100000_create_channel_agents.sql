-- Agents of channels. One text for SQLite and PostgreSQL.

-- The agent of a channel, with its mode and the maximum of its unasked replies per day (UTC). Without `agent_id`, the channel has
-- none; the row stays, because `replies` counts those of the day `replied_on`, of all agents. `announced_on` is the last day with
-- a notice about the limit.
create table channel_agents (
    channel_id uuid primary key references channels (id) on delete cascade,
    agent_id uuid,
    mode text not null,
    daily_max bigint not null,
    replied_on timestamptz,
    replies bigint not null default 0,
    announced_on timestamptz
);
create index channel_agents_agent on channel_agents (agent_id);

-- Origin of a binding: a person or the channel. A binding by the channel holds while the mode is `all`.
alter table bindings add column bound_by text not null default 'person';
