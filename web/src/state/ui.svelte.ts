import { device } from '../lib/storage';

export type Theme = 'dark' | 'light';
export type Dialog =
  | { name: 'new-channel' }
  | { name: 'new-direct' }
  | { name: 'invite' }
  | { name: 'channel'; id: string }
  | { name: 'keys' }
  | null;

/** What is open, what is said, and how it looks: of this window only. */
export class Ui {
  theme = $state<Theme>(document.documentElement.dataset.theme === 'light' ? 'light' : 'dark');
  sidebar = $state(false);
  switcher = $state(false);
  dialog = $state.raw<Dialog>(null);
  /** The polite live region. */
  said = $state('');
  /** A short line at the bottom, for the outcome of an action that has no place of its own. */
  toast = $state<string | null>(null);
  #timer: ReturnType<typeof setTimeout> | null = null;

  say(text: string): void {
    this.said = this.said === text ? `${text} ` : text; // the same words again are still news
  }
  show(text: string): void {
    this.toast = text;
    this.say(text);
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = setTimeout(() => (this.toast = null), 5000);
  }
  setTheme(theme: Theme): void {
    this.theme = theme;
    document.documentElement.dataset.theme = theme;
    const side = getComputedStyle(document.documentElement).getPropertyValue('--bg-side').trim();
    document.querySelector('meta[name=theme-color]')?.setAttribute('content', side);
    device.set('openvibe.theme', theme);
  }
}
