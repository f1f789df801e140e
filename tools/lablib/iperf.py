"""What a link carries for anybody: iperf3 between a lab's nodes."""

import json
import subprocess

from .error import LabError


def iperf(lab, link, seconds, write="128K"):
    """Payload bytes a second from alpha to beta, by one TCP connection, in writes of that size."""
    address = next(each for each in lab.state["links"] if each["name"] == link)
    with subprocess.Popen([*lab.inside("beta"), "iperf3", "-s", "-1", "--forceflush"],
                          stdout=subprocess.PIPE, text=True) as server:
        try:
            while "listening" not in server.stdout.readline():
                if server.poll() is not None:
                    raise LabError("iperf3 does not start; is it installed?")
            client = subprocess.run(
                [*lab.inside("alpha"), "iperf3", "-J", "-t", str(max(1, round(seconds))), "-O", "1", "-l", write,
                 "-c", address["beta"].rpartition(":")[0]],
                capture_output=True, text=True, check=False, timeout=seconds + 30)
        finally:
            server.kill()  # it may wait for a client that never came
    if client.returncode:
        raise LabError(f"iperf3 failed: {client.stdout[-500:]}")
    return json.loads(client.stdout)["end"]["sum_received"]["bits_per_second"] / 8
