/** A gateway or a worker waits a second for RabbitMQ, and then goes on without it. */
const IN_TIME_MS = 900

/**
 * Does `act` to what `prepare` answers, and again to another one where it took so long that RabbitMQ
 * may not have been waited for: then what the test is about has not happened. `giveUp` ends those.
 */
export async function inTime<Subject, Outcome>(
  prepare: () => Promise<Subject>,
  act: (subject: Subject) => Promise<Outcome>,
  giveUp: (subject: Subject) => unknown = () => {},
): Promise<[Subject, Outcome]> {
  const deadline = performance.now() + 30_000
  while (performance.now() < deadline) {
    const subject = await prepare()
    const begunAt = performance.now()
    const outcome = await act(subject)
    if (performance.now() - begunAt < IN_TIME_MS) return [subject, outcome]
    await giveUp(subject)
  }
  throw new Error('took too long each time')
}
