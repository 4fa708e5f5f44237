-- Texts that shape an agent, as sources of kind `author`: `author_id` is the person who wrote the text (null if nobody knows), `agent_id`
-- the agent that has it (null for the steps of a workflow), and `part` its name. Whether a source counts depends on the author's
-- role when a call is decided.
alter table task_taints add column author_id uuid;
alter table task_taints add column agent_id uuid;
alter table task_taints add column part text;
create index task_taints_author on task_taints (author_id) where author_id is not null;
