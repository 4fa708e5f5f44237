-- Methods of Slack's API that programs of bots asked for and that are not offered.
create table missing_methods (
    bot_id uuid not null references bots (id) on delete cascade,
    method text not null,
    asked bigint not null,
    primary key (bot_id, method)
);
