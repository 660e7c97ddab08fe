// What the client tests share: the real binary with the demo model on a free port, and checks that
// print one line each.
import { spawn } from 'node:child_process';
import process from 'node:process';

const binary = process.argv[2];
let failures = 0;
export function check(name, condition, seen) {
  console.log(`${condition ? 'ok  ' : 'FAIL'} ${name}`);
  if (!condition) {
    failures += 1;
    if (seen !== undefined) console.log('     saw:', JSON.stringify(seen)?.slice(0, 2000));
  }
}

// Ends the process: 1 when a check has failed.
export function finish() { process.exit(failures === 0 ? 0 : 1); }

// Starts a server; `listening` resolves once its port is printed, before the model is loaded.
export function start(args = [], env = {}) {
  const ctx = args.includes('--ctx') ? [] : ['--ctx', '2048'];
  const child = spawn(binary, ['serve', '--port', '0', ...ctx, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...env } });
  let out = '', err = '';
  child.stderr.on('data', (data) => { err += data; });
  const exited = new Promise((resolve) => {
    child.on('exit', (code, signal) => resolve({ code, signal, out: () => out, err: () => err }));
  });
  const listening = new Promise((resolve, reject) => {
    child.stdout.on('data', (data) => {
      out += data;
      const found = out.match(/listening on (https?:\/\/\S+)/);
      if (found) resolve(found[1]);
    });
    exited.then(() => reject(new Error(`the server ended: ${err}`)));
  });
  return { child, exited, listening };
}

export async function ready(url) {
  let sawLoading = false;
  for (let i = 0; i < 1200; i += 1) {
    const response = await fetch(`${url}/health`);
    if (response.status === 200) return sawLoading;
    sawLoading = response.status === 503;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error('the model was not loaded within a minute');
}

// The error that a promise ends with; fails the check when there is none.
export async function errorOf(name, promise) {
  try {
    const value = await promise;
    check(name, false, value);
    return {};
  } catch (error) {
    return error;
  }
}
