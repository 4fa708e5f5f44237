-- The newest version of each agent whose changes were announced in a private or direct channel.
create table told_versions (
    channel_id uuid not null references channels (id) on delete cascade,
    agent_id uuid not null references agents (id) on delete cascade,
    version bigint not null,
    primary key (channel_id, agent_id)
);
create index told_versions_agent on told_versions (agent_id);
