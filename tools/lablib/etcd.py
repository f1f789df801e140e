"""An etcd of one member, through its HTTP gateway: how it is started, and what stands in it.

Run as a program it carries one request from standard input to the URL that it is given, for those whose etcd
is in another network namespace."""

import base64
import json
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

CLIENT_PORT = 2379  # in a namespace, where every port is free
PEER_PORT = 2380
CALL_S = 10.0


class EtcdError(Exception):
    """It answered with an error, or not at all."""


def exchange(url, body, timeout_s, token=""):
    """The body of the answer, an error's too. Past any proxy that the environment names."""
    headers = {"Content-Type": "application/json", **({"Authorization": token} if token else {})}
    request = urllib.request.Request(url, body, headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=timeout_s) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.read().decode()


def find():
    """The program; None where it is not installed."""
    return shutil.which("etcd") or shutil.which("/usr/sbin/etcd")


def command(listen, advertised, peer, data, args):
    """The words that run it; `listen`, `advertised` and `peer` are HOST:PORT. Elections are for clusters: what
    one member waits for before it elects itself is short."""
    return [find() or "etcd", "--name", "lab", "--data-dir", str(data),
            "--listen-client-urls", f"http://{listen}", "--advertise-client-urls", f"http://{advertised}",
            "--listen-peer-urls", f"http://{peer}", "--initial-advertise-peer-urls", f"http://{peer}",
            "--initial-cluster", f"lab=http://{peer}", "--heartbeat-interval", "50", "--election-timeout", "500",
            "--logger", "zap", *args]


class Etcd:
    """Asks it. `inside`: the words before a command that is to run where it listens (none: here). With
    authentication, `token` is what login() gave."""

    def __init__(self, address, inside=()):
        self.url = f"http://{address}"
        self.inside = list(inside)
        self.token = ""

    def call(self, path, timeout_s=CALL_S, **body):
        """Of the gateway, e.g. call("v3/kv/range", key=…); the answer's object."""
        text = json.dumps(body).encode()
        try:
            answer = self._carry(f"{self.url}/{path}", text, timeout_s)
            reply = json.loads(answer)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise EtcdError(f"{self.url}/{path}: {error}") from error
        if "error" in reply:
            raise EtcdError(f"{path}: {reply['error']}")
        return reply

    def _carry(self, url, text, timeout_s):
        if not self.inside:
            return exchange(url, text, timeout_s, self.token)
        words = [*self.inside, sys.executable, str(Path(__file__).resolve()), url, str(timeout_s), self.token]
        done = subprocess.run(words, input=text, capture_output=True, check=False, timeout=2 * timeout_s)
        if done.returncode:
            raise OSError(done.stderr.decode(errors="replace").strip().rpartition("\n")[2])
        return done.stdout.decode()

    def wait_answers(self, alive, timeout_s):
        """Until it serves clients, also with alarms, or with authentication; EtcdError when it ended, or did not
        come up in time."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                self.call("v3/maintenance/status")
                return
            except EtcdError as error:
                if not alive() or time.monotonic() > deadline:
                    raise EtcdError(f"etcd {'did not come up' if alive() else 'ended'}: {error}") from error
            time.sleep(0.02)

    def login(self, user, password):
        self.token = ""
        self.token = self.call("v3/auth/authenticate", name=user, password=password)["token"]

    def entries(self, prefix):
        """What stands below `prefix`: key -> value, as text."""
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        found = self.call("v3/kv/range", key=_encoded(prefix), range_end=_encoded(end)).get("kvs", [])
        return {_decoded(each["key"]): _decoded(each.get("value", "")) for each in found}

    def put(self, key, value):
        self.call("v3/kv/put", key=_encoded(key), value=_encoded(value))

    def delete(self, key):
        self.call("v3/kv/deleterange", key=_encoded(key))


def _encoded(text):
    return base64.b64encode(text.encode()).decode()


def _decoded(text):
    return base64.b64decode(text).decode(errors="replace")


def main(url, timeout_s, token):
    try:
        print(exchange(url, sys.stdin.buffer.read(), float(timeout_s), token))
    except OSError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(*sys.argv[1:])
