import type { Place } from '../lib/router.svelte';

type Scope = 'all' | 'rows' | 'columns' | 'messages' | 'writing' | 'inbox' | 'result';

/** Keyboard shortcuts with their descriptions, and where they work. */
const KEYS: [string[], string, Scope][] = [
  [['Ctrl', 'K'], 'Jump to a channel, dive, person, agent, or thread', 'all'],
  [['Ctrl', 'Shift', 'F'], 'Search messages', 'all'],
  [['/'], 'Focus the composer', 'writing'],
  [['I'], 'Inbox', 'all'],
  [['C'], 'New thread', 'writing'],
  [['Ctrl', 'Shift', 'O'], 'New chat with an agent', 'all'],
  [['R'], 'Reply', 'writing'],
  [['J'], 'Next message or thread', 'rows'],
  [['K'], 'Previous message or thread', 'rows'],
  [['N'], 'Next unread thread', 'rows'],
  [['P'], 'Previous unread thread', 'rows'],
  [['Ctrl', 'F'], 'Find in this thread; press again to find in the page', 'messages'],
  [['D'], 'Deep dive from the focused message', 'messages'],
  [['A'], 'Ask an agent about the focused message', 'messages'],
  [['E'], 'Edit the focused message, if it is yours', 'messages'],
  [['↑'], 'In an empty composer: edit your last message', 'writing'],
  [['E'], 'In the inbox: done', 'inbox'],
  [['Shift', 'E'], 'In the inbox: this and all above are done', 'inbox'],
  [['H'], 'In the inbox: later', 'inbox'],
  [['Z'], 'In the inbox: undo', 'inbox'],
  [['F'], 'In the inbox: follow the thread', 'inbox'],
  [['M'], 'In the inbox: mute the thread', 'inbox'],
  [['S'], 'In the inbox: save the message', 'inbox'],
  [['Enter', '→'], 'In a list: go to the conversation beside it', 'columns'],
  [['Esc', '←'], 'In a conversation: back to the list beside it', 'columns'],
  [['Ctrl', 'Enter'], 'In the inbox: send the reply; the item is done', 'inbox'],
  [['↑ ↓'], 'In a list: previous or next row', 'all'],
  [['U'], 'Mark unread from the focused message', 'messages'],
  [['Alt', '↑ ↓'], 'Previous or next channel', 'all'],
  [['Alt', 'Shift', '↑ ↓'], 'Previous or next unread channel', 'all'],
  [['/agent'], 'In the composer: choose the agent that replies', 'writing'],
  [['/new'], 'In the composer: a new thread with the same agent', 'writing'],
  [['Enter'], 'Send', 'writing'],
  [['Shift', 'Enter'], 'New line; in a list: next item', 'writing'],
  [['Alt', 'Enter'], 'Send after the running reply', 'writing'],
  [['Ctrl', 'B'], 'In a text box: bold', 'writing'],
  [['Ctrl', 'I'], 'In a text box: italic', 'writing'],
  [['Ctrl', 'E'], 'In a text box: code', 'writing'],
  [['Ctrl', 'K'], 'In a text box with a selection: link', 'writing'],
  [['Ctrl', 'Enter'], 'In a result: post it', 'result'],
  [['Alt', '↑ ↓'], 'In a result: move the line', 'result'],
  [['Z'], 'Undo, while it is offered', 'all'],
  [['Esc'], 'Close the menu, drawer, or panel', 'all'],
  [['?'], 'This list', 'all'],
];

/** Scopes of what is on screen. */
function scopesOf({ route, panel }: Place): Scope[] {
  const result: Scope[] = panel?.kind === 'dive' ? ['result'] : [];
  const conversation: Scope[] = ['rows', 'columns', 'messages', 'writing'];
  switch (route.name) {
    case 'channel':
    case 'thread':
      return ['all', ...conversation, ...result];
    case 'inbox':
      return ['all', 'inbox', ...conversation, ...result];
    default:
      return panel?.kind === 'dive' ? ['all', 'messages', 'writing', ...result] : ['all'];
  }
}

/** Shortcuts of the screen. */
export function keysOf(place: Place): { keys: string[]; what: string }[] {
  const scopes = scopesOf(place);
  return KEYS.filter(([, , scope]) => scopes.includes(scope)).map(([keys, what]) => ({ keys, what }));
}
