"""Joins the bills of materials (CycloneDX) of the server and of the web client, without anything that differs between two runs.

    bill.py SERVER CLIENT VERSION SOURCE_DATE_EPOCH
"""

import json
import sys
from datetime import datetime, timezone
from pathlib import Path

server, client = (json.loads(Path(path).read_text()) for path in sys.argv[1:3])
version, epoch = sys.argv[3], int(sys.argv[4])
components = {}
for part in server["components"] + client.get("components", []):
    kept = {name: part[name] for name in ("type", "name", "version", "purl", "licenses", "hashes") if name in part}
    components[kept.get("purl", kept["name"])] = kept
bill = {
    "bomFormat": "CycloneDX",
    "specVersion": "1.5",
    "version": 1,
    "metadata": {
        "timestamp": datetime.fromtimestamp(epoch, timezone.utc).isoformat(),
        "component": {"type": "application", "name": "openvibe", "version": version, "licenses": [{"license": {"id": "MIT"}}]},
    },
    "components": [components[name] for name in sorted(components)],
}
print(json.dumps(bill, indent=1, sort_keys=True))
