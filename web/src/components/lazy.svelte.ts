import type { Component } from 'svelte';

/** A module that is loaded when it is first needed; null until then. */
function lazyModule<T>(load: () => Promise<T>): () => T | null {
  let module = $state.raw<T | null>(null);
  let asked = false;
  return () => {
    if (!asked) {
      asked = true;
      load().then(
        (loaded) => (module = loaded),
        () => (asked = false), // the next call tries again
      );
    }
    return module;
  };
}
/** A component that is loaded on demand. Once loaded, it renders without delay. */
export function lazyComponent<P extends Record<string, unknown>>(
  load: () => Promise<{ default: Component<P> }>,
): () => Component<P> | null {
  const module = lazyModule(load);
  return () => module()?.default ?? null;
}

/** Resolution message. */
export const resultCard = lazyComponent(() => import('./ResultCard.svelte'));
/** System message. */
export const notice = lazyComponent(() => import('./Notice.svelte'));
/** Forks of a message. */
export const forkChips = lazyComponent(() => import('../fork/ForkChips.svelte'));
/** Attachments of a message. */
export const messageFiles = lazyComponent(() => import('../files/MessageFiles.svelte'));
/** Page shown when something was not found. */
export const missing = lazyComponent(() => import('./Missing.svelte'));
/** Links to search and to the lists across all channels. */
export const sidebarLinks = lazyComponent(() => import('./SidebarOutcomes.svelte'));
/** Tool calls below a reply. */
export const replyActions = lazyComponent(() => import('../approvals/ReplyActions.svelte'));
/** Unread messages above the view. */
export const unreadBar = lazyComponent(() => import('./UnreadBar.svelte'));
/** Agents at work for a message, or the chain that a draft would start. */
export const chains = lazyComponent(() => import('../chains/Chains.svelte'));
/** Sources of a reply. */
export const messageSources = lazyComponent(() => import('../sources/MessageSources.svelte'));
/** Number of memories that a reply used. */
export const memoriesChip = lazyComponent(() => import('../memory/MemoriesChip.svelte'));
/** Summary for agents, catch-up, and suggestion around the messages of a longer conversation. */
export const longParts = lazyComponent(() => import('./LongParts.svelte'));
/** Header controls of a direct channel with an agent. */
export const conversations = lazyComponent(() => import('./Conversations.svelte'));
/** Agent that replies in a conversation. */
export const boundAgent = lazyComponent(() => import('./BoundAgent.svelte'));
/** Forks of a thread. */
export const forksButton = lazyComponent(() => import('../fork/ForksButton.svelte'));
/** Items of a thread's menu. */
export const threadMenuItems = lazyComponent(() => import('./ThreadMenuItems.svelte'));
/** Toolbar of a message. */
export const messageTools = lazyComponent(() => import('./MessageTools.svelte'));
/** Actions on a message. Fetched with the first paint, because some have a shortcut. */
export const messageActions = lazyModule(() => import('../state/actions'));
/** Runs of workflows in a thread. */
export const runLines = lazyComponent(() => import('../runs/RunLines.svelte'));
/** Editor of a message. */
export const messageEdit = lazyComponent(() => import('./MessageEdit.svelte'));
/** Loaded by the shell before anyone opens it. */
export const quickSwitcher = lazyComponent(() => import('./QuickSwitcher.svelte'));
/** Agent of a channel in its header, and the channel's menu. */
export const channelAgent = lazyComponent(() => import('./ChannelAgent.svelte'));
/** Page of an empty channel. */
export const channelIntro = lazyComponent(() => import('./ChannelIntro.svelte'));
