#!/usr/bin/python3
"""Compares what clusterize predicts of a training step with what the providers then measure.

    bench/predicted_steps.py [--pools walkthrough,unequal] [--bar PERCENT] [--rounds N] [--seconds S] [--quiet PERCENT]
                             [--build DIR]

  walkthrough   the pool and the job of the README: three providers on this machine, over loopback
  unequal       five providers with unequal shares of a core (control groups) in network namespaces whose connections
                are unequal (tbf), training VGG-11 on computed images; needs root, cgroup v1 and the ip and tc commands,
                and is skipped with a reason where it may not

Nothing is guessed: for each pool, node_benchmark writes node_configs.json, every node in its own surroundings;
clusterize --profile plans; the providers train, and tell what was predicted and what they measured. All that follows
each other round by round, because a machine's speed changes from minute to minute. Prints a table of the round with
the median step for bench/README.md, and the steps of all rounds. Exits with 1 when the median step is off by more than
the bar. The machine has to be idle. The host of a virtual machine has others as well, and takes processors away for
them: what was measured or trained while more than --quiet percent were gone is done once more, and counted at the end.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "whole"))
from whole import free_ports  # noqa: E402

PATIENCE = 300  # seconds that a program may take
TRIES = 50  # to find the machine quiet


class Skipped(Exception):
    """Why a pool cannot be measured here."""


class Quiet:
    """Does things once more that were disturbed."""

    def __init__(self, percent):
        self.percent, self.done, self.thrown_away = percent, 0, 0

    def do(self, action):
        """What `action` tells, dicts that say what was "stolen" meanwhile, of a time when little was."""
        for _ in range(TRIES):
            told = action()
            self.done += 1
            if max(each["stolen"] for each in told) <= self.percent / 100:
                return told
            self.thrown_away += 1
        raise RuntimeError(f"this machine's host takes more than {self.percent:g} % of its processors' time away, "
                           f"{TRIES} times in a row: try another hour or, with less trust, --quiet PERCENT")


class Machine:
    """Where a node runs. This one: no more than this machine."""

    def __init__(self, address):
        self.address = address

    def command(self, arguments):
        return [str(argument) for argument in arguments]


class SmallMachine(Machine):
    """A network namespace with a connection of so many Mbit/s, and a control group with a share of a core."""

    # Quotas are dealt out anew so often that a stage sees a slower processor and no bursts: what a stage does in one
    # piece has to take several periods. A quota has at least 1 ms. Those of one processor add up to less than it,
    # so that none waits for another. Each node stays on one: of a group on several, a thread that hardly does
    # anything takes quota along to its processor, and the others wait for the next period.
    PERIOD_US = 10_000
    GROUPS = pathlib.Path("/sys/fs/cgroup/cpu")

    def __init__(self, index, share, mbps, bridge):
        super().__init__(f"10.77.0.{index + 1}:8080")
        self.name = f"rookery{os.getpid()}n{index}"
        self.outside = f"rk{os.getpid() % 100000}v{index}"
        self.group = self.GROUPS / self.name
        self.share, self.mbps, self.bridge, self.index = share, mbps, bridge, index
        processors = sorted(os.sched_getaffinity(0))
        self.processor = processors[index % len(processors)]

    def make(self):
        shape = f"tbf rate {self.mbps}mbit burst 64kb latency 50ms"
        run(f"ip netns add {self.name}")
        run(f"ip link add {self.outside} type veth peer name eth0 netns {self.name}")
        run(f"ip link set {self.outside} master {self.bridge} up")
        run(f"tc qdisc replace dev {self.outside} root {shape}")
        inside = f"ip netns exec {self.name}"
        run(f"{inside} ip addr add 10.77.0.{self.index + 1}/24 dev eth0")
        run(f"{inside} ip link set eth0 up")
        run(f"{inside} ip link set lo up")
        run(f"{inside} tc qdisc replace dev eth0 root {shape}")
        self.group.mkdir()
        (self.group / "cpu.cfs_period_us").write_text(str(self.PERIOD_US))
        (self.group / "cpu.cfs_quota_us").write_text(str(int(self.share * self.PERIOD_US)))

    def remove(self):
        subprocess.run(["ip", "netns", "del", self.name], stderr=subprocess.DEVNULL)
        subprocess.run(["ip", "link", "del", self.outside], stderr=subprocess.DEVNULL)
        with contextlib.suppress(OSError):
            self.group.rmdir()

    def command(self, arguments):
        # The group first: a namespace has a /sys of its own.
        enter = f'echo $$ > {self.group}/tasks && exec taskset -c {self.processor} ip netns exec {self.name} "$@"'
        return ["sh", "-c", enter, "sh", *super().command(arguments)]


def run(command):
    done = subprocess.run(command.split(), capture_output=True, text=True)
    if done.returncode != 0:
        raise Skipped(f"{command}: {done.stderr.strip()}")


@contextlib.contextmanager
def small_machines(shares, rates):
    """Machines of these shares of a core and rates, gone at the end."""
    if os.geteuid() != 0:
        raise Skipped("network namespaces need root")
    for program in ("ip", "tc", "taskset"):
        if shutil.which(program) is None:
            raise Skipped(f"there is no command {program}")
    if not (SmallMachine.GROUPS / "cpu.cfs_quota_us").exists() and not (SmallMachine.GROUPS / "tasks").exists():
        raise Skipped(f"there is no cgroup v1 at {SmallMachine.GROUPS}")
    bridge = f"rkbr{os.getpid() % 100000}"
    machines = [SmallMachine(i, share, rate, bridge) for i, (share, rate) in enumerate(zip(shares, rates))]
    try:
        run(f"ip link add {bridge} type bridge")
        run(f"ip link set {bridge} up")
        for machine in machines:
            machine.make()
        yield machines
    finally:
        for machine in machines:
            machine.remove()
        subprocess.run(["ip", "link", "del", bridge], stderr=subprocess.DEVNULL)


@contextlib.contextmanager
def running(processes):
    """Ends those that still run, each by its id."""
    try:
        yield processes
    finally:
        for process in processes:
            if process.poll() is None:
                process.terminate()
        for process in processes:
            process.wait()


def outputs_of(processes):
    """What programs that run at the same time put out; RuntimeError with all that one says which fails."""
    with running(processes):
        ends = [process.communicate(timeout=PATIENCE) for process in processes]
    for process, (output, errors) in zip(processes, ends):
        if process.returncode != 0:
            raise RuntimeError(f"{process.args} ended with {process.returncode}\n{output}{errors}")
    return [output for output, _ in ends]


class Job:
    """A node_data of its own, and the programs run in it."""

    def __init__(self, folder, programs, machines, quiet, settings):
        self.folder, self.programs, self.machines, self.quiet = folder, programs, machines, quiet
        node_data = folder / "node_data"
        (node_data / "datasets").mkdir(parents=True)
        shutil.copy(ROOT / "node_data" / "datasets" / "digits.csv.gz", node_data / "datasets")
        base = json.loads((ROOT / "node_data" / "train.json").read_text())
        (node_data / "train.json").write_text(json.dumps(base | settings))
        pool = {
            str(i): {"IP": machine.address, "benchmarks": {"ram": 1, "bandwidth": 1}}
            for i, machine in enumerate(machines)
        }
        self.pool = node_data / "node_configs.json"
        self.pool.write_text(json.dumps(pool))

    def start(self, machine, *arguments, **options):
        command = machine.command([self.programs / arguments[0], *arguments[1:]])
        return subprocess.Popen(command, cwd=self.folder, text=True, **options)

    def finish(self, machine, *arguments):
        return outputs_of([self.start(machine, *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)])[0]

    def finish_together(self, arguments_of):
        """On every machine at the same time."""
        return outputs_of([self.start(machine, *arguments_of(i), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                           for i, machine in enumerate(self.machines)])

    def measure(self, seconds, share_processors):
        """node_configs.json as node_benchmark measures it; speeds of nodes that share processors at the same time."""
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        servers = [self.start(m, "node_benchmark", "--serve", m.address, **silent) for m in self.machines]
        with running(servers):
            for i, machine in enumerate(self.machines):
                [found] = self.quiet.do(lambda: [json.loads(self.finish(
                    machine, "node_benchmark", "--write", self.pool, "--node", str(i), "--seconds", str(seconds),
                    "--wait", "10", "--json"))])
                if found["unreachable"]:
                    raise RuntimeError(f"node_{i}: {found['unreachable']}")
                print(f"node_{i}: {found['gflops']:.1f} GFLOP/s", *(
                    f"node_{other}: {link['latency_ms']:.2f} ms {link['to_mbps']:.0f}/{link['from_mbps']:.0f} Mbit/s"
                    for other, link in found["links"].items()), sep="  ", file=sys.stderr)
        if share_processors:
            found = self.quiet.do(lambda: [json.loads(output) for output in self.finish_together(
                lambda i: ["node_benchmark", "--write", self.pool, "--node", str(i), "--no-links", "--seconds",
                           str(8 * seconds), "--json"])])
            print("at the same time:", *(f"{node['gflops']:.1f}" for node in found), "GFLOP/s", file=sys.stderr)

    def train(self):
        """Of every node: its role and times, each predicted and measured."""
        ends = self.quiet.do(lambda: [json.loads(output.splitlines()[-1]) for output in self.finish_together(
            lambda i: ["provider", "--name", f"node_{i}", "--json"])])
        return {end["node"]: end for end in ends}


def rounds_of(job, options, plan_arguments, share_processors=False):
    """What train() tells, of every round."""
    for _ in range(options.rounds):
        job.measure(options.seconds, share_processors)
        plan = job.finish(Machine(""), "clusterize", "--profile", *plan_arguments)
        print(plan.strip().splitlines()[-2], file=sys.stderr)
        yield job.train()


def walkthrough(folder, programs, quiet, options):
    machines = [Machine(f"127.0.0.1:{port}") for port in free_ports(3)]
    arguments = ["--clusters", "1", "--min-nodes-per-cluster", "3"]
    yield from rounds_of(Job(folder, programs, machines, quiet, {}), options, arguments)


def unequal(folder, programs, quiet, options):
    settings = {"model": "vgg11?image_size=32&classes=10&hidden=0", "data": "shapes?samples=2560",
                "loss": "cross_entropy", "train_fraction": 1, "epochs": 1, "batch_size": 128, "micro_batches": 4,
                "validate_every": 0}
    with small_machines([0.5, 0.45, 0.3, 0.3, 0.15], [400, 300, 200, 100, 50]) as machines:
        arguments = ["--clusters", "1", "--min-nodes-per-cluster", "5"]
        job = Job(folder, programs, machines, quiet, settings)
        yield from rounds_of(job, options, arguments, share_processors=True)


def off(nodes):
    """By how much the step is, of the node where that is the most."""
    steps = [end["times"]["step_ms"] for end in nodes.values()]
    return max((step["measured"] / step["predicted"] - 1 for step in steps), key=abs)


def print_table(pool, nodes):
    for node, end in sorted(nodes.items()):
        for name, time in end["times"].items():
            part_off = f"{100 * (time['measured'] / time['predicted'] - 1):+.0f} %" if time["predicted"] > 0 else ""
            print(f"| {pool} | {node} {end['role']} | {name.removesuffix('_ms')} | {time['predicted']:.3f} ms | "
                  f"{time['measured']:.3f} ms | {part_off} |")


def main():
    pools = {"walkthrough": walkthrough, "unequal": unequal}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pools", default=",".join(pools), help="which, of walkthrough and unequal")
    parser.add_argument("--bar", type=float, default=15, help="percent that a step may be off")
    parser.add_argument("--rounds", type=int, default=5, help="of measuring speeds, planning and training")
    parser.add_argument("--seconds", type=float, default=1, help="of node_benchmark, for each node and link")
    parser.add_argument("--quiet", type=float, default=3, help="percent of processor time that the host may take away")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="build folder")
    options = parser.parse_args()
    missed = []
    print("| pool | node | part | predicted | measured | off |\n|---|---|---|---|---|---|")
    for pool in options.pools.split(","):
        quiet = Quiet(options.quiet)
        with tempfile.TemporaryDirectory(prefix="rookery-predicted-") as folder:
            try:
                rounds = list(pools[pool](pathlib.Path(folder), options.build.resolve() / "bin", quiet, options))
            except Skipped as reason:
                print(f"skipped {pool}: {reason}", file=sys.stderr)
                continue
        rounds.sort(key=off)
        median = rounds[len(rounds) // 2]
        print_table(pool, median)
        steps = ", ".join(f"{100 * off(nodes):+.0f} %" for nodes in rounds)
        print(f"{pool}: the step is off by {steps}", file=sys.stderr)
        print(f"{pool}: of {quiet.done} measurements and trainings {quiet.thrown_away} do not count: the host took more "
              f"than {options.quiet:g} % of the processor time away", file=sys.stderr)
        if abs(100 * off(median)) > options.bar:
            missed.append(pool)
    if missed:
        print(f"off by more than {options.bar:g} %: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
