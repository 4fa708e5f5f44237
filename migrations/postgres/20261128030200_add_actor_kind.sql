-- Actions of the operator on the command line have no actor.
alter table audit_log alter column actor_id drop not null;
alter table audit_log add column actor_kind text not null default 'user';
