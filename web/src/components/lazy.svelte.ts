import type { Component } from 'svelte';
import { afterRows, lazyModule } from '../lib/lazy-module.svelte';

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
/** State of a message that is not sent yet. */
export const sendState = lazyComponent(() => import('./SendState.svelte'));
/** Forks of a message. */
export const forkChips = lazyComponent(() => import('../fork/ForkChips.svelte'));
/** Attachments of a message. */
export const messageFiles = lazyComponent(() => import('../files/MessageFiles.svelte'));
/** Page shown when something was not found. */
export const missing = lazyComponent(() => import('./Missing.svelte'));
/** Tool calls below a reply. */
export const replyActions = lazyComponent(() => import('../approvals/ReplyActions.svelte'));
/** Unread messages above the view. */
export const unreadBar = lazyComponent(afterRows(() => import('./UnreadBar.svelte')));
/** Agents at work for a message, or the chain that a draft would start. */
export const chains = lazyComponent(() => import('../chains/Chains.svelte'));
/** Sources of a reply. */
export const messageSources = lazyComponent(() => import('../sources/MessageSources.svelte'));
/** Number of memories that a reply used. */
export const memoriesChip = lazyComponent(() => import('../memory/MemoriesChip.svelte'));
/** Summary for agents, catch-up, and suggestion around the messages of a longer conversation, and the chips of an example. */
export const longParts = lazyComponent(afterRows(() => import('./LongParts.svelte')));
/** Header controls of a direct channel with an agent. */
export const conversations = lazyComponent(afterRows(() => import('./Conversations.svelte')));
/** Agent that replies in a conversation. */
export const boundAgent = lazyComponent(afterRows(() => import('./BoundAgent.svelte')));
/** Forks of a thread. */
export const forksButton = lazyComponent(afterRows(() => import('../fork/ForksButton.svelte')));
/** Level at which a thread is followed, in its header. */
export const followButton = lazyComponent(afterRows(() => import('./FollowButton.svelte')));
/** Items of a thread's menu. */
export const threadMenuItems = lazyComponent(afterRows(() => import('./ThreadMenuItems.svelte')));
/** Toolbar of a message. */
export const messageTools = lazyComponent(() => import('./MessageTools.svelte'));
/** Actions on a message. Fetched with the first rows, because some have a shortcut. */
export const messageActions = lazyModule(() => import('../state/actions'));
/** Reply without text yet. Fetched with the first rows, so that it appears immediately. */
export const pendingRow = lazyComponent(() => import('./PendingRow.svelte'));
/** Runs of workflows in a thread. */
export const runLines = lazyComponent(() => import('../runs/RunLines.svelte'));
/** Editor of a message. */
export const messageEdit = lazyComponent(() => import('./MessageEdit.svelte'));
/** Followed conversations in the sidebar. */
export const sidebarConversations = lazyComponent(
  afterRows(() => import('../following/SidebarConversations.svelte')),
);
/** First steps in the sidebar. */
export const getStarted = lazyComponent(afterRows(() => import('./GetStarted.svelte')));
/** Loaded by the shell before anyone opens it. */
export const quickSwitcher = lazyComponent(() => import('./QuickSwitcher.svelte'));
/** Agent of a channel in its header, and the channel's menu. */
export const channelAgent = lazyComponent(afterRows(() => import('./ChannelAgent.svelte')));
/** Page of an empty channel. */
export const channelIntro = lazyComponent(() => import('./ChannelIntro.svelte'));
/** Reply style of the next reply. */
export const styleChip = lazyComponent(afterRows(() => import('../reply-styles/StyleChip.svelte')));
/** Running tasks and the effect of sending, below a text box. */
export const composerStatus = lazyComponent(afterRows(() => import('./ComposerStatus.svelte')));
/** Messages that only this person sees. */
export const ephemeralList = lazyComponent(() => import('./EphemeralList.svelte'));
/** Versions of a message of a chat. */
export const messageVersions = lazyComponent(() => import('../chats/Versions.svelte'));
/** Buttons of a bot's message. */
export const messageButtons = lazyComponent(() => import('./MessageButtons.svelte'));
/** Reactions to a message. */
export const messageReactions = lazyComponent(() => import('./Reactions.svelte'));
/** Previews of links in a message. */
export const messageUnfurls = lazyComponent(() => import('./MessageUnfurls.svelte'));
/** Folding, formulas, and quotes of a message. */
export const bodyExtras = lazyComponent(() => import('./BodyExtras.svelte'));
/** Custom emoji, for messages that name one. */
export const customEmojis = lazyModule(() => import('../state/custom-emoji.svelte'));
