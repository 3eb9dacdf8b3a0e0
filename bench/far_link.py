#!/usr/bin/python3
"""What part of a fast link over a long way tensors use, by the number of connections that they travel over.

    bench/far_link.py [--rate MBPS] [--latency-ms MS] [--connections 1,2,…] [--seconds S] [--build DIR]

Two network namespaces, each with a TUN device, and a process between them that hands every packet on after --latency-ms, at
--rate Mbit/s; needs root. All else is as the kernel has it, sizes of the sockets' buffers above all. Tensors of 16 and 100 MiB go
one way, so many of them at once as fill it twice. Prints Mbit/s of the tensors by those of the link, whose packets have headers
of 52 bytes in 9000, and the same of a plain TCP connection. Ends with 1 where the number of connections that clusterize
plans uses less than 95 %.
"""

import argparse
import collections
import contextlib
import ctypes
import fcntl
import json
import math
import multiprocessing
import os
import pathlib
import select
import struct
import subprocess
import sys
import tempfile
import time

from machines import ROOT, Machine, Skipped, run

BAR = 0.95
MTU = 9000
CLONE_NEWNET = 0x40000000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x1, 0x1000

# Sends for so many seconds, or receives, and prints the Mbit/s of the last three quarters.
PLAIN = """
import socket, sys, time
role, host, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
if role == "send":
    to = socket.create_connection((host, 9000))
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        to.sendall(bytes(1 << 20))
else:
    server = socket.create_server((host, 9000))
    print("ready", flush=True)
    source = server.accept()[0]
    begin, count, from_time, buffer = time.monotonic(), 0, None, bytearray(1 << 20)
    while got := source.recv_into(buffer):
        now = time.monotonic()
        if from_time is not None:
            count, last = count + got, now
        elif now - begin > seconds / 4:
            from_time = now
    print(8e-6 * count / (last - from_time))
"""


class Side(Machine):
    """A namespace and the TUN device in it, whose packets `descriptor` reads and writes."""

    def __init__(self, index):
        self.name = f"rookery{os.getpid()}f{index}"
        super().__init__(f"10.78.0.{index + 1}:8080")

    def make(self):
        run(f"ip netns add {self.name}")
        self.descriptor = self.open_tun()
        for command in (f"addr add {self.host}/24 dev far0", f"link set far0 mtu {MTU} up", "link set lo up"):
            run(f"ip -n {self.name} {command}")
        run(f"ip -n {self.name} link set far0 txqueuelen 10000")

    def open_tun(self):
        """A device belongs to the namespace of the thread that makes it."""
        libc = ctypes.CDLL(None, use_errno=True)
        with open("/proc/self/ns/net") as home, open(f"/run/netns/{self.name}") as there:
            if libc.setns(there.fileno(), CLONE_NEWNET) != 0:
                raise Skipped(f"setns: {os.strerror(ctypes.get_errno())}")
            try:
                descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
                fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH", b"far0", IFF_TUN | IFF_NO_PI))
            except OSError as error:
                raise Skipped(f"/dev/net/tun: {error}") from error
            finally:
                libc.setns(home.fileno(), CLONE_NEWNET)
        return descriptor

    def remove(self):
        subprocess.run(["ip", "netns", "del", self.name], stderr=subprocess.DEVNULL)

    def command(self, arguments):
        return ["ip", "netns", "exec", self.name, *super().command(arguments)]


class Way:
    """One direction: packets leave one after the other at the rate, and arrive so much later."""

    MOST_QUEUED = 0.1  # seconds of the link that wait to leave; what comes on top is dropped, as routers do

    def __init__(self, source, target, rate_mbps, latency):
        self.source, self.target, self.latency = source, target, latency
        self.seconds_per_byte = 8e-6 / rate_mbps
        self.free_at = 0.0
        self.under_way = collections.deque()

    def take(self):
        with contextlib.suppress(BlockingIOError):
            for _ in range(64):
                packet = os.read(self.source, MTU + 64)
                now = time.monotonic()
                if self.free_at - now > self.MOST_QUEUED:
                    continue
                self.free_at = max(self.free_at, now) + len(packet) * self.seconds_per_byte
                self.under_way.append((self.free_at + self.latency, packet))

    def deliver(self):
        now = time.monotonic()
        while self.under_way and self.under_way[0][0] <= now:
            with contextlib.suppress(BlockingIOError, OSError):
                os.write(self.target, self.under_way[0][1])
            self.under_way.popleft()

    def due(self):
        return self.under_way[0][0] if self.under_way else math.inf


def forward(sides, rate_mbps, latency):
    one, other = (side.descriptor for side in sides)
    ways = {one: Way(one, other, rate_mbps, latency), other: Way(other, one, rate_mbps, latency)}
    while True:
        wait = min(way.due() for way in ways.values()) - time.monotonic()
        for descriptor in select.select(list(ways), [], [], max(0.0, min(wait, 1.0)))[0]:
            ways[descriptor].take()
        for way in ways.values():
            way.deliver()


@contextlib.contextmanager
def far_sides(rate_mbps, latency):
    if os.geteuid() != 0:
        raise Skipped("network namespaces need root")
    sides = [Side(0), Side(1)]
    forwarder = None
    try:
        for side in sides:
            side.make()
        forwarder = multiprocessing.get_context("fork").Process(
            target=forward, args=(sides, rate_mbps, latency), daemon=True)
        forwarder.start()
        yield sides
    finally:
        if forwarder is not None:
            forwarder.kill()
        for side in sides:
            side.remove()


def plain_mbps(sides, seconds):
    receiver = subprocess.Popen(sides[1].command([sys.executable, "-c", PLAIN, "receive", sides[1].host, seconds]),
                                stdout=subprocess.PIPE, text=True)
    receiver.stdout.readline()
    subprocess.run(sides[0].command([sys.executable, "-c", PLAIN, "send", sides[1].host, seconds]), check=True)
    return float(receiver.communicate()[0])


def tensors_mbps(options, sides, connections, mib):
    count = max(8, round(options.seconds * options.rate / 8.4 / mib))
    under_way = 125 * options.rate * 2 * options.latency_ms  # bytes, of a full way there and back
    at_once = 2 + math.ceil(2 * under_way / (mib << 20))
    addresses = ",".join(side.address for side in sides)
    command = [options.build.resolve() / "bin" / "far_link", "--addresses", addresses, "--connections", connections,
               "--mib", mib, "--at-once", at_once, "--count", count, "--rank"]
    processes = [subprocess.Popen(side.command([*command, rank]), stdout=subprocess.PIPE, text=True)
                 for rank, side in enumerate(sides)]
    outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode != 0 for process in processes):
        sys.exit(f"far_link ended with {[process.returncode for process in processes]}")
    return float(outputs[1])


def planned_connections(options, sides):
    """What clusterize plans for two nodes with such a link."""
    benchmarks = {"ram": 8, "bandwidth": options.rate}
    pool = {str(i): {"IP": side.address, "benchmarks": benchmarks} for i, side in enumerate(sides)}
    pool["network"] = {"default": {"latency_ms": options.latency_ms, "bandwidth_mbps": options.rate}}
    with tempfile.TemporaryDirectory(prefix="rookery-far-") as folder:
        node_data = pathlib.Path(folder) / "node_data"
        node_data.mkdir()
        (node_data / "node_configs.json").write_text(json.dumps(pool))
        (node_data / "train.json").write_text((ROOT / "node_data" / "jobs" / "sorter.json").read_text())
        subprocess.run([options.build.resolve() / "bin" / "clusterize", "--clusters", "1", "--min-nodes-per-cluster", "2"],
                       cwd=folder, check=True, capture_output=True)
        [between] = json.loads((node_data / "plan.json").read_text()).get("connections", [{"connections": 1}])
    return between["connections"]


def measure(options):
    reached = []
    with far_sides(options.rate, options.latency_ms / 1e3) as sides:
        planned = planned_connections(options, sides)
        print(f"{options.rate:g} Mbit/s, {options.latency_ms:g} ms one way; planned: {planned} connections\n")
        print("| connections | tensors of 16 MiB | of 100 MiB |\n|---|---|---|")
        for connections in sorted({*options.connections, planned}):
            shares = [tensors_mbps(options, sides, connections, mib) / options.rate for mib in (16, 100)]
            if connections == planned:
                reached = shares
            print(f"| {connections} | {shares[0]:.1%} | {shares[1]:.1%} |", flush=True)
        print(f"\na plain TCP connection: {plain_mbps(sides, options.seconds) / options.rate:.1%}")
    return min(reached) >= BAR


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=1000)
    parser.add_argument("--latency-ms", type=float, default=100, help="one way")
    parser.add_argument("--connections", type=lambda text: [int(part) for part in text.split(",")], default=[1, 4, 8])
    parser.add_argument("--seconds", type=float, default=20, help="of each stream, about")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="build folder")
    options = parser.parse_args()
    try:
        sys.exit(0 if measure(options) else 1)
    except Skipped as why:
        sys.exit(f"skipped: {why}")


if __name__ == "__main__":
    main()
