// `holdfast logits` on the fixtures: node logits_command.mjs BINARY [all].
// Values against the reference, and the same file, byte for byte, for every --chunk, --threads and
// --kernels this CPU has. "all" does the latter on every fixture. Ends with 1 when a check fails.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

const [binary, mode] = process.argv.slice(2);
const fixtures = fileURLToPath(new URL('../fixtures/', import.meta.url));
const temporary = fs.mkdtempSync(path.join(os.tmpdir(), 'holdfast-logits-'));
process.on('exit', () => fs.rmSync(temporary, { recursive: true, force: true }));

let failures = 0;
function check(name, condition, seen) {
  console.log(`${condition ? 'ok  ' : 'FAIL'} ${name}`);
  if (condition) return;
  failures += 1;
  if (seen !== undefined) console.log('     saw:', JSON.stringify(seen).slice(0, 2000));
}

const readJson = (name) => JSON.parse(fs.readFileSync(path.join(fixtures, name), 'utf8'));

// Tensors of a safetensors file: name -> { shape, data: Float32Array }.
function readTensors(name) {
  const bytes = fs.readFileSync(path.join(fixtures, name));
  const headerBytes = Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.subarray(8, 8 + headerBytes).toString());
  return (tensor) => {
    const [begin, end] = header[tensor].data_offsets;
    const copy = Uint8Array.from(bytes.subarray(8 + headerBytes + begin, 8 + headerBytes + end));
    return { shape: header[tensor].shape, data: new Float32Array(copy.buffer) };
  };
}

let nRuns = 0;
function run(model, ids, args) {
  nRuns += 1;
  const tokens = path.join(temporary, 'ids.json'), out = path.join(temporary, `${nRuns}.f32`);
  fs.writeFileSync(tokens, typeof ids === 'string' ? ids : JSON.stringify(ids));
  const result = spawnSync(
    binary, ['logits', '--model', path.join(fixtures, model), '--tokens', tokens, '--out', out,
      ...args], { encoding: 'utf8', maxBuffer: 1 << 28 });
  const bytes = fs.existsSync(out) ? fs.readFileSync(out) : Buffer.alloc(0);
  fs.rmSync(out, { force: true });
  return { ...result, bytes };
}

function rowsOf(result, vocab) {
  const all = new Float32Array(Uint8Array.from(result.bytes).buffer);
  return Array.from({ length: all.length / vocab }, (_, i) => all.subarray(i * vocab, (i + 1) * vocab));
}
const argmax = (row) => row.reduce((best, x, i) => (x > row[best] ? i : best), 0);

function checkValues(name, model) {
  const manifest = readJson(`${name}.expected.json`), tensors = readTensors(`${name}.expected.safetensors`);
  for (const prompt of ['short', 'mid', 'long']) {
    const { ids } = manifest.prompts[prompt];
    const want = tensors(`${prompt}.logits`), [nRows, vocab] = want.shape;
    const result = run(model, ids, ['--last', nRows, '--kv', 'f32', '--activations', 'f32']);
    const rows = rowsOf(result, vocab);
    let worst = rows.length === nRows ? 0 : Infinity;
    rows.forEach((row, i) => row.forEach((x, j) => {
      worst = Math.max(worst, Math.abs(x - want.data[i * vocab + j]));
    }));
    check(`${name} ${prompt}: logits within 3e-4 (${worst.toExponential(1)})`, worst <= 3e-4,
      result.stderr);
    const lines = result.stdout.trim().split('\n').map((line) => JSON.parse(line));
    check(`${name} ${prompt}: a line for each row`, JSON.stringify(lines) === JSON.stringify(
      rows.map((row, i) => ({ position: ids.length - nRows + i, argmax: argmax(row) }))), lines);
  }
}

function availableKernels() {
  return ['scalar', 'avx2', 'avx512', 'avx512vnni', 'neon'].filter((kernels) => {
    const result = run('tinyC-mtp-bf16.gguf', [1], ['--kernels', kernels]);
    if (result.status !== 0) console.log(`     not here: ${result.stderr.trim()}`);
    return result.status === 0;
  });
}

function checkSameBytes(model, args) {
  const { ids } = readJson('tinyA.expected.json').prompts.long;
  const kernelSets = availableKernels();
  check('the scalar kernels run everywhere', kernelSets.includes('scalar'));
  let want = null, n = 0;
  for (const kernels of kernelSets) {
    for (const threads of [1, 2]) {
      for (const chunk of [1, 7, 64, 512]) {
        const result = run(model, ids, ['--kernels', kernels, '--threads', threads, '--chunk', chunk,
          ...args]);
        const got = Buffer.concat([result.bytes, Buffer.from(result.stdout)]);
        want ??= got;
        n += 1;
        if (result.status !== 0 || result.bytes.length === 0 || !got.equals(want)) {
          check(`${model} --kernels ${kernels} --threads ${threads} --chunk ${chunk}`, false,
            result.stderr);
        }
      }
    }
  }
  check(`${model} ${args.join(' ')}: ${n} runs, compared byte by byte`, n >= 8);
}

function checkErrors() {
  const cases = [
    ['no JSON', '[1, 2', [], /ids\.json/],
    ['no ids', '[]', [], /array of token ids/],
    ['a word for an id', '[1, "two"]', [], /token 1 is/],
    ['an id outside the vocabulary', '{"tokens": [1, 2048]}', [], /token 2048 at position 1/],
    ['a negative --last', '[1]', ['--last=-1'], /--last is -1/],
    ['an unknown KV format', '[1]', ['--kv', 'f8'], /f8/],
    ['unknown kernels', '[1]', ['--kernels', 'mmx'], /mmx/],
  ];
  for (const [name, ids, args, message] of cases) {
    const result = run('tinyC-mtp-bf16.gguf', ids, args);
    check(`refused: ${name}`, result.status > 0 && message.test(result.stderr),
      { status: result.status, stderr: result.stderr });
  }
}

if (mode === 'all') {
  for (const model of ['tinyA-bf16.gguf', 'tinyC-mtp-bf16.gguf', 'tinyA-mix.gguf']) {
    checkSameBytes(model, []);
    checkSameBytes(model, ['--kv', 'f32', '--activations', 'f32']);
  }
} else {
  checkValues('tinyA', 'tinyA-bf16.gguf');
  checkValues('tinyC', 'tinyC-mtp-bf16.gguf');
  checkValues('tinyA-mix', 'tinyA-mix.gguf');
  checkErrors();
  checkSameBytes('tinyC-mtp-bf16.gguf', []);
}
process.exitCode = failures === 0 ? 0 : 1;
