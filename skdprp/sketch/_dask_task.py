"""The task of dask that releases a chunk. Importing it imports dask, which only lazy rows need."""

from dask._task_spec import Alias, Task, TaskRef


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


def release_task(key, release, chunk):
    """Task that calls a release on what the task named `chunk` returns."""
    return ReleaseTask(key, release, TaskRef(chunk))
