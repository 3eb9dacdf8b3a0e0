"""A terminal for tests: a pseudo-terminal, and what a person would see on it."""

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

from whole import PATIENCE

ESCAPE = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])")
BEGUN_ESCAPE = re.compile(r"\x1b(\[[0-9;]*)?$")
MARK = "\x1b[27m"  # shows nothing, and no program writes it


class Screen:
    """As much of a terminal as our programs need. Like most of today's, it breaks rows anew when it becomes
    narrower."""

    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.lines, self.row, self.column = [""], 0, 0  # all lines ever, those that have left the screen too
        self.wraps = 0  # lines that were too long
        self.begun = ""  # an escape sequence whose end is still to come

    def feed(self, text):
        text = self.begun + text
        begun = BEGUN_ESCAPE.search(text)
        self.begun = begun[0] if begun else ""
        text = text.removesuffix(self.begun)
        at = 0
        while at < len(text):
            escape = ESCAPE.match(text, at)
            if escape:
                self.obey(escape[2], int(escape[1] or 1) if escape[2] != "m" else 0)
                at = escape.end()
                continue
            self.put(text[at])
            at += 1

    def put(self, character):
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self.next_row()
        else:
            if self.column == self.columns:
                self.wraps += 1
                self.column = 0
                self.next_row()
            line = self.lines[self.row].ljust(self.column)
            self.lines[self.row] = line[: self.column] + character + line[self.column + 1 :]
            self.column += 1

    def next_row(self):
        self.row += 1
        if self.row == len(self.lines):
            self.lines.append("")

    def obey(self, command, number):
        if command == "A":
            self.row = max(self.row - number, self.top())
        elif command == "K":
            self.lines[self.row] = self.lines[self.row][: self.column]
        elif command == "J":
            self.lines[self.row] = self.lines[self.row][: self.column]
            del self.lines[self.row + 1 :]
        elif command != "m":
            raise AssertionError(f"ESC [ {command} is not known here")

    def top(self):
        return max(0, len(self.lines) - self.rows)

    def resize(self, columns):
        lines, row = [], 0
        for number, line in enumerate(self.lines):
            pieces = [line[i : i + columns] for i in range(0, len(line), columns)] or [""]
            if number == self.row:
                row = len(lines) + min(self.column // columns, len(pieces) - 1)
            lines += pieces
        self.lines, self.row, self.column, self.columns = lines, row, self.column % columns, columns

    def shown(self):
        """Lines that are not empty."""
        return [line.rstrip() for line in self.lines if line.strip()]


class TerminalProcess:
    """A command that has a terminal of its own."""

    def __init__(self, arguments, cwd, columns=80, rows=24):
        self.screen, self.raw, self.drawn = Screen(columns, rows), "", 0
        self.ours, theirs = pty.openpty()
        self.name = os.ttyname(theirs)
        self.decoder = codecs.getincrementaldecoder("utf-8")()
        self.set_size(columns)

        def take_terminal():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.popen = subprocess.Popen(
            [str(argument) for argument in arguments], cwd=cwd, stdin=theirs, stdout=theirs, stderr=theirs,
            preexec_fn=take_terminal, env={**os.environ, "TERM": "xterm"},
        )
        os.close(theirs)

    def set_size(self, columns):
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", self.screen.rows, columns, 0, 0))

    def resize(self, columns):
        """Between two drawings: what was drawn for the width before and is shown at the new one leaves rows behind, on
        any terminal. After a drawing the command waits for longer than it takes to stop it; what it has written by
        then is all there once a mark comes that was written after it."""
        self.redraws(1)
        self.popen.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.popen.pid, os.WSTOPPED)
        theirs = os.open(self.name, os.O_WRONLY | os.O_NOCTTY)
        os.write(theirs, MARK.encode())
        self.read_until(lambda: self.raw.endswith(MARK), "mark")
        self.set_size(columns)
        self.screen.resize(columns)
        os.close(theirs)
        self.popen.send_signal(signal.SIGCONT)

    def read(self, seconds):
        """Shows what comes within this time at most; False once the command has closed its terminal."""
        if not select.select([self.ours], [], [], seconds)[0]:
            return True
        try:
            block = os.read(self.ours, 1 << 16)
        except OSError:
            return False
        text = self.decoder.decode(block)
        self.raw += text
        self.drawn = self.raw.count("\x1b[J")
        self.screen.feed(text)
        return True

    def read_until(self, condition, what):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > deadline or not self.read(0.1):
                raise AssertionError(f"no {what} came:\n" + "\n".join(self.screen.shown()))

    def redraws(self, count):
        """Goes on until its lines have been drawn so many times more."""
        last = self.drawn + count
        self.read_until(lambda: self.drawn >= last, "redrawing")

    def wait(self):
        """Reads to the end; its exit code as a shell gives it."""
        deadline = time.monotonic() + PATIENCE
        while self.read(0.1):
            if time.monotonic() > deadline:
                raise AssertionError("it still runs:\n" + "\n".join(self.screen.shown()))
        code = self.popen.wait(PATIENCE)
        return 128 - code if code < 0 else code

    def hang_up(self):
        os.close(self.ours)
        self.ours = -1

    def close(self):
        if self.popen.poll() is None:
            self.popen.kill()
            self.popen.wait()
        if self.ours >= 0:
            os.close(self.ours)
