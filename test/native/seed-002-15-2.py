# The OJS AMQP binding's own example 15.2 ("Consuming and Acknowledging Jobs"), as it is printed
# there, but for where the broker is and for one settlement per delivery: the example acknowledges a
# job whose attempts are used up, and then nacks the same tag, which closes the channel.
#
# OUTCOMES: what becomes of one job after the other: ok, retry or fail; then the consumer ends.
import os
import pika, json
from seed_002_15_4 import retry_publish

outcomes = os.environ['OUTCOMES'].split(',')


class RetryableError(Exception):
    pass


def process_email(job):
    outcome = outcomes.pop(0)
    if not outcomes:
        ch.basic_cancel(tag)
        conn.call_later(0, ch.stop_consuming)
    if outcome == 'retry':
        raise RetryableError()
    if outcome == 'fail':
        raise ValueError()


conn = pika.BlockingConnection(pika.ConnectionParameters(host=os.environ['AMQP_HOST'], port=int(os.environ['AMQP_PORT']), virtual_host=os.environ['AMQP_VHOST']))
ch = conn.channel()
ch.basic_qos(prefetch_count=5)

def on_message(ch, method, properties, body):
    job = json.loads(body)
    attempt = properties.headers.get('x-ojs-attempt', 1)
    try:
        process_email(job)
        ch.basic_ack(delivery_tag=method.delivery_tag)                    # ACK
    except RetryableError:
        max_attempts = properties.headers.get('x-ojs-max-attempts', 3)
        if attempt < max_attempts:
            ch.basic_ack(delivery_tag=method.delivery_tag)                # Ack original
            delay_ms = min(1000 * (2 ** (attempt - 1)), 60000)
            retry_publish(ch, job, properties, attempt + 1, delay_ms)     # Republish with delay
        else:
            ch.basic_nack(delivery_tag=method.delivery_tag, requeue=False) # DLX
    except Exception:
        ch.basic_nack(delivery_tag=method.delivery_tag, requeue=False)    # Discard → DLX

tag = ch.basic_consume(queue='ojs.queue.email', on_message_callback=on_message)
ch.start_consuming()
conn.close()
