#!/usr/bin/env bash
# Deploys the service.
set -euo pipefail

source ./lib/log.sh
. "$HOME/.profile"

readonly TIMEOUT_S=30
target="${1:-staging}"

# Prints how to call this.
usage() {
  cat <<EOF
usage: deploy.sh [target]
  target: staging or production
EOF
}

function build {
  for service in api worker; do
    if [[ -d "$service" && ! -f "$service/skip" ]]; then
      docker build "$service" || return 1
    fi
  done
}

deploy() {
  case "$target" in
    staging) echo "to staging" ;;
    production) echo "to production" ;;
    *) usage; exit 2 ;;
  esac
  while ! curl -fs "http://$target/health"; do
    sleep "$TIMEOUT_S"
  done
}

build
deploy
