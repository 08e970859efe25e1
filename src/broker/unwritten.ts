/**
 * RabbitMQ writes the name of a new quorum queue down up to a second after it has confirmed messages
 * for it. Killed before that, it comes back with another queue of the name, which is empty and never
 * has a leader (3.10.8, docs/faults.md). A queue that was declared longer ago than this is safe.
 */
export const UNWRITTEN_MS = 2_000
