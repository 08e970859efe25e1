# The OJS AMQP binding's own example 15.3 ("Retry Topology Setup"), as it is printed there, but for
# where the broker is.
import os
import pika

conn = pika.BlockingConnection(pika.ConnectionParameters(host=os.environ['AMQP_HOST'], port=int(os.environ['AMQP_PORT']), virtual_host=os.environ['AMQP_VHOST']))
ch = conn.channel()
ch.exchange_declare(exchange='ojs.exchange.retry', exchange_type='direct', durable=True)

delays_ms = [1000, 2000, 4000, 8000, 16000, 32000, 60000]
queue_name = 'email'

for delay in delays_ms:
    retry_queue = f'ojs.queue.retry.{queue_name}.{delay}'
    ch.queue_declare(queue=retry_queue, durable=True, arguments={
        'x-dead-letter-exchange': 'ojs.exchange.direct',
        'x-dead-letter-routing-key': queue_name,
        'x-message-ttl': delay,
    })
    ch.queue_bind(queue=retry_queue, exchange='ojs.exchange.retry',
                  routing_key=f'{queue_name}.{delay}')
conn.close()
