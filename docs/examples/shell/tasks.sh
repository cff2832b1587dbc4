#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Tasks from a shell, with nothing but curl: the API in JSON on the admin port (docs/JSON.md).
#
#     docs/examples/shell/tasks.sh 127.0.0.1:7401 receiver://127.0.0.1:7500
#
# The second word is where tasks go; `foliot receive --port 7500` shows what arrives there.
set -eu

admin=${1:-127.0.0.1:7401}
target=${2:-receiver://127.0.0.1:7500}
queue=example-$$

# call Service/Method JSON: the answer on standard output, or the error on standard error and status 1.
call()
{
    answer=$(curl -sS --max-time 30 -w '\n%{http_code}' -H 'Content-Type: application/json' \
        -d "$2" "http://$admin/foliot.v1.$1")
    status=${answer##*
}
    body=${answer%
*}
    if [ "$status" != 200 ]; then
        echo "refused $status: $body" >&2
        return 1
    fi
    echo "$body"
}

# field NAME: the text of a field in one line of JSON. jq does it better, if you have it.
field()
{
    sed -n 's/.*"'"$1"'":"\([^"]*\)".*/\1/p'
}

call QueueService/Create '{"queue":{"name":"'"$queue"'","target":"'"$target"'"}}' >/dev/null

# Payloads are bytes: base64 in JSON. With a key the call may be repeated after any error.
payload=$(printf 'hello from the past' | base64)
id=$(call TaskService/Create '{"queue":"'"$queue"'","key":"order-17","delay":"2s","payload":"'"$payload"'"}' |
    field id)
echo "created $id"
call TaskService/Get '{"id":"'"$id"'"}'

# Another one, which is not going to happen.
other=$(call TaskService/Create '{"queue":"'"$queue"'","dueTime":"2100-01-01T00:00:00Z"}' | field id)
call TaskService/Cancel '{"id":"'"$other"'"}' | field outcome

# What a mistake looks like.
call TaskService/Create '{"queue":"'"$queue"'","delay":"2 seconds"}' || true
