"""`ghapp up --sandbox` in the environment of a deployment: none of its addresses is used, and none is needed."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.stories.test_up import wait_for
from tests.support.commands import inherited
from tests.support.ports import free_port

STRANGE = "theirs.invalid"
DEPLOYMENT = {
    "GHAPP_CONFIG": f"/nowhere/{STRANGE}",
    "GHAPP_STATE_DIR": f"/nowhere/{STRANGE}",
    "GHAPP_APP_ID": "4711",
    "GHAPP_NOTIFY_URLS": f"json://{STRANGE}",
    "GHAPP_PUBLIC_URL": f"https://{STRANGE}",
    "GHAPP_LOKI_URL": f"http://{STRANGE}",
    "GHAPP_URL": f"https://{STRANGE}",
    "GHAPP_TOKEN": STRANGE,
    "KUBECONFIG": f"/nowhere/{STRANGE}",
    "KUBERNETES_SERVICE_HOST": STRANGE,
    "ALL_PROXY": f"socks5://{STRANGE}",
    "SSL_CERT_FILE": f"/nowhere/{STRANGE}",
}


def environments(up):
    """Of each of its processes, by process id."""
    children = Path(f"/proc/{up.pid}/task/{up.pid}/children").read_text().split()
    return {pid: Path(f"/proc/{pid}/environ").read_text(errors="replace") for pid in children}


@pytest.mark.xdist_group("up")
def test_a_deployment_s_exported_variables_reach_none_of_its_roles(tmp_path):
    terminal = tmp_path / "terminal"
    with socket.socket() as listener, terminal.open("wb") as out:  # no process may connect
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        exported = DEPLOYMENT | {"GHAPP_REDIS_URL": f"redis://{address}/0", "HTTP_PROXY": f"http://{address}"}
        command = [sys.executable, "-m", "ghapp", "up", "--sandbox", "--scenario", "loss", "--port", str(free_port())]
        environ = {**inherited(), **exported, "TMPDIR": str(tmp_path)}
        up = subprocess.Popen(command, env=environ, stdout=out, stderr=out)
        try:
            assert wait_for(lambda: "the App is installed on acme\n" in terminal.read_text()), terminal.read_text()
            assert wait_for(lambda: "runner.replace" in terminal.read_text()), next(
                tmp_path.glob("ghapp-*/ghapp.log")
            ).read_text()
            roles = {pid: text for pid, text in environments(up).items() if "GHAPP_LOG_FORMAT=json" in text}
            assert len(roles) == 5, "web, two workers, clock and watch"
            assert [pid for pid, text in roles.items() if STRANGE in text or address in text] == []
            (script,) = tmp_path.glob("ghapp-*/env")
            printed = subprocess.run(
                ["sh", "-c", f". {script} && env && ghapp runners --state invalidated"],
                env=environ,
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            assert "GHAPP_REDIS_URL=unix://" in printed
            assert [line for line in printed.splitlines() if STRANGE in line] == [], "of the deployment"
            listener.setblocking(False)
            with pytest.raises(BlockingIOError):
                listener.accept()
        finally:
            up.send_signal(signal.SIGINT)
            code = up.wait(60)
    assert code == 0, terminal.read_text()
