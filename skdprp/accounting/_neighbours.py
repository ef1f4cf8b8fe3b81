"""How many rows count in one of two neighbours only."""

_ROWS = {"replace_one": 2, "add_remove": 1}


def rows_that_differ(adjacency):
    """Return 2 for "replace_one", which takes a row away and puts another at its place, and 1 for "add_remove"."""
    if adjacency not in _ROWS:
        raise ValueError(f"adjacency must be 'replace_one' or 'add_remove', got {adjacency!r}.")
    return _ROWS[adjacency]
