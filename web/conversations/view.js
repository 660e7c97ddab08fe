// The Conversations tab: everything the server keeps.

import { listChats } from '../chat/chats.js';
import { get } from '../lib/api.js';
import { h, replaceKeepingFocus, setText } from '../lib/dom.js';
import { ago, bytes, count, percent, plural } from '../lib/format.js';
import { icon } from '../lib/icons.js';
import { SOURCES, sourceChip } from '../lib/reuse.js';
import { exportSession, fork, importSession, remove, save, setPinned } from './actions.js';
import { kindName, timeline, timelineLegend } from './timeline.js';

const REFRESH_MS = 3000;

const FILTERS = { all: ['All', () => true], ram: ['In RAM', (c) => c.in_ram],
  disk: ['On disk', (c) => c.durable_tokens > 0], pinned: ['Pinned', (c) => c.pinned] };
const SORTS = { used: ['Last used', (a, b) => lastUsed(b) - lastUsed(a)],
  tokens: ['Tokens', (a, b) => b.n_tokens - a.n_tokens],
  bytes: ['RAM', (a, b) => b.ram_bytes - a.ram_bytes] };

const lastUsed = (c) => c.used_ms ?? c.last_used_ms ?? 0;

// What requests have made of each conversation, of the last ones that the server remembers.
function usesOf(requests) {
  const uses = new Map();
  for (const r of requests) {
    const from = r.reuse.conversation;
    if (!from || r.reuse.tokens_reused === 0) continue;
    const use = uses.get(from) ?? { n: 0, tokens: 0, sources: {}, requests: [] };
    use.n += 1;
    use.tokens += r.reuse.tokens_reused;
    use.sources[r.reuse.source] = (use.sources[r.reuse.source] ?? 0) + 1;
    use.requests.push(r);
    uses.set(from, use);
  }
  return uses;
}

function places(c) {
  return [c.bound ? h('span.chip.sourced.source-live', 'Being computed') : null,
    c.in_ram && !c.bound ? h('span.chip.sourced.source-ram', 'RAM') : null,
    c.durable_tokens > 0 ? h('span.chip.sourced.source-disk',
      c.durable_tokens < c.n_tokens ? `Disk ${percent(c.durable_tokens, c.n_tokens)}` : 'Disk') : null,
    c.pinned ? h('span.chip', icon('pin', 12), 'Pinned') : null,
    c.quarantined ? h('span.chip.danger', { title: c.quarantined }, 'Quarantined') : null,
    c.usable === false ? h('span.chip', { title: 'Saved by another model or format' }, 'Not usable here')
      : null];
}

export class ConversationsView {
  constructor(panel, sampler) {
    this.sampler = sampler;
    this.filter = 'all';
    this.sort = 'used';
    this.search = '';
    this.opened = null;
    this.data = null;
    this.summary = h('p.muted');
    this.list = h('ul.conversations', { 'aria-label': 'Conversations' });
    this.note = h('div.empty', { role: 'status' });
    const search = h('input', { type: 'search', placeholder: 'Find by title or name',
      'aria-label': 'Find a conversation' });
    search.addEventListener('input', () => { this.search = search.value.toLowerCase(); this.show(); });
    const sort = h('select', { 'aria-label': 'Order' }, Object.entries(SORTS).map(([value, [label]]) =>
      h('option', { value }, label)));
    sort.addEventListener('change', () => { this.sort = sort.value; this.show(); });
    this.filterButtons = h('div.segments', { role: 'group', 'aria-label': 'Show' },
      Object.entries(FILTERS).map(([name, [label]]) => h('button', { type: 'button',
        dataset: { filter: name }, onclick: () => { this.filter = name; this.show(); } }, label)));
    const file = h('input.visually-hidden', { type: 'file', tabindex: -1, 'aria-hidden': 'true',
      onchange: async () => {
        if (file.files[0] && await importSession(file.files[0])) this.refresh();
        file.value = '';
      } });
    panel.append(h('div.page',
      h('header', h('div.grow', h('h1', 'Conversations'), this.summary),
        h('button.button', { type: 'button', onclick: () => file.click() }, icon('import', 16), 'Import'),
        file),
      h('div.toolbar', search, this.filterButtons, sort),
      this.list, this.note));
  }

  open(id) {
    if (id) {
      this.opened = id;
      this.scrollTo = id;
    }
    this.visible = true;
    this.refresh();
  }

  hide() {
    this.visible = false;
    clearTimeout(this.timer);
  }

  async refresh() {
    clearTimeout(this.timer);
    try {
      this.data = (await get('v1/conversations')).data;
      this.error = null;
    } catch (error) {
      this.data = null;
      this.error = error;
    }
    this.show();
    if (this.visible) this.timer = setTimeout(() => this.refresh(), REFRESH_MS);
  }

  show() {
    for (const button of this.filterButtons.children) {
      button.setAttribute('aria-pressed', String(button.dataset.filter === this.filter));
    }
    const all = this.data ?? [];
    setText(this.summary, this.data === null ? '' : `${plural(all.length, 'conversation')} · ` +
      `${count(all.reduce((sum, c) => sum + c.n_tokens, 0))} tokens · ` +
      `${bytes(all.reduce((sum, c) => sum + c.ram_bytes, 0))} of RAM held by one alone · ` +
      `${plural(all.filter((c) => c.durable_tokens > 0).length, 'conversation')} on disk`);
    const shown = all.filter(FILTERS[this.filter][1]).filter((c) => this.search === '' ||
      `${c.id} ${this.titleOf(c)}`.toLowerCase().includes(this.search));
    if (this.sort !== 'used' || shown.every((c) => lastUsed(c) > 0)) shown.sort(SORTS[this.sort][1]);
    this.uses = usesOf(this.sampler.requests);
    this.chats = new Map(listChats().flatMap((chat) =>
      (chat.conversations ?? []).map((name) => [name, chat])));
    replaceKeepingFocus(this.list, shown.map((c) => this.item(c)));
    this.note.hidden = shown.length > 0;
    this.note.replaceChildren(...(this.error ? [h('h2', 'The conversations could not be listed'),
      this.error.message] : all.length > 0 ? ['None of them fits.'] : [h('h2', 'Nothing is kept yet'),
      'Every conversation with this server appears here: in RAM, on disk, or both.']));
    if (this.scrollTo) {
      this.list.querySelector('.opened')?.scrollIntoView({ block: 'center' });
      this.scrollTo = null;
    }
  }

  titleOf(c) { return c.title || this.chats?.get(c.id)?.title || ''; }

  item(c) {
    const opened = this.opened === c.id;
    const title = this.titleOf(c);
    const used = lastUsed(c) > 0 ? ago(Date.now() - lastUsed(c)) : null;
    const head = h('button.conversation-head', { type: 'button', 'aria-expanded': String(opened),
      dataset: { key: `head ${c.id}` }, onclick: () => {
        this.opened = opened ? null : c.id;
        history.replaceState(null, '', opened ? '#conversations'
          : `#conversations/${encodeURIComponent(c.id)}`);
        this.show();
      } },
    h('span.name', title ? h('b', title) : null, h('span.mono', c.id)),
    h('span.places', places(c)),
    h('span.numbers.numeric', `${count(c.n_tokens)} tok`,
      h('span.muted', [bytes(c.in_ram ? c.ram_bytes : c.disk_bytes), used].filter(Boolean).join(' · '))));
    return h('li.conversation', { class: opened ? 'opened' : null }, head, timeline(c),
      opened ? this.details(c) : null);
  }

  details(c) {
    const chat = this.chats.get(c.id);
    const rows = [['Computed tokens', count(c.n_tokens)],
      ['Durable tokens', count(c.durable_tokens)],
      ['RAM, held alone', c.in_ram ? bytes(c.ram_bytes) : 'none'],
      ['Shared with others', c.in_ram ? bytes(c.shared_bytes) : 'none'],
      ['Disk, shared parts included', c.disk_bytes > 0 ? bytes(c.disk_bytes) : 'none'],
      ['Last used', lastUsed(c) > 0 ? ago(Date.now() - lastUsed(c)) : 'unknown'],
      ['Checkpoints', c.checkpoints.length > 0
        ? h('ul.plain.checkpoints', { tabindex: 0 }, c.checkpoints.map(({ position, kind }) =>
          h('li', `${count(position)} · ${kindName(kind)}`))) : 'none in RAM'],
      c.quarantined ? ['In quarantine', c.quarantined] : null];
    const button = (name, label, run, options = {}) => h('button.button', { type: 'button',
      dataset: { key: `${name} ${c.id}` }, ...options, onclick: async () => {
        if (await run(c.id) !== false) this.refresh();
      } }, icon(name, 16), label);
    return h('div.conversation-details',
      timelineLegend(c.checkpoints),
      h('div.columns', h('dl.definition', rows.filter(Boolean).map(([name, value]) =>
        [h('dt', name), h('dd', value)])), this.usesView(c)),
      h('div.conversation-actions',
        chat ? h('a.button', { href: `#chat/${chat.id}` }, icon('chat', 16), 'Open the chat') : null,
        button('pin', c.pinned ? 'Unpin' : 'Pin', (id) => setPinned(id, !c.pinned)),
        button('fork', 'Fork', fork), button('save', 'Save', save, { disabled: !c.in_ram }),
        button('export', 'Export', exportSession),
        button('trash', 'Delete', remove, { disabled: c.bound })));
  }

  // What it was reused for.
  usesView(c) {
    const use = this.uses.get(c.id);
    if (!use) {
      return h('div.uses', h('h3', 'Reused for'), h('p.muted.small', 'Nothing among the last ' +
        'requests of this server.'));
    }
    return h('div.uses', h('h3', 'Reused for'),
      h('p.small', `${plural(use.n, 'request')}, ${count(use.tokens)} tokens that were not read again`),
      h('ul.plain', use.requests.slice(-6).reverse().map((r) => h('li',
        sourceChip(r.reuse.source), ` ${count(r.reuse.tokens_reused)} tokens, `,
        r.conversation === c.id || !r.conversation ? SOURCES[r.reuse.source].text
          : h('span', 'for ', h('a.mono', { href: `#conversations/${encodeURIComponent(r.conversation)}` },
            r.conversation)),
        h('span.muted', ` · ${ago(Date.now() - r.finished_ms)}`)))));
  }
}
