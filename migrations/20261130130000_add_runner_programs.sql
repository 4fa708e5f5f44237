-- Whether the runner takes programs that need no repository.
alter table runners add column scratch boolean not null default FALSE;

-- Programs of agents on runners, from a call until its end. `connection_id` is the connection that sends the program, and `ending` the
-- runner's response: JSON objects, as in the frames. A row that the call has left, because its server was killed, expires.
create table runner_programs (
    action_id uuid primary key,
    runner_id uuid not null references runners (id) on delete cascade,
    task_id uuid not null,
    program text not null,
    connection_id uuid,
    ending text,
    expires_at timestamptz not null
);
create index runner_programs_runner on runner_programs (runner_id);
