/** A real OpenID Connect provider on a free port; whoever signs in with a known name is in, without a password. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Provider } from 'oidc-provider'

export const CLIENT = { id: 'ojs-console', secret: 'the-secret-of-the-console-0123456789' }

/** By the name that they sign in with. */
const PEOPLE: Readonly<Record<string, object>> = {
  ada: { preferred_username: 'ada', groups: ['staff', 'job-operators'] },
  bob: { preferred_username: 'bob', groups: ['payroll:clerks'] },
  eve: { preferred_username: 'eve', groups: ['visitors'] },
  nameless: { groups: ['staff', 'job-operators'] },
}

/** What the gateway is told of them. */
const ROLES_OF_GROUPS = 'job-operators:operator,payroll:clerks:reader:queues=pay*'

export const ID_TOKEN_SECONDS = 900

export interface OidcProvider {
  issuer: string
  variables: Record<string, string>
  close(): void
}

interface Given {
  /** Claims are in the ID token, and not only in the answer of the userinfo endpoint. */
  areInIdToken?: boolean
}

export async function startOidcProvider({
  areInIdToken = false,
}: Given = {}): Promise<OidcProvider> {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const issuer = `http://127.0.0.1:${port}`
  const provider = providerAt(issuer, areInIdToken)
  server.on('request', provider.callback())
  return {
    issuer,
    variables: {
      OJS_OIDC_ISSUER: issuer,
      OJS_OIDC_CLIENT_ID: CLIENT.id,
      OJS_OIDC_CLIENT_SECRET: CLIENT.secret,
      OJS_OIDC_ROLES: ROLES_OF_GROUPS,
      OJS_OIDC_SCOPE: 'openid profile groups',
    },
    close: () => {
      server.close()
      server.closeAllConnections()
    },
  }
}

function providerAt(issuer: string, areInIdToken: boolean): Provider {
  return new Provider(issuer, {
    clients: [
      {
        client_id: CLIENT.id,
        client_secret: CLIENT.secret,
        // Native: a loopback address may have any port (RFC 8252 §7.3), as gateways of tests do.
        application_type: 'native',
        redirect_uris: ['http://127.0.0.1/console/'],
        token_endpoint_auth_method: 'client_secret_basic',
      },
    ],
    claims: { openid: ['sub'], profile: ['preferred_username'], groups: ['groups'] },
    conformIdTokenClaims: !areInIdToken,
    cookies: { keys: ['of a test'] },
    ttl: { IdToken: ID_TOKEN_SECONDS },
    pkce: { required: () => true },
    findAccount: (_context, sub) => ({
      accountId: sub,
      claims: async () => ({ sub, ...PEOPLE[sub] }),
    }),
  })
}
