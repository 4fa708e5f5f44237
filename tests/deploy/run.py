"""Tests of the files for operators. No container engine is needed: HAProxy checks its configuration."""

import re
import shutil
import subprocess
import unittest
from ipaddress import ip_address, ip_network
from pathlib import Path

import compose_spec
import yaml

ROOT = Path(__file__).resolve().parents[2]


def read(path):
    return (ROOT / path).read_text()


def haproxy():
    return shutil.which("haproxy") or "/usr/sbin/haproxy"


class Compose(unittest.TestCase):
    def setUp(self):
        self.file = yaml.safe_load(read("docker-compose.yml"))
        self.services = self.file["services"]
        self.nodes = {name: s for name, s in self.services.items() if name.startswith("openvibe-")}

    def test_the_file_follows_the_specification(self):
        options = compose_spec.PyOptions()
        options.apply_merge = True
        options.from_yaml(read("docker-compose.yml")).validate()

    def test_only_the_single_server_starts_without_a_profile(self):
        self.assertEqual(["openvibe"], [name for name, s in self.services.items() if "profiles" not in s])

    def test_nodes_differ_only_in_name_and_data(self):
        self.assertEqual(2, len(self.nodes))
        directories = set()
        for name, node in self.nodes.items():
            self.assertEqual(name, node["environment"].pop("OPENVIBE_NODE_NAME"))
            (volume,) = node.pop("volumes")
            source, target = volume.split(":")
            self.assertEqual(node["environment"]["OPENVIBE_DATA_DIR"], target)
            self.assertIn(source, self.file["volumes"])
            directories.add(source)
        self.assertEqual(2, len(directories))
        first, second = self.nodes.values()
        self.assertEqual(first, second)

    def test_every_service_that_a_node_needs_is_in_its_profile(self):
        for service in (*self.nodes.values(), self.services["haproxy"]):
            for name in service["depends_on"]:
                self.assertIn("nodes", self.services[name]["profiles"])

    def test_nodes_trust_the_address_of_haproxy(self):
        address = self.services["haproxy"]["networks"]["proxy"]["ipv4_address"]
        (network,) = self.file["networks"]["proxy"]["ipam"]["config"]
        self.assertIn(ip_address(address), ip_network(network["subnet"]))
        # Docker would give the address to a node that starts first.
        self.assertNotIn(ip_address(address), ip_network(network["ip_range"]))
        for node in self.nodes.values():
            trusted = node["environment"]["OPENVIBE_TRUSTED_PROXIES"]
            self.assertEqual(address, re.match(r"[\d.]+", trusted).group())


class Haproxy(unittest.TestCase):
    def test_haproxy_accepts_its_configuration(self):
        check = subprocess.run(
            [haproxy(), "-c", "-f", ROOT / "deploy/haproxy.cfg"], capture_output=True, text=True, check=False
        )
        self.assertEqual(0, check.returncode, check.stderr)
        # The names of the services only resolve in Docker.
        others = [line for line in check.stderr.splitlines() if "[WARNING]" in line and "could not resolve" not in line]
        self.assertEqual([], others)

    def test_haproxy_knows_every_node(self):
        servers = re.findall(r"^ *server (\S+) (\S+):8080$", read("deploy/haproxy.cfg"), re.MULTILINE)
        services = yaml.safe_load(read("docker-compose.yml"))["services"]
        self.assertEqual([(name, name) for name in services if name.startswith("openvibe-")], servers)


if __name__ == "__main__":
    unittest.main(verbosity=1)
