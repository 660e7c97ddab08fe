// How long running streams wait for tokens while a newcomer's prompt is read:
//   node bench/gaps.mjs BINARY [RUNS] [MODEL]
// Four streams of the demo model (or MODEL), and after a while a newcomer of 3,500 tokens; RUNS (20) times.
// Prints the gaps between tokens before and after the newcomer comes, and its time to the first token
// beside the time it takes alone. A report, not a test.
import { spawn } from 'node:child_process';
import process from 'node:process';

const [binary, runs = 20, model] = process.argv.slice(2);
const target_ms = 100;
const server = spawn(binary, ['serve', '--port', '0', '--ctx', '8192', '--store', 'off', '--cache-ram', '0',
  '--slots', '5', '--step-target-ms', String(target_ms), ...(model ? ['--model', model] : [])],
{ stdio: ['ignore', 'pipe', 'ignore'] });
const url = await new Promise((resolve) => {
  let out = '';
  server.stdout.on('data', (data) => {
    out += data;
    const found = out.match(/ready on (http:\S+)/);
    if (found) resolve(found[1]);
  });
});

let number = 0;
const ids = (n) => Array.from({ length: n }, () => 300 + ((number = (number * 1103515245 + 12345) % 2147483648) % 7000));
// Times at which the tokens of one reply came. `enough` ends it early.
async function stream(prompt, max_tokens, enough = () => false, started = () => {}) {
  const abort = new AbortController();
  const times = [];
  const response = await fetch(`${url}/v1/completions`, { method: 'POST', signal: abort.signal,
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ prompt, max_tokens, temperature: 0, ignore_eos: true, stream: true, logprobs: 0 }) });
  try {
    for await (const chunk of response.body) {
      const n = Buffer.from(chunk).toString().split('data: {').length - 1;
      const now = performance.now();
      for (let i = 0; i < n; i += 1) times.push(now);
      if (times.length === n) started();
      if (enough()) abort.abort();
    }
  } catch (error) {
    if (error.name !== 'AbortError') throw error;
  }
  return times;
}
const quantile = (list, q) => list.toSorted((a, b) => a - b)[Math.min(list.length - 1, Math.floor(q * list.length))];

const before = [], beside = [], ratios = [];
for (let run = 0; run < runs; run += 1) {
  const newcomer = ids(3500);
  const begin_alone = performance.now();
  const alone = (await stream(newcomer, 1))[0] - begin_alone;
  let stop = false, running = 0, go;
  const all_running = new Promise((resolve) => { go = resolve; });
  const streams = Array.from({ length: 4 }, () => stream(ids(40), 4000, () => stop,
    () => { running += 1; if (running === 4) go(); }));
  await all_running;
  await new Promise((resolve) => { setTimeout(resolve, 500); });
  const came = performance.now();
  newcomer[0] += 1;  // nothing of it is kept from before
  const first = (await stream(newcomer, 1))[0];
  stop = true;
  ratios.push((first - came) / alone);
  for (const times of await Promise.all(streams)) {
    for (let i = 1; i < times.length; i += 1) {
      const gap = times[i] - times[i - 1];
      if (gap === 0) continue;  // of one step: guesses that were right
      if (times[i] < came) before.push(gap);
      else if (times[i] <= first) beside.push(gap);
    }
  }
}
server.kill('SIGTERM');
const bound = Math.max(2 * target_ms, 1.2 * Math.max(...before));
console.log(`gaps without the newcomer: ${before.length}, median ${quantile(before, 0.5).toFixed(1)} ms, 99 % ` +
  `${quantile(before, 0.99).toFixed(1)}, longest ${Math.max(...before).toFixed(1)}`);
console.log(`gaps beside it:            ${beside.length}, median ${quantile(beside, 0.5).toFixed(1)} ms, 99 % ` +
  `${quantile(beside, 0.99).toFixed(1)}, longest ${Math.max(...beside).toFixed(1)}`);
console.log(`bound max(2 x step target, 1.2 x longest gap without it): ${bound.toFixed(1)} ms`);
console.log(`newcomer's first token: ${quantile(ratios, 0.5).toFixed(2)} times its time alone (median), ` +
  `${Math.max(...ratios).toFixed(2)} at most`);
process.exit(0);
