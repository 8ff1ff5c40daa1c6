"""Messages to the host: one JSON object per request, some of which are answered."""
import json

import _host


# Every job sends this request, so it is prepared.
_JOB = json.dumps({"op": "job"}).encode()


def job():
    """Returns the host's description of the job: a line of JSON, then the program."""
    return _host.call(_JOB)


def call(op, **fields):
    """Sends a request and returns the answer's bytes."""
    return _host.call(json.dumps({"op": op, **fields}).encode())


def notify(op, **fields):
    """Sends a request that may be dropped. Without a host, or over its limits, the call has no effect."""
    try:
        call(op, **fields)
    except Exception:
        pass
