"""Where the server is: told by the program that runs these scripts."""

import os
from datetime import timedelta

from opensandbox.config.connection_sync import ConnectionConfigSync

# The SDK asks for one CPU and 2 GiB unless told otherwise; the node of the tests is small.
RESOURCE = {"cpu": "100m", "memory": "256Mi"}


def connection() -> ConnectionConfigSync:
    return ConnectionConfigSync(
        domain=os.environ["SANDBOX_SERVER"],
        api_key=os.environ["SANDBOX_API_KEY"],
        request_timeout=timedelta(seconds=90),
    )


def said(execution) -> str:
    """What a command wrote, after it has ended well."""
    assert execution.error is None, f"the command failed: {execution.error}"
    return "".join(message.text for message in execution.logs.stdout).strip()
