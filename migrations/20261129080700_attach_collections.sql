-- Names of the vector stores whose passages agents read for each question in the channel, as a JSON list.
alter table channels add column vector_store_ids text not null default '[]';

-- Passages of files that have a short handle in a task, such as P1. Positions are in UTF-16 code units of the text of the part.
create table task_passages (
    task_id uuid not null references tasks (id) on delete cascade,
    number bigint not null,
    file_id uuid not null,
    part bigint not null,
    from_unit bigint not null,
    to_unit bigint not null,
    primary key (task_id, number),
    unique (task_id, file_id, part, from_unit, to_unit)
);
