import { MediaQuery } from 'svelte/reactivity';
import { ENTER_CHOICES, enterSends, type EnterChoice } from '../lib/enter';
import { device } from '../lib/storage';
import type { Message } from '../api/types';
import { useClock, type Clock } from '../lib/time';

export type Theme = 'dark' | 'light';
/** `system` follows the device, even while the page is open. */
export type ThemeChoice = Theme | 'system';
const LIGHT = '(prefers-color-scheme: light)';
/** `single`: a list or a conversation, never both. */
export type Layout = 'split' | 'single';
export type Density = 'comfortable' | 'compact';
/** Minimum width for a list beside a conversation. */
const COLUMNS = 'min-width: 1180px';
/** Minimum width for a panel beside both. */
const PANEL_BESIDE_COLUMNS = 'min-width: 1600px';
/** Threads beside the open one. */
export interface ThreadColumn {
  /** Opens the next or previous thread, and keeps the focus in the list. */
  move(way: 1 | -1): void;
  /** Opens a thread of the list. */
  open(thread: string): void;
}
export type Dialog =
  | { name: 'new-channel' }
  | { name: 'new-direct' }
  | { name: 'invite' }
  | { name: 'channel' | 'archive-channel'; id: string }
  /** `agent`: chosen instead of the channel's agent. */
  | { name: 'channel-agent'; id: string; agent?: string }
  | { name: 'browse-channels' }
  | { name: 'rename-thread'; thread: string }
  | { name: 'delete-chat'; thread: string }
  | { name: 'remember' | 'remind' | 'bring-to-team' | 'ask-agent'; message: Message }
  /** `change`: what is different when the message is run again. */
  | { name: 'run-again'; message: Message; change: 'text' | 'agent' }
  /** `empty`: ID of a fork without messages that the new one replaces. */
  | { name: 'ask-agents'; message: Message; empty: string | null }
  /** The run is in the message's thread. */
  | { name: 'run-workflow'; message: Message }
  /** `count`: number of its entries in words, such as "4 memories". */
  | { name: 'connect-model' }
  /** `count`: number of people whom a message would notify. `answer` gets null if the message is not sent. */
  | { name: 'notify'; count: number; answer: (notify: boolean | null) => void }
  | { name: 'keys' }
  | { name: 'sign-out' }
  | null;

/** Button of a toast. */
export interface ToastAction {
  label: string;
  run: () => void;
}
export interface Toast {
  text: string;
  action: ToastAction | null;
}
const TOAST_MS = 5000;
/** Long enough to reach the button with the keyboard. */
const TOAST_ACTION_MS = 10_000;

/** UI state of this window: open dialogs, announcements, and appearance. */
export class Ui {
  theme = $state<Theme>(document.documentElement.dataset.theme === 'light' ? 'light' : 'dark');
  themeChoice = $state<ThemeChoice>('system');
  clock = $state<Clock>('24');
  enterChoice = $state<EnterChoice>('auto');
  layout = $state<Layout>('split');
  density = $state<Density>('comfortable');
  readonly #wide = new MediaQuery(COLUMNS);
  /** True if lists are beside their conversations. */
  readonly columns = $derived(this.layout === 'split' && this.#wide.current);
  readonly #widest = new MediaQuery(PANEL_BESIDE_COLUMNS);
  /** True if a panel takes the place of a list beside a conversation. */
  readonly panelReplaces = $derived(this.columns && !this.#widest.current);
  /** The list beside the conversation, if both are on screen. */
  threadList: ThreadColumn | null = null;
  /** True if Enter sends a message; otherwise it is a line break. */
  readonly enterSends = $derived(enterSends(this.enterChoice));
  sidebar = $state(false);
  switcher = $state(false);
  /** True if "Find in this thread" is open. */
  find = $state(false);
  dialog = $state.raw<Dialog>(null);
  /** Text of the polite live region. */
  announcement = $state('');
  /** A short line at the bottom, for the result of an action that is not shown anywhere else. */
  toast = $state.raw<Toast | null>(null);
  /** ID of the channel whose composer takes the focus when it is mounted next. */
  composerIn: string | null = null;
  #timer: ReturnType<typeof setTimeout> | null = null;

  announce(text: string): void {
    this.announcement = this.announcement === text ? `${text} ` : text; // repeated text must be announced again
  }
  show(text: string, action: ToastAction | null = null): void {
    this.toast = { text, action };
    this.announce(action ? `${text}. ${action.label} is available for 10 seconds.` : text);
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = setTimeout(() => (this.toast = null), action ? TOAST_ACTION_MS : TOAST_MS);
  }
  runToastAction(): void {
    const shown = this.toast;
    this.toast = null;
    shown?.action?.run();
  }
  /** Returns true once if the focus was requested for this channel's composer. */
  takesComposer(channel: string): boolean {
    const asked = this.composerIn === channel;
    this.composerIn = null;
    return asked;
  }
  /** Reads the choices stored on this device, and follows the system by default. */
  constructor() {
    const kept = device.get('openvibe.theme');
    if (kept === 'dark' || kept === 'light') this.themeChoice = kept;
    if (device.get('openvibe.clock') === '12') useClock((this.clock = '12'));
    if (device.get('openvibe.layout') === 'single') this.layout = 'single';
    if (device.get('openvibe.density') === 'compact') this.density = 'compact';
    const enter = device.get('openvibe.enter');
    this.enterChoice = ENTER_CHOICES.find((choice) => choice === enter) ?? 'auto';
    matchMedia(LIGHT).addEventListener('change', () => {
      if (this.themeChoice === 'system') this.setTheme('system');
    });
  }
  setTheme(choice: ThemeChoice): void {
    this.themeChoice = choice;
    const theme = choice !== 'system' ? choice : matchMedia(LIGHT).matches ? 'light' : 'dark';
    this.theme = theme;
    document.documentElement.dataset.theme = theme;
    const side = getComputedStyle(document.documentElement).getPropertyValue('--bg-side').trim();
    document.querySelector('meta[name=theme-color]')?.setAttribute('content', side);
    device.set('openvibe.theme', choice);
  }
}
