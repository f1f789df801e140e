"""Takes orders on port 9000: "LENGTH\\nSCRIPT", a connection each. Answers with what the script prints, then
"\\n\\0exit STATUS"."""

import os
import signal
import socket


def take(connection):
    head = b""
    while not head.endswith(b"\n"):
        head += connection.recv(1)
    script = b""
    while len(script) < int(head):
        script += connection.recv(int(head) - len(script))
    child = os.fork()
    if child == 0:
        os.setsid()
        null = os.open("/dev/null", os.O_RDONLY)
        for wanted, there in ((0, null), (1, connection.fileno()), (2, connection.fileno())):
            os.dup2(there, wanted)
        connection.close()
        os.execv("/bin/bash", ["bash", "-c", script])
    _, status = os.waitpid(child, 0)
    connection.sendall(b"\n\0exit %d" % os.waitstatus_to_exitcode(status))
    # What the script has left behind may hold the connection, and is not waited for.
    connection.shutdown(socket.SHUT_RDWR)


def main():
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    server = socket.create_server(("", 9000), backlog=20)
    while True:
        connection, _ = server.accept()
        # In the middle stands one whose end nobody waits for.
        if os.fork() == 0:
            if os.fork() == 0:
                server.close()
                take(connection)
            os._exit(0)
        connection.close()
        os.wait()


main()
