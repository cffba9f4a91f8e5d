"""Writes a log of one JSON object per line: the records that assay/log/log_writer.h writes, byte for byte."""

import datetime
import fcntl
import os
import stat
import threading
import weakref
from math import prod

import numpy as np

from .arrays import as_array, as_rows, type_name
from .contents import contents
from .coordinates import MOST, MOST_RANKS, check_rank, coordinates, dims_member, sequence_name, whole
from .numbers import text

DEFAULT_VALUES = 10


class LogError(Exception):
    """What went wrong with a log, where, and what to do."""


def _numbers(tokens):
    """JSON array of token ids; ValueError if one is no whole number, which int() would round."""
    ids = []
    for token in tokens:
        number = whole(token, least=-MOST)
        if number is None:
            raise ValueError(f"the token {token!r} is not a whole number")
        ids.append(str(number))
    return f'[{",".join(ids)}]'


_writers = weakref.WeakSet()


def _renew_locks():
    """A thread that logged while another called fork() does not exist in the child and would keep its lock."""
    for writer in _writers:
        writer._lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_locks)


class LogWriter:
    """A log of checkpoints.

    A record is written, by one write, before the call that logs it returns: exit, abort or a kill loses no finished
    record and tears at most the last line. Calls may come from several threads, and from a child of fork(), which goes
    on with the same file.

    values: how many leading values a record holds, or None or "all". sketch brings the summary with it. sketch_digits
    shortens the 64 numbers of a sketch, for fixtures that must stay small; None prints them so that they read back
    to the same bits. times: each record says when it was logged, so no two runs write the same bytes. rank: of the
    process that logs, for each record that names no other, such as {"tp": 1}.
    """

    def __init__(
        self,
        path,
        team="",
        values=DEFAULT_VALUES,
        summary=True,
        sketch=False,
        sketch_digits=None,
        times=False,
        rank=None,
    ):
        values = None if values == "all" else values
        if values is not None and whole(values) is None:
            raise LogError(f"{path}: {values} is not a count of values; give a whole number of 0 or more, or 'all'")
        self.path = os.fspath(path)
        try:
            check_rank(rank)
        except ValueError as error:
            raise LogError(f"{self.path}: {error}") from error
        self.rank = rank
        self.team, self.values, self.times = team, values, times
        self.summary, self.sketch, self.sketch_digits = summary or sketch, sketch, sketch_digits
        self._lock = threading.Lock()
        self._size = 0  # bytes of whole records, as far as this process knows
        self._ours = 0  # of those, what the process that opened the log wrote
        self._failure = None
        self._fd = None
        self._open()
        _writers.add(self)

    def _open(self):
        try:
            self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise LogError(f"{self.path}: cannot open the log for writing: {error.strerror}") from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._regular = stat.S_ISREG(os.fstat(self._fd).st_mode)
            if self._regular:  # only after taking the lock: otherwise another writer's records would be erased
                os.ftruncate(self._fd, 0)
        except BlockingIOError as error:
            os.close(self._fd)
            raise LogError(
                f"{self.path}: another writer, or a child of fork() that logged to it, has this log open; give each "
                "running engine a log of its own"
            ) from error
        except OSError as error:
            os.close(self._fd)
            raise LogError(f"{self.path}: cannot empty the log: {error.strerror}") from error
        self._opener = os.getpid()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends the log; there is nothing to flush."""
        with self._lock:
            if self._fd is None:
                return
            fd, self._fd = self._fd, None
            # The children of fork() hold the file too, and with it the lock: only those that logged may keep it.
            if os.getpid() == self._opener and (not self._regular or os.fstat(fd).st_size == self._ours):
                fcntl.flock(fd, fcntl.LOCK_UN)
            os.close(fd)

    def header(
        self,
        tokens=(),
        prompt=None,
        model=None,
        engine="",
        backend="",
        math="",
        sequences=None,
        ranks=None,
        checkpoints=None,
        sampling=None,
    ):
        """Writes the first line. model: a dict of name, sha256, arch and type. None or a missing key is left empty.

        sequences: the names of several sequences; tokens are then a list for each, without padding. ranks: how many
        processes share the model, as in {"tp": 4}: a comparison then rejects a log of which a rank is missing.
        checkpoints: which are to be logged, as `assay run --checkpoints` takes them: a judgement of the log alone then
        demands them. sampling: how tokens after the prompt are drawn, as in "temp 0.8", where they are not the
        likeliest.
        """
        try:
            told = dict(engine=engine, backend=backend, math=math, sampling=sampling)
            self._header(tokens, prompt, model or {}, told, sequences, ranks, checkpoints)
        except ValueError as error:
            raise LogError(f"{self.path}: the header: {error}") from error

    def _header(self, tokens, prompt, model, told, sequences, ranks, checkpoints):
        about = ",".join(f'"{key}":{text(model.get(key) or "")}' for key in ("name", "sha256", "arch", "type"))
        parts = [f'{{"assay":1,"model":{{{about}}}']
        if sequences is None:
            parts.append(f'"tokens":{_numbers(tokens)}')
        else:
            if len(sequences) != len(tokens):
                raise ValueError(f"{len(sequences)} names of sequences for {len(tokens)} lists of tokens")
            names = ",".join(text(sequence_name(sequence)) for sequence in sequences)
            parts.append(f'"tokens":[{",".join(map(_numbers, tokens))}],"sequences":[{names}]')
        if prompt is not None:
            parts.append(f'"prompt":{text(prompt)}')
        said = {key: value or "" for key, value in told.items() if value or key != "sampling"}
        parts.append(",".join(f'"{key}":{text(value)}' for key, value in said.items()))
        if checkpoints:
            parts.append(f'"checkpoints":{text(checkpoints)}')
        if ranks is not None:
            check_rank(ranks, least=1, most=MOST_RANKS)
            parts.append(f'"ranks":{{{",".join(f"{text(axis)}:{int(count)}" for axis, count in ranks.items())}}}')
        parts[-1] += "}\n"
        self._write(",".join(parts).encode(), first=True)

    def write(self, checkpoint, token_idx, row, shape=None, dtype=None, dims=None, **where):
        """Logs one whole tensor at the position token_idx; shape is [1, n] unless it is given.

        row is anything that numpy takes, or a tensor of PyTorch. Values print as float32, and those beyond its range as
        infinities; summary and sketch are of the row as it is. dtype: what the record says; by default the row's own
        type, f32 of a list. dims: the axes of the shape, such as "t h[tp]". where: sequence, step, phase and rank; what
        is not given is not written.
        """
        if not isinstance(checkpoint, str) or not checkpoint:
            raise LogError(f"{self.path}: the checkpoint's name is {checkpoint!r}; give a text that is not empty")
        if whole(token_idx) is None:
            raise LogError(
                f"{self.path}: checkpoint {checkpoint!r}: token_idx is {token_idx!r}; give a whole number from 0 to {MOST}"
            )
        if row is None:
            raise LogError(f"{self.path}: checkpoint {checkpoint!r} at {token_idx}: there is no row; give its values")
        dtype = dtype or type_name(row)
        try:
            row = as_array(row) if hasattr(row, "dtype") else np.asarray(row, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise LogError(f"{self.path}: checkpoint {checkpoint!r} at {token_idx}: no row of numbers: {error}") from error
        if np.iscomplexobj(row):
            raise LogError(
                f"{self.path}: checkpoint {checkpoint!r} at {token_idx}: complex numbers, of which a log holds the real "
                "part alone; give both parts as numbers (view_as_real in PyTorch)"
            )
        row = row.reshape(-1)
        shape = [1, len(row)] if shape is None else [int(size) for size in shape]
        if any(size < 0 for size in shape) or prod(shape) != len(row):
            raise LogError(
                f"{self.path}: checkpoint {checkpoint!r} at {token_idx}: {len(row)} values do not fit the shape "
                f"{shape}; give the shape of the values"
            )
        try:
            place = [f'"token_idx":{int(token_idx)}', *coordinates(**({"rank": self.rank} | where))]
            axes = dims_member(dims, shape)
        except ValueError as error:
            raise LogError(f"{self.path}: checkpoint {checkpoint!r} at {token_idx}: {error}") from error
        parts = [f'{{"checkpoint":{text(checkpoint)}', *place, *self._origin()]
        parts.append(f'"dtype":{text(dtype)},"shape":[{",".join(map(str, shape))}]{axes}')
        head = len(row) if self.values is None else min(self.values, len(row))
        if head < len(row):
            parts.append(f'"n":{len(row)}')
        parts.append(contents(row, head, self.summary, self.sketch, self.sketch_digits))
        self._write((",".join(parts) + "}\n").encode())

    def is_empty(self):
        """Whether nothing has been logged, not even a header."""
        with self._lock:
            return not (self._size if self._fd is None or not self._regular else os.fstat(self._fd).st_size)

    def write_rows(self, checkpoint, positions, rows, dtype=None, **where):
        """Logs one row for each position: a sink for attach(). rows: as in write(), a dimension more."""
        if hasattr(rows, "dtype"):
            dtype, rows = dtype or type_name(rows), as_rows(rows)
        for position, row in zip(positions, rows, strict=True):
            self.write(checkpoint, position, row, dtype=dtype, **where)

    def _origin(self):
        """When, and by whom."""
        parts = []
        if self.times:
            now = datetime.datetime.now(datetime.timezone.utc)
            parts.append(f'"ts":"{now:%Y-%m-%dT%H:%M:%S.%f}Z"')
        return [*parts, f'"team":{text(self.team)}'] if self.team else parts

    def _write(self, line, first=False):
        with self._lock:
            if self._failure is not None:
                raise LogError(self._failure)
            if self._fd is None:
                raise LogError(f"{self.path}: the log is closed; log before close()")
            self._take_lock()
            if first and (os.fstat(self._fd).st_size if self._regular else self._size):
                raise LogError(f"{self.path}: the header must be the first line")
            rest = memoryview(line)
            try:
                while rest:
                    rest = rest[os.write(self._fd, rest) :]
            except OSError as error:
                torn = "" if self._take_back(len(line) - len(rest)) else " and a torn line"
                self._failure = (
                    f"{self.path}: cannot write: {error.strerror}; the log ends with the last whole record{torn}"
                )
                raise LogError(self._failure) from error
            # Another process, after fork(), may have written too.
            self._size = os.lseek(self._fd, 0, os.SEEK_CUR) if self._regular else self._size + len(line)
            self._ours += len(line)

    def _take_lock(self):
        """In a child of fork() after its parent closed the log: locks it again, unless another writer has it."""
        if os.getpid() == self._opener:
            return
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # changes nothing while the parent has it
        except BlockingIOError as error:
            self._failure = f"{self.path}: another writer opened this log after the parent of this process closed it"
            raise LogError(self._failure) from error

    def _take_back(self, torn):
        """Cuts off the `torn` bytes of a record that did not fit, unless another process wrote after them.

        Returns whether the log ends with a whole record.
        """
        if not torn:
            return True
        try:
            if not self._regular or os.fstat(self._fd).st_size != self._size + torn:
                return False
            os.ftruncate(self._fd, self._size)
        except OSError:
            return False
        return True
