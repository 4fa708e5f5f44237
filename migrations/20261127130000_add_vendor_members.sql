-- Members of messages with calls, such as signatures of reasoning, that a model's server wants back in the next requests of the task.
-- `model` is the only model that receives them. One text for SQLite and PostgreSQL.
alter table task_rounds add column model text;
alter table task_rounds add column vendor text;
