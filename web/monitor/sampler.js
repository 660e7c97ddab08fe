// Asks the server for its status, at a pace, and remembers what a plot needs: speeds come from the
// differences of two answers. Nothing is asked while the page is hidden.

import { ApiFailure, get } from '../lib/api.js';

const KEPT_MS = 10 * 60 * 1000;

// Of what was generated since the last sample, by slot: tokens per second; null where it is not
// known (a request that is new since then).
function slotSpeeds(before, status, seconds) {
  const known = new Map(before.slots.map((slot) => [slot.request, slot]));
  return status.slots.map((slot) => {
    const old = known.get(slot.request);
    const fresh = slot.n_decoded - (old?.n_decoded ?? 0);
    return { request: slot.request, conversation: slot.conversation,
      decoded: seconds > 0 ? fresh / seconds : null,
      read: old && seconds > 0 && slot.state === 'reading'
        ? Math.max(0, slot.n_computed - old.n_computed) / seconds : null };
  });
}

export class Sampler {
  constructor() {
    this.listeners = new Set();
    this.samples = [];   // { time, status-derived numbers }, oldest first
    this.requests = [];  // finished ones, oldest first
    this.state = {};     // what listeners get: { status } or { error } or { loading }
    this.pace = 5000;
    this.busy = false;
  }

  subscribe(listener) {
    this.listeners.add(listener);
    listener(this.state);
  }

  start() {
    document.addEventListener('visibilitychange', () => {
      if (!document.hidden) this.again();
    });
    this.again();
  }

  setPace(ms) {
    const faster = ms < this.pace;
    this.pace = ms;
    if (faster && this.timer) this.again();
  }

  again() {
    clearTimeout(this.timer);
    this.timer = null;
    if (!this.busy && !document.hidden) this.sample();
  }

  async sample() {
    this.busy = true;
    let wait = this.pace;
    try {
      const last = this.requests.at(-1)?.number ?? 0;
      const status = await get(`v1/status?after=${last}`);
      this.take(status);
      this.state = { status };
    } catch (error) {
      this.previous = null;
      this.state = { error };
      if (error instanceof ApiFailure && error.status === 503) {
        const state = await this.loading();
        if (state) this.state = state;
        wait = 500;
      } else if (error instanceof ApiFailure && error.status === 401) {
        wait = Infinity;  // until somebody asks again
      }
    }
    this.busy = false;
    for (const listener of this.listeners) listener(this.state);
    if (Number.isFinite(wait)) this.timer = setTimeout(() => this.again(), Math.min(wait, this.pace));
  }

  async loading() {
    try {
      const health = await (await fetch('health', { cache: 'no-store' })).json();
      if (health.status === 'loading') {
        return { loading: { text: `The model is loading: ${health.phase}`, fraction: health.progress } };
      }
      if (health.status === 'failed') {
        return { loading: { failed: true, text: `The model could not be loaded: ${health.reason}` } };
      }
    } catch { /* gone meanwhile */ }
    return null;
  }

  take(status) {
    // Another process counts from 1 again.
    if (status.last_request < (this.requests.at(-1)?.number ?? 0)) {
      this.requests = [];
      this.samples = [];
      this.previous = null;
      this.again();
    }
    this.requests.push(...status.requests);
    if (this.requests.length > 256) this.requests.splice(0, this.requests.length - 256);
    const before = this.previous;
    const seconds = before ? (status.time_ms - before.time_ms) / 1000 : 0;
    const stale = status.steps.age_ms > 0;  // slots are of before the running step
    const slots = before && !stale ? slotSpeeds(before, status, seconds) : [];
    const finished = before ? status.requests.reduce((sum, r) => {
      const old = before.slots.find((slot) => slot.conversation === r.conversation);
      return sum + Math.max(0, r.generated - (old?.n_decoded ?? 0));
    }, 0) : 0;
    this.samples.push({
      time: status.time_ms,
      slots,
      decoded: before && !stale && seconds > 0
        ? slots.reduce((sum, slot) => sum + (slot.decoded ?? 0), 0) + finished / seconds : null,
      step: before && status.steps.n > before.steps.n ? status.steps.last_ms : null,
      waiting: stale ? null : status.steps.n_waiting,
      written: before && before.store && status.store && seconds > 0
        ? Math.max(0, status.store.bytes_written - before.store.bytes_written) / seconds : null,
      state: status.state.taken_bytes,
      free: status.host.available_bytes,
    });
    while (this.samples[0].time < status.time_ms - KEPT_MS) this.samples.shift();
    if (!stale) this.previous = status;
  }
}
