import { describe, expect, test } from 'vitest'
import { openDoor } from '../door.ts'
import { request } from '../raw-client.ts'

/** What the gateway answers; a request that gets past its filters fails here, having no ledger. */
async function refusalOf(method: string, path: string): Promise<unknown> {
  const door = await openDoor()
  const { status, body } = await door.ask(request(method, `/ojs/v1${path}`))
  return [status, JSON.parse(body).error?.details?.field]
}

describe('an empty filter in a query', () => {
  test.each([
    ['DELETE', '/dead-letter?queue=&confirm=true', 'queue'],
    ['DELETE', '/admin/dead-letter?type=&confirm=true', 'type'],
    ['DELETE', '/dead-letter?queue=a&queue=&confirm=true', 'queue'],
    ['DELETE', '/dead-letter?queue=a&dry_run=&confirm=true', 'dry_run'],
    ['DELETE', '/dead-letter?queue=a&limit=&confirm=true', 'limit'],
    ['POST', '/dead-letter/purge?meta.tenant=&confirm=true', 'meta.tenant'],
    ['DELETE', '/admin/queues/q/jobs?states=available&older_than=&confirm=true', 'older_than'],
    ['DELETE', '/admin/queues/q/jobs?states=&confirm=true', 'states'],
    ['DELETE', '/admin/queues/q/jobs?states=available&dry_run=&confirm=true', 'dry_run'],
    ['GET', '/jobs?queue=', 'queue'],
    ['GET', '/jobs?state=', 'state'],
    ['GET', '/admin/jobs?tag=', 'tag'],
    ['GET', '/admin/jobs?tag[]=', 'tag[]'],
    ['GET', '/admin/jobs?id=', 'id'],
    ['GET', '/admin/jobs?since=', 'since'],
    ['GET', '/admin/jobs?args=', 'args'],
    ['GET', '/dead-letter?until=', 'until'],
    ['GET', '/admin/dead-letter?queue=', 'queue'],
    ['GET', '/admin/failures?queue=', 'queue'],
    ['GET', '/workflows?state=', 'state'],
    ['GET', '/admin/audit?key=', 'key'],
    ['GET', '/admin/stats?queue=', 'queue'],
    ['GET', '/admin/stats/history?queue=', 'queue'],
    ['GET', '/admin/stats/history?since=', 'since'],
    ['GET', '/events?queues=', 'queues'],
    ['GET', '/events?queue=', 'queue'],
    ['GET', '/events?type=', 'type'],
    ['GET', '/events?types=,', 'types'],
    ['GET', '/events/stream?queue=', 'queue'],
    ['GET', '/events/stream?queues=', 'queues'],
    ['GET', '/events/stream?type=', 'type'],
    ['GET', '/events/stream?event_types=', 'event_types'],
    ['GET', '/events/stream?channel=', 'channel'],
  ])('is a 400 that names it: %s %s', async (method, path, field) => {
    expect(await refusalOf(method, path)).toEqual([400, field])
  })
})

describe('a parameter of a deletion that it does not have', () => {
  test.each([
    ['/admin/queues/q/jobs?states=available&older_then=1h&confirm=true', 'older_then'],
    ['/dead-letter?queue=a&offset=5&confirm=true', 'offset'],
    ['/dead-letter?queue=a&limit=0&confirm=true', 'limit'],
  ])('is a 400 that names it: %s', async (path, field) => {
    expect(await refusalOf('DELETE', path)).toEqual([400, field])
  })
})
