// Cards of the Monitor: each makes its children from a status.

import { h } from '../lib/dom.js';
import { bytes, count, duration, percent, plural, speed } from '../lib/format.js';

const title = (text, note) => h('header', h('h2', text), note ? h('span.muted', note) : null);

const definition = (rows) => h('dl.definition', rows.filter(Boolean).map(([name, value]) =>
  [h('dt', name), h('dd', value)]));

// Parts of a whole as one bar: [{ name, bytes, className }].
function stackedBar(parts, total, label) {
  const shown = parts.filter((part) => part.bytes > 0);
  return [h('div.stacked', { role: 'img', 'aria-label': `${label}: ${shown.map((part) =>
    `${part.name} ${bytes(part.bytes)}`).join(', ')}` }, shown.map((part) =>
    h(`i.${part.className}`, { style: { width: `${(100 * part.bytes) / total}%` },
      title: `${part.name}: ${bytes(part.bytes)}` }))),
  h('ul.legend', shown.map((part) => h('li', h(`i.swatch.${part.className}`),
    `${part.name} ${bytes(part.bytes)}`)))];
}

export function slotsCard(status, sampler) {
  const last = sampler.samples.at(-1)?.slots ?? [];
  const rows = status.slots.map((slot) => {
    const rate = last.find((one) => one.request === slot.request);
    const share = slot.n_tokens > 0 ? slot.n_computed / slot.n_tokens : 0;
    return h('li.slot', h('span.mono', slot.conversation),
      slot.state === 'reading'
        ? h('span.state', h('progress', { max: 1, value: share, 'aria-label': 'Prompt read' }),
          ` reading ${count(slot.n_computed)} of ${count(slot.n_tokens)}` +
          `${rate?.read ? `, ${speed(rate.read)}` : ''}`)
        : h('span.state', `${speed(rate?.decoded ?? slot.tokens_per_s)} · ` +
          `${plural(slot.n_decoded, 'token')} so far`));
  });
  const idle = status.plan.n_slots - status.slots.length;
  return [title('Slots', `${status.slots.length} of ${status.plan.n_slots} busy`),
    h('ul.plain.slots', rows, idle > 0 ? h('li.slot.idle', plural(idle, 'idle slot')) : null),
    definition([['Waiting', plural(status.steps.n_waiting, 'request')],
      ['Last step', status.steps.last_ms === null ? 'none yet' : duration(status.steps.last_ms)],
      ['Longest conversation', `${count(status.plan.n_ctx)} tokens`]])];
}

export function memoryCard(status) {
  const { plan, host, state } = status;
  const planned = [
    { name: 'Weights', bytes: plan.weight_bytes + plan.repacked_bytes, className: 'c-weights' },
    { name: 'Scratch', bytes: plan.scratch_bytes, className: 'c-scratch' },
    { name: 'Slots', bytes: plan.work_bytes, className: 'c-work' },
    { name: 'Parked', bytes: plan.cache_bytes, className: 'c-parked' },
    { name: 'Stays free', bytes: plan.min_free_bytes, className: 'c-reserve' }];
  const sum = planned.reduce((total, part) => total + part.bytes, 0);
  const whole = Math.max(plan.available_bytes ?? 0, sum);
  if (whole > sum) planned.push({ name: 'Left', bytes: whole - sum, className: 'c-left' });

  const now = [];
  if (host.total_bytes !== null && host.available_bytes !== null) {
    const ours = Math.min(host.resident_bytes ?? 0, host.total_bytes - host.available_bytes);
    now.push({ name: 'This server', bytes: ours, className: 'c-work' },
      { name: 'Others', bytes: host.total_bytes - host.available_bytes - ours, className: 'c-scratch' },
      { name: 'Available', bytes: host.available_bytes, className: 'c-left' });
  }
  return [title('Memory', host.limited_by ? `limited by ${host.limited_by}` : null),
    h('h3', 'Plan'), stackedBar(planned, whole, 'The memory plan'),
    h('h3', 'Host now'), now.length > 0
      ? stackedBar(now, host.total_bytes, 'The host\'s memory') : h('p.muted', 'Unknown'),
    definition([
      ['Conversations take', `${bytes(state.taken_bytes)} of at most ${bytes(state.limit_bytes)}`],
      ['Parked ones', `${bytes(state.parked_bytes)}, ${plural(state.n_parked, 'conversation')}`],
      ['Evicted so far', plural(state.n_evicted, 'conversation')]]),
    plan.notes.length > 0 ? h('ul.notes', plan.notes.map((note) => h('li', note))) : null].flat(2)
    .filter(Boolean);
}

export function storeCard(status) {
  const { store } = status;
  if (store === null) return [title('Store'), h('p.muted', 'Nothing is kept on disk.')];
  const { usage } = store;
  const parts = usage ? [
    { name: 'Needed', bytes: usage.live_bytes, className: 'c-parked' },
    { name: 'To be cleared', bytes: Math.max(0, usage.segment_bytes - usage.live_bytes), className: 'c-left' },
    { name: 'Catalogue', bytes: usage.catalogue_bytes, className: 'c-scratch' }] : [];
  const total = parts.reduce((sum, part) => sum + part.bytes, 0);
  const saving = { turn: 'at the end of each turn', idle: 'within seconds of a turn',
    off: 'only on eviction and exit' }[store.autosave];
  return [title('Store', `saves ${saving}`),
    total > 0 ? stackedBar(parts, total, 'The store\'s files') : null,
    definition([
      ['On disk', usage ? `${bytes(usage.segment_bytes)}, ${plural(usage.n_conversations, 'conversation')}`
        : 'unknown'],
      ['Written', `${bytes(store.bytes_written)} in ${plural(store.n_saves, 'save')}` +
        `${store.n_pending > 0 ? `, ${store.n_pending} waiting` : ''}`],
      ['Read back', `${bytes(store.bytes_read)} in ${plural(store.n_restores, 'restore')}`],
      ['Failed saves', count(store.n_failed_saves)],
      ['Failed proofs', count(store.n_failed_proofs)],
      usage && usage.quarantine_bytes > 0 ? ['In quarantine', bytes(usage.quarantine_bytes)] : null,
      store.last_error ? ['Last error', store.last_error] : null])].flat().filter(Boolean);
}

export function draftsCard(status) {
  const depths = status.steps.drafts.filter((depth) => depth.drafted > 0);
  const drafted = depths.reduce((sum, depth) => sum + depth.drafted, 0);
  const accepted = depths.reduce((sum, depth) => sum + depth.accepted, 0);
  if (depths.length === 0) {
    return [title('Guesses ahead'), h('p.muted', status.model.n_mtp_layers > 0
      ? 'None so far: the draft head guesses when it pays.' : 'This model has no draft head.')];
  }
  return [title('Guesses ahead', `${percent(accepted, drafted)} of ${count(drafted)} right`),
    h('ol.depths', depths.map((depth, i) => h('li',
      h('span.muted', `${i + 1}.`),
      h('span.meter', { role: 'img', 'aria-label': `Token ${i + 1} ahead: ` +
        `${percent(depth.accepted, depth.drafted)} right` },
      h('i', { style: { width: `${(100 * depth.accepted) / depth.drafted}%` } })),
      h('span.numeric', `${percent(depth.accepted, depth.drafted)} of ${count(depth.drafted)}`)))),
    h('p.muted.small', 'A guess counts only where the model itself says the same: replies never depend ' +
      'on it.')];
}
