export interface Endpoint {
  /** For messages. */
  origin: string
  /** Everything before `/ojs`; without a slash at the end. */
  base: string
  /** Value of the header. */
  authorization: string | undefined
}

const AMQP = /^\s*amqps?:/i

/**
 * Refuses the URL of a broker, which an HTTP client cannot talk to. Throws `TypeError` without
 * the URL, that may hold a password.
 */
export function refuseAmqp(url: string, what: string, instead: string): void {
  if (!AMQP.test(url)) return
  const remedy = `import { ${instead} } from 'ojs-rabbitmq/worker'`
  throw new TypeError(`${what} speaks HTTP, and this is an AMQP URL. For RabbitMQ: ${remedy}.`)
}

/**
 * `fetch` refuses a URL with credentials, and says so with the whole URL. Throws `TypeError`,
 * never with the URL.
 */
export function endpointOf(url: string, auth?: string): Endpoint {
  const parsed = parse(url)
  const { origin, username, password } = parsed
  const own =
    username === '' && password === '' ? undefined : basic(decoded(username), decoded(password))
  return { origin, base: origin + pathAbove(parsed), authorization: auth ? schemed(auth) : own }
}

/** Where a proxy has the server; `/ojs/v1` may be named or not. Without a slash at the end. */
export function pathAbove({ pathname }: URL): string {
  return pathname.replace(/\/+$/, '').replace(/\/ojs\/v1$/, '')
}

function parse(url: string): URL {
  let parsed: URL | undefined
  try {
    parsed = new URL(url)
  } catch {
    // Its error holds the URL.
  }
  if (parsed?.protocol !== 'http:' && parsed?.protocol !== 'https:') {
    throw new TypeError('url must be a whole URL that starts with http:// or https://.')
  }
  return parsed
}

/** RFC 7617 with UTF-8; `btoa` takes bytes. */
function basic(user: string, password: string): string {
  const bytes = new TextEncoder().encode(`${user}:${password}`)
  return `Basic ${btoa(String.fromCharCode(...bytes))}`
}

/** As it stands where it is no percent-encoding. */
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
