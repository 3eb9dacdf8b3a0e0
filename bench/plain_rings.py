#!/usr/bin/python3
"""What plain TCP takes to send as much as a round of averaging does, from each member of a ring to the next.

    bench/plain_rings.py OWN NEXT CONNECTIONS BYTES REPEATS PAUSE

is one member: listens at OWN, connects to NEXT so many times, sends so many bytes over all of these while it receives as many,
so often, and so many seconds apart; prints the mean of the seconds.
"""

import socket
import subprocess
import sys
import threading
import time

from machines import outputs_of

PORT = 9000


def plain_seconds(pairs, count, repeats, connections=1, pause=0):
    """`pairs`: each machine and the next; of the slowest."""
    return max(float(output) for output in outputs_of([
        subprocess.Popen(own.command([sys.executable, __file__, own.host, after.host, connections, count, repeats, pause]),
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for own, after in pairs]))


def connected(address):
    while True:
        try:
            return socket.create_connection(address)
        except ConnectionRefusedError:
            time.sleep(0.05)


def receive(source, left):
    while left > 0:
        left -= len(source.recv(min(left, 1 << 20)))


def member(own, after, connections, count, repeats, pause):
    server = socket.create_server((own, PORT), backlog=64)
    outgoing = [connected((after, PORT)) for _ in range(connections)]
    incoming = [server.accept()[0] for _ in outgoing]
    part = count // connections
    seconds = 0
    for _ in range(repeats):
        time.sleep(pause)
        begin = time.monotonic()
        threads = [threading.Thread(target=to.sendall, args=(bytes(part),)) for to in outgoing]
        threads += [threading.Thread(target=receive, args=(source, part)) for source in incoming]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds += time.monotonic() - begin
    return seconds / repeats


if __name__ == "__main__":
    print(member(*sys.argv[1:3], *map(int, sys.argv[3:6]), float(sys.argv[6])))
