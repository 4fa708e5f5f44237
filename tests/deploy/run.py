"""Tests of the files for operators. No container engine or cluster is needed: HAProxy checks its configuration, Helm renders
the chart, and the objects are compared with the schemas of Kubernetes."""

import json
import os
import re
import shutil
import subprocess
import unittest
from ipaddress import ip_address, ip_network
from pathlib import Path

import compose_spec
import kubernetes_validate
import promql_parser
import yaml

try:
    import helm_python
except ImportError:  # There is no package for this machine.
    helm_python = None

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/helm/openvibe"
KUBERNETES = "1.37"
URL = {"publicUrl": "https://chat.example.org"}
KEY = {"secretKey": {"existingSecret": "key"}}
BINARY = Path(os.environ.get("OPENVIBE_BIN", ROOT / "target/debug/openvibe"))
LEAST = URL | {"database": {"url": "postgres://openvibe:secret@db/openvibe"}}


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
        # The library does not know the name of the address that Docker gives to the machine.
        text = read("docker-compose.yml").replace("host-gateway", "172.17.0.1")
        options.from_yaml(text).validate()

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

    def test_servers_reach_model_servers_on_the_machine(self):
        for name in ("openvibe", *self.nodes):
            self.assertEqual(["host.docker.internal:host-gateway"], self.services[name]["extra_hosts"])

    def test_nodes_share_a_key_and_sign_in_to_nats(self):
        user, password = "--user", "--pass"
        login = dict(zip(*[iter(self.services["nats"]["command"])] * 2, strict=True))
        for node in self.nodes.values():
            self.assertEqual("${OPENVIBE_SECRET_KEY:-}", node["environment"]["OPENVIBE_SECRET_KEY"])
            self.assertEqual(
                f"nats://{login[user]}:{login[password]}@nats:4222", node["environment"]["OPENVIBE_NATS_URL"]
            )

    def test_every_service_that_a_node_needs_is_in_its_profile(self):
        for service in (*self.nodes.values(), self.services["haproxy"]):
            for name in service["depends_on"]:
                self.assertIn("nodes", self.services[name]["profiles"])

    def test_nodes_trust_the_address_of_haproxy(self):
        address = self.services["haproxy"]["networks"]["proxy"]["ipv4_address"]
        (network,) = self.file["networks"]["proxy"]["ipam"]["config"]
        self.assertIn(ip_address(address), ip_network(network["subnet"]))
        # Otherwise, Docker could assign the address to a node that starts first.
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


@unittest.skipUnless(helm_python, "no package with Helm for this machine")
class Chart(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.chart = helm_python.Chart.load(CHART)

    def render(self, values, name="chat"):
        """Objects by kind, each valid in Kubernetes."""
        self.chart.validate_schema(values)
        objects = {}
        for path, text in self.chart.render(values, name=name, namespace="team").items():
            if not path.endswith(".yaml"):
                continue
            for found in yaml.safe_load_all(text):
                if found:
                    # The operator's own objects are not part of Kubernetes.
                    if not found["apiVersion"].startswith("monitoring.coreos.com/"):
                        kubernetes_validate.validate(found, KUBERNETES, strict=True)
                    objects[found["kind"]] = found
        return objects

    def notes(self, values):
        return next(text for path, text in self.chart.render(values, name="chat").items() if path.endswith("NOTES.txt"))

    def pod(self, values):
        return self.render(values)["Deployment"]["spec"]["template"]["spec"]

    def env(self, values):
        (container,) = self.pod(values)["containers"]
        return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in container["env"]}

    def assert_refused(self, values, message):
        with self.assertRaisesRegex(helm_python.HelmError, message):
            self.render(values)

    def test_helm_finds_nothing_to_correct(self):
        report = helm_python.lint(CHART, LEAST, strict=True)
        found = [m for m in report["messages"] if m["severity"] > 1]
        self.assertEqual(([], []), (found, report["errors"]))

    def test_the_chart_has_the_version_of_the_program(self):
        version = re.search(r'^version = "(.+)"', read("Cargo.toml"), re.MULTILINE).group(1)
        self.assertEqual(version, self.chart.metadata["appVersion"])

    def test_a_database_is_required(self):
        self.assert_refused(URL, "a PostgreSQL database is required: set database.url or database.existingSecret")

    def test_the_public_url_is_required(self):
        self.assert_refused({"database": LEAST["database"]}, "publicUrl is required")

    def test_more_than_four_nodes_need_nats(self):
        self.assert_refused(LEAST | {"replicaCount": 5}, "5 nodes need NATS, and the limit is 4 without it")
        objects = self.render(LEAST | KEY | {"replicaCount": 5, "nats": {"url": "nats://nats:4222"}})
        self.assertEqual(5, objects["Deployment"]["spec"]["replicas"])

    def test_nats_needs_a_secret_key(self):
        nats = LEAST | {"nats": {"existingSecret": "nats"}}
        self.assert_refused(nats, "NATS needs OPENVIBE_SECRET_KEY")
        reference = {"secretKeyRef": {"name": "key", "key": "secret-key"}}
        self.assertEqual(reference, self.env(nats | KEY)["OPENVIBE_SECRET_KEY"])
        for other in ({"env": {"OPENVIBE_SECRET_KEY": "x"}}, {"envFrom": [{"secretRef": {"name": "settings"}}]}):
            self.render(nats | other)

    def test_values_are_checked(self):
        for wrong in (
            {"replicas": 2},
            {"drain": "16s"},
            {"sqlite": {"enabled": True, "size": "ten"}},
            {"drain": "soon"},
            {"publicUrl": "chat.example.org"},
            {"database": {"url": "sqlite://x"}},
            {"env": {"OPENVIBE_WORKERS": 16}},
        ):
            self.assert_refused(LEAST | wrong, "")
        both = {"url": "postgres://db/openvibe", "existingSecret": "db"}
        self.assert_refused(LEAST | {"database": both}, "exclude each other")

    def test_a_node_stops_after_its_replacement_is_ready(self):
        deployment = self.render(LEAST)["Deployment"]["spec"]
        self.assertEqual(2, deployment["replicas"])
        self.assertEqual({"maxUnavailable": 0, "maxSurge": 1}, deployment["strategy"]["rollingUpdate"])
        pod = deployment["template"]["spec"]
        self.assertEqual(40, pod["terminationGracePeriodSeconds"])
        (container,) = pod["containers"]
        paths = {probe: container[probe]["httpGet"]["path"] for probe in container if probe.endswith("Probe")}
        self.assertEqual(
            {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}, paths
        )
        ready = container["readinessProbe"]
        # A stopping node closes its sockets after 5 s.
        self.assertLess(ready["periodSeconds"] * ready["failureThreshold"], 5)

    def test_a_node_runs_without_privileges(self):
        pod = self.pod(LEAST)
        self.assertTrue(pod["securityContext"]["runAsNonRoot"])
        (container,) = pod["containers"]
        self.assertTrue(container["securityContext"]["readOnlyRootFilesystem"])
        limits = {v["name"]: v["emptyDir"] for v in pod["volumes"]}
        self.assertEqual({"data": {"sizeLimit": "5Gi"}, "tmp": {"sizeLimit": "1Gi"}}, limits)

    def test_addresses_with_passwords_are_in_a_secret(self):
        values = LEAST | KEY | {"nats": {"url": "tls://ov:secret@nats:4222"}, "blobs": {"url": "s3://files/chat"}}
        objects = self.render(values)
        self.assertEqual(
            {"database-url": LEAST["database"]["url"], "nats-url": "tls://ov:secret@nats:4222"},
            objects["Secret"]["stringData"],
        )
        self.assertNotIn("secret@", json.dumps(objects["Deployment"]))
        env = self.env(values)
        name = objects["Secret"]["metadata"]["name"]
        self.assertEqual({"secretKeyRef": {"name": name, "key": "database-url"}}, env["OPENVIBE_DATABASE_URL"])
        self.assertEqual({"secretKeyRef": {"name": name, "key": "nats-url"}}, env["OPENVIBE_NATS_URL"])
        self.assertEqual("s3://files/chat", env["OPENVIBE_BLOBS_URL"])
        self.assertEqual({"fieldRef": {"fieldPath": "metadata.name"}}, env["OPENVIBE_NODE_NAME"])

    def test_existing_secrets_are_used(self):
        values = URL | {
            "database": {"existingSecret": "chat-db-app"},
            "nats": {"existingSecret": "nats", "existingSecretKey": "address"},
            "blobs": {"existingSecret": "s3"},
            "env": {"OPENVIBE_LOG_FORMAT": "json"},
            "envFrom": [{"secretRef": {"name": "settings"}}],
        }
        self.assertNotIn("Secret", self.render(values))
        env = self.env(values)
        self.assertEqual({"secretKeyRef": {"name": "chat-db-app", "key": "uri"}}, env["OPENVIBE_DATABASE_URL"])
        self.assertEqual({"secretKeyRef": {"name": "nats", "key": "address"}}, env["OPENVIBE_NATS_URL"])
        self.assertEqual("json", env["OPENVIBE_LOG_FORMAT"])
        (container,) = self.pod(values)["containers"]
        self.assertEqual(["s3", "settings"], [source["secretRef"]["name"] for source in container["envFrom"]])

    def test_a_new_password_restarts_the_nodes(self):
        def annotations(url):
            return self.render(URL | {"database": {"url": url}})["Deployment"]["spec"]["template"]["metadata"]["annotations"]

        self.assertNotEqual(annotations("postgres://a:1@db/openvibe"), annotations("postgres://a:2@db/openvibe"))

    def test_the_ingress_leads_from_the_public_url_to_the_nodes(self):
        self.assertNotIn("Ingress", self.render(LEAST))
        objects = self.render(LEAST | {"ingress": {"enabled": True, "className": "nginx", "tlsSecret": "tls"}})
        ingress = objects["Ingress"]["spec"]
        (rule,) = ingress["rules"]
        self.assertEqual(("chat.example.org", "nginx"), (rule["host"], ingress["ingressClassName"]))
        self.assertEqual([{"hosts": ["chat.example.org"], "secretName": "tls"}], ingress["tls"])
        service = objects["Service"]
        (path,) = rule["http"]["paths"]
        self.assertEqual(service["metadata"]["name"], path["backend"]["service"]["name"])
        template = objects["Deployment"]["spec"]["template"]
        self.assertLessEqual(service["spec"]["selector"].items(), template["metadata"]["labels"].items())

    def test_one_node_can_use_sqlite_on_a_volume(self):
        values = URL | {"sqlite": {"enabled": True, "size": "20Gi", "storageClass": "fast"}}
        objects = self.render(values)
        spec = objects["Deployment"]["spec"]
        self.assertEqual((1, {"type": "Recreate"}), (spec["replicas"], spec["strategy"]))
        claim = objects["PersistentVolumeClaim"]
        self.assertEqual(("fast", "20Gi"), (claim["spec"]["storageClassName"], claim["spec"]["resources"]["requests"]["storage"]))
        volumes = {volume["name"]: volume for volume in spec["template"]["spec"]["volumes"]}
        self.assertEqual(claim["metadata"]["name"], volumes["data"]["persistentVolumeClaim"]["claimName"])
        self.assertNotIn("OPENVIBE_DATABASE_URL", self.env(values))
        self.assertNotIn("PodDisruptionBudget", objects)
        self.assertIn("1 node", self.notes(values))
        existing = self.render(URL | {"sqlite": {"enabled": True, "existingClaim": "chat"}})
        self.assertNotIn("PersistentVolumeClaim", existing)
        self.assert_refused(LEAST | {"sqlite": {"enabled": True}}, "exclude each other")
        nats = {"nats": {"url": "nats://nats:4222"}}
        self.assert_refused(values | nats | KEY, "nats needs PostgreSQL")

    def test_pods_can_be_placed_and_extended(self):
        toleration = {"key": "chat", "operator": "Exists", "effect": "NoSchedule"}
        volume = {"name": "creds", "secret": {"secretName": "nats-creds"}}
        mount = {"name": "creds", "mountPath": "/etc/nats", "readOnly": True}
        values = LEAST | {
            "podAnnotations": {"a": "1"}, "podLabels": {"team": "chat"}, "nodeSelector": {"disk": "ssd"},
            "tolerations": [toleration], "affinity": {"podAntiAffinity": {}}, "serviceAccount": "chat",
            "extraVolumes": [volume], "extraVolumeMounts": [mount],
        }
        template = self.render(values)["Deployment"]["spec"]["template"]
        self.assertEqual("1", template["metadata"]["annotations"]["a"])
        self.assertEqual("chat", template["metadata"]["labels"]["team"])
        pod = template["spec"]
        self.assertEqual(({"disk": "ssd"}, [toleration]), (pod["nodeSelector"], pod["tolerations"]))
        self.assertEqual(({"podAntiAffinity": {}}, "chat"), (pod["affinity"], pod["serviceAccountName"]))
        self.assertIn(volume, pod["volumes"])
        self.assertIn(mount, pod["containers"][0]["volumeMounts"])

    def test_the_settings_file_is_mounted_and_restarts_the_nodes(self):
        def deployed(config):
            return self.render(URL | {"database": {"existingSecret": "db"}, "config": config})

        first = deployed('signup = "open"\n[mcp.files]\ncommand = ["files"]\n')
        self.assertEqual('signup = "open"\n[mcp.files]\ncommand = ["files"]\n', first["Secret"]["stringData"]["openvibe.toml"])
        env = self.env(LEAST | {"config": "workers = 2"})
        self.assertEqual("/etc/openvibe/openvibe.toml", env["OPENVIBE_CONFIG"])
        checksum = [o["Deployment"]["spec"]["template"]["metadata"]["annotations"] for o in (first, deployed("workers = 2"))]
        self.assertNotEqual(*checksum)

    def test_prometheus_needs_the_token(self):
        monitor = {"serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}}
        self.assert_refused(LEAST | {"metrics": monitor}, "set metrics.existingSecret")
        values = LEAST | {"metrics": monitor | {"existingSecret": "metrics"}}
        found = self.render(values)["ServiceMonitor"]
        self.assertEqual("prometheus", found["metadata"]["labels"]["release"])
        reference = {"name": "metrics", "key": "OPENVIBE_METRICS_TOKEN"}
        self.assertEqual(reference, found["spec"]["endpoints"][0]["authorization"]["credentials"])
        self.assertEqual({"secretKeyRef": reference}, self.env(values)["OPENVIBE_METRICS_TOKEN"])
        self.assertIn("OPENVIBE_METRICS_TOKEN is not set", self.notes(LEAST))
        self.assertNotIn("ServiceMonitor", self.render(LEAST))

    def test_a_network_policy_permits_only_the_ingress(self):
        self.assertNotIn("NetworkPolicy", self.render(LEAST))
        peer = {"namespaceSelector": {"matchLabels": {"name": "ingress"}}}
        policy = self.render(LEAST | {"networkPolicy": {"enabled": True, "from": [peer]}})["NetworkPolicy"]
        self.assertEqual([{"ports": [{"port": "http"}], "from": [peer]}], policy["spec"]["ingress"])

    @unittest.skipUnless(BINARY.exists(), "the program is not built")
    def test_the_program_accepts_the_longest_drain(self):
        pattern = re.compile(json.loads(read("deploy/helm/openvibe/values.schema.json"))["properties"]["drain"]["pattern"])
        longest = max(n for n in range(100) if pattern.match(f"{n}s"))

        def error(drain):
            env = {"OPENVIBE_DRAIN": f"{drain}s", "OPENVIBE_DATA_DIR": "/nonexistent"}
            return subprocess.run([BINARY, "nodes"], env=env, capture_output=True, text=True, check=False).stderr

        self.assertNotIn("OPENVIBE_DRAIN", error(longest))
        self.assertIn("OPENVIBE_DRAIN", error(longest + 1))

    def test_one_node_at_a_time_can_be_evicted(self):
        self.assertEqual(1, self.render(LEAST)["PodDisruptionBudget"]["spec"]["maxUnavailable"])
        self.assertNotIn("PodDisruptionBudget", self.render(LEAST | {"replicaCount": 1}))

    def test_the_notes_name_missing_settings(self):
        notes = self.notes(LEAST)
        self.assertIn("logs deployment/chat-openvibe", notes)
        self.assertIn("OPENVIBE_SECRET_KEY is not set", notes)
        env = {"OPENVIBE_SECRET_KEY": "x", "OPENVIBE_TRUSTED_PROXIES": "10.0.0.1", "OPENVIBE_METRICS_TOKEN": "y"}
        self.assertNotIn("is not set", self.notes(LEAST | {"env": env}))
        self.assertNotIn("OPENVIBE_SECRET_KEY is not set", self.notes(LEAST | KEY))


class Timeouts(unittest.TestCase):
    def test_proxies_wait_for_the_longest_reply(self):
        longest = 15 * 60
        (nginx,) = re.findall(r"proxy_read_timeout (\d+)s;", read("docs/operations.md"))
        values = yaml.safe_load(read("deploy/helm/openvibe/values.yaml"))
        ingress = values["ingress"]["annotations"]["nginx.ingress.kubernetes.io/proxy-read-timeout"]
        (haproxy_minutes,) = re.findall(r"timeout server (\d+)m$", read("deploy/haproxy.cfg"), re.MULTILINE)
        self.assertIn('"ATTEMPT_MAX", Duration::from_mins(15)', read("src/config.rs"))
        for seconds in (int(nginx), int(ingress), int(haproxy_minutes) * 60):
            self.assertGreaterEqual(seconds, longest)


class Image(unittest.TestCase):
    def test_the_dockerfile_copies_every_file_of_the_program(self):
        copied = [line.split()[1:-1] for line in read("Dockerfile").splitlines() if line.startswith("COPY ") and "--from" not in line]
        copied = [ROOT / path for paths in copied for path in paths]
        included = set()
        for source in [*ROOT.glob("src/**/*.rs"), *ROOT.glob("crates/*/src/**/*.rs")]:
            # Unit tests are not built.
            code = source.read_text().split("#[cfg(test)]\nmod tests")[0]
            included |= {(source.parent / path).resolve() for path in re.findall(r'include_(?:str|bytes)!\(\s*"([^"]+)"', code)}
        self.assertIn(ROOT / "deploy/openvibe.service", included)
        for file in included:
            self.assertTrue(any(file == path or path in file.parents for path in copied), f"Dockerfile does not copy {file}")

    def test_no_file_of_the_program_is_left_out_of_the_build(self):
        kept = [line[1:] for line in read(".dockerignore").splitlines() if line.startswith("!")]
        for line in read("Dockerfile").splitlines():
            if line.startswith("COPY ") and "--from" not in line:
                for path in line.split()[1:-1]:
                    self.assertTrue(any(path == known or path.startswith(f"{known}/") for known in kept), f".dockerignore leaves out {path}")


class Settings(unittest.TestCase):
    def test_every_setting_is_in_the_sample(self):
        sample = read(".env.sample")
        files = map(read, ("docker-compose.yml", "deploy/helm/openvibe/templates/deployment.yaml", "docs/operations.md"))
        names = {name for text in files for name in re.findall(r"\bOPENVIBE_[A-Z_]*[A-Z]\b", text)}
        self.assertEqual([], sorted(name for name in names if f"#{name}=" not in sample))


class Dashboard(unittest.TestCase):
    def test_expressions_are_valid_and_name_documented_metrics(self):
        documented = set(re.findall(r"^\| `((?:openvibe|process)_\w+)", read("docs/operations.md"), re.MULTILINE))
        panels = json.loads(read("deploy/grafana.json"))["panels"]
        expressions = [target["expr"] for panel in panels for target in panel.get("targets", [])]
        self.assertGreater(len(expressions), 15)
        for expression in expressions:
            promql_parser.parse(expression)
            for name in re.findall(r"\b(?:openvibe|process)_\w+", expression):
                self.assertIn(name.removesuffix("_bucket"), documented)

    def test_panels_do_not_overlap(self):
        places = [panel["gridPos"] for panel in json.loads(read("deploy/grafana.json"))["panels"]]
        cells = [(x, y) for p in places for x in range(p["x"], p["x"] + p["w"]) for y in range(p["y"], p["y"] + p["h"])]
        self.assertEqual(len(cells), len(set(cells)))


class Alerts(unittest.TestCase):
    def setUp(self):
        self.rules = [rule for group in yaml.safe_load(read("deploy/alerts.yml"))["groups"] for rule in group["rules"]]

    def test_expressions_are_valid(self):
        for rule in self.rules:
            promql_parser.parse(rule["expr"])
            self.assertLessEqual(rule.keys(), {"alert", "expr", "for", "labels", "annotations"})
            self.assertIn(rule["labels"]["severity"], ("critical", "warning"))
            self.assertRegex(rule.get("for", "1m"), r"^\d+[hms]$")
            self.assertTrue(rule["annotations"]["summary"])

    def test_the_guide_describes_every_alert(self):
        _, alerts = read("docs/operations.md").split("### Alerts\n")
        described = re.findall(r"^\| `(\w+)` \|", alerts.split("\n## ")[0], re.MULTILINE)
        self.assertEqual([rule["alert"] for rule in self.rules], described)


if __name__ == "__main__":
    unittest.main(verbosity=1)
