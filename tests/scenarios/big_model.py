"""A model three times as large as the memory its cgroup allows.

big_model.py HOLDFAST: makes a file with 512 experts a layer, then in a cgroup of a third of its size
- `holdfast logits` with experts in an arena, by both readers: every bit as with all weights mapped outside;
- `holdfast prepare`, killed and gone on with; the same bits from what it has written;
- `holdfast serve` with --expert-memory auto: replies as outside, anonymous memory within the printed plan,
  nothing killed; once the file has been written to, requests fail with its name and it is loaded anew, or
  refused where it is no model any more.
Leaves with 77 (skipped) where no memory cgroup can be made.
"""
import filecmp
import json
import os
import re
import random
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

SYNTH = ['--preset', 'flash-next', '--layers', '4', '--vocab', '16384', '--ngram-rows', '20000',
         '--types', 'experts=IQ2_XXS,down=Q2_0']
V1, V2 = '/sys/fs/cgroup/memory', '/sys/fs/cgroup'


class Cgroup:
  """A memory cgroup of this process's own, v1 or v2."""

  def __init__(self, limit):
    self.v1 = os.path.exists(V1 + '/memory.limit_in_bytes')
    self.dir = f'{V1 if self.v1 else V2}/holdfast_test_{os.getpid()}'
    os.mkdir(self.dir)
    try:
      self.write('memory.limit_in_bytes' if self.v1 else 'memory.max', str(limit))
    except OSError:
      os.rmdir(self.dir)
      raise

  def write(self, name, text):
    with open(f'{self.dir}/{name}', 'w') as file:
      file.write(text)

  def read(self, name):
    with open(f'{self.dir}/{name}') as file:
      return file.read()

  def enter(self):
    self.write('cgroup.procs', str(os.getpid()))

  def kills(self):
    text = self.read('memory.oom_control' if self.v1 else 'memory.events')
    return int(re.search(r'^oom_kill (\d+)', text, re.M).group(1))

  def anonymous(self):
    name = 'total_rss' if self.v1 else 'anon'
    return int(re.search(rf'^{name} (\d+)', self.read('memory.stat'), re.M).group(1))

  def remove(self):
    for _ in range(50):
      try:
        return os.rmdir(self.dir)
      except OSError:
        time.sleep(0.1)


def forget(path):
  """Nothing of the file stays in the page cache, where it would count for somebody else."""
  fd = os.open(path, os.O_RDONLY)
  os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
  os.close(fd)


class Server:

  def __init__(self, holdfast, model, *flags, cgroup=None):
    self.process = subprocess.Popen(
        [holdfast, 'serve', '--model', model, '--port', '0', '--store', 'off', '--ctx', '2048', '--slots',
         '2', '--cache-min-free', '64M', '--config', 'off', *flags],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        preexec_fn=cgroup.enter if cgroup else None)
    self.screen = ''
    for line in self.process.stdout:
      self.screen += line
      ready = re.match(r'ready on (\S+)', line)
      if ready:
        self.url = ready.group(1)
        return
    raise SystemExit('the server did not start:\n' + self.screen)

  def get(self, path):
    return urllib.request.urlopen(self.url + path, timeout=60).read().decode()

  def complete(self, prompt):
    body = {'prompt': prompt, 'max_tokens': 12, 'temperature': 0, 'logprobs': 1}
    request = urllib.request.Request(self.url + '/v1/completions', json.dumps(body).encode(),
                                     {'Content-Type': 'application/json'})
    try:
      choice = json.load(urllib.request.urlopen(request, timeout=300))['choices'][0]
      return choice['text'], choice['logprobs']
    except urllib.error.HTTPError as error:
      return error.code, error.read().decode()

  def wait_for_restart(self):
    for line in self.process.stdout:
      if 'engine restarted' in line:
        return
    raise SystemExit('the server did not begin anew')

  def end(self):
    self.process.send_signal(signal.SIGTERM)
    self.process.communicate(timeout=60)
    check(self.process.returncode == 0, f'serve left with {self.process.returncode}')


def check(condition, what):
  if not condition:
    raise SystemExit('FAILED: ' + what)


def check_logits(holdfast, model, folder, cgroup):
  tokens = folder + '/tokens.json'
  with open(tokens, 'w') as file:
    json.dump([random.randrange(16000) for _ in range(400)], file)

  def logits(name, *flags, cgroup=None):
    out = f'{folder}/{name}.bin'
    subprocess.run([holdfast, 'logits', '--model', model, '--tokens', tokens, '--out', out, *flags],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   preexec_fn=cgroup.enter if cgroup else None)
    return out

  want = logits('mapped', '--expert-memory', 'all')
  forget(model)
  # 8M is one expert or two: every layer in hundreds of groups.
  for size, reader in ('300M', 'auto'), ('300M', 'pread'), ('8M', 'auto'):
    got = logits('tier', '--expert-memory', size, '--ngram-memory', '12M', '--expert-reader', reader, cgroup=cgroup)
    check(filecmp.cmp(want, got, shallow=False), f'logits with {size} of experts by {reader} differ')
    print(f'logits: same bits with {size} of experts ({reader})')

  prepare(holdfast, model, cgroup)
  got = logits('tier', '--expert-memory', '300M', cgroup=cgroup)
  check(filecmp.cmp(want, got, shallow=False), 'logits with prepared experts differ')
  print('logits: same bits with prepared experts')


def prepare(holdfast, model, cgroup):
  """Killed on its way, then to its end."""
  journal = model + '.experts.journal'
  killed = subprocess.Popen([holdfast, 'prepare', model], preexec_fn=cgroup.enter)
  while killed.poll() is None and not (os.path.exists(journal) and os.path.getsize(journal)):
    time.sleep(0.01)
  killed.kill()
  killed.wait()
  forget(model)
  run = subprocess.run([holdfast, 'prepare', model], check=True, stdout=subprocess.PIPE, text=True,
                       preexec_fn=cgroup.enter)
  print(run.stdout, end='')
  check('from before' in run.stdout or killed.returncode == 0, 'prepare began anew after it was killed')
  check(not os.path.exists(journal), 'prepare left its journal')
  forget(model)
  forget(model + '.experts')


def check_serve(holdfast, model, cgroup):
  prompts = [[random.randrange(16000) for _ in range(n)] for n in (5, 300, 700)]
  server = Server(holdfast, model, '--expert-memory', 'all')
  want = [server.complete(prompt) for prompt in prompts]
  server.end()
  forget(model)

  server = Server(holdfast, model, '--verify-weights', cgroup=cgroup)
  print(server.screen)
  check(', prepared' in server.screen, 'the prepared file was not read from')
  check('have the checksums of' in server.screen, 'the weights were not verified')
  plan = json.loads(server.get('/v1/status'))['plan']
  check(plan['expert_bytes'] > 0, 'everything was mapped: ' + json.dumps(plan))
  for prompt, reply in zip(prompts, want):
    got = server.complete(prompt)
    check(got == reply, f'a prompt of {len(prompt)}: got {got}, want {reply}')
  planned = plan['expert_bytes'] + plan['ngram_bytes'] + plan['scratch_bytes'] + plan['work_bytes'] + plan['cache_bytes']
  # Code, tables of the tokenizer and the allocator's own are not in the plan.
  check(cgroup.anonymous() <= planned + (64 << 20),
        f'{cgroup.anonymous()} anonymous bytes, {planned} were planned')
  metrics = server.get('/metrics')
  sums = {name: sum(float(v) for v in re.findall(rf'^holdfast_expert_{name}_total{{.*}} (\S+)', metrics, re.M))
          for name in ('hits', 'late', 'misses', 'read_bytes', 'stall_seconds')}
  check(sums['hits'] > 0 and sums['misses'] > 0, f'no use of the arena: {sums}')
  print(f'serve: same replies, {cgroup.anonymous() >> 20} MiB anonymous of {planned >> 20} planned; {sums}')

  os.utime(model)
  status, text = server.complete([7] * 9)
  check(status == 500 and os.path.basename(model) in text, f'the file was written to: {status} {text}')
  server.wait_for_restart()
  check(server.complete(prompts[1]) == want[1], 'the file loaded anew gives another reply')
  print('serve: a file that is written to is loaded anew')
  server.end()


def check_damaged(holdfast, model, cgroup):
  """The last one: it makes the file no model any more."""
  server = Server(holdfast, model, cgroup=cgroup)
  with open(model, 'r+b') as file:
    file.write(b'no model')
  status, text = server.complete([7] * 9)
  check(status == 500 and os.path.basename(model) in text, f'the file was written to: {status} {text}')
  out, _ = server.process.communicate(timeout=60)
  check(server.process.returncode == 1 and model in out, f'left with {server.process.returncode}: {out}')
  print('serve: a file that is no model any more is refused when it is loaded anew')


def main():
  holdfast = os.path.abspath(sys.argv[1])
  random.seed(3)
  with tempfile.TemporaryDirectory(prefix='holdfast_big_', dir='/var/tmp') as folder:
    model = folder + '/big.gguf'
    try:
      Cgroup(1 << 30).remove()
    except OSError as error:
      print(f'skipped: no memory cgroup can be made here ({error})')
      sys.exit(77)
    free = os.statvfs(folder)
    if free.f_bavail * free.f_frsize < 8 << 30:
      print(f'skipped: {folder} has less than 8 GiB free')
      sys.exit(77)
    subprocess.run([holdfast, 'synth', model, *SYNTH], check=True)
    size = os.path.getsize(model)
    limit = size // 3
    cgroup = Cgroup(limit)
    try:
      check_logits(holdfast, model, folder, cgroup)
      check_serve(holdfast, model, cgroup)
      check_damaged(holdfast, model, cgroup)
      check(cgroup.kills() == 0, 'something was killed for memory')
      print(f'a model of {size >> 20} MiB in {limit >> 20} MiB: nothing killed')
    finally:
      cgroup.remove()


main()
