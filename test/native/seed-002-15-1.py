# The OJS AMQP binding's own example 15.1 ("Publishing a Job"), as it is printed there, but for
# where the broker is and for the id: uuid.uuid7 came with Python 3.14.
import os
import pika, json, uuid
from datetime import datetime, timezone

conn = pika.BlockingConnection(pika.ConnectionParameters(host=os.environ['AMQP_HOST'], port=int(os.environ['AMQP_PORT']), virtual_host=os.environ['AMQP_VHOST']))
ch = conn.channel()
ch.confirm_delivery()

# Declare topology (idempotent)
ch.exchange_declare(exchange='ojs.exchange.direct', exchange_type='direct', durable=True)
ch.exchange_declare(exchange='ojs.exchange.dlx', exchange_type='direct', durable=True)
ch.queue_declare(queue='ojs.queue.email', durable=True, arguments={
    'x-dead-letter-exchange': 'ojs.exchange.dlx',
    'x-dead-letter-routing-key': 'email',
    'x-max-priority': 10,
})
ch.queue_bind(queue='ojs.queue.email', exchange='ojs.exchange.direct', routing_key='email')

job_id = os.environ['JOB_ID']
job = {
    "id": job_id, "type": "email.send", "queue": "email",
    "args": ["user@example.com", "welcome"],
    "created_at": datetime.now(timezone.utc).isoformat(),
}

ch.basic_publish(
    exchange='ojs.exchange.direct', routing_key='email',
    body=json.dumps(job), mandatory=True,
    properties=pika.BasicProperties(
        message_id=job_id, type='email.send',
        content_type='application/openjobspec+json', content_encoding='utf-8',
        delivery_mode=2, app_id='ojs',
        timestamp=int(datetime.now(timezone.utc).timestamp()),
        headers={'x-ojs-queue': 'email', 'x-ojs-attempt': 1, 'x-ojs-max-attempts': 5},
    ),
)
conn.close()
