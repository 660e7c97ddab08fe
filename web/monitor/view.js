// The Monitor tab: what the server is doing, and why requests were fast or slow.

import { h, setText } from '../lib/dom.js';
import { ago, bytes, clock, count, duration, percent, plural, speed } from '../lib/format.js';
import { legend, limitName, partsOf, reuseView, sourceChip } from '../lib/reuse.js';
import { LinePlot, requestBars } from './plot.js';
import { draftsCard, memoryCard, slotsCard, storeCard } from './cards.js';

const SHOWN_BARS = 48;
const SHOWN_ROWS = 12;

const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 });

// Tokens that were read, by why.
function readReasons(requests) {
  const reasons = new Map();
  const add = (name, source, tokens) => {
    if (tokens === 0) return;
    const reason = reasons.get(name) ?? { name, source, n: 0, tokens: 0 };
    reason.n += 1;
    reason.tokens += tokens;
    reasons.set(name, reason);
  };
  for (const r of requests) {
    const { again, fresh } = partsOf(r.reuse);
    add('New text', 'fresh', fresh);
    add(limitName(r.reuse), 'again', again);
  }
  return [...reasons.values()].sort((a, b) => b.tokens - a.tokens);
}

function metaOf(r) {
  return { reuse: r.reuse, conversation: r.conversation, finish: r.end.replaceAll('_', ' '), timings: {
    queue_ms: r.queue_ms, prompt_ms: r.prompt_ms, predicted_n: r.generated,
    predicted_ms: r.predict_ms, draft_n: r.drafted, draft_n_accepted: r.accepted,
    prompt_per_second: r.prompt_ms > 0 ? (1000 * r.reuse.tokens_read) / r.prompt_ms : 0,
    predicted_per_second: r.predict_ms > 0 ? (1000 * r.generated) / r.predict_ms : 0 } };
}

export class MonitorView {
  constructor(panel, sampler) {
    this.sampler = sampler;
    this.selected = null;
    this.live = h('p.muted.numeric');
    this.reuse = h('div.reuse-card');
    this.cards = { slots: h('section.card'), memory: h('section.card'), store: h('section.card'),
      drafts: h('section.card') };
    this.plots = {
      speed: new LinePlot({ title: 'Generated tokens per second', format: (v) => compact.format(v) }),
      step: new LinePlot({ title: 'Time of a step', format: duration }),
      waiting: new LinePlot({ title: 'Requests waiting', format: (v) => compact.format(v) }),
      written: new LinePlot({ title: 'Written to the store', format: (v) => `${bytes(v)}/s`, base: 1024 }),
    };
    this.table = h('section.card');
    panel.append(h('div.page.monitor',
      h('header', h('div.grow', h('h1', 'Monitor'), this.live)),
      h('section.card', { 'aria-label': 'Reuse' }, this.reuse),
      h('div.grid.plots', Object.values(this.plots).map((plot) => h('section.card', plot.element))),
      h('div.grid', this.cards.slots, this.cards.memory, this.cards.store, this.cards.drafts),
      this.table));
    new ResizeObserver(() => this.show()).observe(panel);
    sampler.subscribe(() => this.show());
  }

  open() {
    this.visible = true;
    this.show();
  }

  hide() { this.visible = false; }

  show() {
    if (!this.visible) return;
    const { status, error, loading } = this.sampler.state;
    if (!status) {
      setText(this.live, error || loading ? 'Not known: the server does not say.' : 'Asking the server…');
    } else {
      const busy = status.slots.length;
      setText(this.live, `${busy} of ${plural(status.plan.n_slots, 'slot')} busy · ` +
        `${count(status.steps.n_waiting)} waiting · ${count(status.steps.n)} steps` +
        `${status.steps.age_ms > 0 ? ` · a step has been running for ${duration(status.steps.age_ms)}` : ''}`);
    }
    this.showPlots();
    this.showReuse();
    for (const [name, make] of Object.entries({ slots: slotsCard, memory: memoryCard, store: storeCard,
      drafts: draftsCard })) {
      this.cards[name].replaceChildren(...(status ? make(status, this.sampler) : [h('p.muted', 'Unknown')]));
    }
    this.showTable();
  }

  showPlots() {
    const { samples } = this.sampler;
    const now = samples.at(-1)?.time ?? Date.now();
    const points = (name) => samples.map((s) => [s.time, s[name]]);
    const requests = [...new Set(samples.flatMap((s) => s.slots.map((slot) => slot.request)))].slice(-12);
    const perRequest = requests.map((request) => ({ source: 'quiet', quiet: true,
      points: samples.map((s) => [s.time, s.slots.find((slot) => slot.request === request)?.decoded ?? null]) }));
    this.plots.speed.set([{ source: 'source-live', points: points('decoded') }, ...perRequest],
      now);
    this.plots.step.set([{ source: 'source-borrowed', points: points('step') }], now);
    this.plots.waiting.set([{ source: 'source-again', points: points('waiting') }], now);
    this.plots.written.set([{ source: 'source-disk', points: points('written') }], now);
  }

  showReuse() {
    const requests = this.sampler.requests.slice(-SHOWN_BARS);
    const key = `${requests.at(-1)?.number} ${requests.length} ${this.selected}`;
    if (this.reuse.dataset.key === key) return;  // focus and pointer stay where they are
    this.reuse.dataset.key = key;
    if (requests.length === 0) {
      this.reuse.replaceChildren(h('div.empty', h('h2', 'No requests yet'),
        'How much of each prompt is reused, and why not more, appears here.'));
      return;
    }
    const sums = { reused: 0, again: 0, fresh: 0 };
    for (const r of requests) {
      const parts = partsOf(r.reuse);
      for (const name of Object.keys(sums)) sums[name] += parts[name];
    }
    const reasons = readReasons(requests);
    const most = Math.max(1, ...reasons.map(({ tokens }) => tokens));
    const sources = ['live', 'ram', 'borrowed', 'disk'].filter((name) =>
      requests.some((r) => r.reuse.source === name));
    const chosen = requests.find((r) => r.number === this.selected) ?? requests.at(-1);
    this.bars = requestBars(requests, { selected: chosen.number,
      select: (number) => this.select(number) });
    this.chosen = h('div.chosen');
    this.reuse.replaceChildren(
      h('div.hero', h('h2', 'Reuse'), h('div.figure', percent(sums.reused, sums.reused + sums.again)),
        h('p', `of what was known was reused in the last ${plural(requests.length, 'request')}: ` +
          `${count(sums.reused)} tokens. ${count(sums.again)} were read again, ` +
          `${count(sums.fresh)} were new.`),
        legend([...sources, 'again', 'fresh'])),
      this.bars, this.chosen,
      h('div.reasons', h('h3', 'Why tokens were read'),
        h('ul.plain', reasons.map(({ name, source, n, tokens }) => h(`li.source-${source}`,
          h('span', name), h('span.meter', h('i', { style: { width: `${(100 * tokens) / most}%` } })),
          h('span.numeric', `${plural(tokens, 'token')}, ${plural(n, 'request')}`))))));
    this.showChosen(chosen);
  }

  select(number) {
    const chosen = this.sampler.requests.find((r) => r.number === number);
    if (!chosen || this.selected === number) return;
    this.selected = number;
    for (const bar of this.bars.children) {
      bar.setAttribute('aria-pressed', String(bar.getAttribute('aria-label')
        .startsWith(`Request ${number}:`)));
    }
    this.reuse.dataset.key = this.reuse.dataset.key.replace(/\S+$/, number);
    this.showChosen(chosen);
  }

  showChosen(r) {
    this.chosen.replaceChildren(h('p.small.muted', `Request ${r.number}, ${clock(r.finished_ms)}`),
      reuseView(metaOf(r)));
  }

  showTable() {
    const requests = this.sampler.requests.slice(-SHOWN_ROWS).reverse();
    this.table.hidden = requests.length === 0;
    if (this.table.hidden) return;
    // Built again only for news, so that it can be scrolled and selected; "ago" goes on slowly.
    const key = `${requests[0].number} ${Math.floor(Date.now() / 10_000)}`;
    if (this.table.dataset.key === key) return;
    const scrolled = this.table.querySelector('.table-scroll')?.scrollLeft ?? 0;
    const header = h('header', h('h2', 'Last requests'));
    const cells = (r) => [h('td', h('span', { title: clock(r.finished_ms) },
      ago(Date.now() - r.finished_ms))), h('td', sourceChip(r.reuse.source)),
    ...['reused', 'again', 'fresh'].map((name) => h('td.right', count(partsOf(r.reuse)[name]))),
    h('td.right', duration(r.queue_ms)), h('td.right', duration(r.prompt_ms)),
    h('td.right', r.predict_ms > 0 ? speed((1000 * r.generated) / r.predict_ms) : '–'),
    h('td.reason', r.reuse.reason)];
    this.table.dataset.key = key;
    this.table.replaceChildren(header, h('div.table-scroll', h('table.data',
      h('thead', h('tr', ['When', 'State', 'Reused', 'Again', 'New', 'Waited', 'First token', 'Speed',
        'Why not more'].map((name, i) => h(i >= 2 && i <= 7 ? 'th.right' : 'th', { scope: 'col' }, name)))),
      h('tbody', requests.map((r) => h('tr', cells(r)))))));
    this.table.querySelector('.table-scroll').scrollLeft = scrolled;
  }
}
