import pytest
from click.testing import CliRunner

from alignkit.aligner import load_aligner
from alignkit.classical.hmm.hmm import HMM
from alignkit_cli.align import hmm_command
from alignkit_cli.group import cli

TEXT = "das haus ||| the house\ndas buch ||| the book\nein buch ||| a book\n ||| x\n"


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text"
    path.write_text(TEXT)
    return str(path)


def aligned(*arguments):
    result = CliRunner().invoke(cli, ["hmm", *arguments, "-q"])
    assert result.exit_code == 0, result.stderr
    return result.stdout.splitlines()


@pytest.mark.parametrize("options", [[], ["--reverse"], ["--symmetrize", "intersection"]])
def test_it_links_what_belongs_together(text, options):
    assert aligned(text, *options) == ["0-0 1-1", "0-0 1-1", "0-0 1-1", ""]


def test_the_model_that_it_saves_can_be_loaded(text, tmp_path):
    path = str(tmp_path / "model.npz")
    aligned(text, "--save-model", path)
    loaded = load_aligner(path)
    assert isinstance(loaded, HMM)
    assert loaded.forward.null_probability == 0.2
    assert len(loaded.log_likelihood) == 11


def test_options_reach_the_estimation(text, tmp_path):
    path = str(tmp_path / "model.npz")
    aligned(
        text,
        "--save-model",
        path,
        "--iterations",
        "2",
        "--set",
        "lexical_iterations=1",
        "--set",
        "null_probability=0.3",
    )
    loaded = load_aligner(path)
    assert len(loaded.log_likelihood) == 4
    assert loaded.forward.null_probability == 0.3


def test_help_names_the_model():
    assert "hidden Markov" in CliRunner().invoke(hmm_command, ["--help"]).output
