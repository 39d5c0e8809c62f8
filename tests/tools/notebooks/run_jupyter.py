"""Runs notebooks in Deno's Jupyter kernel and prints, as JSON, what each code cell of each notebook prints.

    python run_jupyter.py DENO NOTEBOOK ...

Needs the packages of requirements.txt. tests/tools/course-jupyter.slow.test.ts runs it.
"""

import json
import pathlib
import queue
import sys

import nbformat
from jupyter_client import KernelManager
from jupyter_client.kernelspec import KernelSpec

SECONDS = 600
deno, *notebooks = sys.argv[1:]


class Deno(KernelManager):
    """The kernel that `deno jupyter --install` registers, without writing into the user's folders."""

    @property
    def kernel_spec(self):
        command = [deno, "jupyter", "--kernel", "--conn", "{connection_file}"]
        return KernelSpec(argv=command, display_name="Deno", language="typescript")


def run(sources, folder):
    """What each of the cells prints."""
    manager = Deno()
    manager.start_kernel(cwd=folder)
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=SECONDS)
        printed, idle = {}, set()

        def read(seconds):
            message = client.get_iopub_msg(timeout=seconds)
            cell, kind, content = message["parent_header"].get("msg_id"), message["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                idle.add(cell)
            elif kind == "stream":
                assert content["name"] == "stdout", content
                printed[cell] = printed.get(cell, "") + content["text"]
            else:
                assert kind in ("status", "execute_input"), (kind, content)

        cells = []
        for source in sources:
            cells.append(client.execute(source))
            while cells[-1] not in idle:
                read(SECONDS)
        # The kernel may send the last lines of a cell after it is idle. A page attributes them to the cell, too.
        try:
            while True:
                read(3)
        except queue.Empty:
            return [printed.get(cell, "") for cell in cells]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


results = {}
for file in notebooks:
    path = pathlib.Path(file)
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    sources = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    results[path.stem] = run(sources, str(path.parent))
print(json.dumps(results))
