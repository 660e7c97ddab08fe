// Numbers for people. Unknown (null, undefined) is always "unknown", never 0.

const UNKNOWN = 'unknown';
const known = (value) => value !== null && value !== undefined && !Number.isNaN(value);
const whole = new Intl.NumberFormat('en');

export const count = (n) => (known(n) ? whole.format(Math.round(n)) : UNKNOWN);

// 3 significant digits, with units of 1024.
export function bytes(n) {
  if (!known(n)) return UNKNOWN;
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  while (n >= 1000 && i < units.length - 1) {
    n /= 1024;
    i += 1;
  }
  return `${i === 0 || n >= 100 ? Math.round(n) : Number(n.toPrecision(n >= 10 ? 3 : 2))} ${units[i]}`;
}

export function duration(ms) {
  if (!known(ms)) return UNKNOWN;
  if (ms === 0) return '0';
  if (ms < 1) return '< 1 ms';
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 60) return `${s < 10 ? s.toFixed(1) : Math.round(s)} s`;
  const minutes = Math.floor(s / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(s % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function ago(ms) {
  if (!known(ms)) return UNKNOWN;
  const s = ms / 1000;
  if (s < 5) return 'now';
  if (s < 60) return `${Math.round(s)} s ago`;
  if (s < 3600) return `${Math.round(s / 60)} min ago`;
  if (s < 86400) return `${Math.round(s / 3600)} h ago`;
  return `${Math.round(s / 86400)} d ago`;
}

export const speed = (perSecond) =>
  (known(perSecond) ? `${perSecond >= 100 ? Math.round(perSecond) : perSecond.toPrecision(3)} tok/s`
    : UNKNOWN);

// 100% only when it is all, 0% only when it is nothing.
export function percent(part, total) {
  if (!known(part) || !known(total) || total === 0) return UNKNOWN;
  const share = (100 * part) / total;
  if (share > 99 && share < 100) return `${Math.min(99.9, Math.floor(share * 10) / 10)}%`;
  if (share > 0 && share < 1) return '< 1%';
  return `${Math.round(share)}%`;
}

export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

export const clock = (ms) => new Date(ms).toLocaleTimeString([], { hour12: false });
