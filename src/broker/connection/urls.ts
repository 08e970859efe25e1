import { unescape as decode } from 'node:querystring'

/**
 * Stricter than `URL`, which accepts a lone % in user and password that `decodeURIComponent` throws on. An
 * unescaped / or # in a password ends the host: what precedes it would be shown as the host, the rest as a
 * virtual host.
 */
export function isAmqpUrl(text: string): boolean {
  if (!/^amqps?:\/\//i.test(text)) return false
  try {
    const { username, password, pathname, hash } = new URL(text)
    decodeURIComponent(username)
    decodeURIComponent(password)
    return hash === '' && (username !== '' || !pathname.includes('@'))
  } catch {
    return false
  }
}

/** As amqplib reads it: a URL without a virtual host means `/`. */
export function virtualHostOf({ pathname }: URL): string {
  return decode(pathname.slice(1)) || '/'
}

/**
 * Why these URLs cannot be the hosts of one cluster; null when they can. Another virtual host has other
 * queues: after a failover the gateway would find none of its messages, publish all waiting jobs again, and
 * workers of both would run them. Shows no part of a URL: any part may be a password.
 */
export function notOneCluster(urls: readonly URL[]): string | null {
  if (new Set(urls.map(virtualHostOf)).size > 1) {
    return 'names several virtual hosts; all its URLs must name the same one'
  }
  if (new Set(urls.map(({ protocol }) => protocol)).size > 1) {
    return 'mixes amqp:// and amqps://; all its URLs must use the same of the two'
  }
  return null
}
