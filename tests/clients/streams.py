"""Calls methods of redis-py, unchanged, as each line of standard input says.

    streams.py PORT [AUTHORITY]

With an authority's certificate (PEM), under TLS. A line is JSON: {"client": NAME, "connect": {..}} makes a client with one
connection, connected at once; {"client": NAME, "call": METHOD, "args": [..], "kwargs": {..}} calls a method of it;
{"client": NAME, "pipeline": [[METHOD, ARG ..] ..]} sends several without waiting. Each line is answered by one: {"ok": VALUE},
or {"error": CLASS, "says": TEXT}.
"""

import json
import sys

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

PATIENCE = 60


def plain(value):
    """As JSON has it: bytes that are no text as a list of numbers."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return list(value)
    if isinstance(value, dict):
        return {str(plain(k)): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def main():
    where = {"host": "127.0.0.1", "port": int(sys.argv[1]), "socket_timeout": PATIENCE}
    if len(sys.argv) > 2:
        where |= {"ssl": True, "ssl_ca_certs": sys.argv[2]}
    clients = {}
    for line in sys.stdin:
        task = json.loads(line)
        try:
            if "connect" in task:
                retry = Retry(NoBackoff(), 0)
                made = redis.Redis(**where, **task["connect"], retry=retry, single_connection_client=True)
                clients[task["client"]] = made
                value = made.ping()
            elif "pipeline" in task:
                with clients[task["client"]].pipeline(transaction=False) as pipeline:
                    for method, *args in task["pipeline"]:
                        getattr(pipeline, method)(*args)
                    value = pipeline.execute()
            else:
                method = getattr(clients[task["client"]], task["call"])
                value = method(*task.get("args", []), **task.get("kwargs", {}))
            answer = {"ok": plain(value)}
        except redis.RedisError as error:
            answer = {"error": type(error).__name__, "says": str(error)}
        print(json.dumps(answer), flush=True)


main()
