#!/usr/bin/env python3
"""Every metric that the Grafana dashboard asks for is one that the server has."""
import json
import re
import sys
from pathlib import Path

root = Path(__file__).resolve().parents[2]
dashboard = json.loads((root / "packaging/grafana/holdfast.json").read_text())
sources = "".join((root / "src/server" / name).read_text()
                  for name in ("metrics_api.cc", "request_metrics.cc"))
there = set(re.findall(r'"(holdfast_[a-z_]+)"', sources))
asked = set()
for panel in dashboard["panels"]:
    for target in panel["targets"]:
        asked |= set(re.findall(r"holdfast_[a-z_]+", target["expr"]))
missing = {name for name in asked if re.sub(r"_bucket$", "", name) not in there}
print(f"{len(dashboard['panels'])} panels, {len(asked)} metrics")
if missing or not asked:
    sys.exit(f"not among the server's metrics: {sorted(missing)}")
