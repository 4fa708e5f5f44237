-- Turned off agents and deleted ones in conversations. One text for SQLite and PostgreSQL.

-- Whether a notice said that another agent replies while this one is turned off; reset by its next reply.
alter table bindings add column stood_in boolean not null default false;
create index bindings_agent on bindings (agent_id);

-- Names of agents that were deleted permanently, for the messages that they wrote.
create table agent_names (
    agent_id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    name text not null
);
create index agent_names_workspace on agent_names (workspace_id);
