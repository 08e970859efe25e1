"""A plain pika consumer: takes messages from a queue, acknowledges them, prints one JSON line each.

Usage: consume.py AMQP_URL QUEUE COUNT

Each header is printed as [type, value] with the type letter of the wire (I = int32, S = string),
which pika itself does not tell.
"""

import json
import sys

import pika
from pika import data, spec

IDLE_SECONDS = 20

kinds = []
depth = 0
decode_value = data.decode_value


def noting_decode_value(encoded, offset):
    global depth
    if depth == 0:
        kinds.append(encoded[offset:offset + 1].decode())
    depth += 1
    try:
        return decode_value(encoded, offset)
    finally:
        depth -= 1


def noting_decode(self, encoded, offset=0, decode=spec.BasicProperties.decode):
    kinds.clear()
    decode(self, encoded, offset)
    self.header_kinds = list(kinds)
    return self


data.decode_value = noting_decode_value
spec.BasicProperties.decode = noting_decode

PROPERTIES = [
    'message_id', 'type', 'content_type', 'content_encoding', 'timestamp', 'delivery_mode',
    'priority', 'correlation_id', 'reply_to', 'app_id', 'expiration', 'user_id', 'cluster_id',
]

url, queue, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
connection = pika.BlockingConnection(pika.URLParameters(url))
channel = connection.channel()
channel.basic_qos(prefetch_count=1)
received = 0
for method, properties, body in channel.consume(queue, inactivity_timeout=IDLE_SECONDS):
    if method is None:
        sys.exit(f'{received} of {count} messages came')
    headers = properties.headers or {}
    print(json.dumps({
        'properties': {name: getattr(properties, name) for name in PROPERTIES
                       if getattr(properties, name) is not None},
        'headers': {name: [kind, value] for kind, (name, value)
                    in zip(properties.header_kinds, headers.items(), strict=True)},
        'routing_key': method.routing_key,
        'exchange': method.exchange,
        'body': body.decode('utf-8', 'replace'),
    }, default=str), flush=True)
    channel.basic_ack(method.delivery_tag)
    received += 1
    if received == count:
        break
connection.close()
