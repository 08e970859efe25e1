# The OJS AMQP binding's own example 15.4 ("Retry Publish Helper"), as it is printed there.
import pika, json

def retry_publish(channel, job, original_props, next_attempt, delay_ms):
    headers = dict(original_props.headers or {})
    headers['x-ojs-attempt'] = next_attempt
    channel.basic_publish(
        exchange='ojs.exchange.retry',
        routing_key=f"{headers['x-ojs-queue']}.{delay_ms}",
        body=json.dumps(job), mandatory=True,
        properties=pika.BasicProperties(
            message_id=original_props.message_id, type=original_props.type,
            content_type='application/openjobspec+json', content_encoding='utf-8',
            delivery_mode=2, app_id='ojs',
            timestamp=original_props.timestamp, headers=headers,
        ),
    )
