"""``python -m bayes_direag``: the front door, where ``direag`` is not on the path of the shell."""

from bayes_direag.cli import app

if __name__ == "__main__":
    app(prog_name="direag")
