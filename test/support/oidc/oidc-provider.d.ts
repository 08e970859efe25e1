/** What the tests use of the package, which has no types of its own (those of others want koa's). */
declare module 'oidc-provider' {
  import type { IncomingMessage, ServerResponse } from 'node:http'

  interface Configuration {
    clients: readonly Readonly<Record<string, unknown>>[]
    claims: Readonly<Record<string, readonly string[]>>
    conformIdTokenClaims: boolean
    cookies: { keys: readonly string[] }
    ttl: Readonly<Record<string, number>>
    pkce: { required(): boolean }
    findAccount(
      context: unknown,
      sub: string,
    ): { accountId: string; claims(): Promise<Readonly<Record<string, unknown>>> }
  }

  export class Provider {
    constructor(issuer: string, configuration: Configuration)
    callback(): (request: IncomingMessage, response: ServerResponse) => void
  }
}
