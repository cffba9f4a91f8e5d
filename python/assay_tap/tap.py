"""Records what the modules of a PyTorch model compute, by rules that give each a checkpoint name."""

import re
import warnings
from collections import Counter

from .arrays import as_rows, type_name
from .calls import listen
from .checkpoints import CheckpointSet
from .compiled import is_recomputing, refuse_compiled, refuse_wrapper
from .environment import checkpoints_from_environment, times_from_environment, writer_from_environment
from .generation import Generation
from .positions import Pass
from .rules import rules_for
from .sequences import Sequences
from .sinks import sink_of
from .writer import LogError, LogWriter


def _pattern(path):
    return re.compile(r"([^.]+)".join(re.escape(part) for part in path.split("*")))


class Tap:
    """Hooks on a model; remove() or leaving the `with` block takes them off and closes a log that attach() opened."""

    def __init__(self, model, sink, rules, wanted, positions, owned=None):
        self._sink = sink  # of sinks.py
        self._wanted = wanted
        self._positions_of = positions
        self._owned = owned
        self._pass = Pass()
        self._steps = 0  # passes so far
        self._sequences, self._of_rows, self._phase = Sequences(), [], None
        self._ended = set()  # sequences that generate() goes on padding
        self._generation = None
        self._outputs = []  # of each hook of outputs: those that it has seen in this pass
        self._calls = {}  # module -> {what it calls: [who is given the result]}
        self._inside = []  # those of these modules that run now, each with how often it has called what
        self._handles = []
        self._listening = {}  # (source file, function) -> the function that stops listening
        self._names = []  # of the checkpoints that the rules find in the model
        try:
            self._handles.append(model.register_forward_pre_hook(self._start, with_kwargs=True))
            for rule in rules:
                self._apply(rule, model)
            self._warn_of_unmatched()
            if len(self._handles) > 1:
                self._handles.append(model.register_forward_hook(self._end, always_call=True))
                self._generation = Generation(model)
            else:  # nothing of this model is logged
                self._handles.pop().remove()
        except BaseException:
            self.remove()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()

    def remove(self):
        for handle in self._handles:
            handle.remove()
        for end in self._listening.values():
            end()
        self._handles, self._listening = [], {}
        if self._generation is not None:
            self._generation.remove()
        if self._owned is not None:
            self._owned.close()
            self._owned = None

    def _start(self, model, args, kwargs):
        refuse_compiled(model)
        self._inside.clear()
        for seen in self._outputs:
            seen.clear()
        self._pass = Pass(model.forward, args, kwargs, self._positions_of)
        rows = self._pass.rows
        self._of_rows, begins = self._sequences.begin(rows, self._pass.named)
        self._pass.fail(self._sequences.fault)
        first = next((row[0] for row in rows if row and row[0] is not None), 0)
        self._phase = "decode" if first > 0 and all(len(row) == 1 for row in rows) else "prefill"
        tokens = self._pass.tokens
        self._drop_ended(tokens)
        tokens = self._pass.real_tokens() if begins else None
        self._sink.begin(model, self._of_rows, tokens, self._generation.sampling)
        self._steps += 1

    def _drop_ended(self, tokens):
        """In a batch generate() goes on with sequences that have ended: by the token that ended them, then padding."""
        for row, sequence in enumerate(self._of_rows if self._generation.ends and len(self._of_rows) > 1 else ()):
            if self._phase == "decode" and tokens and tokens[row][-1] in self._generation.ends:
                self._ended.add(sequence)
            if sequence in self._ended:
                self._pass.drop(row)

    def _end(self, _model, _args, output):
        if output is None:  # after an error, too
            self._pass = Pass()
        else:
            self._sequences.end(self._pass.named, output)
        self._pass.end()

    def _apply(self, rule, model):
        pattern = _pattern(rule.module)
        found = [(pattern.fullmatch(name), module) for name, module in model.named_modules()]
        found = [(match.groups(), module) for match, module in found if match]
        if not found:
            some = ", ".join(name for name, _ in list(model.named_modules())[1:4])
            raise LogError(f"no module is called {rule.module!r}; the model's are {some} …")
        if rule.rows not in (None, "last"):
            raise LogError(f"a rule's rows are {rule.rows!r}; give 'last', or None for the rows that the call asks for")
        for stars, module in found:
            names = rule.names(stars)
            self._names += names
            if any(name in self._wanted for name in names):
                self._hook(rule, module, self._recorder(rule, names, model, stars))

    def _warn_of_unmatched(self):
        """A mistyped item would silently log nothing."""
        unmatched = self._wanted.unmatched(self._names) if self._names else []
        if unmatched:
            warnings.warn(
                f"{self._wanted.where}: {unmatched[0]!r} matches no checkpoint of the model; it has "
                f"{', '.join(self._names[:3])} …; give logits, layers, ops, or globs",
                stacklevel=4,
            )

    def _recorder(self, rule, names, model, stars):
        """A function that records the tensor of `rule`, with the one beside it where it has one."""
        if rule.beside is None:
            return lambda value: self._emit(names, rule, value)
        path = rule.beside.module.replace("*", "{}").format(*stars)
        held = []
        self._hook(rule.beside, model.get_submodule(path), lambda value: held.__setitem__(slice(None), [value]))

        def record(value):
            if not held:
                raise LogError(f"{names[0]} was computed before {path}, which its rule needs as well")
            self._emit(names, rule, value, rule.beside.parts(held.pop())[0])

        return record

    def _hook(self, rule, module, give):
        """Calls give(value) whenever `module` has computed the tensor of `rule`."""
        if rule.calls is not None:
            self._watch(rule, module, give)
        elif rule.of == "input":
            # An input that is given by name, as hidden_states often is, is the first of those.
            self._handles.append(
                module.register_forward_pre_hook(
                    lambda _module, args, kwargs: give(args[0] if args else next(iter(kwargs.values()))),
                    with_kwargs=True,
                )
            )
        elif rule.of == "output":
            self._handles.append(module.register_forward_hook(self._of_output(rule.call, give)))
        else:
            raise LogError(f"a rule is of {rule.of!r}; give output or input")

    def _of_output(self, call, give):
        """A hook that gives a module's outputs; or of several in one pass the one of this number."""
        seen = []
        self._outputs.append(seen)

        def hook(_module, _args, output):
            seen.append(True)
            if call in (None, len(seen) - 1):
                give(output)

        return hook

    def _watch(self, rule, module, give):
        is_new = module not in self._calls
        for name in (rule.calls,) if isinstance(rule.calls, str) else rule.calls:
            key = (type(module).__module__, name)
            if key not in self._listening:
                self._listening[key] = self._listen(key)
            self._calls.setdefault(module, {}).setdefault(key, []).append((rule.call, give))
        if not is_new:
            return
        enter = module.register_forward_pre_hook(lambda *_: self._inside.append((module, Counter())))
        leave = module.register_forward_hook(lambda *_: self._leave(module), always_call=True)  # after an error, too
        self._handles += [enter, leave]

    def _listen(self, key):
        try:
            return listen(*key, lambda result: self._called(key, result))
        except KeyError as error:
            raise LogError(f"{key[0]} has no function {key[1]!r}") from error

    def _leave(self, module):
        if self._inside and self._inside[-1][0] is module:  # otherwise a hook before `enter` failed
            self._inside.pop()

    def _called(self, key, result):
        if not self._inside:
            return
        module, made = self._inside[-1]
        number = made[key]
        made[key] += 1
        for wanted, give in self._calls[module].get(key, ()):
            if wanted in (None, number):
                give(result)

    def _emit(self, names, rule, value, *beside):
        if is_recomputing():
            return
        for name, part in zip(names, rule.parts(value, *beside), strict=True):
            if name in self._wanted:
                rows = as_rows(part)
                places = self._pass.of(name, len(rows), rule.rows == "last")
                for row, own in _by_row(places).items():
                    self._sink.write(
                        name,
                        [places[i].position for i in own],
                        rows if len(own) == len(rows) else rows[own],
                        type_name(part),
                        sequence=self._of_rows[row],
                        step=self._steps - 1,
                        phase=self._phase,
                    )


def _by_row(places):
    """For each row of the batch the indices of its places, without padding."""
    found = {}
    for i, place in enumerate(places):
        if place.position is not None:
            found.setdefault(place.row, []).append(i)
    return found


def attach(model, log=None, rules=None, checkpoints=None, positions=None, **options):
    """Records the checkpoints of every forward pass of `model` until the returned Tap is removed.

    log: a path, a LogWriter, or a function (checkpoint, positions, rows [tokens, n]), which is called for each sequence
        of a batch and given sequence, step and phase by name if it has parameters of these names. Without it the
        environment says: ORCH_LOG_FILE, ORCH_LOG_TEAM, ORCH_LOG_VALUES, ASSAY_LOG_CHECKPOINTS; nothing is logged where
        the first is not set. A log that is empty gets a header, with the tokens of the first pass, and the checkpoints
        where they are said: what it lacks of these is missing.
    rules: a list of Rule; without it those of assay_tap.rules, for any decoder of transformers.
    checkpoints: `logits`, `layers`, `ops` or globs. All that the rules name, unless the environment says where to log.
        A glob that matches no checkpoint of the model gives a warning.
    positions: a function (args, kwargs) of the forward call that gives the tokens' absolute positions; without it
        they are read from the call's arguments (assay_tap.positions). It is called before each pass.
    options: of LogWriter, such as team, values=None for all, sketch=True.

    Rows of a batch are sequences of their own, numbered from 0 as they begin; padding, by the attention_mask, is not
    logged. Raises LogError if there are no rules for the model, if one finds no module, or if the log cannot be opened.
    A forward pass of which something is to be logged raises it if rows have positions that are unknown or repeat; so
    does a module that a rule names and that is called outside of a pass, but for the rows of a rule with rows="last"
    after it; and a model that torch.compile runs. A model of which nothing is to be logged has no hooks.
    """
    refuse_wrapper(model)
    if rules is None:
        rules = rules_for(model)
    owned = None
    said = checkpoints or log is None
    if log is None:
        owned = log = writer_from_environment(**options)
        wanted = CheckpointSet(checkpoints) if checkpoints else checkpoints_from_environment()
        if log is None:
            rules = []
    else:
        wanted = CheckpointSet(checkpoints or "ops")
        if not callable(log) and not isinstance(log, LogWriter):
            owned = log = LogWriter(log, **{"times": times_from_environment(), **options})
    return Tap(model, sink_of(log, wanted.text if said else None), rules, wanted, positions, owned)
