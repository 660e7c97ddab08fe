// Line plots and request bars, drawn as SVG by ourselves.

import { h, svg } from '../lib/dom.js';
import { clock } from '../lib/format.js';
import { partsOf } from '../lib/reuse.js';

const HEIGHT = 120, LEFT = 58, BOTTOM = 18, TOP = 8;

// A round number at or above `max`, so that the axis does not jump with every sample. In units of
// `base` to some power: 1024 for bytes.
export function niceMax(max, base = 10) {
  if (!(max > 0)) return 1;
  if (base !== 10) {
    const unit = base ** Math.floor(Math.log(max) / Math.log(base));
    return niceMax(max / unit) * unit;
  }
  const power = 10 ** Math.floor(Math.log10(max));
  return [1, 2, 4, 6, 10].map((m) => m * power).find((m) => m >= max * 1.02) ?? 20 * power;
}

const known = (point) => point !== undefined && point[1] !== null && point[1] !== undefined;

// The points of a line; null breaks it, and a point between two breaks is a dot.
function linePath(points, x, y) {
  return points.map((point, i) => {
    if (!known(point)) return '';
    const place = `${x(point[0]).toFixed(1)} ${y(point[1]).toFixed(1)}`;
    if (known(points[i - 1])) return `L${place}`;
    return `M${place}${known(points[i + 1]) ? '' : `L${place}`}`;
  }).join('');
}

// Whole minutes that the points fill: 1 to 10, so that a page that was just opened shows something.
function spanOf(series, now) {
  const first = Math.min(now, ...series.map(({ points }) => points[0]?.[0] ?? now));
  return [1, 2, 4, 10].find((minutes) => now - first <= minutes * 60_000 + 2000) * 60_000 || 600_000;
}

// Lines over the last minutes. `series`: [{ source, quiet, points: [[time, value | null]] }]; the one
// that is not quiet is read out.
export class LinePlot {
  constructor({ title, format, base = 10 }) {
    this.format = format;
    this.base = base;
    this.title = title;
    this.svg = svg('svg.plot', { role: 'img', 'aria-label': title });
    this.readout = h('span.readout.numeric');
    this.element = h('div.plot-box', h('div.plot-title', h('h3', title), this.readout), this.svg);
    this.svg.addEventListener('pointermove', (event) => { this.pointer = event.offsetX; this.point(); });
    this.svg.addEventListener('pointerleave', () => { this.pointer = null; this.point(); });
  }

  set(series, now) {
    this.series = series;
    this.now = now;
    this.span = spanOf(series, now);
    const width = Math.max(200, this.svg.clientWidth || 480);
    const from = now - this.span;
    this.width = width;
    const shown = series.map((one) => ({ ...one, points: one.points.filter(([t]) => t >= from) }));
    const max = niceMax(Math.max(0, ...shown.flatMap((one) => one.points.map(([, v]) => v ?? 0))), this.base);
    const x = (time) => LEFT + ((time - from) / this.span) * (width - LEFT - 6);
    const y = (value) => TOP + (1 - value / max) * (HEIGHT - TOP - BOTTOM);
    const parts = [0, 0.5, 1].map((share) => [
      svg('line.rule', { x1: LEFT, x2: width - 6, y1: y(max * share), y2: y(max * share) }),
      svg('text.axis', { x: LEFT - 7, y: y(max * share) + 4, 'text-anchor': 'end' },
        this.format(max * share)),
    ]);
    for (const [back, anchor] of [[this.span, 'start'], [this.span / 2, 'middle'], [0, 'end']]) {
      parts.push(svg('text.axis', { x: x(now - back), y: HEIGHT - 3, 'text-anchor': anchor },
        back === 0 ? 'now' : back < 60_000 ? `-${back / 1000} s` : `-${back / 60_000} min`));
    }
    for (const one of shown) {
      const path = linePath(one.points, x, y);
      if (!path) continue;
      parts.push(svg(`path.line.${one.source}`, { d: path }));
    }
    this.cursor = svg('line.cursor', { y1: TOP, y2: HEIGHT - BOTTOM, visibility: 'hidden' });
    this.svg.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
    this.svg.replaceChildren(...parts.flat(), this.cursor);
    this.shown = shown;
    this.x = x;
    this.point();
  }

  // The value under the pointer, or the newest one.
  point() {
    if (!this.shown) return;
    const hovering = this.pointer !== null && this.pointer !== undefined;
    const scale = this.svg.clientWidth ? this.width / this.svg.clientWidth : 1;
    const time = hovering
      ? this.now - this.span + ((this.pointer * scale - LEFT) / (this.width - LEFT - 6)) * this.span
      : this.now;
    const points = this.shown.find((one) => !one.quiet)?.points ?? [];
    const near = points.reduce((best, point) =>
      (best === null || Math.abs(point[0] - time) < Math.abs(best[0] - time) ? point : best), null);
    const value = near && Math.abs(near[0] - time) < 10_000 ? near[1] : null;
    const text = value === null || value === undefined ? '–' : this.format(value);
    this.readout.textContent = hovering ? `${clock(time)}  ${text}` : text;
    this.svg.setAttribute('aria-label', `${this.title}: ${text}`);
    this.cursor.setAttribute('visibility', hovering ? 'visible' : 'hidden');
    if (hovering) {
      this.cursor.setAttribute('x1', this.pointer * scale);
      this.cursor.setAttribute('x2', this.pointer * scale);
    }
  }
}

// One bar for each request: what was reused, by source, and what was read. `select(request)` when
// one is pointed at.
export function requestBars(requests, { selected, select }) {
  const max = niceMax(Math.max(1, ...requests.map((r) => r.prompt_tokens)));
  const scale = (tokens) => Math.sqrt(tokens / max);  // short prompts stay visible beside long ones
  return h('div.request-bars', { role: 'group', 'aria-label': 'The last requests, newest last' },
    requests.map((r) => {
      const height = Math.max(6, 100 * scale(r.prompt_tokens));
      const parts = partsOf(r.reuse);
      const piece = (name, n) => (n > 0 ? h(`i.source-${name}`, { style: { flex: `${n} 0 0` } }) : null);
      return h('button.request-bar', { type: 'button',
        'aria-label': `Request ${r.number}: ${r.prompt_tokens} tokens, ${r.reuse.tokens_reused} reused`,
        'aria-pressed': String(r.number === selected), onclick: () => select(r.number),
        onpointerenter: () => select(r.number), onfocus: () => select(r.number) },
      h('span.stack', { style: { height: `${height}%` } },
        piece('fresh', parts.fresh), piece('again', parts.again), piece(r.reuse.source, parts.reused)));
    }));
}
