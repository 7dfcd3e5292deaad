"""What was loaded at the start is not walked again."""

import gc

from t9ksched.cli.heap import settle


def test_what_is_loaded_is_left_out_of_collections() -> None:
    loaded = len(gc.get_objects())
    try:
        settle()
        assert gc.get_freeze_count() > loaded / 2
        assert len(gc.get_objects()) < loaded / 10
    finally:
        gc.unfreeze()
