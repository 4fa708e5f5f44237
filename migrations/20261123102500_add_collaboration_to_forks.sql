-- Agents that work on a goal in a fork, in turns: their IDs in order, the turns so far, and the state. Null for other forks.
alter table forks add column collaboration jsonb;
