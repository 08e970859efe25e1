/** What a newcomer needs to know once everything runs. */
export function summary(url, broker) {
  return `
ojs-rabbitmq is ready. Ctrl-C stops it.
  HTTP   ${url}/ojs/v1
  AMQP   ${withoutPassword(broker.url)}
         RabbitMQ: ${broker.origin}
  Try    ${curlLine(url)}
`
}

/** The broker addresses as they may be shown: a password never is, however badly it is escaped. */
export function withoutPassword(urls) {
  return urls
    .split(/,\s*(?=amqps?:)/)
    .map((url) => url.trim().replace(/^(amqps?:\/\/[^:/@]*):.*@/, '$1@'))
    .join(', ')
}

function curlLine(url) {
  return `curl ${url}/ojs/v1/jobs -H 'Content-Type: application/json' -d '{"type":"email.send","queue":"email","args":["user@example.com"]}'`
}
