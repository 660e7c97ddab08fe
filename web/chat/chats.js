// The chats of this browser, in localStorage: an index, and one entry for each chat. The server
// keeps what it computed of them by itself.

import { load, remove, store } from '../lib/storage.js';

const INDEX = 'holdfast.chats';
const entryKey = (id) => `holdfast.chat.${id}`;

// Newest first: { id, title, used, conversations: names the server gave, newest first }.
export const listChats = () => load(INDEX, []).filter((entry) => typeof entry?.id === 'string')
  .sort((a, b) => b.used - a.used);

export function loadChat(id) {
  const chat = load(entryKey(id), null);
  if (chat === null || typeof chat.nodes !== 'object' || !Array.isArray(chat.roots)) return null;
  // What was being generated when the page went away has ended.
  for (const node of Object.values(chat.nodes)) {
    if (node.state === 'running') node.state = 'stopped';
  }
  return chat;
}

function conversationsOf(chat) {
  const nodes = Object.values(chat.nodes).filter((node) => node.meta?.conversation)
    .sort((a, b) => b.created - a.created);
  return [...new Set(nodes.map((node) => node.meta.conversation))];
}

// False when there is no room (the chat is then only on the screen).
export function saveChat(chat) {
  if (chat.roots.length === 0) return true;
  const entry = { id: chat.id, title: chat.title, used: chat.used,
    conversations: conversationsOf(chat) };
  return store(entryKey(chat.id), chat) &&
    store(INDEX, [entry, ...listChats().filter(({ id }) => id !== chat.id)]);
}

export function deleteChat(id) {
  remove(entryKey(id));
  store(INDEX, listChats().filter((entry) => entry.id !== id));
}

export function renameChat(id, title) {
  const chat = loadChat(id);
  if (chat === null) return;
  chat.title = title;
  saveChat(chat);
}

// `changed` is called when another window of this browser has changed something.
export function onOtherWindow(changed) {
  window.addEventListener('storage', (event) => {
    if (event.key === INDEX || event.key === null) changed();
  });
}
