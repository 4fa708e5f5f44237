/** Position of a fork: beside its thread, in place of it, beside another fork there, or beside a list. */
export type ForkView = 'panel' | 'focus' | 'beside' | 'pane';
