import { once } from 'node:events'
import { createServer, Socket } from 'node:net'
import { createSecureContext, TLSSocket } from 'node:tls'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { freePort } from '../../../scripts/process/ports.mjs'
import { closeChannel } from '../../../src/broker/connection/channel-error.ts'
import { whyNotOpen } from '../../../src/broker/connection/connect-error.ts'
import { Connection } from '../../../src/broker/connection/connection.ts'
import type { ConnectionOptions } from '../../../src/broker/connection/connection-options.ts'
import { Authority } from '../../support/gateway/certificates.ts'
import { Stopwatch } from '../../support/time/stopwatch.ts'
import { FakePeer } from '../fake-peer.ts'
import { ofLogger, Recorder } from '../harness.ts'

const opened: (() => Promise<unknown>)[] = []

afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close()
})

async function startPeer(port?: number): Promise<FakePeer> {
  const peer = await FakePeer.start(port)
  opened.push(() => peer.stop())
  return peer
}

const FORCED = { replyCode: 320, replyText: 'CONNECTION_FORCED', classId: 0, methodId: 0 }

/** Shortens every wait to a hundredth. */
const QUICK = { random: () => -1.48 }

/** A TCP server that does not speak AMQP; `serve` decides what happens to its connections. */
async function startOther(serve: (socket: Socket) => void): Promise<{ port: number; url: string }> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    serve(socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  opened.push(async () => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const address = server.address()
  const port = typeof address === 'object' && address ? address.port : 0
  return { port, url: `amqp://127.0.0.1:${port}` }
}

/** Returns a connection that is not started; the recorder notes its events. */
function connectionTo(urls: readonly string[], given: Partial<ConnectionOptions> = {}) {
  const recorder = new Recorder()
  const lines: string[] = []
  const connection = new Connection({
    name: 'consume',
    urls,
    connectionName: 'test consume',
    logger: ofLogger(lines),
    random: () => 0.5,
    observer: recorder.observer,
    ...given,
  })
  connection.listen({
    up: () => recorder.note('up'),
    down: (reason) => recorder.note('down', reason),
    blocked: (reason) => recorder.note('blocked', reason),
    unblocked: () => recorder.note('unblocked'),
  })
  opened.push(() => connection.close())
  return { connection, recorder, lines }
}

describe('Connection', () => {
  // amqplib does not treat 320 as an error. With 541, it emits its error before the gateway can listen.
  it.each([320, 541])(
    'connects again when connection.close (%i) arrives in the read that opened the connection',
    async (code) => {
      const peer = await startPeer()
      peer.closedAtOnce = 2
      peer.closeCode = code
      const { connection, recorder } = connectionTo([peer.url], QUICK)
      await connection.start()
      await recorder.until('up')
      expect(connection).toMatchObject({ isUp: true, generation: 1 })
      expect(peer.closedAtOnce).toBe(0)
      await expect(connection.openConfirmChannel()).resolves.toBeDefined()
    },
  )

  // amqplib's answer to the close fails at once, and its stream is destroyed before it has ended.
  it.each([320, 404, 541])(
    'connects again when connection.close (%i) is followed by a reset at once',
    async (code) => {
      const peer = await startPeer()
      Object.assign(peer, { closedAtOnce: 2, closeCode: code, resetsAtOnce: true })
      const { connection, recorder } = connectionTo([peer.url], QUICK)
      await connection.start()
      await recorder.until('up')
      await expect(connection.openConfirmChannel()).resolves.toBeDefined()
      expect(connection).toMatchObject({ isUp: true, generation: 1 })
      expect(peer.closedAtOnce).toBe(0)
    },
  )

  it('is up after start, with its connection name and our default heartbeat', async () => {
    const peer = await startPeer()
    const { connection, recorder } = connectionTo([peer.url])
    expect(connection.isUp).toBe(false)
    await connection.start()
    expect(connection).toMatchObject({ isUp: true, generation: 1, serverVersion: '3.10.8' })
    expect(recorder.count('up')).toBe(1)
    expect(recorder.count('reconnected')).toBe(0)
    expect(peer.received.get('ConnectionStartOk')).toMatchObject({
      clientProperties: { connection_name: 'test consume' },
      mechanism: 'PLAIN',
    })
    expect(peer.received.get('ConnectionTuneOk')).toMatchObject({ heartbeat: 60 })
  })

  it('uses the heartbeat of its URL, if there is one', async () => {
    const peer = await startPeer()
    await connectionTo([`${peer.url}?heartbeat=7`]).connection.start()
    expect(peer.received.get('ConnectionTuneOk')).toMatchObject({ heartbeat: 7 })
  })

  it('has the kernel probe a silent peer after half a minute (TCP keepalive)', async () => {
    const keepAlive = vi.spyOn(Socket.prototype, 'setKeepAlive')
    const peer = await startPeer()
    await connectionTo([peer.url]).connection.start()
    expect(keepAlive).toHaveBeenCalledWith(true, 30_000)
    keepAlive.mockRestore()
  })

  it('tries the next host when one does not answer', async () => {
    const peer = await startPeer()
    const { connection } = connectionTo(['amqp://127.0.0.1:1', peer.url])
    await connection.start()
    expect(connection.isUp).toBe(true)
  })

  it('sends decoded credentials, and never logs them', async () => {
    const peer = await startPeer()
    const secret = encodeURIComponent('gehäim:@/')
    const url = `amqp://us%C3%A9r:${secret}@127.0.0.1:${peer.port}/%2Fojs`
    const { connection, lines, recorder } = connectionTo(['amqp://us%C3%A9r:x@127.0.0.1:1', url])
    await connection.start()
    const { response } = peer.received.get('ConnectionStartOk') ?? {}
    expect(Buffer.isBuffer(response) && response.toString()).toBe('\0usér\0gehäim:@/')
    expect(peer.received.get('ConnectionOpen')).toMatchObject({ virtualHost: '/ojs' })
    peer.cut()
    await recorder.until('down')
    expect(lines.length).toBeGreaterThan(1)
    for (const text of [...lines, connection.downReason]) {
      expect(text).not.toMatch(/geh|us(é|%C3%A9)r/)
    }
  })

  it('reconnects soon after the port listens again, although the backoff is longer by then', async () => {
    const port = await freePort()
    const peer = await startPeer(port)
    const { connection, recorder, lines } = connectionTo([peer.url])
    await connection.start()
    await peer.deafen()
    peer.cut()
    await recorder.until('down')
    await expect(connection.openChannel()).rejects.toThrow('no consume connection')
    // The first attempts are after 1 s and 2 s more; the next wait is 4 s and would end at 7 s.
    await expect.poll(() => lines.join()).toContain('still no connection')
    const listening = new Stopwatch()
    await startPeer(port)
    await recorder.until('up', 2)
    expect(listening.elapsedMs).toBeLessThan(2_500)
    listening.end()
    expect(connection.generation).toBe(2)
    expect(recorder.count('reconnected', 'consume')).toBe(1)
    expect(recorder.all('reconnecting').map(({ args }) => args[1])).toEqual([1, 2, 3])
  })

  it('restarts its backoff after each successful connection', async () => {
    const peer = await startPeer()
    // No wait at all: random() goes beyond the ±25 % that it may take off a second.
    const { connection, recorder } = connectionTo([peer.url], { random: () => -1.5 })
    await connection.start()
    for (let losses = 1; losses <= 3; losses++) {
      peer.cut()
      await recorder.until('up', losses + 1)
    }
    expect(recorder.all('reconnecting').map(({ args }) => args[1])).toEqual([1, 1, 1])
  })

  it('may follow a restart, unless RabbitMQ announced the end of the last connection', async () => {
    const peer = await startPeer()
    const { connection, recorder } = connectionTo([peer.url], QUICK)
    await connection.start()
    expect(connection.isAfterRestart).toBe(true)
    peer.send(0, 'ConnectionClose', FORCED)
    await recorder.until('up', 2)
    expect(connection.isAfterRestart).toBe(false)
    peer.cut()
    await recorder.until('up', 3)
    expect(connection.isAfterRestart).toBe(true)
  })

  it('forgets the measured latency when the connection is lost', async () => {
    const peer = await startPeer()
    const { connection, recorder } = connectionTo([peer.url])
    await connection.start()
    await connection.openChannel()
    expect(connection.latencyMs).toBeGreaterThan(0)
    peer.cut()
    await recorder.until('down')
    expect(connection.latencyMs).toBeNull()
  })

  it('keeps its backoff while a broker accepts the TCP connection and then refuses', async () => {
    let attempts = 0
    const { url } = await startOther((socket) => {
      attempts += 1
      socket.once('data', () => socket.end('AMQP\0\0\x09\x01'))
    })
    const { connection, recorder } = connectionTo([url])
    const before = performance.now()
    await connection.start()
    await recorder.until('reconnecting', 2)
    // Waits of 1 s and 2 s: the bare TCP connects in between do not shorten them.
    expect(performance.now() - before).toBeGreaterThan(2_900)
    expect(attempts).toBeLessThanOrEqual(4)
  })

  it('gives up a peer that never comes to the end of what it says', async () => {
    const peer = await startPeer()
    const { url } = await startOther((socket) => {
      // Of a frame of a megabyte, a heartbeat at a time.
      socket.write(Buffer.from([1, 0, 0, 0, 16, 0, 0]))
      const timer = setInterval(() => socket.write(Buffer.from([8, 0, 0, 0, 0, 0, 0, 0xce])), 10)
      socket.on('close', () => clearInterval(timer))
    })
    const { connection, lines } = connectionTo([url, peer.url], { openMs: 200 })
    await connection.start()
    expect(connection.isUp).toBe(true)
    expect(lines.join()).toContain('connection not open in time')
  })

  it.each([
    ['refuses', (socket: Socket) => socket.end('AMQP\0\0\x09\x01')],
    ['resets', (socket: Socket) => socket.resetAndDestroy()],
  ])('keeps its backoff while one of two hosts %s and the other is down', async (_how, answer) => {
    const { url } = await startOther((socket) => socket.once('data', () => answer(socket)))
    const { connection, recorder } = connectionTo([url, 'amqp://127.0.0.1:1'], QUICK)
    await connection.start()
    await recorder.until('reconnecting', 4)
    const attempts = recorder.all('reconnecting').map(({ args }) => args[1])
    expect(attempts.slice(0, 4)).toEqual([1, 2, 3, 4])
  })

  it('names the virtual host that RabbitMQ refuses', async () => {
    const peer = await startPeer()
    const fields = { replyCode: 530, replyText: 'NOT_ALLOWED', classId: 10, methodId: 40 }
    peer.refusals.set('ConnectionOpen', ['ConnectionClose', fields])
    const { connection, lines } = connectionTo([`${peer.url}/%2Ftypo`])
    await connection.start()
    expect(connection.downReason).toMatch(/^RabbitMQ refused virtual host '\/typo'/)
    expect(lines.join()).toContain("virtual host '/typo'")
  })

  it('suggests NODE_EXTRA_CA_CERTS when the certificate is of an authority that Node.js does not know', async () => {
    const authority = new Authority()
    opened.push(async () => authority.remove())
    const { cert, key } = authority.issue('rabbitmq')
    // With the authority's own certificate in the chain, as RabbitMQ sends it, and without.
    for (const chain of [Buffer.concat([cert, authority.ca.cert]), cert]) {
      const secureContext = createSecureContext({ cert: chain, key })
      const { port } = await startOther((socket) => {
        new TLSSocket(socket, { isServer: true, secureContext }).on('error', () => {})
      })
      const { connection, lines } = connectionTo([`amqps://user:s3cr3t@127.0.0.1:${port}`])
      await connection.start()
      expect(connection.downReason).toMatch(
        /certificate.*; for a CA of your own, set NODE_EXTRA_CA_CERTS/,
      )
      expect(lines.join()).not.toContain('s3cr3t')
    }
  })

  it('suggests the other scheme when the URL has amqp: for a TLS port, or amqps: for one without TLS', async () => {
    const authority = new Authority()
    opened.push(async () => authority.remove())
    const { cert, key } = authority.issue('rabbitmq')
    const secureContext = createSecureContext({ cert, key })
    const { port } = await startOther((socket) => {
      new TLSSocket(socket, { isServer: true, secureContext }).on('error', () => socket.destroy())
    })
    const toTls = connectionTo([`amqp://127.0.0.1:${port}`]).connection
    await toTls.start()
    expect(toTls.downReason).toMatch(/^Socket closed abruptly.*; if this is a port for TLS.*amqps:/)

    // What RabbitMQ answers to anything that is not AMQP.
    const plain = await startOther((socket) => {
      socket.once('data', () => socket.end('AMQP\0\0\x09\x01'))
    })
    const toPlain = connectionTo([`amqps://127.0.0.1:${plain.port}`]).connection
    await toPlain.start()
    expect(toPlain.downReason).toMatch(/; if this is a port without TLS.*amqp:/)
  })

  it('explains that RabbitMQ requires a client certificate', () => {
    const code = 'ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED'
    const error = Object.assign(new Error('tlsv13 alert certificate required\n'), { code })
    expect(whyNotOpen(error, new URL('amqps://host'))).toMatch(
      /required; .*fail_if_no_peer_cert = false/,
    )
  })

  it('gives no hint about TLS on the default port of the scheme, where RabbitMQ may just be starting', () => {
    const error = new Error('Socket closed abruptly during opening handshake')
    for (const url of ['amqp://host', 'amqp://host:5672', 'amqps://host:5671']) {
      expect(whyNotOpen(error, new URL(url))).toBe(error.message)
    }
  })

  it('reports when publishers are blocked and unblocked, and forgets a block with the connection', async () => {
    const peer = await startPeer()
    const { connection, recorder } = connectionTo([peer.url])
    await connection.start()
    peer.send(0, 'ConnectionBlocked', { reason: 'low on memory' })
    await recorder.until('blocked')
    expect(connection.blockedReason).toBe('low on memory')
    peer.send(0, 'ConnectionUnblocked', {})
    await recorder.until('unblocked')
    expect(connection.blockedReason).toBe(null)
    peer.send(0, 'ConnectionBlocked', { reason: 'low on disk' })
    await recorder.until('blocked', 2)
    peer.cut()
    await recorder.until('down')
    expect(connection.blockedReason).toBe(null)
  })

  it('loses one channel to a channel error, and keeps its other channels', async () => {
    const peer = await startPeer()
    const { connection, recorder } = connectionTo([peer.url])
    await connection.start()
    const [one, two] = [await connection.openChannel(), await connection.openConfirmChannel()]
    expect(connection.channelsActive).toBe(2)
    let twoClosed = false
    two.on('close', () => {
      twoClosed = true
    })
    const closed = new Promise((resolve) => one.on('close', resolve))
    peer.closeChannel(1, 406)
    await closed
    expect(recorder.count('channelError', 'consume', 406)).toBe(1)
    expect(connection.channelsActive).toBe(1)
    expect(connection.isUp).toBe(true)
    expect(twoClosed).toBe(false)
  })

  it('rejects a channel whose connection ends in the read that opened it', async () => {
    const peer = await startPeer()
    const { connection } = connectionTo([peer.url])
    await connection.start()
    peer.unanswered.add('ChannelOpen')
    const opening = connection.openChannel()
    await once(peer, 'ChannelOpen')
    peer.inOnePacket(() => {
      peer.send(1, 'ChannelOpenOk', {})
      peer.send(0, 'ConnectionClose', FORCED)
    })
    await expect(opening).rejects.toThrow('no consume connection: ')
    expect(connection.latencyMs).toBeNull()
  })

  it('survives a channel listener that throws', async () => {
    const peer = await startPeer()
    const { connection, lines } = connectionTo([peer.url])
    await connection.start()
    const channel = await connection.openChannel()
    channel.on('return', () => {
      throw new Error('ours')
    })
    peer.returnToSender({ channel: 1, messageId: 'a', exchange: 'x', routingKey: 'y' })
    await expect.poll(() => lines.some((line) => line.includes('bug:'))).toBe(true)
    expect(connection.isUp).toBe(true)
  })

  it('closes the channel of a delivery for an unknown consumer', async () => {
    const peer = await startPeer()
    const { connection, lines } = connectionTo([peer.url])
    await connection.start()
    const closed = once(await connection.openChannel(), 'close')
    peer.deliver(1, 'ojs.wep.1')
    await closed
    expect(connection.isUp).toBe(true)
    expect(lines.join()).toContain('delivery for an unknown consumer; its channel is closed')
    expect(lines.join()).not.toContain('bug:')
  })

  it('ends when it is closed before start, while connecting, and twice', async () => {
    const never = connectionTo(['amqp://127.0.0.1:1']).connection
    await never.close()
    await never.close()

    const peer = await startPeer()
    let isReached = () => {}
    const reached = new Promise<void>((resolve) => {
      isReached = resolve
    })
    const silent = await startOther(() => isReached())
    // A connection that is closed while connecting must not try the next host.
    const hanging = connectionTo([silent.url, peer.url]).connection
    const started = hanging.start()
    await reached
    const watch = new Stopwatch()
    await hanging.close()
    await started
    expect(watch.elapsedMs).toBeLessThan(1_000)
    watch.end()
    expect(peer.connections).toBe(0)

    const { connection, recorder, lines } = connectionTo([peer.url])
    await connection.start()
    await connection.close()
    await connection.close()
    expect(connection.isUp).toBe(false)
    expect(recorder.count('reconnecting')).toBe(0)
    expect(peer.connections).toBe(1)
    expect(lines.join()).not.toContain('no connection')
  })

  it('closes the socket when the peer does not answer connection.close', async () => {
    const peer = await startPeer()
    peer.refusals.set('ConnectionClose', ['ConnectionUnblocked', {}])
    const { connection } = connectionTo([peer.url])
    await connection.start()
    await connection.close()
    await expect.poll(() => peer.open).toBe(0)
  })

  it('does not wait for that answer beyond the deadline', async () => {
    const peer = await startPeer()
    peer.refusals.set('ConnectionClose', ['ConnectionUnblocked', {}])
    const { connection } = connectionTo([peer.url])
    await connection.start()
    const watch = new Stopwatch()
    await connection.close(AbortSignal.abort())
    expect(watch.elapsedMs).toBeLessThan(1_500)
    watch.end()
    await expect.poll(() => peer.open).toBe(0)
  })

  it('is down before its channels emit close', async () => {
    const peer = await startPeer()
    const { connection } = connectionTo([peer.url])
    await connection.start()
    const channel = await connection.openChannel()
    const closed = new Promise<boolean>((resolve) => {
      channel.once('close', () => resolve(connection.isUp))
    })
    peer.send(0, 'ConnectionClose', { ...FORCED, replyCode: 541 })
    expect(await closed).toBe(false)
  })

  it('logs every loss, and clears downReason when it is up again', async () => {
    const peer = await startPeer()
    const { connection, recorder, lines } = connectionTo([peer.url], { random: () => -1.5 })
    await connection.start()
    for (let losses = 1; losses <= 2; losses++) {
      peer.send(0, 'ConnectionClose', FORCED)
      await recorder.until('up', losses + 1)
      expect(connection.downReason).toBe('')
    }
    expect(lines.filter((line) => line.includes('no connection to RabbitMQ'))).toHaveLength(2)
  })

  it('reconnects after abandon(), and reports the given reason', async () => {
    const peer = await startPeer()
    const { connection, recorder } = connectionTo([peer.url], QUICK)
    await connection.start()
    connection.abandon('nothing is read')
    await recorder.until('down', 1, 'nothing is read')
    await recorder.until('up', 2)
  })

  it('opens one connection when it is started twice', async () => {
    const peer = await startPeer()
    const { connection, recorder } = connectionTo([peer.url])
    await Promise.all([connection.start(), connection.start()])
    await recorder.until('up')
    await connection.close()
    expect(peer.connections).toBe(1)
  })

  it('closes a channel that is closed already without an error', async () => {
    const peer = await startPeer()
    const { connection, recorder } = connectionTo([peer.url])
    await connection.start()
    const channel = await connection.openChannel()
    peer.cut()
    await recorder.until('down')
    await expect(closeChannel(channel)).resolves.toBeUndefined()
  })

  it('stops waiting for its next attempt when it is closed', async () => {
    const { connection, recorder } = connectionTo(['amqp://127.0.0.1:1'])
    await connection.start()
    expect(connection.downReason).toContain('ECONNREFUSED')
    const watch = new Stopwatch()
    await connection.close()
    expect(watch.elapsedMs).toBeLessThan(500)
    watch.end()
    expect(recorder.count('reconnecting')).toBe(0)
  })
})

it('a connection gives way to one with precedence that went down while it was being opened', async () => {
  const peer = await startPeer()
  const first = { isUp: true, listen() {} }
  const behind = [first as unknown as Connection]
  const { connection, recorder } = connectionTo([peer.url], { ...QUICK, behind })
  const started = connection.start()
  first.isUp = false
  await started
  await recorder.until('down')
  expect(recorder.all('down')[0]?.args).toEqual([
    'it waits until other connections of this process are open',
  ])
  first.isUp = true
  await recorder.until('up', 2)
})

it('a connection logs once that there is no connection, however many attempts fail', async () => {
  const { connection, recorder, lines } = connectionTo(['amqp://127.0.0.1:1'], QUICK)
  await connection.start()
  await recorder.until('reconnecting', 3)
  expect(lines.filter((line) => line.includes('"message":"no connection'))).toHaveLength(1)
})
