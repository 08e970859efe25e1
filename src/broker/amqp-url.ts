import { credentials } from 'amqplib'

/** amqplib reads `user%C3%A4` with the ancient `unescape`; only ASCII would survive that. */
export function credentialsOf(url: URL): { credentials?: ReturnType<typeof credentials.plain> } {
  if (url.username === '' && url.password === '') return {}
  const plain = credentials.plain(
    decodeURIComponent(url.username),
    decodeURIComponent(url.password),
  )
  return { credentials: plain }
}

/** `seconds`: of a URL that names none. */
export function withHeartbeat(url: URL, seconds: number): string {
  const copy = new URL(url)
  if (!copy.searchParams.has('heartbeat')) copy.searchParams.set('heartbeat', `${seconds}`)
  return copy.href
}
