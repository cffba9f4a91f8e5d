"""A Python that has imported already what a test imports: each script it is given runs in a fork of it.

Tests of dumps and fleets ask the program dozens of times for something that a script in Python does, and importing
torch takes that script two seconds each time. `start()`, called by a test once it has imported what scripts need, gives
the environment in which the program finds a copy of this file as its Python: run so, it hands its arguments,
environment, folder and standard files over, and ends as the script did. What a test says of how Python is found, of its environment or of
signals needs the real one.
"""

import marshal
import os
import socket
import sys

SOCKET = "ASSAY_WARM_PYTHON"


def start():
    """Variables of the environment. The server ends with this process."""
    import atexit
    import shutil
    import signal
    import tempfile

    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    python = folder + "/python"
    with open(__file__) as this, open(python, "w") as copy:
        copy.write(f"#!{os.path.realpath(sys.executable)} -IS\n{this.read()}")
    os.chmod(python, 0o700)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(folder + "/socket")
    listener.listen()
    ended, alive = os.pipe()
    if os.fork() == 0:
        os.close(alive)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nothing waits for those who answer
        serve(listener, ended)
    os.close(ended)
    listener.close()
    return {"ASSAY_PYTHON": python, SOCKET: folder + "/socket"}


def serve(listener, ended):
    import select

    while True:
        ready, _, _ = select.select([listener, ended], [], [])
        if ended in ready:
            os._exit(0)
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            os.close(ended)
            answer(connection)
        connection.close()


def answer(connection):
    import signal

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, files, _, _ = socket.recv_fds(connection, 1, 3)
    with connection.makefile("rb") as request:
        arguments, environment, folder = marshal.load(request)
    worker = os.fork()
    if worker == 0:
        connection.close()
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        run(arguments)
    _, status = os.waitpid(worker, 0)
    connection.sendall(marshal.dumps(os.waitstatus_to_exitcode(status)))
    os._exit(0)


def run(arguments):
    """What `python3 -c TEXT argument...` does."""
    import traceback
    import types

    if arguments[:1] != ["-c"]:
        raise SystemExit("warm_python.py: only -c is served")
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    sys.argv = ["-c", *arguments[2:]]
    sys.path[0] = ""
    code = 0
    try:
        exec(compile(arguments[1], "<string>", "exec"), main.__dict__)
    except SystemExit as stopped:
        code = stopped.code
        if code is None:
            code = 0
        elif not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
    except BaseException:
        traceback.print_exc()
        code = 1
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = 120  # as Python does
    os._exit(code & 255)


def ask():
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(os.environ[SOCKET])
        socket.send_fds(server, [b"."], [0, 1, 2])
        server.sendall(marshal.dumps((sys.argv[1:], dict(os.environ), os.getcwd())))
        code = marshal.loads(server.makefile("rb").read())
    if code < 0:
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    ask()
