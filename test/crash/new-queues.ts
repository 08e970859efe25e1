import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { PrivateNode, Vhost } from '../support/broker/rabbit.ts'

const LOOK_AGAIN_MS = 20

/**
 * Waits until RabbitMQ has written to disk that these quorum queues exist. It does so 0.5 to 1 s after the
 * last one was declared (`names.dets`, auto-save). When it is killed before, it comes back with a new, empty
 * queue of that name that never elects a leader: 3.10.8, docs/operate/faults.md. The power cuts here are not about
 * what happens to queues that the broker has only just confirmed.
 * `vhost`: given where other virtual hosts may have, or have had, queues of the same names.
 */
export async function untilRemembered(
  node: PrivateNode,
  queues: readonly string[],
  vhost?: Vhost,
): Promise<void> {
  while (!queues.every((queue) => isRemembered(node, queue, vhost))) await sleep(LOOK_AGAIN_MS)
}

/** Whether RabbitMQ has the name of this quorum queue on its disk. */
export function isRemembered({ dir, name }: PrivateNode, queue: string, vhost?: Vhost): boolean {
  const file = join(dir, 'mnesia', name, 'quorum', name, 'names.dets')
  return readFileSync(file).includes(`${vhost?.name ?? ''}_${queue}`)
}
