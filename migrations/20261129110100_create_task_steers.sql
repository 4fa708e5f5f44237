-- Messages with which requesters steer their running replies. `round` is the round of the task after which its model reads the
-- message; null until it does.
create table task_steers (
    task_id uuid not null references tasks (id) on delete cascade,
    message_id uuid not null references messages (id) on delete cascade,
    round bigint,
    primary key (task_id, message_id)
);
create index task_steers_message on task_steers (message_id);
