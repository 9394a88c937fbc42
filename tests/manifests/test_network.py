"""The network lets through what each role needs, and not what it does not."""

import ipaddress

import pytest

from tests.manifests.rendered import OVERLAYS, kinds
from tests.manifests.test_wiring import workload

GITHUB, SERVICE, SERVER, METADATA = "140.82.112.5", "10.96.0.1", "10.0.0.10", "169.254.169.254"
LOG_STORAGE = "20.60.0.1"
CONTROLLER = "203.0.113.7"
NODE_LOCAL_DNS = "169.254.20.10"
ADVISED, OTHER = {"ghapp.dev/reachable": "true"}, {"kubernetes.io/metadata.name": "other"}

EVERYONE = ("web", "worker", "clock", "watch")
NEEDED = [
    *((role, NODE_LOCAL_DNS, None, protocol, 53) for role in EVERYONE for protocol in ("UDP", "TCP")),
    *((role, "10.1.2.3", OTHER, "TCP", port) for role in EVERYONE for port in (6379, 6380, 26379)),
    ("worker", GITHUB, None, "TCP", 443),
    ("worker", LOG_STORAGE, None, "TCP", 443),
    ("web", GITHUB, None, "TCP", 443),  # about people who sign in
    *((role, at, None, "TCP", port) for role in ("worker", "watch") for at, port in ((SERVICE, 443), (SERVER, 6443))),
    ("clock", "10.1.2.3", ADVISED, "TCP", 9000),  # a controller
    ("clock", CONTROLLER, None, "TCP", 443),
    ("worker", "10.1.2.3", ADVISED, "TCP", 9000),
    ("worker", "10.1.2.3", ADVISED, "TCP", 3100),  # Loki
]
REFUSED = [
    *((role, METADATA, None, "TCP", 443) for role in EVERYONE),
    *((role, METADATA, None, "TCP", 80) for role in EVERYONE),
    *((role, "10.1.2.3", OTHER, "TCP", 9000) for role in EVERYONE),
    ("web", SERVER, None, "TCP", 6443),
    ("clock", SERVER, None, "TCP", 6443),
]


def chooses(selector, labels):
    for row in selector.get("matchExpressions", []):
        assert row["operator"] == "In"
        if labels.get(row["key"]) not in row["values"]:
            return False
    return selector.get("matchLabels", {}).items() <= labels.items()


def admits(peer, address, namespace):
    if "ipBlock" in peer:
        block, ip = peer["ipBlock"], ipaddress.ip_address(address)
        ranges = [ipaddress.ip_network(each) for each in (block["cidr"], *block.get("except", []))]
        return ip in ranges[0] and not any(ip in each for each in ranges[1:])
    return namespace is not None and chooses(peer["namespaceSelector"], namespace)


def is_open(overlay, role, address, namespace, protocol, port):
    """Whether a role's pod may connect there: to an address, in a namespace of these labels if it is a pod's."""
    labels = workload(overlay, f"ghapp-{role}")["spec"]["template"]["metadata"]["labels"]
    for policy in kinds(overlay, "NetworkPolicy"):
        if not chooses(policy["spec"]["podSelector"], labels):
            continue
        for row in policy["spec"].get("egress", []):
            ports = row.get("ports")
            fits = ports is None or {"protocol": protocol, "port": port} in ports
            if fits and ("to" not in row or any(admits(peer, address, namespace) for peer in row["to"])):
                return True
    return False


@pytest.mark.parametrize("overlay", OVERLAYS)
@pytest.mark.parametrize("way", NEEDED, ids=lambda way: f"{way[0]} {way[1]} {way[4]} {way[3]}")
def test_what_a_role_needs_is_open(overlay, way):
    assert is_open(overlay, *way)


@pytest.mark.parametrize("overlay", OVERLAYS)
@pytest.mark.parametrize("way", REFUSED, ids=lambda way: f"{way[0]} {way[1]} {way[4]}")
def test_what_it_does_not_need_is_closed(overlay, way):
    assert not is_open(overlay, *way)
