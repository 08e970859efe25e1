/**
 * What a newcomer needs to know once everything runs.
 * @param {string} url
 * @param {{ url: string, origin: string }} broker
 * @param {{ origin: string }} [ledger] a PostgreSQL that was started for it
 * @param {NodeJS.ProcessEnv} env
 */
export function summary(url, broker, ledger, env = process.env) {
  return `
ojs-rabbitmq is ready. Ctrl-C stops it.
  HTTP   ${url}/ojs/v1
  AMQP   ${withoutPassword(broker.url)}
         RabbitMQ: ${broker.origin}${ledger ? `\n         PostgreSQL: ${ledger.origin}` : ''}
  Try    ${curlLine(url, env)}
`
}

/**
 * The broker's URLs without any password, however badly it is escaped. `guest:guest` is removed as a whole: a
 * URL without a user means guest to every client, while one with a user but no password would not work.
 * @param {string} urls
 */
export function withoutPassword(urls) {
  return urls
    .split(/,\s*(?=amqps?:)/i)
    .map((url) => url.trim().replace(/^(amqps?:\/\/)guest:guest@/i, '$1'))
    .map((url) => url.replace(/^(amqps?:\/\/[^:/@]*):.*@/i, '$1@'))
    .join(', ')
}

/**
 * @param {string} url
 * @param {NodeJS.ProcessEnv} env
 */
function curlLine(url, env) {
  const key = env['OJS_API_KEYS'] ? ` -H "Authorization: Bearer $OJS_API_KEY"` : ''
  return `curl ${url}/ojs/v1/jobs${key} -H 'Content-Type: application/json' -d '{"type":"email.send","queue":"email","args":["user@example.com"]}'`
}
