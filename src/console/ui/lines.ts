/** Lines for the shell that put something where nothing is. */
import { urlOf } from '../api/client.ts'

/** Pushes a job. */
export function pushLine(queue?: string): string {
  const ofQueue = queue === undefined ? '' : `,"queue":"${queue}"`
  return curl('/ojs/v1/jobs', `{"type":"email.send","args":["hello"]${ofQueue}}`)
}

export function cronLine(): string {
  return curl(
    '/ojs/v1/cron',
    '{"name":"nightly","cron":"0 3 * * *","type":"report.make","args":[]}',
  )
}

export function workflowLine(): string {
  return curl(
    '/ojs/v1/workflows',
    '{"type":"chain","steps":[{"type":"order.pay","args":[]},{"type":"order.ship","args":[]}]}',
  )
}

export function schemaLine(): string {
  return curl(
    '/ojs/v1/schemas',
    '{"uri":"urn:schema:email:1","type":"email.send","version":1,"schema":{"type":"array","minItems":1}}',
  )
}

export function pauseLine(): string {
  return curl('/ojs/v1/admin/queues/default/pause', '{}')
}

export function fetchLine(): string {
  return curl('/ojs/v1/workers/fetch', '{"queues":["default"],"worker_id":"me"}')
}

function curl(path: string, body: string): string {
  return `curl ${urlOf(path)} -H 'Content-Type: application/json' -d '${body}'`
}
