// Six clients' transcripts against the real binary with the demo model: node transcripts.mjs BINARY
// [restarts]. Prints a table per turn and ends with 1 when a prompt was read again that should not have
// been. With `restarts` the server is ended and started again between every two requests.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import process from 'node:process';

import { check, finish, ready, start } from './harness.mjs';
import { Session } from './transcripts/session.mjs';

const clients = ['claude_code', 'codex', 'cline', 'opencode', 'continue', 'open_webui'];
const restarts = process.argv[3] === 'restarts';
const store = fs.mkdtempSync(path.join(os.tmpdir(), 'holdfast_transcripts_'));
const begin = async () => {
  const server = start(['--ctx', '16384', '--store', store]);
  const url = await server.listening;
  await ready(url);
  return { server, url };
};

let { server, url } = await begin();
async function end() {
  server.child.kill('SIGTERM');
  const { code, err } = await server.exited;
  if (code !== 0) throw new Error(`the server ended with ${code}: ${err()}`);
}
async function restart() {
  await end();
  ({ server, url } = await begin());
  return url;
}

try {
  for (const file of clients) {
    const client = await import(`./transcripts/${file}.mjs`);
    const session = new Session(client.name, url, restarts ? restart : null);
    await client.play(session);
    session.print();
    const n = session.rows.length;
    check(`${client.name}: 25 requests or more`, n >= 25, n);
    check(`${client.name}: nothing read again that need not be`, session.failures.length === 0,
      session.failures);
  }
  await end();
} finally {
  server.child.kill('SIGKILL');
  fs.rmSync(store, { recursive: true, force: true });
}
finish();
