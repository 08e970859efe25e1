import { unescape as decode } from 'node:querystring'

/**
 * `URL` takes a lone % in user and password; whoever decodes them does not. And a / or # in a password
 * ends the host there: what is before it would be shown as the host, and the rest as a virtual host.
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

/** As amqplib reads it: what a URL that names none means is `/`. */
export function virtualHostOf({ pathname }: URL): string {
  return decode(pathname.slice(1)) || '/'
}

/**
 * Why these cannot be the hosts of one cluster; null when they can. Behind another virtual host there are
 * other queues: after a failover the gateway would find none of its messages there, publish all that waits
 * once more, and workers of both would run it. Shows no part of a URL: any may be a password.
 */
export function notOneCluster(urls: readonly URL[]): string | null {
  if (new Set(urls.map(virtualHostOf)).size > 1) {
    return 'names several virtual hosts; it is a list of hosts of one cluster, with the same one'
  }
  if (new Set(urls.map(({ protocol }) => protocol)).size > 1) {
    return 'mixes amqp:// and amqps://; hosts of one cluster are reached alike'
  }
  return null
}
