/** Splits a server URL into origin, path and credentials; refuses AMQP URLs. */

export interface Endpoint {
  /** For error messages: contains no credentials. */
  origin: string
  /** Everything before `/ojs`, without a slash at the end. */
  base: string
  /** Value of the `Authorization` header. */
  authorization: string | undefined
}

const AMQP = /^\s*amqps?:/i

/**
 * Throws `TypeError` for the URL of a broker, which an HTTP client cannot talk to. The message leaves out the
 * URL, which may contain a password.
 */
export function refuseAmqp(url: string, what: string, instead: string): void {
  if (!AMQP.test(url)) return
  const remedy = `import { ${instead} } from 'ojs-rabbitmq/worker'`
  throw new TypeError(
    `${what} speaks HTTP, but the URL is for AMQP. To use RabbitMQ directly, ${remedy}.`,
  )
}

/**
 * Splits a server URL into an address and a header value. `fetch` refuses a URL that contains credentials,
 * with the whole URL in its message. Throws `TypeError`, never with the URL.
 */
export function endpointOf(url: string, auth?: string): Endpoint {
  const parsed = parse(url)
  const { origin, username, password } = parsed
  const own =
    username === '' && password === '' ? undefined : basic(decoded(username), decoded(password))
  return { origin, base: origin + pathAbove(parsed), authorization: auth ? schemed(auth) : own }
}

/** The path under which a proxy serves the server. Without `/ojs/v1` and without a slash at the end. */
export function pathAbove({ pathname }: URL): string {
  return pathname.replace(/\/+$/, '').replace(/\/ojs\/v1$/, '')
}

function parse(url: string): URL {
  let parsed: URL | undefined
  try {
    parsed = new URL(url)
  } catch {
    // The error contains the URL, so it is not passed on.
  }
  if (parsed?.protocol !== 'http:' && parsed?.protocol !== 'https:') {
    throw new TypeError('url must be a complete URL that starts with http:// or https://.')
  }
  return parsed
}

/** RFC 7617 with UTF-8; `btoa` takes one character per byte. */
function basic(user: string, password: string): string {
  const bytes = new TextEncoder().encode(`${user}:${password}`)
  return `Basic ${btoa(String.fromCharCode(...bytes))}`
}

/** Percent-decodes a text, or returns it unchanged if it is not percent-encoded. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

function schemed(auth: string): string {
  return auth.includes(' ') ? auth : `Bearer ${auth}`
}
