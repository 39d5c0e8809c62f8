"""Runs notebooks in Deno's Jupyter kernel and prints, as JSON, what each code cell of each notebook prints.

    python run_jupyter.py DENO NOTEBOOK ...

Needs the packages of requirements.txt. tests/tools/course-jupyter.slow.test.ts runs it.
"""

import json
import pathlib
import sys

import nbformat
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpec
from nbclient import NotebookClient

deno, *notebooks = sys.argv[1:]


class Deno(AsyncKernelManager):
    """The kernel that `deno jupyter --install` registers, without writing into the user's folders."""

    @property
    def kernel_spec(self):
        command = [deno, "jupyter", "--kernel", "--conn", "{connection_file}"]
        return KernelSpec(argv=command, display_name="Deno", language="typescript")


def printed_by(cell):
    for output in cell.outputs:
        assert output.output_type == "stream" and output.name == "stdout", output
    return "".join(output.text for output in cell.outputs)


results = {}
for file in notebooks:
    path = pathlib.Path(file)
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    client = NotebookClient(notebook, kernel_name="deno", kernel_manager_class=Deno, timeout=600)
    client.execute(cwd=str(path.parent))
    results[path.stem] = [printed_by(cell) for cell in notebook.cells if cell.cell_type == "code"]
print(json.dumps(results))
