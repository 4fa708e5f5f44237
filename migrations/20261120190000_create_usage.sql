-- What agents and models took. One text for SQLite and PostgreSQL.

-- One row for each workspace, month (UTC), person, agent and model, raised when a task ends: a year of tasks is a few rows.
-- `agent_id` is the workspace's own id where no agent was asked; `model` is empty where none was called. `cost_usd` is null
-- as long as no price is known.
create table usage (
    workspace_id uuid not null references workspaces (id) on delete cascade,
    month text not null,
    user_id uuid not null,
    agent_id uuid not null,
    model text not null,
    tasks bigint not null,
    failed bigint not null,
    input_tokens bigint not null,
    output_tokens bigint not null,
    cost_usd double precision,
    primary key (workspace_id, month, user_id, agent_id, model)
);
insert into usage (workspace_id, month, user_id, agent_id, model, tasks, failed, input_tokens, output_tokens, cost_usd)
select workspace_id, substr(cast(completed_at as text), 1, 7), requested_by, coalesce(agent_id, workspace_id),
    coalesce(token_usage ->> 'model', ''), count(*), cast(sum(case when status = 'failed' then 1 else 0 end) as bigint),
    cast(coalesce(sum(cast(token_usage ->> 'input_tokens' as bigint)), 0) as bigint),
    cast(coalesce(sum(cast(token_usage ->> 'output_tokens' as bigint)), 0) as bigint),
    sum(cast(token_usage ->> 'cost_usd' as double precision))
from tasks where completed_at is not null
group by 1, 2, 3, 4, 5;
