import { credentials } from 'amqplib'

/** Decodes user and password here, because amqplib uses the old `unescape`, which breaks `user%C3%A4`. */
export function credentialsOf(url: URL): { credentials?: ReturnType<typeof credentials.plain> } {
  if (url.username === '' && url.password === '') return {}
  const plain = credentials.plain(
    decodeURIComponent(url.username),
    decodeURIComponent(url.password),
  )
  return { credentials: plain }
}

/** Sets the heartbeat of a URL that has none to `seconds`. */
export function withHeartbeat(url: URL, seconds: number): string {
  const copy = new URL(url)
  if (!copy.searchParams.has('heartbeat')) copy.searchParams.set('heartbeat', `${seconds}`)
  return copy.href
}
