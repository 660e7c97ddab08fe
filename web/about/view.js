// The About tab: what runs here, and how clients reach it.

import { forgetKey, hasKey } from '../lib/api.js';
import { h } from '../lib/dom.js';
import { bytes, count, duration } from '../lib/format.js';
import { icon } from '../lib/icons.js';
import { codeBlock } from '../markdown/render.js';
import { snippets } from './snippets.js';

const CLIENT = 'holdfast.client';
const SOURCES = { flag: 'live', environment: 'borrowed', file: 'disk' };

const definition = (rows) => h('dl.definition', rows.filter(([, value]) => value !== null)
  .map(([name, value]) => [h('dt', name), h('dd', value)]));

function modelCard({ model }) {
  return h('section.card', h('header', h('h2', 'Model')), definition([
    ['Name', model.id],
    ['Title in the file', model.name],
    ['Layers', `${count(model.n_layers)}${model.n_mtp_layers > 0 ? ' and a draft head' : ''}`],
    ['Experts', model.n_experts > 0 ? `${count(model.n_experts_used)} of ${count(model.n_experts)} for a token`
      : null],
    ['Vocabulary', `${count(model.n_vocab)} tokens`],
    ['Context', `${count(model.n_ctx)} tokens` +
      `${model.n_ctx !== model.n_ctx_train ? ` (trained on ${count(model.n_ctx_train)})` : ''}`],
    ['Files', bytes(model.file_bytes)]]));
}

function computeCard({ compute, version, model, time_ms: now, plan }) {
  return h('section.card', h('header', h('h2', 'Engine')), definition([
    ['holdfast', version],
    ['Running for', duration(now - 1000 * model.loaded_s)],
    ['Backend', compute.backend],
    ['Kernel set', compute.kernels],
    ['Threads', count(compute.n_threads)],
    ['K/V format', compute.kv_format],
    ['Slots', count(plan.n_slots)],
    ['Read again at most', `of P shared tokens: one turn, ${count(compute.checkpoint_min_gap)}, or ` +
      `P/${compute.checkpoint_ratio}, whichever is most`]]));
}

function settingsCard({ settings }) {
  if (settings.length === 0) return null;
  const given = settings.filter((s) => s.source !== 'default');
  const rows = (list) => list.map((s) => h('tr', h('td.mono', s.name), h('td.mono.value', s.value || '–'),
    h('td', h(`span.chip${SOURCES[s.source] ? `.sourced.source-${SOURCES[s.source]}` : ''}`, s.source))));
  const table = (list) => h('div.table-scroll', h('table.data.settings',
    h('thead', h('tr', ['Setting', 'Value', 'From'].map((name) => h('th', { scope: 'col' }, name)))),
    h('tbody', rows(list))));
  const rest = settings.filter((s) => s.source === 'default');
  return h('section.card', h('header', h('h2', 'Settings'), h('span.muted',
    given.length === 0 ? 'all as they are by default' : null)),
  given.length > 0 ? table(given) : null,
  rest.length > 0 ? h('details', h('summary', `${rest.length} by default`), table(rest)) : null);
}

export class AboutView {
  constructor(panel, sampler) {
    this.sampler = sampler;
    this.cards = h('div.about-grid');
    this.clients = h('section.card.clients');
    panel.append(h('div.page', h('header', h('div.grow', h('h1', 'About'), h('p.muted',
      'A conversation is never read twice, and no path to a reply changes a bit of it.'))),
    this.clients, this.cards));
    sampler.subscribe(() => { if (this.visible) this.show(); });
  }

  open() {
    this.visible = true;
    this.show();
  }

  hide() { this.visible = false; }

  show() {
    const { status } = this.sampler.state;
    if (!status) {
      if (!this.cards.firstChild) this.cards.replaceChildren(h('p.muted', 'Asking the server…'));
      return;
    }
    const key = JSON.stringify([status.model.id, status.model.loaded_s, hasKey()]);
    if (this.key === key) return;
    this.key = key;
    this.cards.replaceChildren(...[modelCard(status), computeCard(status), settingsCard(status),
      this.pathsCard()].filter(Boolean));
    this.showClients(status.model.id);
  }

  pathsCard() {
    const base = new URL('.', document.baseURI).href.replace(/\/$/, '');
    const rows = [['OpenAI', `${base}/v1`], ['Anthropic', base], ['llama.cpp', base],
      ['Prometheus', `${base}/metrics`], ['Health', `${base}/health`]];
    const forget = () => {
      forgetKey();
      location.reload();
    };
    return h('section.card', h('header', h('h2', 'Addresses')), definition(rows.map(([name, address]) =>
      [name, h('span.mono', address)])), hasKey() ? h('p.forget', h('button.button', { type: 'button',
      onclick: forget }, icon('key', 16), 'Forget the API key in this browser')) : null);
  }

  showClients(model) {
    const address = new URL('.', document.baseURI).href.replace(/\/$/, '');
    const list = snippets({ address, model, needsKey: hasKey() });
    let chosen = list[0].name;
    try { chosen = localStorage.getItem(CLIENT) ?? chosen; } catch { /* the first */ }
    if (!list.some(({ name }) => name === chosen)) chosen = list[0].name;
    const body = h('div', { id: 'snippet', role: 'tabpanel' });
    const select = (name) => {
      const snippet = list.find((one) => one.name === name);
      try { localStorage.setItem(CLIENT, name); } catch { /* not kept */ }
      for (const button of buttons.children) {
        const on = button.dataset.client === name;
        button.setAttribute('aria-selected', String(on));
        button.tabIndex = on ? 0 : -1;
      }
      body.setAttribute('aria-label', snippet.title ?? name);
      body.replaceChildren(...[snippet.note ? h('p.muted.small', snippet.note) : null,
        codeBlock(snippet.text, snippet.language)].filter(Boolean));
    };
    const buttons = h('div.client-tabs', { role: 'tablist', 'aria-label': 'Clients' }, list.map(({ name }) =>
      h('button', { type: 'button', role: 'tab', 'aria-controls': 'snippet', dataset: { client: name },
        onclick: () => select(name) }, name)));
    buttons.addEventListener('keydown', (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (by === undefined) return;
      const all = [...buttons.children];
      const next = all[(all.indexOf(document.activeElement) + by + all.length) % all.length];
      select(next.dataset.client);
      next.focus();
    });
    this.clients.replaceChildren(h('header', h('h2', 'Connect a client')), buttons, body);
    select(chosen);
  }
}
