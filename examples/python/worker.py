#!/usr/bin/env python3
"""A native worker in Python, written from docs/reference/control-protocol.md: reports, heartbeats, cancel.

    AMQP_URL=amqp://guest:guest@127.0.0.1:5672/%2Fojs OJS_QUEUE=email python3 worker.py

Needs pika (Debian: python3-pika). Handlers run in threads; all of AMQP is in the main thread.
"""
import collections
import copy
import json
import math
import os
import signal
import socket
import threading
import time
import uuid
from datetime import datetime, timezone

import pika
from pika.exceptions import AMQPError

EXCHANGE = 'ojs.exchange.direct'
QUEUE = os.environ.get('OJS_QUEUE', 'email')
WORKER_ID = os.environ.get('WORKER_ID', f'python-{uuid.uuid4().hex[:12]}')
HEARTBEAT_S = float(os.environ.get('HEARTBEAT_S', '5'))
CONCURRENCY = int(os.environ.get('CONCURRENCY', '5'))
GRACE_S = float(os.environ.get('GRACE_S', '25'))
CLOSE_S = 2  # to give jobs back and close, after that
ANSWER_S = 1
SILENCE_S = 30
LEASE_MS = 30_000  # of a job that names none: OJS_VISIBILITY_TIMEOUT_MS of the gateway
MAX_CANCELLED = 10_000
MAX_RESULT = 1_048_576
MAX_MESSAGE = 10_000
MAX_EVENT = 7 * 1024 * 1024 - 4096  # with the default OJS_MAX_BODY_BYTES of the gateway
MAX_DEPTH = 31
MAX_JOB_DEPTH = 100  # less than Python can copy; a job of HTTP has 32 levels, and results of other steps
MAX_ID = 255


class Permanent(Exception):
    """Raised by a handler: the job must not be retried."""


class ResultError(Permanent):
    """The handler succeeded, but its result cannot be reported."""


class Run:
    """One execution of a job. `stop` is set when the handler should give up; handlers check it."""

    def __init__(self, job, token_attempt, tag, properties):
        self.sent = job  # as it came
        self.job = copy.deepcopy(job)  # for the handler, which may change it
        self.properties = properties
        self.token_attempt = self.attempt = token_attempt  # a claim may return a later attempt
        self.tag = tag  # of the delivery to settle; None while disconnected
        self.consumer = None  # by which the delivery came
        self.later = []  # deliveries of other attempts that arrived during this one
        self.stop = threading.Event()
        self.is_cancelled = False
        timeout_ms = job.get('timeout_ms')  # 0: no timeout
        self.deadline = time.monotonic() + timeout_ms / 1000 if timeout_ms else math.inf
        self.lease_s = max(0.15, (job.get('visibility_timeout_ms') or LEASE_MS) / 1000)

    @property
    def generation(self):
        return self.sent.get('x_ojs_generation', 0)

    def is_of(self, generation, token_attempt):
        return (self.generation, self.token_attempt) == (generation, token_attempt)

    def event(self, kind, **more):
        at = datetime.now(timezone.utc).isoformat()
        return {'job_id': self.sent['id'], 'generation': self.generation, 'attempt': self.attempt,
                'event': kind, 'at': at, **more}

    def shown(self):
        """What a gateway that does not know the job yet needs to publish its next attempt."""
        named = ('priority', 'timestamp', 'correlation_id', 'reply_to', 'app_id')
        told = {name: getattr(self.properties, name) for name in named}
        headers = plain(self.properties.headers or {})
        return {'job': self.sent, 'headers': headers, 'properties': plain(told)}


def send_email(run):
    to = run.job['args'][0]
    if '@' not in to:
        raise Permanent(f'{to!r} is no address')
    if to.endswith('@flaky.example') and run.attempt == 1:
        raise ConnectionError(f'{to}: try again later')
    return {'delivered': to, 'attempt': run.attempt}


def build_report(run):
    seconds = run.job['args'][0]
    if run.stop.wait(seconds):
        raise InterruptedError('stopped')
    return {'pages': seconds}


HANDLERS = {'email.send': send_email, 'report.build': build_report}


class Worker:
    def __init__(self, url):
        self.parameters = pika.URLParameters(url)
        self.parameters.heartbeat = 60
        self.parameters.blocked_connection_timeout = 30  # an alarm must not hold up the end
        self.connection = None
        self.runs = {}  # by job id: started, and their end is not reported yet
        self.busy = set()  # runs whose handler has not returned, also those that have timed out
        self.ended = collections.deque()  # (run, event), added by the handler threads
        self.cancelled = collections.OrderedDict()  # by job id: highest generation cancelled; inf: all
        self.arrived = collections.deque()
        self.answers = {}
        self.silent_until = 0.0  # send no claims before: no gateway has answered
        self.claims_all = False
        self.consumer = None
        self.is_cancelled_by_broker = False
        self.is_paused = False
        self.must_stop_consuming = False
        self.is_full = False  # a delivery found no free slot: consume again when there is one
        self.has_heard_of_pause = False
        self.sync_again_at = math.inf
        self.state = 'running'

    # The connection -----------------------------------------------------------------------------

    def work(self):
        """Runs until SIGTERM, and reconnects after every lost connection."""
        failures = 0
        while self.state != 'terminate':
            try:
                self.connect()
                failures = 0
                self.loop()
            except (AMQPError, OSError) as error:
                print(f'connecting again: {error!r}', flush=True)
                self.pause(min(60, 2 ** failures))
                failures += 1
            finally:
                self.disconnect()
        for run in self.runs.values():
            run.stop.set()  # cannot be given back: these jobs run again, as the next attempt

    def end_late(self):
        """Ends the process if the broker hangs. pika would wait for it as long as the connection lives."""
        while self.state != 'terminate':
            time.sleep(0.2)
        time.sleep(GRACE_S + CLOSE_S)
        print('the broker does not answer; jobs that still run here run again', flush=True)
        os._exit(0)

    def pause(self, seconds):
        until = time.monotonic() + seconds
        while self.state != 'terminate' and time.monotonic() < until:
            time.sleep(0.2)

    def disconnect(self):
        try:
            if self.connection and self.connection.is_open:
                self.connection.close()
        except AMQPError:
            pass  # the connection is closed already

    def connect(self):
        self.arrived.clear()
        self.consumer = None
        self.is_full = False
        self.is_cancelled_by_broker = False
        for run in self.runs.values():
            run.tag = None
            run.later.clear()
        self.connection = pika.BlockingConnection(self.parameters)
        self.channel = channel = self.connection.channel()
        channel.confirm_delivery()
        channel.add_on_cancel_callback(self.on_cancelled_by_broker)
        heard = channel.queue_declare('', exclusive=True, auto_delete=True).method.queue
        channel.queue_bind(heard, EXCHANGE, f'ojs.control.workers.{QUEUE}')
        channel.basic_consume(heard, self.on_broadcast, auto_ack=True)
        channel.basic_consume('amq.rabbitmq.reply-to', self.on_answer, auto_ack=True)
        self.sync()
        self.consume()
        self.beat()

    def sync(self):
        self.has_heard_of_pause = False
        question = {'worker_id': WORKER_ID, 'queues': [QUEUE]}
        answer = self.ask('default', 'ojs.control.sync', question)
        self.sync_again_at = math.inf if answer else time.monotonic() + SILENCE_S
        if answer is None:
            return  # no gateway answered: keep the last known state
        later = answer.get('generations', {})
        for job_id in answer.get('tombstones', []):
            self.remember_cancelled(job_id, later.get(job_id, 0))
        # Kept until the next sync. Until the queue was empty once would suffice.
        self.claims_all = answer.get('truncated', False)
        if not self.has_heard_of_pause:  # a broadcast received meanwhile is newer than the answer
            self.is_paused = QUEUE in answer.get('paused', [])
        self.direct(answer.get('directive', 'running'))

    def consume(self):
        if self.consumer or self.state != 'running' or self.is_paused or self.is_full:
            return
        awaited = sum(run.tag is None for run in self.runs.values())  # redeliveries after a reconnect
        room = CONCURRENCY - len(self.busy) + awaited
        if room > 0:
            self.channel.basic_qos(prefetch_count=room)  # of the consumer that begins now
            self.consumer = self.channel.basic_consume(f'ojs.queue.{QUEUE}', self.on_job)

    def stop_consuming(self):
        if self.consumer is not None:
            self.channel.basic_cancel(self.consumer)
            self.consumer = None
            for run in self.runs.values():
                self.look_again(run)
            while self.arrived:
                self.channel.basic_nack(self.arrived.popleft()[0].delivery_tag, requeue=True)

    def on_cancelled_by_broker(self, _method):
        self.is_cancelled_by_broker = True

    def loop(self):
        """Callbacks only store messages, because `ask` cannot wait for an answer inside one."""
        last_beat = time.monotonic()
        give_up_at = None
        while give_up_at is None or (self.runs and time.monotonic() < give_up_at):
            self.connection.process_data_events(time_limit=min(0.2, self.beat_s() / 2))
            if self.is_cancelled_by_broker:
                raise ConnectionError('a queue was deleted')  # reconnect, declare everything
            if self.must_stop_consuming:
                self.must_stop_consuming = False
                self.stop_consuming()
            if self.state == 'running' and not self.is_paused:
                self.consume()
            else:
                self.stop_consuming()
            while self.arrived:
                self.arrive(*self.arrived.popleft())
            while self.ended:
                self.free(self.ended[0][0])
                self.end(*self.ended[0])
                self.ended.popleft()  # not before: `end` may raise, and is called again then
            self.end_overdue()
            if time.monotonic() >= self.sync_again_at:
                self.sync()
            if time.monotonic() >= last_beat + self.beat_s():
                self.beat()
                last_beat = time.monotonic()
            if self.state == 'terminate' and give_up_at is None:
                give_up_at = time.monotonic() + GRACE_S
        self.give_back()

    # Messages to the gateway --------------------------------------------------------------------

    def tell(self, queue_name, kind, body, **properties):
        """Publishes. Returns when RabbitMQ has confirmed; raises when it has returned or nacked."""
        self.channel.basic_publish(
            EXCHANGE, f'ojs.queue.control.{queue_name}', json.dumps(body),
            pika.BasicProperties(type=kind, content_type='application/openjobspec+json',
                                 delivery_mode=2, **properties),
            mandatory=True)

    def report(self, *events):
        self.tell(QUEUE, 'ojs.control.report', {'worker_id': WORKER_ID, 'events': events})

    def beat_s(self):
        """At least three heartbeats in every lease."""
        return min([HEARTBEAT_S, *(run.lease_s / 3 for run in self.runs.values())])

    def beat(self):
        # To the queue of the reports: by another it could arrive after the report of a job's end.
        running = [job_id for job_id, run in self.runs.items() if not run.is_cancelled]
        generations = {i: self.runs[i].generation for i in running if self.runs[i].generation}
        self.tell(QUEUE, 'ojs.control.heartbeat', {
            'worker_id': WORKER_ID, 'job_ids': running, 'generations': generations, 'state': self.state,
            'queues': [QUEUE], 'hostname': socket.gethostname(), 'pid': os.getpid(),
            'concurrency': CONCURRENCY})

    def ask(self, queue_name, kind, body):
        """Returns the answer, or None when no gateway answers in time."""
        question = uuid.uuid4().hex
        self.tell(queue_name, kind, body, reply_to='amq.rabbitmq.reply-to', correlation_id=question)
        until = time.monotonic() + ANSWER_S
        while question not in self.answers and time.monotonic() < until:
            self.connection.process_data_events(time_limit=max(0, until - time.monotonic()))
        answer = self.answers.pop(question, None)
        self.answers.clear()  # late answers to earlier questions
        if answer is None or 'error' in answer:
            return None
        return answer

    def on_answer(self, _channel, _method, properties, body):
        self.answers[properties.correlation_id] = json.loads(body)

    # Messages from the gateway ------------------------------------------------------------------

    def on_broadcast(self, _channel, _method, properties, body):
        message = json.loads(body)
        if properties.type == 'ojs.control.cancel':
            self.cancel(message['job_id'], message.get('generation', math.inf))
        elif properties.type == 'ojs.control.directive':
            if message.get('worker_id') in (None, WORKER_ID):
                self.direct(message['state'])
        elif properties.type in ('ojs.control.pause', 'ojs.control.resume'):
            if message['queue'] == QUEUE:
                self.has_heard_of_pause = True
                self.is_paused = properties.type == 'ojs.control.pause'
                # A resume may follow in the same read; by then the queue may be a new one.
                self.must_stop_consuming |= self.is_paused

    def cancel(self, job_id, generation):
        self.remember_cancelled(job_id, generation)
        run = self.runs.get(job_id)
        if run and run.generation <= generation:
            run.is_cancelled = True
            run.stop.set()

    def remember_cancelled(self, job_id, generation):
        self.cancelled[job_id] = max(generation, self.cancelled.get(job_id, 0))
        while len(self.cancelled) > MAX_CANCELLED:
            self.cancelled.popitem(last=False)

    def direct(self, state):
        if state == 'terminate' or (state == 'quiet' and self.state == 'running'):
            self.state = state

    # Jobs ---------------------------------------------------------------------------------------

    def on_job(self, _channel, method, properties, body):
        self.arrived.append((method, properties, body))

    def arrive(self, method, properties, body):
        tag = method.delivery_tag
        job = read_job(body)
        if job is None:
            return self.channel.basic_nack(tag, requeue=False)
        job_id, generation = job['id'], job.get('x_ojs_generation', 0)
        attempt = attempt_of(properties.headers or {})
        mine = self.runs.get(job_id)
        if mine and mine.tag is None and mine.is_of(generation, attempt):
            # The redelivery of a message that this worker is still working on.
            mine.tag, mine.consumer = tag, method.consumer_tag
            return None
        if mine:
            # The gateway took this worker for dead and published the next attempt, which came here.
            mine.later.append((method, properties, body))
            return None
        if len(self.busy) >= CONCURRENCY:  # handlers that ignore their timeout
            self.is_full = True
            self.stop_consuming()  # the jobs are for workers with a free slot
            return self.channel.basic_nack(tag, requeue=True)
        run = Run(job, attempt, tag, properties)
        run.consumer = method.consumer_tag
        if generation <= self.cancelled.get(job_id, -1):
            return self.drop(run)
        if is_past(job):
            self.report(run.event('expired', **run.shown()))
            return self.channel.basic_ack(tag)
        if method.redelivered or self.claims_all:
            decision, run.attempt = self.claim(job, generation, run.attempt)
            if decision == 'drop':
                return self.channel.basic_ack(tag)
            if decision == 'discard':
                return self.channel.basic_nack(tag, requeue=False)
            if decision == 'requeue':  # not now; if paused, the broadcast that says so may be on its way
                return self.requeue_soon(tag)
        return self.begin(run)

    def requeue_soon(self, tag):
        channel = self.channel
        requeue = lambda: channel.is_open and channel.basic_nack(tag, requeue=True)
        self.connection.call_later(0.25, requeue)

    def drop(self, run):
        """Drops a cancelled job. The report lets the gateway forget that the job was cancelled."""
        if run.tag is not None:
            self.report({**run.event('dropped'), 'attempt': run.token_attempt})
            self.channel.basic_ack(run.tag)

    def give_back(self):
        """Returns unfinished jobs to the queue: the next worker runs the same attempt."""
        for run in self.runs.values():
            run.stop.set()
            if run.is_cancelled:
                self.drop(run)
            elif run.tag is not None:
                self.report(run.event('released', token_attempt=run.token_attempt))
                self.channel.basic_nack(run.tag, requeue=True)
        self.runs.clear()

    def claim(self, job, generation, attempt):
        question = {'job_id': job['id'], 'generation': generation, 'attempt': attempt,
                    'worker_id': WORKER_ID}
        answer = None
        if time.monotonic() >= self.silent_until:
            answer = self.ask(QUEUE, 'ojs.control.claim', question)
            if answer is None:
                self.silent_until = time.monotonic() + SILENCE_S
        return (answer['decision'], answer['attempt']) if answer else ('run', attempt)

    def begin(self, run):
        self.report(run.event('started'))
        print(f"started {run.sent['id']} {run.attempt}", flush=True)
        self.runs[run.sent['id']] = run
        self.busy.add(run)
        # A daemon: a handler that hangs must not keep the process alive after SIGTERM.
        threading.Thread(target=self.execute, args=(run,), daemon=True).start()

    def free(self, run):
        self.busy.discard(run)
        self.is_full = False
        # A consumer gets as many jobs as slots were free when it began: another one gets this slot too.
        self.must_stop_consuming |= run.consumer != self.consumer

    def execute(self, run):
        """Runs the handler, in a thread of its own."""
        try:
            handler = HANDLERS.get(run.sent['type'])
            if handler is None:
                raise Permanent(f"no handler for {run.sent['type']}")
            event = run.event('completed', result=tellable(handler(run)))
        except BaseException as error:  # also SystemExit and asyncio's CancelledError: else nobody
            event = run.event('failed', **run.shown(), error={  # would ever report the job's end
                'code': 'handler_error', 'type': type_of(error),
                'message': message_of(error), 'retryable': not isinstance(error, Permanent)})
        self.ended.append((run, event))
        if self.connection.is_open:
            self.connection.add_callback_threadsafe(lambda: None)  # wakes the main thread

    def end_overdue(self):
        now = time.monotonic()
        for run in [run for run in self.runs.values() if now > run.deadline]:
            run.stop.set()
            message = f"ran for longer than {run.sent['timeout_ms']} ms"
            error = {'code': 'timeout', 'message': message}
            self.end(run, run.event('failed', **run.shown(), error=error))

    def end(self, run, event):
        """Reports, awaits the confirm, acknowledges. `claim` drops a redelivery after that."""
        if self.runs.get(run.sent['id']) is not run:
            return  # it timed out, and its failure was reported then
        if run.is_cancelled:
            print(f"cancelled {run.sent['id']}", flush=True)
            self.drop(run)
        elif (told := self.that_fits(event)) is not None:
            self.report(told)
            if run.tag is not None:
                self.channel.basic_ack(run.tag)
        elif run.tag is not None:
            self.channel.basic_nack(run.tag, requeue=False)
        del self.runs[run.sent['id']]
        self.look_again(run)

    def that_fits(self, event):
        """Leaves out the job if the event is too large. None if the gateway needs the job."""
        if len(json.dumps(event)) <= MAX_EVENT:
            return event
        if self.ask(QUEUE, 'ojs.control.info', {'job_id': event['job_id']}) is None:
            return None
        return {name: event[name] for name in event if name not in ('job', 'headers', 'properties')}

    def look_again(self, run):
        """Handles deliveries that waited for this run; `claim` tells if they are still valid."""
        for method, properties, body in run.later:
            method.redelivered = True
            self.arrived.append((method, properties, body))
        run.later.clear()


def type_of(error):
    # Not `type(error).__name__`, which a metaclass can have raise.
    name = type.__dict__['__name__'].__get__(type(error))
    return name.encode('utf-8', 'replace').decode() or 'Exception'


def message_of(error):
    try:
        text = str(error)
    except BaseException as failure:
        text = f'its text cannot be made: {type_of(failure)}'
    return text[:MAX_MESSAGE].encode('utf-8', 'replace').decode() or 'failed'


def read_job(body):
    """Returns the job without members that are null, or None if the body is no job, or none to report about.

    What it raised would end the worker, and the next one, and so on: RabbitMQ delivers the message again.
    """
    try:
        sent = json.loads(body.decode('utf-8-sig'))
        job = {name: value for name, value in sent.items() if value is not None}
        is_past(job)
        return job if fits(job) and depth(job) <= MAX_JOB_DEPTH else None
    except (AttributeError, TypeError, ValueError, OverflowError, RecursionError):
        return None


def fits(job):
    times = [job.get(name, 0) for name in ('timeout_ms', 'visibility_timeout_ms', 'x_ojs_generation')]
    return (is_text(job.get('id'), MAX_ID) and is_text(job.get('type')) and isinstance(job.get('args'), list)
            and all(type(time) is int and 0 <= time < 2 ** 53 for time in times))


def is_text(value, longest=math.inf):
    return isinstance(value, str) and 0 < len(value) <= longest and value.isprintable()


def is_past(job):
    expires_at = job.get('expires_at', '9999-12-31T00:00:00Z').replace('Z', '+00:00')
    return datetime.fromisoformat(expires_at) <= datetime.now(timezone.utc)


def attempt_of(headers):
    attempt = headers.get('x-ojs-attempt')
    return attempt if type(attempt) is int and attempt > 0 else 1


def plain(table):
    """Keeps only values that JSON can carry unchanged: for others the gateway drops the event."""
    return {name: value for name, value in table.items()
            if isinstance(value, str) or isinstance(value, int) and abs(value) < 2 ** 53}


def tellable(result):
    """Raises ResultError for a result for which the gateway would drop the event."""
    try:
        text = json.dumps(result, allow_nan=False)
        told = json.loads(text, parse_int=exact)
        size = len(json.dumps(told, ensure_ascii=False).encode('utf-8', 'surrogatepass'))
        if size > MAX_RESULT or depth(told) > MAX_DEPTH:
            raise ValueError('too large')
    except (TypeError, ValueError, RecursionError) as error:
        raise ResultError(f'the result cannot be reported: {error}') from error
    return told  # a copy: the handler's threads may go on changing theirs


def exact(digits):
    if abs(int(digits)) >= 2 ** 53:
        raise ValueError(f'{digits[:40]} is beyond 2**53')
    return int(digits)


def depth(value):
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max(map(depth, inner), default=0) if isinstance(value, (dict, list, tuple)) else 0


def main():
    worker = Worker(os.environ['AMQP_URL'])
    numbers = (signal.SIGTERM, signal.SIGINT)

    def on_signal(*_):
        worker.direct('terminate')
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)  # a second one ends the process at once

    for number in numbers:
        signal.signal(number, on_signal)
    threading.Thread(target=worker.end_late, daemon=True).start()
    worker.work()


if __name__ == '__main__':
    main()
