/** Part of the `Broker` contract: how queues that nobody uses are deleted. */
export interface Removal {
  /** True for queues that are never deleted: `OJS_QUEUES`, those of the topology file, `default`. */
  isPermanent(queue: string): boolean

  /**
   * Deletes the RabbitMQ queues of an idle queue, each only if it is empty, has no consumer and has our
   * arguments; then calls `forgetting.forget`. While that runs, nothing is published to the queue, and
   * `ensureQueue` waits. False: the queue stays, and what was deleted of it is declared again. Only for
   * queues that the gateway may declare again. Never rejects.
   */
  forget(queue: string, forgetting: Forgetting): Promise<boolean>
}

export interface Forgetting {
  /** From memory: no job of the queue may be published or delivered. */
  isIdle(): boolean
  /** Forgets the queue's name, now that its queues are gone. False: it is in use again. */
  forget(): Promise<boolean>
}
