"""What the benchmarks of whole pools share: machines made on this one, each with its share of a core and its connection,
and jobs whose programs run on them.

Machines need root, cgroup v1 and the commands ip, tc and taskset; where one is missing, Skipped says which. Groups,
namespaces and processes are gone at the end of their contexts.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent

PATIENCE = 300  # seconds that a program may take, but for training
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
        self.host = address.split(":")[0]

    def command(self, arguments):
        return [str(argument) for argument in arguments]


class SmallMachine(Machine):
    """A network namespace with a connection of so many Mbit/s and, unless `share` is None, a control group with that share
    of a core."""

    # Quotas are dealt out anew so often that a stage sees a slower processor and no bursts: what a stage does in one
    # piece has to take several periods. A quota has at least 1 ms. Those of one processor add up to less than it,
    # so that none waits for another. Each node stays on one: of a group on several, a thread that hardly does
    # anything takes quota along to its processor, and the others wait for the next period. What else runs on this
    # machine gives way (PRIORITY, times that of any other), so that the share is there whoever wants the rest.
    PRIORITY = 100
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
        if self.share is None:
            return
        self.group.mkdir()
        (self.group / "cpu.shares").write_text(str(self.PRIORITY * 1024))
        (self.group / "cpu.cfs_period_us").write_text(str(self.PERIOD_US))
        (self.group / "cpu.cfs_quota_us").write_text(str(int(self.share * self.PERIOD_US)))

    def remove(self):
        subprocess.run(["ip", "netns", "del", self.name], stderr=subprocess.DEVNULL)
        subprocess.run(["ip", "link", "del", self.outside], stderr=subprocess.DEVNULL)
        with contextlib.suppress(OSError):
            self.group.rmdir()

    def command(self, arguments):
        if self.share is None:
            return ["ip", "netns", "exec", self.name, *super().command(arguments)]
        # The group first: a namespace has a /sys of its own.
        enter = f'echo $$ > {self.group}/tasks && exec taskset -c {self.processor} ip netns exec {self.name} "$@"'
        return ["sh", "-c", enter, "sh", *super().command(arguments)]


def run(command):
    done = subprocess.run(command.split(), capture_output=True, text=True)
    if done.returncode != 0:
        raise Skipped(f"{command}: {done.stderr.strip()}")


@contextlib.contextmanager
def small_machines(shares, rates):
    """Machines of these shares of a core (None: as much as there is) and rates, gone at the end."""
    if os.geteuid() != 0:
        raise Skipped("network namespaces need root")
    for program in ("ip", "tc", "taskset"):
        if shutil.which(program) is None:
            raise Skipped(f"there is no command {program}")
    if not (SmallMachine.GROUPS / "cpu.cfs_quota_us").exists() and not (SmallMachine.GROUPS / "tasks").exists():
        raise Skipped(f"there is no cgroup v1 at {SmallMachine.GROUPS}")
    bridge = f"rkbr{os.getpid() % 100000}"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that this one, too, takes what was made along
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
    """A node_data of its own, and the programs run in it. `settings` take the place of those of the walkthrough's
    train.json, `benchmarks` are what the pool says of each machine, and `threads` how many it has."""

    def __init__(self, folder, programs, machines, quiet, settings, benchmarks=None, threads=None):
        self.folder, self.programs, self.machines, self.quiet = folder, programs, machines, quiet
        self.threads = threads
        node_data = folder / "node_data"
        node_data.mkdir(parents=True)
        shutil.copytree(ROOT / "node_data" / "datasets", node_data / "datasets")
        base = json.loads((ROOT / "node_data" / "train.json").read_text())
        (node_data / "train.json").write_text(json.dumps(base | settings))
        pool = {
            str(i): {"IP": machine.address, "benchmarks": benchmarks[i] if benchmarks else {"ram": 1, "bandwidth": 1}}
            for i, machine in enumerate(machines)
        }
        for i, machine in enumerate(machines):
            if threads or isinstance(machine, SmallMachine):  # those of which share this machine's processors
                pool[str(i)]["threads"] = threads[i] if threads else 1
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

    def plan(self, *arguments):
        """plan.json, as clusterize writes it."""
        self.finish(Machine(""), "clusterize", *arguments)
        return json.loads((self.folder / "node_data" / "plan.json").read_text())

    def start_providers(self):
        # Given by hand: of nodes on one host a provider takes its share of the processors at most.
        threads = [["--threads", str(number)] for number in self.threads or []]
        return [self.start(machine, "provider", "--name", f"node_{i}", "--json", *(threads[i] if threads else []),
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE) for i, machine in enumerate(self.machines)]

    def train(self):
        """Of every node how its provider ended, as it tells programs: its role and times, each predicted and measured, and
        so on; and "wall_seconds" from the start of all providers to the end of the last."""
        return {end["node"]: end for end in train_together([self])}


def train_together(jobs):
    """The same of the nodes of several jobs, job by job, that train at the same time."""
    def once():
        begin = time.monotonic()
        outputs = outputs_of([process for job in jobs for process in job.start_providers()])
        seconds = time.monotonic() - begin
        return [json.loads(output.splitlines()[-1]) | {"wall_seconds": seconds} for output in outputs]
    return jobs[0].quiet.do(once)
