"""Prints the begin and the end of requests: SECRET=whsec_… python3 receive.py [PORT]"""

import base64
import hashlib
import hmac
import http.server
import json
import os
import sys
import time

SECRET = os.environ.get("SECRET", "whsec_ZGVtby1kZW1vLWRlbW8tZGVtby1kZW1vLWRlbW8tMDE=")
MAX_BODY_BYTES = 64 * 1024
# The maximum age of a message, so that nobody can repeat an old one.
TOLERANCE_SECONDS = 300


def verify(headers, body):
    """Whether a message has a signature of this secret, and is new."""
    message_id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not timestamp.isdigit() or abs(time.time() - int(timestamp)) > TOLERANCE_SECONDS:
        return False
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    digest = hmac.new(key, f"{message_id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    expected = "v1," + base64.b64encode(digest).decode()
    signatures = headers.get("webhook-signature", "").split(" ")
    return any(hmac.compare_digest(signature.encode(), expected.encode()) for signature in signatures)


# The ids of the last messages, which can be sent again. A real receiver stores the ids.
seen = set()


def handle(message_id, body):
    if message_id in seen:
        return
    seen.add(message_id)
    event = json.loads(body)
    data = event["data"]
    end = data.get("end", {})
    words = [event["type"], f"{event['namespace']}/{event['route']}", data["streamId"], data["requestId"]]
    print(*words, *[end[name] for name in ("how", "message") if name in end], flush=True)


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        length = int(self.headers.get("content-length", 0))
        body = self.rfile.read(min(length, MAX_BODY_BYTES))
        genuine = verify(self.headers, body)
        if genuine:
            handle(self.headers["webhook-id"], body)
        self.send_response(204 if genuine else 401)
        self.end_headers()

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8099
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Receiver)
    print(f"receiving on port {port}", flush=True)
    server.serve_forever()
