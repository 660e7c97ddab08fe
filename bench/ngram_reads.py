"""Cold n-gram rows of a prompt against the device's own random reads.

ngram_reads.py NGRAM_READS MODEL.gguf [TOKENS] [ROUNDS]: in turns, the program ngram_reads reads the rows of
TOKENS (2048) random tokens, and fio as many random 4 KiB reads of the same file at depth 32 (O_DIRECT, both).
Prints each round and the ratio of the least times. Make a model with a table larger than any cache on the way:
  holdfast synth big.gguf --preset flash-next --layers 4 --experts 16 --ngram-rows 2000000
"""
import json
import subprocess
import sys


def device_seconds(path, n_reads):
  out = subprocess.run(
      ['fio', '--name=rows', f'--filename={path}', '--readonly', '--rw=randread', '--bs=4k', '--direct=1',
       '--ioengine=io_uring', '--iodepth=32', f'--number_ios={n_reads}', '--norandommap', '--randrepeat=0',
       '--output-format=json'], check=True, stdout=subprocess.PIPE, text=True).stdout
  read = json.loads(out[out.index('{'):])['jobs'][0]['read']
  return read['runtime'] / 1000, read['total_ios']


def main():
  program, model = sys.argv[1:3]
  n_tokens = sys.argv[3] if len(sys.argv) > 3 else '2048'
  rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 5
  ours, device = [], []
  for _ in range(rounds):
    run = json.loads(subprocess.run([program, model, n_tokens], check=True, stdout=subprocess.PIPE).stdout)
    seconds, n_reads = device_seconds(run['file'], run['rows_read'])
    ours.append(run['seconds'])
    device.append(seconds)
    print(f'{run["rows_asked"]} rows asked, {run["rows_read"]} read by {run["reader"]} in {run["seconds"]:.3f} s; '
          f'fio: {n_reads} reads at depth 32 in {seconds:.3f} s', flush=True)
  print(f'least: {min(ours):.3f} s against {min(device):.3f} s, ratio {min(ours) / min(device):.2f}')


main()
