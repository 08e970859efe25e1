/** A gateway or worker waits a second for RabbitMQ, and then goes on without it. */
const IN_TIME_MS = 900

/**
 * Calls `act` with what `prepare` returns. When `act` took so long that the gateway may have stopped waiting
 * for RabbitMQ, what the test is about has not happened: `giveUp` ends that subject, and another one is tried.
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
