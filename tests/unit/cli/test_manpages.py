"""Man pages: one for each command, and a formatter has nothing to say about them."""

import shutil
import subprocess

import pytest

from t9ksched.cli.application import COMMANDS
from t9ksched.cli.manpages import pages


def test_each_command_has_a_page_with_its_options() -> None:
    found = dict(pages())
    assert set(found) == {"t9ksched"} | {f"t9ksched-{one.name}" for one in COMMANDS if not one.foreign}
    assert "\\fB\\-\\-gpus N\\fR\nCards of each replica." in found["t9ksched-run"]
    assert "queues create" in found["t9ksched-queues"]
    assert all(
        f"\\fBt9ksched\\-{one.name.replace('-', chr(92) + '-')}\\fR(1)" in found["t9ksched"]
        for one in COMMANDS
        if not one.foreign
    )


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff here")
def test_a_formatter_reads_them() -> None:
    for name, text in pages():
        done = subprocess.run(
            ["groff", "-k", "-man", "-ww", "-Tutf8", "-z"],
            input=text,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert done.stderr == "", name
