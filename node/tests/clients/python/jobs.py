"""Reads jobs from standard input, one JSON object a line, and prints one JSON answer a line."""

import json
import sys
import traceback


def serve(client):
    """Answers each job by the function of the module `client` that its `do` names, until the input ends."""
    for line in sys.stdin:
        job = json.loads(line)
        try:
            answer = getattr(client, job["do"])(job)
        except Exception as error:  # the driver decides what a failure means
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


def encoded(text):
    """Keys and values are bytes on the wire, or absent."""
    return None if text is None else text.encode()


def decoded(data):
    """The inverse of `encoded`."""
    return None if data is None else data.decode()
