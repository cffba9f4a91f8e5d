"""Listens to the functions of a module: one wrapper per function for all listeners."""

import sys

_wrappers = []  # those with a listener


class Wrapper:
    """Replaces a function of a module, and passes each result to all listeners."""

    def __init__(self, space, name):
        self.space, self.name, self.original = space, name, space[name]
        self.listeners = []

        def watched(*args, **kwargs):
            result = self.original(*args, **kwargs)
            for listener in tuple(self.listeners):
                listener(result)
            return result

        self.function = space[name] = watched

    def restore(self):
        if self.space.get(self.name) is self.function:  # otherwise another wrapper has replaced it, and calls it
            self.space[self.name] = self.original


def listen(module, name, listener):
    """Calls listener(result) after each call of the function `name` of the module of that name.

    Returns a function that stops this; the last one to stop restores the original function. Raises KeyError if there is
    none.
    """
    space = vars(sys.modules[module])
    # A wrapper that the module no longer has, because the function was replaced, gets no calls.
    wrapper = next((wrapper for wrapper in _wrappers if wrapper.function is space[name]), None)
    if wrapper is None:
        wrapper = Wrapper(space, name)
        _wrappers.append(wrapper)
    wrapper.listeners.append(listener)

    def end():
        wrapper.listeners.remove(listener)
        if not wrapper.listeners:
            _wrappers.remove(wrapper)
            wrapper.restore()

    return end
