import { afterAll, beforeAll } from 'vitest'
import { startTestGateway, type TestGateway } from '../support/in-process.ts'
import { createVhost, type Vhost } from '../support/rabbit.ts'

/**
 * The server that the SDK is tested against: the one of `OJS_URL` (seed 004, "Integration tests
 * against a real server"), else a gateway of the file's own. `url` is there when tests run.
 */
export function serverForAll(): { readonly url: string } {
  const given = process.env['OJS_URL']
  if (given) return { url: given }
  let vhost: Vhost
  let gateway: TestGateway
  beforeAll(async () => {
    vhost = await createVhost()
    gateway = await startTestGateway(vhost.url)
  })
  afterAll(async () => {
    await gateway.destroy()
    await vhost.drop()
  })
  return {
    get url() {
      return gateway.url
    },
  }
}

let count = 0

/** A queue that no other test uses, nor an earlier run against the same server. */
export function freshQueue(): string {
  count += 1
  return `sdk-${Date.now().toString(36)}-${process.pid}-${count}`
}
