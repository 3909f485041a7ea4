"""What users of the unmodified Python SDK do, against a server whose address and key are given.

    python scenarios.py ADDRESS KEY SCENARIO

SCENARIO: image, pool, or hello (one command on a pool, for the demo). Prints what it sees; exits 1 with what was expected.
"""

import sys
import time
import uuid
from datetime import timedelta

from opensandbox.config import ConnectionConfigSync
from opensandbox.models.sandboxes import SandboxFilter
from opensandbox.sync.manager import SandboxManagerSync
from opensandbox.sync.sandbox import SandboxSync

# What a node of two cores can carry several times over; the SDK asks for 1 CPU and 2 GiB by itself.
FITS = {"cpu": "100m", "memory": "128Mi"}
POOL = "ci-pod"


def expect(holds, what):
    if not holds:
        raise SystemExit(f"expected: {what}")
    print(f"  {what}", flush=True)


def create(connection, image, **how):
    started = time.monotonic()
    sandbox = SandboxSync.create(
        image, resource=FITS, timeout=timedelta(minutes=10), connection_config=connection, **how
    )
    print(f"  {sandbox.id} can be used {time.monotonic() - started:.2f} s after it was asked for", flush=True)
    return sandbox


def run(sandbox, command):
    execution = sandbox.commands.run(command)
    return "".join(message.text for message in execution.logs.stdout).strip()


def life(connection, image, **how):
    """Create, run, look, list, renew, kill."""
    mark = uuid.uuid4().hex
    sandbox = create(connection, image, metadata={"scenario": mark}, **how)
    try:
        answer = run(sandbox, f"echo {mark}")
        expect(answer == mark, f"a command in it answers ({answer!r})")
        sandbox.files.write_file("/tmp/note", mark)
        expect(sandbox.files.read_file("/tmp/note") == mark, "a file written to it is read back")
        info = sandbox.get_info()
        expect(info.status.state == "Running", f"get_info says Running ({info.status.state})")
        expect(info.metadata.get("scenario") == mark, "get_info gives its metadata")
        with SandboxManagerSync.create(connection_config=connection) as manager:
            listed = manager.list_sandbox_infos(SandboxFilter(metadata={"scenario": mark}))
        expect([one.id for one in listed.sandbox_infos] == [sandbox.id], "list finds it by metadata, and nothing else")
        renewed = sandbox.renew(timedelta(minutes=30))
        expect(renewed.expires_at > info.expires_at, f"renew moves its end to {renewed.expires_at}")
    finally:
        sandbox.kill()
    with SandboxManagerSync.create(connection_config=connection) as manager:
        left = manager.list_sandbox_infos(SandboxFilter(metadata={"scenario": mark}))
    expect(left.sandbox_infos == [], "after kill it is listed no more")
    sandbox.close()


def image(connection):
    life(connection, "python:3.11")


def pool(connection):
    # The SDK wants an image even where the Pool decides.
    life(connection, "python:3.11", extensions={"poolRef": POOL})


def hello(connection):
    sandbox = create(connection, "python:3.11", extensions={"poolRef": POOL})
    try:
        print("  $ echo hello from $(hostname)", flush=True)
        print(f"  {run(sandbox, 'echo hello from $(hostname)')}", flush=True)
    finally:
        sandbox.kill()
        sandbox.close()


SCENARIOS = {"image": image, "pool": pool, "hello": hello}


def main():
    if len(sys.argv) != 4 or sys.argv[3] not in SCENARIOS:
        raise SystemExit(__doc__)
    address, key, scenario = sys.argv[1:]
    SCENARIOS[scenario](ConnectionConfigSync(domain=address, api_key=key, protocol="http"))


main()
