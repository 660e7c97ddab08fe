#!/usr/bin/env python3
"""kill_loop.py HOLDFAST ROUNDS [SEED]: a server is killed with SIGKILL at random moments.

A client holds conversations with a server that saves every turn (--autosave turn). In most rounds the
server is killed while it reads, answers or saves; then it is started again. An oracle (a second server
that is never killed and keeps nothing) says what each reply must be. Checked in every round:
  - the server starts again, whatever the moment of the kill was;
  - a turn that was finished is reused up to its end after the restart, also when its reply comes back
    reformatted;
  - every reply is what the oracle says.
"""
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

QUESTIONS = [
    "My name is {0} and I live in Porto.", "What is my name?", "Spell the word harbour.",
    "Write these in reverse order: red, green, blue.", "My favourite number is {1}.", "What is my favourite number?",
    "Count from 1 to 9.", "Tell me a short story about a {0}.",
]
NAMES = ["Marta", "Jonas", "Elena", "Pavel", "Ines", "Tomas"]


class Server:
    def __init__(self, binary, *flags):
        self.process = subprocess.Popen([binary, "serve", "--port", "0", "--ctx", "4096", *flags],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.port = None
        for line in self.process.stdout:
            if line.startswith("listening on"):
                self.port = int(line.rsplit(":", 1)[1])
            if line.startswith("ready"):
                break
        else:
            raise RuntimeError(f"the server did not start (exit code {self.process.wait()})")
        # Nothing may block on a full pipe.
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def chat(self, messages):
        """The response, or None when the server went away."""
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
            connection.request("POST", "/v1/chat/completions", json.dumps(
                {"messages": messages, "max_tokens": 48, "temperature": 0}),
                {"Content-Type": "application/json"})
            response = connection.getresponse()
            body = json.loads(response.read())
        except (OSError, http.client.HTTPException, json.JSONDecodeError):
            return None
        if response.status != 200:
            raise RuntimeError(f"HTTP {response.status}: {body}")
        return body

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def main():
    binary, rounds = sys.argv[1], int(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(1 << 30)
    print(f"seed {seed}", flush=True)
    rng = random.Random(seed)
    kills = kills_in_reply = turns = reused_after_kill = 0
    with tempfile.TemporaryDirectory(prefix="holdfast_kill_") as directory:
        store = ["--store", os.path.join(directory, "store"), "--autosave", "turn"]
        oracle = Server(binary, "--store", "off")
        server = Server(binary, *store)
        messages, durable, restarted = [], 0, False
        for _ in range(rounds):
            if len(messages) > 14 or (messages and rng.random() < 0.1):
                messages, durable = [], 0
            question = rng.choice(QUESTIONS).format(rng.choice(NAMES), rng.randrange(100))
            asked = messages + [{"role": "user", "content": question}]
            expected = oracle.chat(asked)["choices"][0]["message"]["content"]
            timer = None
            if rng.random() < 0.7:
                timer = threading.Timer(rng.random() ** 2 * 0.6, server.kill)
                timer.start()
            response = server.chat(asked)
            if response is not None:
                turns += 1
                reply = response["choices"][0]["message"]["content"]
                assert reply == expected, f"{asked}: {reply!r}, the oracle says {expected!r}"
                reused = response["reuse"]["tokens_reused"]
                assert reused >= durable, f"{reused} tokens reused, {durable} were durable: {response['reuse']}; {asked[-3:]}"
                if restarted and durable > 0:
                    reused_after_kill += 1
                # Half of the clients bring a reply back with other space around it.
                back = reply if rng.random() < 0.5 else f"\n{reply} \r\n"
                messages = asked + [{"role": "assistant", "content": back}]
                usage = response["usage"]
                # The end token was never a row.
                durable = usage["prompt_tokens"] + usage["completion_tokens"] - 1
                restarted = False
            if timer is not None:
                timer.join()
                kills += 1
                kills_in_reply += response is None
                server = Server(binary, *store)
                restarted = True
        server.kill()
        oracle.kill()
    print(f"{rounds} rounds: {kills} kills, {kills_in_reply} of them during a request; {turns} turns "
          f"finished, {reused_after_kill} reused what the killed process had saved", flush=True)
    assert reused_after_kill > 0 and kills_in_reply > 0


if __name__ == "__main__":
    main()
