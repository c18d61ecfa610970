#!/usr/bin/env bash
# Checks values.yaml with Helm itself: deploy/kubernetes/lint.sh CHART
# CHART is Dagster's chart (helm/dagster of its repository, of the release in use, with its
# dependencies), or its name once its repository is added: dagster/dagster.
set -euo pipefail
chart=${1:?name the chart: deploy/kubernetes/lint.sh CHART}
values=$(dirname "$0")/values.yaml
[[ ! -d $chart ]] || helm lint "$chart" --values "$values"
# Rendered against the chart's values.schema.json, then shown: the instance, and what pods there are.
helm template knowledge "$chart" --values "$values" --show-only templates/configmap-instance.yaml
helm template knowledge "$chart" --values "$values" | grep -E '^kind:' | sort | uniq -c
