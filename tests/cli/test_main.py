"""The program: help, what it loads, its exit codes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from unittest.mock import Mock

import click
import pytest

from alignkit_cli import main
from alignkit_cli.group import COMMANDS, GROUPS, cli
from alignkit_cli.shared import OPTION_GROUPS, RARE


def test_the_help_of_align_fits_on_a_screen(alignkit):
    brief, whole = (alignkit("align", f"--help{more}").lines for more in ("", "-all"))
    assert len(brief) <= 50
    assert max(map(len, brief)) <= 80
    assert not any("--model-size" in line or "\n\n\n" in line for line in brief)
    assert any("--model-size" in line for line in whole)
    assert [line for line in brief if line.endswith(":") and line[0] != " "] == [
        *("Arguments:", "Input:", "Model:", "Output:", "Resources:", "Messages and help:")
    ]


@pytest.mark.parametrize(
    ("name", "usage"),
    [
        ("train", "-o RUN SRC [TGT]"),
        ("classify", "-o FOLDER DATA"),
        ("cooc", "-o FILE SRC [TGT]"),
        ("report", "-o FILE [RUN]..."),
        ("attention", "-o FILE MODEL SRC [TGT]"),
        ("atools", "-i FILE -c COMMAND"),
        ("remap", "--to SRC TGT SRC TGT LINKS"),
        ("align", "SRC [TGT]"),
    ],
)
def test_options_that_must_be_given_are_marked(alignkit, name, usage):
    needed = [
        each for each in cli.get_command(None, name).params if each.required and isinstance(each, click.Option)
    ]
    for more in ("", "-all"):
        text = alignkit(name, f"--help{more}").out.decode()
        assert text.startswith(f"Usage: alignkit {name} [OPTIONS] {usage}\n"), text
        assert text.count("[required]") == len(needed)


def test_the_help_of_all_commands(alignkit):
    text = alignkit("--help-all").out.decode()
    assert "$" not in text  # what explanations name has its value
    assert text.startswith("Usage: alignkit [OPTIONS] COMMAND ...\n")
    for name in COMMANDS:
        assert f"\n\n\n{alignkit(name, '--help-all').out.decode()}" in f"{text}\n\n"


def test_every_command_has_a_group_and_a_true_example():
    from shlex import split

    assert sum(map(len, GROUPS.values())) == len(COMMANDS)
    known = set()
    for name in COMMANDS:
        command = cli.get_command(None, name)
        program, called, *words = split(command.example)
        assert (program, called) == ("alignkit", name)
        given, left, _ = command.make_parser(click.Context(command)).parse_args(words)
        assert not left, command.example
        assert all(isinstance(given.get(each.name), str | tuple) for each in command.params if each.required), name
        known |= {each.name for each in command.params}
    listed = {option for options in OPTION_GROUPS.values() for option in options.split()}
    assert listed - known == {"help", "_click_default_help"}
    assert listed >= set(RARE.split())


def test_a_shell_completes_commands_and_options(monkeypatch, capsys):
    monkeypatch.setenv("_ALIGNKIT_COMPLETE", "bash_complete")
    for words, found in (("alignkit diago", "plain,diagonal"), ("alignkit align --qual", "plain,--quality")):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
        with pytest.raises(SystemExit):
            main.run()
        assert capsys.readouterr().out.split() == [found]


def test_help_loads_neither_numba_nor_torch():
    code = "import sys; from alignkit_cli.main import run; run(['--help']); run(['ibm1', '--help']);"
    code += "print([m for m in ('numba', 'torch', 'numpy', 'pandas') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"


def test_a_run_whose_kernels_are_kept_loads_neither_scipy_nor_what_numba_knows_of_numpy(tmp_path):
    code = "import sys; from alignkit_cli.main import run; run(sys.argv[1:]);"
    code += "print([m for m in ('numba.np.arrayobj', 'numba.np.arraymath', 'scipy.linalg') if m in sys.modules])"
    command = [sys.executable, "-c", code, "align", "--sample", "-q", "--iterations=2", "-o", tmp_path / "links"]
    for _ in range(2):
        result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"


def test_module_is_the_same_program():
    result = subprocess.run([sys.executable, "-m", "alignkit", "experiment", "--list"], capture_output=True)
    assert (result.returncode, result.stderr) == (0, b"")
    assert b"toy-classifier" in result.stdout


def test_names_with_newlines_stay_on_one_line(alignkit, failure, tmp_path):
    failure(alignkit("ibm1", tmp_path / "a\nb", tmp_path / "c"), "No such file")


def test_long_words_are_abbreviated(alignkit, failure):
    failure(alignkit("align", "--" + 200 * "x", "a", "b"), "No such option '--xxxxxxxxxxxxxxxxx...xxxxxxxx'")


def test_closed_pipe_is_quiet(enough_text):
    """Like `alignkit ... | head -0`."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "alignkit", "ibm1", "-q", *map(str, enough_text)]
    result = subprocess.run(command, stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert result.stderr == b""
    assert result.returncode == 141


@pytest.mark.skipif(os.name != "posix", reason="streams of POSIX")
@pytest.mark.parametrize(
    ("closed", "code", "err"),
    [
        ("2>&-", 0, ""),
        ("2>/dev/full <&-", 0, ""),
        (">&-", 2, "alignkit: error: output: Bad file descriptor\n"),
        (">/dev/full", 2, "alignkit: error: output: No space left on device\n"),
    ],
)
def test_closed_and_full_streams(closed, code, err):
    """Messages that nobody can read are lost; a result that cannot be written is an error."""
    program = "import sys; from alignkit_cli import group, main;"
    program += "group.cli.main = lambda **_: (print('a note', file=sys.stderr) or print('a result')); main.main()"
    if code == 2:
        program = "from alignkit_cli.main import main; main(['fetch'])"
    words = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-c", program]
    result = subprocess.run(words, capture_output=True, text=True)
    assert (result.returncode, result.stderr, result.stdout) == (code, err, "" if code else "a result\n")


def test_messages_hold_no_control_characters(capsys, monkeypatch):
    main._fail("the server\nsays \x1b[2Jno\x9b\udc80 ä")
    assert capsys.readouterr().err == "alignkit: error: the server says \\x1b[2Jno\\x9b\\udc80 ä\n"
    refuse = Mock(side_effect=click.UsageError("\x07"))  # of no command
    monkeypatch.setattr("alignkit_cli.group.cli.main", refuse)
    assert main.run([]) == 2
    assert capsys.readouterr().err == "alignkit: error: \\x07 See 'alignkit --help'.\n"


@pytest.fixture
def received(monkeypatch):
    """The signals that the program has received, SIGPROF among them, while this test runs."""
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPROF)
    before = [signal.getsignal(each) for each in signals]
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    found = []
    try:
        main._heed_signals(signals[:3], found)
        signal.signal(signal.SIGPROF, signal.getsignal(signal.SIGTERM))
        yield found
    finally:
        for each, handler in zip(signals, before, strict=True):
            signal.signal(each, handler)


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_a_signal_that_comes_in_a_callback_ends_the_program_after_it(received, capfd):
    """Python can only print an exception that is raised while an object is dropped."""

    class Dropped:
        def __del__(self):
            os.kill(os.getpid(), signal.SIGTERM)
            raise ValueError("half made")

    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        Dropped()
        time.sleep(60)
    assert received == [signal.SIGTERM, signal.SIGTERM]
    assert capfd.readouterr().err == ""


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_a_signal_is_not_lost_while_a_module_is_compiled(received):
    """Python's compiler drops exceptions of other kinds where it works out constants."""
    source = "name = 1\n" * 20_000 + "number = 2**63 - 1\n"
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        signal.setitimer(signal.ITIMER_PROF, 0.001)
        compile(source, "module", "exec")
    assert received == [signal.SIGPROF]


def test_no_arguments_show_the_help(alignkit):
    outcome = alignkit()
    assert (outcome.code, outcome.out) == (2, b"")
    assert outcome.err.splitlines()[0].startswith("Usage: alignkit")
    assert "\n  ibm1 " in outcome.err


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize(
    ("module", "lost"), [("click", False), ("click", True), ("numba", False), ("torch", True)]
)
def test_ctrl_c_while_modules_load_is_one_line(tmp_path, module, lost):
    """The signal comes while a module is imported, which may make any other error of it."""
    trap = "import os, signal\n"
    if lost:
        trap += (
            "try:\n    os.kill(os.getpid(), signal.SIGINT)\nexcept BaseException:\n    raise ImportError('half')\n"
        )
    else:
        trap += "os.kill(os.getpid(), signal.SIGINT)\n"
    (tmp_path / f"{module}.py").write_text(trap)
    command = [sys.executable, "-m", "alignkit", "train" if module == "torch" else "ibm1", "--sample"]
    command += ["--preset", "small", "-o", str(tmp_path / "run")] if module == "torch" else []
    paths = os.pathsep.join([str(tmp_path), *(path for path in sys.path if path)])
    result = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        # A shell's background jobs ignore the signal.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert result.returncode == 130, result.stderr
    assert result.stderr == "alignkit: error: interrupted\n"
    assert result.stdout == ""
