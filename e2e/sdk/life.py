"""A sandbox's life through the unmodified SDK: life.py IMAGE [POOL]

Created from an image, or from a Pool when one is named; every step is checked.
"""

import sys
import time
from datetime import datetime, timedelta, timezone

from opensandbox import SandboxManagerSync, SandboxSync
from opensandbox.exceptions import SandboxApiException
from opensandbox.models.sandboxes import SandboxFilter

from connection import RESOURCE, connection, said

STARTED = time.monotonic()


def step(text: str) -> None:
    print(f"  {time.monotonic() - STARTED:6.2f} s  {text}", flush=True)


def commands_run(sandbox: SandboxSync) -> None:
    assert said(sandbox.commands.run("echo hello from $(uname -s)")) == "hello from Linux"
    failed = sandbox.commands.run("exit 3")
    assert failed.exit_code == 3, f"exit code {failed.exit_code}"
    lines = []
    both = sandbox.commands.run("echo out; echo err >&2")
    lines += [message.text.strip() for message in both.logs.stdout]
    assert lines == ["out"], lines
    assert [message.text.strip() for message in both.logs.stderr] == ["err"]
    step("commands run: output, errors and exit codes come back")


def files_live(sandbox: SandboxSync) -> None:
    sandbox.files.write_file("/tmp/note.txt", "kept äöü\n")
    assert sandbox.files.read_file("/tmp/note.txt") == "kept äöü\n"
    assert said(sandbox.commands.run("cat /tmp/note.txt")) == "kept äöü"
    assert sandbox.files.get_file_info(["/tmp/note.txt"])["/tmp/note.txt"].size == len("kept äöü\n".encode())
    step("a file written is read back, by the SDK and by a command")


def info_is_true(sandbox: SandboxSync, image: str, pool: str | None, metadata: dict[str, str]) -> None:
    info = sandbox.get_info()
    assert info.id == sandbox.id
    assert info.status.state.lower() == "running", info.status
    assert info.expires_at is not None and info.created_at < info.expires_at
    for key, value in metadata.items():
        assert (info.metadata or {}).get(key) == value, info.metadata
    if pool is None:
        assert info.image is not None and info.image.image == image, info.image
    step(f"get_info: {info.status.state}, expires {info.expires_at:%H:%M:%S}")


def list_finds_it(manager: SandboxManagerSync, sandbox: SandboxSync, metadata: dict[str, str]) -> None:
    found = manager.list_sandbox_infos(SandboxFilter(metadata=metadata, page_size=5))
    assert [info.id for info in found.sandbox_infos] == [sandbox.id], found
    assert found.pagination.total_items == 1
    other = manager.list_sandbox_infos(SandboxFilter(metadata={"run": "another"}))
    assert other.sandbox_infos == []
    running = manager.list_sandbox_infos(SandboxFilter(states=["Running"], page_size=100))
    assert sandbox.id in [info.id for info in running.sandbox_infos]
    step("list finds it by metadata and by state, and nothing else")


def renew_moves_the_deadline(sandbox: SandboxSync) -> None:
    before = sandbox.get_info().expires_at
    sandbox.renew(timedelta(minutes=45))
    after = sandbox.get_info().expires_at
    assert before is not None and after is not None
    left = after - datetime.now(timezone.utc)
    assert timedelta(minutes=44) < left < timedelta(minutes=46), left
    assert after > before
    step(f"renew moved the deadline from {before:%H:%M:%S} to {after:%H:%M:%S}")


def kill_ends_it(manager: SandboxManagerSync, sandbox: SandboxSync) -> None:
    sandbox.kill()
    try:
        info = manager.get_sandbox_info(sandbox.id)
    except SandboxApiException as error:
        assert error.status_code == 404, error
    else:
        assert info.status.state.lower() in ("stopping", "terminated"), info.status
    step("kill ended it")


def main() -> None:
    image, pool = sys.argv[1], (sys.argv[2] if len(sys.argv) > 2 else None)
    metadata = {"run": f"life-{time.time_ns()}"}
    sandbox = SandboxSync.create(
        image,
        timeout=timedelta(minutes=20),
        ready_timeout=timedelta(seconds=60),
        resource=RESOURCE,
        metadata=metadata,
        env={"GREETING": "hello"},
        extensions={"poolRef": pool} if pool else None,
        connection_config=connection(),
    )
    step(f"created {sandbox.id} from {'pool ' + pool if pool else image}, healthy")
    manager = SandboxManagerSync.create(connection_config=connection())
    killed = False
    try:
        commands_run(sandbox)
        files_live(sandbox)
        info_is_true(sandbox, image, pool, metadata)
        list_finds_it(manager, sandbox, metadata)
        renew_moves_the_deadline(sandbox)
        kill_ends_it(manager, sandbox)
        killed = True
    finally:
        if not killed:
            sandbox.kill()
        sandbox.close()
        manager.close()


main()
