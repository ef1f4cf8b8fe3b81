"""The tasks of dask that release chunks. Importing it imports dask, which only lazy rows need."""

from dask._task_spec import Alias, Task, TaskRef
from dask.highlevelgraph import MaterializedLayer


class ReleaseTask(Task):
    """A task that runs once in a computation, however many collections use its result.

    dask optimises the collections of each kind by themselves. Fused with what uses it, a task is in the graph of
    each kind under another name, and would run for each: a row would be released several times. So this one is never
    fused; and where dask copies a whole graph under new names, the copy refers to the one task that there is.
    """

    __slots__ = ()
    block_fusion = True

    def substitute(self, subs, key=None):
        """Replace what it depends on, or refer to it where it would get another name."""
        name = subs.get(self.key, self.key) if key is None else key
        return super().substitute(subs, key) if name == self.key else Alias(self.key)


class ReleaseLayer(MaterializedLayer):
    """The tasks of one call of `transform`, which `dask.graph_manipulation` may omit, and not copy."""

    def clone(self, keys, seed, bind_to=None):
        """Refuse: a copy of a task would release its rows again, with noise of its own."""
        raise ValueError("A copy of lazy sketches would release their rows again: omit them, or persist them first.")


def release_task(key, release, chunk, place):
    """Task that calls a release on what the task named `chunk` returns, and on the place of the chunk."""
    return ReleaseTask(key, release, TaskRef(chunk), place)
