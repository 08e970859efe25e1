import { gatewayForAll } from '../operations/harness.ts'

/**
 * The server that the SDK is tested against: the one at `OJS_URL` (seed 004, "Integration tests against a
 * real server"), else a gateway that is started for the test file. `url` can be read once the tests run.
 */
export function serverForAll(): { readonly url: string } {
  const given = process.env['OJS_URL']
  return given ? { url: given } : gatewayForAll().gateway
}

let count = 0

/** A queue name that neither another test nor an earlier run against the same server has used. */
export function freshQueue(): string {
  count += 1
  return `sdk-${Date.now().toString(36)}-${process.pid}-${count}`
}
