#!/usr/bin/env bash
# Starts and stops stores that speak Google's and Azure's protocols, on loopback alone, with a bucket and a container
# `warehouse`:
#
#     stores.sh up FOLDER      installs what is missing below FOLDER, starts, prints how they are reached
#     stores.sh down FOLDER    stops them; what is installed stays
#
# GCS_FRONT_PORT (15603)  what gs:// is to use: the XML API in front of …
# GCS_PORT (15601)        … fake-gcs-server, which lacks most of that API
# AZURITE_PORT (15602)    az://
# GCS_PAGE (5)            names in one page of a list of the front
# Everything is in memory: a new `up` begins with empty stores. Needs go, npm, openssl and python3.
set -euo pipefail

FAKE_GCS_VERSION=v1.56.1
# 3.36 and later need a newer Node.js than 20.
AZURITE_VERSION=3.35.0
GCS_PORT=${GCS_PORT:-15601} AZURITE_PORT=${AZURITE_PORT:-15602} GCS_FRONT_PORT=${GCS_FRONT_PORT:-15603}
GCS_PAGE=${GCS_PAGE:-5}
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

fail() {
    echo "$*" >&2
    exit 1
}

install() {
    mkdir -p "$work"/{tools,run,logs,keys}
    if ! [ -x "$work/tools/bin/fake-gcs-server" ]; then
        echo "building fake-gcs-server $FAKE_GCS_VERSION …" >&2
        GOBIN="$work/tools/bin" GOTOOLCHAIN=local \
            nice go install "github.com/fsouza/fake-gcs-server@$FAKE_GCS_VERSION" 2>"$work/logs/go-install" ||
            fail "go install failed: $work/logs/go-install"
    fi
    if ! [ -x "$work/tools/azurite/node_modules/.bin/azurite-blob" ]; then
        echo "installing azurite $AZURITE_VERSION …" >&2
        mkdir -p "$work/tools/azurite"
        nice npm install --no-audit --no-fund --ignore-scripts --prefix "$work/tools/azurite" \
            "azurite@$AZURITE_VERSION" >"$work/logs/npm-install" 2>&1 || fail "npm failed: $work/logs/npm-install"
    fi
    if ! "$work/tools/venv/bin/python" -c 'import psycopg' 2>/dev/null; then
        echo "making a venv with psycopg …" >&2
        python3 -m venv "$work/tools/venv"
        "$work/tools/venv/bin/pip" install --quiet --disable-pip-version-check 'psycopg[binary]>=3.2,<4'
    fi
}

# Service accounts. Their tokens are signed on this machine: object_store asks nobody for them.
keys() {
    local keys=$work/keys name
    for name in known other; do
        [ -s "$keys/$name.pem" ] ||
            openssl genpkey -quiet -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out "$keys/$name.pem"
    done
    python3 - "$keys" <<'PYTHON'
import json, pathlib, subprocess, sys
keys = pathlib.Path(sys.argv[1])
pem = {name: (keys / f"{name}.pem").read_text() for name in ("known", "other")}
modulus = subprocess.run(["openssl", "rsa", "-in", keys / "known.pem", "-noout", "-modulus"], check=True,
                         capture_output=True, text=True).stdout.strip().removeprefix("Modulus=")
ours, nobody = "lab@lab.iam.gserviceaccount.com", "nobody@lab.iam.gserviceaccount.com"

def account(file, key, email, **further):
    document = {"type": "service_account", "project_id": "lab", "private_key_id": "1", "private_key": key,
                "client_email": email, "client_id": "1", **further}
    (keys / file).write_text(json.dumps(document))

account("account.json", pem["known"], ours)
account("wrong-key.json", pem["other"], ours)
account("not-allowed.json", pem["known"], nobody)
account("anonymous.json", "", ours, disable_oauth=True)
(keys / "broken.json").write_text('{"private_key": "-----BEGIN SECRET-OF-BROKEN')
public = {"n": modulus, "e": 65537}
(keys / "public.json").write_text(json.dumps({ours: {**public, "allowed": True}, nobody: {**public, "allowed": False}}))
PYTHON
}

# When a process began, in ticks: with its number it tells processes apart.
begun() {
    sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20
}

# launch NAME PORT COMMAND…: in the background, until its port answers. Nothing of it holds this script's output.
launch() {
    local name=$1 port=$2
    shift 2
    ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || fail "port $port is in use"
    (cd "$work/run" && TZ=UTC exec setsid "$@") >"$work/logs/$name" 2>&1 </dev/null &
    echo "$! $(begun $!)" >"$work/run/$name.pid"
    for _ in $(seq 300); do
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && return
        kill -0 "$!" 2>/dev/null || break
        sleep 0.1
    done
    fail "$name does not answer on port $port: $work/logs/$name"
}

up() {
    install
    keys
    down
    launch fake-gcs "$GCS_PORT" "$work/tools/bin/fake-gcs-server" -scheme http -host 127.0.0.1 -port "$GCS_PORT" \
        -backend memory -public-host "127.0.0.1:$GCS_PORT" -external-url "http://127.0.0.1:$GCS_PORT" -log-level warn
    launch gcs-front "$GCS_FRONT_PORT" "$work/tools/venv/bin/python" -u "$HERE/gcs_front.py" --listen "$GCS_FRONT_PORT" \
        --upstream "$GCS_PORT" --public-host "127.0.0.1:$GCS_PORT" --keys "$work/keys/public.json" --page "$GCS_PAGE"
    launch azurite "$AZURITE_PORT" node "$work/tools/azurite/node_modules/azurite/dist/src/blob/main.js" \
        --blobHost 127.0.0.1 --blobPort "$AZURITE_PORT" --inMemoryPersistence --extentMemoryLimit 2048 \
        --disableTelemetry --skipApiVersionCheck --loose
    python3 "$HERE/clients.py" make-bucket "$GCS_PORT" warehouse
    python3 "$HERE/clients.py" make-container "$AZURITE_PORT" warehouse
    settings
}

settings() {
    local azure_key
    azure_key=$(python3 -c "import sys; sys.path.insert(0, sys.argv[1]); import clients; print(clients.ACCOUNT_KEY)" "$HERE")
    python3 - "$work" <<PYTHON
import json, pathlib, sys
work = pathlib.Path(sys.argv[1])
stores = {
    "python": f"{work}/tools/venv/bin/python",
    "gcs": {"endpoint": "http://127.0.0.1:$GCS_FRONT_PORT", "direct": "http://127.0.0.1:$GCS_PORT",
            "keys": f"{work}/keys", "log": f"{work}/logs/gcs-front"},
    "azure": {"endpoint": "http://127.0.0.1:$AZURITE_PORT/devstoreaccount1", "account": "devstoreaccount1",
              "access_key": "$azure_key", "log": f"{work}/logs/azurite"},
}
(work / "stores.json").write_text(json.dumps(stores, indent=2) + "\n")
PYTHON
    cat <<TEXT
# Nyala's configuration
[storage.gcs]
endpoint = "http://127.0.0.1:$GCS_FRONT_PORT"
service_account = "$work/keys/account.json"      # signs; anonymous.json does not (disable_oauth)
allow_http = true

[storage.azure]
endpoint = "http://127.0.0.1:$AZURITE_PORT/devstoreaccount1"
account = "devstoreaccount1"
access_key = "$azure_key"
allow_http = true

# The same for other programs that use object_store (GOOGLE_SKIP_SIGNATURE=true alone does not do: writes would ask
# the metadata server of a cloud for a token)
#   GOOGLE_BASE_URL=http://127.0.0.1:$GCS_FRONT_PORT GOOGLE_SERVICE_ACCOUNT=$work/keys/anonymous.json GOOGLE_ALLOW_HTTP=true
#   AZURE_STORAGE_ACCOUNT_NAME=devstoreaccount1 AZURE_STORAGE_ACCOUNT_KEY=$azure_key
#   AZURE_STORAGE_ENDPOINT=http://127.0.0.1:$AZURITE_PORT/devstoreaccount1 AZURE_ALLOW_HTTP=true
#
# Locations: gs://warehouse/… and az://warehouse/…
TEXT
}

# Ends what `up` has started, and nothing that has one of its numbers by now.
down() {
    local file pid since
    for file in "$work"/run/*.pid; do
        [ -e "$file" ] || continue
        read -r pid since <"$file"
        if [ -n "$since" ] && [ "$(begun "$pid")" = "$since" ]; then
            kill "$pid" 2>/dev/null || true
            for _ in $(seq 50); do
                kill -0 "$pid" 2>/dev/null || break
                sleep 0.1
            done
            kill -9 "$pid" 2>/dev/null || true
        fi
        rm -f "$file"
    done
}

[ $# = 2 ] || fail "stores.sh up|down FOLDER"
mkdir -p "$2"
work=$(cd "$2" && pwd)
case $1 in
up) up ;;
down) down ;;
*) fail "stores.sh up|down FOLDER" ;;
esac
