"""Publishes messages with pika, mandatory and confirmed.

Usage: publish.py AMQP_URL EXCHANGE ROUTING_KEY < messages.json

Stdin: a JSON array of {"body": base64, "properties": {…}, "headers": {…}}.
"""

import base64
import json
import sys

import pika

url, exchange, routing_key = sys.argv[1:4]
connection = pika.BlockingConnection(pika.URLParameters(url))
channel = connection.channel()
channel.confirm_delivery()
for message in json.load(sys.stdin):
    channel.basic_publish(
        exchange=exchange, routing_key=routing_key, mandatory=True,
        body=base64.b64decode(message['body']),
        properties=pika.BasicProperties(
            headers=message.get('headers'), **message.get('properties', {}),
        ),
    )
connection.close()
