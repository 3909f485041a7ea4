"""Makes a sandbox from a Pool, runs a command in it, and prints its id and what the command wrote: hello.py POOL IMAGE TEXT"""

import sys
from datetime import timedelta

from opensandbox import SandboxSync

from connection import RESOURCE, connection, said


def main() -> None:
    pool, image, text = sys.argv[1:]
    sandbox = SandboxSync.create(
        image,
        timeout=timedelta(minutes=10),
        ready_timeout=timedelta(seconds=60),
        resource=RESOURCE,
        extensions={"poolRef": pool},
        connection_config=connection(),
    )
    try:
        print(sandbox.id)
        print(said(sandbox.commands.run(["echo", text])))
    finally:
        sandbox.close()


main()
