"""Runs the Python code of the course (the sections "In Keras" of docs/course/) and compares what it prints with the page.

    python -m venv venv && venv/bin/pip install keras jax
    KERAS_BACKEND=jax venv/bin/python tools/course_python.py [--update]

--update writes the output into the pages. tests/tools/course.test.ts compares the pages' numbers with those of heed.
"""

import contextlib
import io
import pathlib
import re
import sys

BLOCK = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.S)
folder = pathlib.Path(__file__).parent.parent / "docs" / "course"
failed = False
for page in sorted(folder.glob("[0-9][0-9]-*.md")):
    text = page.read_text()
    code, shown = BLOCK.search(text).groups()
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, page.name, "exec"), {})
    printed = output.getvalue()
    if "--update" in sys.argv:
        page.write_text(BLOCK.sub(lambda _: f"```python\n{code}```\n\n```text\n{printed}```", text, count=1))
    elif printed != shown:
        failed = True
        print(f"{page.name}: expected\n{shown}got\n{printed}")
sys.exit(failed)
