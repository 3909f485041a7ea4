"""Runs `echo` in a sandbox that somebody else made: echo.py ID TEXT"""

import sys

from opensandbox import SandboxSync

from connection import connection, said


def main() -> None:
    sandbox_id, text = sys.argv[1:]
    sandbox = SandboxSync.connect(sandbox_id, connection_config=connection())
    try:
        print(said(sandbox.commands.run(["echo", text])))
    finally:
        sandbox.close()


main()
