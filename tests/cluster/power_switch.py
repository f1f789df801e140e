"""Where the hosts' fence agents turn to: a socket that all of them see. Cuts a host's power, once; whoever asked before
the other one lives."""

import socket
import threading
import time


class PowerSwitch:
    """`hosts` by name. What it did is in `log`: (seconds, action, host)."""

    def __init__(self, path, hosts):
        self.path = str(path)
        self.log = []
        self._hosts = hosts
        self._lock = threading.Lock()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(self.path)
        self._socket.listen(8)
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self):
        self._socket.close()

    def _serve(self):
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection):
        with connection:
            words = connection.makefile().readline().split()
            answer = self.act(*words) if len(words) == 2 else "ok"
            try:
                connection.sendall((answer + "\n").encode())
            except OSError:
                pass  # who asked was cut off meanwhile

    def act(self, action, name):
        host = self._hosts.get(name)
        if host is None:
            return "no such host"
        with self._lock:
            if action in ("off", "reboot"):
                self.log.append((time.monotonic(), "off", name))
                host.cut()
                return "ok"
            if action == "status":
                return "on" if host.alive else "off"
            return "ok"
