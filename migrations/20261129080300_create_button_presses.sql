-- The last press of a button by a person, for the seconds in which another one does not count.
create table button_presses (
    message_id uuid not null references messages (id) on delete cascade,
    user_id uuid not null references users (id) on delete cascade,
    button_id text not null,
    pressed_at timestamptz not null,
    primary key (message_id, user_id, button_id)
);
create index button_presses_user on button_presses (user_id);
create index button_presses_age on button_presses (pressed_at);
