"""Runs notebooks in Deno's Jupyter kernel and prints, as JSON, what each code cell of each notebook prints.

    python run_jupyter.py DENO NOTEBOOK ...

Needs the packages of requirements.txt. tests/tools/course-jupyter.slow.test.ts runs it.
"""

import json
import pathlib
import sys
import uuid

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
    """What each of the cells prints.

    The kernel reads its standard output from a pipe and may attribute the last lines of a cell to the next one. The
    order of the lines is kept, so a line of its own after each cell separates them.
    """
    manager = Deno()
    manager.start_kernel(cwd=folder)
    client = manager.client()
    client.start_channels()
    end_of_cell = f"{uuid.uuid4()}\n"
    try:
        client.wait_for_ready(timeout=SECONDS)
        output, idle = "", set()

        def read():
            nonlocal output
            message = client.get_iopub_msg(timeout=SECONDS)
            kind, content = message["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                idle.add(message["parent_header"].get("msg_id"))
            elif kind == "stream":
                assert content["name"] == "stdout", content
                output += content["text"]
            else:
                assert kind in ("status", "execute_input"), (kind, content)

        for source in sources:
            for code in (source, f"console.log({json.dumps(end_of_cell.strip())})"):
                cell = client.execute(code)
                while cell not in idle:
                    read()
        while output.count(end_of_cell) < len(sources):
            read()
        return output.split(end_of_cell)[:-1]
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
