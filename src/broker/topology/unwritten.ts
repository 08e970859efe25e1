/**
 * RabbitMQ writes the name of a new quorum queue to disk up to a second after it has confirmed messages for
 * it. If it is killed before that, it comes back with another queue of that name, which is empty and never
 * gets a leader (3.10.8, docs/faults.md). A queue declared longer ago than this is safe.
 */
export const UNWRITTEN_MS = 2_000
