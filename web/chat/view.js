// The Chat tab: the list of chats, the shown branch of one, and the composer.

import { get } from '../lib/api.js';
import { askText, confirmAction, toast } from '../lib/dialogs.js';
import { announce, h, setText } from '../lib/dom.js';
import { icon } from '../lib/icons.js';
import { reuseSentence } from '../lib/reuse.js';
import { deleteChat, listChats, loadChat, onOtherWindow, renameChat, saveChat } from './chats.js';
import { Composer } from './composer.js';
import { AssistantMessage, ToolMessage, UserMessage } from './message.js';
import { runReply } from './reply.js';
import { lastSettings, settingsPanel } from './settings.js';
import { Sidebar } from './sidebar.js';
import { addNode, choose, newChat, path, pathTo, siblings, titleOf, toMarkdown, toMessages }
  from './tree.js';

const EXAMPLES = ['Hello! My name is Marta and I live in Porto.', 'Make a list of three colours.',
  'Tell me a story.'];

function downloadText(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: 'text/markdown' }));
  h('a', { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

export class ChatView {
  constructor(panel) {
    this.panel = panel;
    this.running = new Map();  // chat id -> { abort, chat, node }
    this.views = new Map();    // node id -> message view, of the chat that is shown
    this.removed = new Set();  // ids; a reply that ends later must not bring them back
    this.conversations = null;
    this.sidebar = new Sidebar({ open: (id) => { location.hash = `#chat/${id}`; },
      create: () => this.create(), rename: (id) => this.rename(id), remove: (id) => this.remove(id),
      download: (id) => this.download(id), close: () => this.toggleSidebar(false) });
    this.composer = new Composer({ send: (text) => this.send(text), stop: () => this.stop() });
    this.title = h('h1.chat-title');
    this.log = h('div.messages', { role: 'log', 'aria-label': 'Messages', 'aria-live': 'off' });
    this.scroller = h('div.scroller', { tabindex: -1 }, this.log);
    this.toBottom = h('button.to-bottom.icon-button', { type: 'button', hidden: true,
      'aria-label': 'Go to the newest message', onclick: () => this.scrollDown(true) }, icon('down'));
    this.settingsButton = h('button.icon-button', { type: 'button', 'aria-label': 'Settings of this chat',
      title: 'Settings', 'aria-expanded': 'false', onclick: () => this.toggleSettings() },
    icon('sliders'));
    this.listButton = h('button.icon-button.only-phone', { type: 'button', 'aria-label': 'Chats',
      onclick: () => this.toggleSidebar(true) }, icon('menu'));
    this.settingsPlace = h('div.settings-place');
    panel.append(h('div.chat',
      this.sidebar.element,
      h('div.chat-main',
        h('header.chat-top', this.listButton, this.title, this.settingsButton),
        this.scroller, this.toBottom, this.composer.element),
      this.settingsPlace));
    this.scroller.addEventListener('scroll', () => this.onScroll());
    panel.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape') return;
      if (panel.classList.contains('with-sidebar')) this.toggleSidebar(false);
      else if (this.settingsPlace.contains(event.target)) this.toggleSettings();
      else this.stop();
    });
    onOtherWindow(() => this.showSidebar());
    setInterval(() => {
      if (!document.hidden && !panel.hidden) this.showSidebar();  // times go on
    }, 30_000);
    window.addEventListener('pagehide', () => {
      for (const { chat } of this.running.values()) saveChat(chat);
    });
    this.chat = newChat(lastSettings());
    this.stuck = true;
  }

  // Shows chat `id`, or the newest one, or a new one.
  open(id) {
    const chats = listChats();
    const wanted = id || (this.chat.roots.length === 0 ? chats[0]?.id : this.chat.id);
    if (wanted && wanted !== this.chat.id) {
      const chat = this.running.get(wanted)?.chat ?? loadChat(wanted);
      if (chat) this.chat = chat;
      else if (id) toast('This chat is not in this browser.', 'error');
    }
    this.toggleSidebar(false);
    this.showChat();
    this.refreshPlaces();
    if (matchMedia('(min-width: 721px)').matches) this.composer.focus();
  }

  create() {
    this.chat = newChat({ ...lastSettings() });
    history.replaceState(null, '', '#chat');
    this.toggleSidebar(false);
    this.showChat();
    this.composer.focus();
  }

  async rename(id) {
    const chat = listChats().find((entry) => entry.id === id);
    const title = await askText('Rename the chat', 'Name', chat?.title ?? '', 'Rename');
    if (title === null) return;
    if (this.chat.id === id) this.chat.title = title;
    renameChat(id, title);
    this.showTitle();
    this.showSidebar();
  }

  async remove(id) {
    if (!await confirmAction('Delete the chat?', 'Its text is removed from this browser. What the ' +
      'server keeps of it stays, under Conversations.', 'Delete')) return;
    this.removed.add(id);
    this.running.get(id)?.abort.abort();
    this.running.delete(id);
    deleteChat(id);
    if (this.chat.id === id) this.create();
    this.showSidebar();
  }

  download(id) {
    const chat = loadChat(id);
    if (chat) downloadText(`${(chat.title || 'chat').replace(/[^\w-]+/g, '-')}.md`, toMarkdown(chat));
  }

  // --- Asking.

  send(text) {
    const { chat } = this;
    const last = path(chat).at(-1);
    if (!chat.title) chat.title = titleOf(text);
    addNode(chat, last?.id ?? null, { role: 'user', content: text, created: Date.now() });
    this.ask(chat);
  }

  editMessage(node, text) {
    addNode(this.chat, node.parent, { role: 'user', content: text, created: Date.now() });
    this.ask(this.chat);
  }

  toolResults(node, results) {
    let parent = node.id;
    for (const result of results) {
      parent = addNode(this.chat, parent, { role: 'tool', created: Date.now(), ...result }).id;
    }
    this.ask(this.chat);
  }

  // A reply to the last shown message, or beside it.
  async ask(chat, parent = path(chat).at(-1).id) {
    if (this.running.has(chat.id)) return;
    const messages = toMessages(pathTo(chat, parent), chat.settings.system);
    const node = addNode(chat, parent, { role: 'assistant', content: '', state: 'running',
      created: Date.now() });
    const abort = new AbortController();
    this.running.set(chat.id, { abort, chat, node });
    this.save(chat);
    if (location.hash !== `#chat/${chat.id}`) history.replaceState(null, '', `#chat/${chat.id}`);
    this.stuck = true;
    this.showChat();
    announce('Waiting for the reply.');
    const { later } = await runReply(node, messages, chat.settings, { signal: abort.signal,
      changed: () => this.onPiece(chat, node) });
    this.running.delete(chat.id);
    this.save(chat);
    announce(node.state === 'failed' ? `The reply failed: ${node.error}`
      : `Reply ${node.state === 'stopped' ? 'stopped' : 'finished'}.` +
        `${node.meta?.reuse ? ` ${reuseSentence(node.meta)}` : ''}`);
    if (this.chat === chat) this.showRunning();
    await later;
    if (later && node.meta) {
      this.save(chat);
      if (this.chat === chat) this.showRunning();
    }
    this.refreshPlaces();
  }

  stop() { this.running.get(this.chat.id)?.abort.abort(); }

  // Pieces come faster than the screen: once per frame, and less often when that takes long.
  onPiece(chat, node) {
    if (this.chat !== chat || this.framePending) return;
    this.framePending = true;
    const wait = Math.min(500, (this.frameMs ?? 0) * 4);
    setTimeout(() => requestAnimationFrame(() => {
      const begin = performance.now();
      this.framePending = false;
      if (this.chat === chat) this.views.get(node.id)?.update();
      if (this.stuck) this.scrollDown();
      this.frameMs = performance.now() - begin;
    }), wait);
  }

  save(chat) {
    if (this.removed.has(chat.id)) return;
    if (!saveChat(chat)) {
      toast('This browser has no room for more chats: delete some, or this one is lost when the page ' +
        'is closed.', 'error');
    }
    this.showSidebar();
  }

  // --- Showing.

  showChat() {
    this.views.clear();
    const nodes = path(this.chat);
    this.log.replaceChildren(...nodes.map((node) => this.viewOf(node).element));
    if (nodes.length === 0) this.log.append(this.emptyState());
    this.showTitle();
    this.showSidebar();
    this.showRunning();
    if (!this.settingsPlace.hidden) this.showSettings();
    this.stuck = true;
    this.scrollDown();
  }

  showRunning() {
    const running = this.running.has(this.chat.id);
    this.composer.setRunning(running);
    for (const view of this.views.values()) view.update();
    if (this.stuck) this.scrollDown();
  }

  viewOf(node) {
    const all = siblings(this.chat, node);
    const version = { position: all.indexOf(node.id), total: all.length };
    const step = (by) => {
      choose(this.chat, all[version.position + by]);
      this.save(this.chat);
      this.showChat();
    };
    let view;
    if (node.role === 'user') {
      view = new UserMessage(node, version, { step, edit: (text) => this.editMessage(node, text) });
    } else if (node.role === 'tool') {
      view = new ToolMessage(node);
    } else {
      view = new AssistantMessage(node, version, { step,
        retry: () => this.ask(this.chat, node.parent),
        toolResults: (results) => this.toolResults(node, results) });
    }
    this.views.set(node.id, view);
    return view;
  }

  emptyState() {
    return h('div.welcome', h('h2', 'Nothing is read twice'),
      h('p', 'Below every reply stands how much of the prompt was there already, where it came from, ' +
        'and why not more.'),
      h('div.examples', EXAMPLES.map((text) =>
        h('button.button', { type: 'button', onclick: () => this.send(text) }, text))));
  }

  showTitle() { setText(this.title, this.chat.title || 'New chat'); }

  showSidebar() { this.sidebar.show(listChats(), this.chat.id, this.conversations); }

  async refreshPlaces() {
    try {
      const { data } = await get('v1/conversations');
      this.conversations = new Map(data.map((c) => [c.id, c]));
    } catch {
      this.conversations = null;  // not known is not shown
    }
    this.showSidebar();
  }

  toggleSidebar(shown) { this.panel.classList.toggle('with-sidebar', shown); }

  toggleSettings() {
    const open = this.settingsPlace.childElementCount === 0;
    this.settingsButton.setAttribute('aria-expanded', String(open));
    if (open) {
      this.showSettings();
      this.settingsPlace.querySelector('textarea').focus();
    } else {
      this.settingsPlace.replaceChildren();
      this.settingsButton.focus();
    }
  }

  showSettings() {
    const open = this.settingsButton.getAttribute('aria-expanded') === 'true';
    this.settingsPlace.replaceChildren(...(open ? [settingsPanel(this.chat.settings, {
      changed: () => saveChat(this.chat), close: () => this.toggleSettings() })] : []));
  }

  onScroll() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    this.stuck = scrollHeight - scrollTop - clientHeight < 40;
    this.toBottom.hidden = this.stuck;
  }

  scrollDown(smooth = false) {
    this.scroller.scrollTo({ top: this.scroller.scrollHeight, behavior: smooth ? 'smooth' : 'instant' });
  }
}
