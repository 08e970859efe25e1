"""Celery for `npm run bench:peers`: the app of its worker, and, run by itself, a producer that obeys lines of stdin."""
import json
import os
import queue
import socket
import sys
import threading

from celery import Celery

app = Celery("peers", broker=os.environ["CELERY_BROKER"])
app.conf.update(
    # Confirms: a task is answered when RabbitMQ has it on disk.
    broker_transport_options={"confirm_publish": True},
    # Acknowledged after the handler, as every other system here does; its default loses what a killed worker has.
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_ignore_result=True,
    task_default_queue=os.environ["CELERY_QUEUE"],
    # What its guide recommends for many short tasks.
    worker_prefetch_multiplier=50,
)

reports = None


@app.task(name="email.send")
def handle(_args):
    """A job that does nothing but tell the load process that it runs: one byte."""
    global reports
    if reports is None:
        reports = socket.socket(socket.AF_UNIX)
        reports.connect(os.environ["CELERY_REPORTS"])
    reports.sendall(b".")


def produce(threads=10):
    """Each line of stdin is a number of tasks to send; each is answered by an empty line when all are confirmed.

    So is the start, which takes a while.
    """
    work = queue.SimpleQueue()
    out = threading.Lock()
    args = (json.loads(os.environ["CELERY_ARGS"]),)

    def send():
        while True:
            for _ in range(work.get()):
                handle.apply_async(args)
            with out:
                sys.stdout.write("\n")
                sys.stdout.flush()

    for _ in range(threads):
        threading.Thread(target=send, daemon=True).start()
    print(flush=True)
    for line in sys.stdin:
        work.put(int(line))


if __name__ == "__main__":
    produce()
